/* SPDX-License-Identifier: MIT */
/* Loaded segments are kept until the database's file has what they held: a log that is lost loses nothing. */
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "loader.h"

#define LIMIT (16u * SPOOL_SEGMENT_SIZE)
#define PER_SEGMENT (SPOOL_SEGMENT_SIZE / 120)

static void put(struct recording *recording, uint64_t first, uint64_t count)
{
	for (uint64_t seq = first; seq < first + count; seq++)
		assert_true(put_event(recording->writer, seq));
	atomic_store(&spool_state(recording->spool)->requests, first + count - 1);
}

static int64_t load(struct loader *loader)
{
	int64_t total = 0, got;

	while ((got = loader_step(loader, 3000)) > 0)
		total += got;
	assert_int_equal(got, 0);
	return total;
}

static void held_until_there_are_many(void **state)
{
	struct recording recording;
	struct loader loader;

	recording_start(*state, "held", LIMIT, &recording);
	loader = (struct loader){ recording.trace, recording.spool, recording.run, .hold = 4 * SPOOL_SEGMENT_SIZE };
	put(&recording, 1, 3 * PER_SEGMENT);
	assert_int_equal(load(&loader), 3 * PER_SEGMENT);
	assert_true(spool_held(recording.spool) >= 2 * SPOOL_SEGMENT_SIZE);
	assert_true(spool_used(recording.spool) <= SPOOL_SEGMENT_SIZE); /* what is still written */
	put(&recording, 3 * PER_SEGMENT + 1, 4 * PER_SEGMENT);
	load(&loader);
	assert_true(spool_held(recording.spool) <= 4 * SPOOL_SEGMENT_SIZE);
	recording_abandon(&recording);
}

/* The least limit there is, all of it held: a writer must not wait for ever. */
static void a_tight_spool_gives_back(void **state)
{
	struct recording recording;
	struct loader loader;
	uint64_t seq = 0;

	recording_start(*state, "tight", 1, &recording);
	loader = (struct loader){ recording.trace, recording.spool, recording.run, .hold = LIMIT };
	for (int round = 0; round < 5; round++) {
		while (put_event(recording.writer, seq + 1))
			seq++;
		assert_true(spool_is_tight(recording.spool));
		load(&loader);
	}
	assert_true(seq > 8 * PER_SEGMENT);
	assert_int_equal(db_int(((struct scratch *)*state)->db, "SELECT count(*) = max(seq) FROM op"), 1);
	recording_abandon(&recording);
}

/* As a power cut does it: the file is as the last checkpoint left it, the log is gone. */
static void lose_log(const struct scratch *scratch, struct recording *recording)
{
	auto_free char *file = NULL, *log = path_in(scratch->dir, "t.db-wal"), *shm = path_in(scratch->dir, "t.db-shm");
	size_t len;

	file = slurp(scratch->db, &len);
	recording_abandon(recording); /* closing moves the log into the file */
	unlink(log);
	unlink(shm);
	write_file(scratch->db, file, len);
}

static void a_lost_log_loses_nothing(void **state)
{
	struct scratch *scratch = *state;
	struct recording recording;
	struct loader loader;
	struct trace *trace;
	uint64_t count = 30 * PER_SEGMENT;

	recording_start(scratch, "power cut", LIMIT, &recording);
	loader = (struct loader){ recording.trace, recording.spool, recording.run, .hold = 4 * SPOOL_SEGMENT_SIZE };
	assert_int_equal(trace_checkpoint(recording.trace), 1);
	for (uint64_t seq = 1; seq <= count; seq += 1000) {
		put(&recording, seq, seq + 999 <= count ? 1000 : count - seq + 1);
		load(&loader);
	}
	lose_log(scratch, &recording);
	assert_true(db_int(scratch->db, "SELECT count(*) FROM op") < (int64_t)count);
	assert_int_equal(trace_open(scratch->db, TRACE_WRITE, &trace), 0);
	assert_int_equal(recover_all(trace, NULL, NULL), 1);
	trace_close(trace);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM op"), (int64_t)count);
	assert_int_equal(db_int(scratch->db, "SELECT recorded = requests AND damaged = 0 FROM run"), 1);
}

/* The same without the holding back: what is missing is told apart from what a killed recorder had not answered. */
static void what_is_lost_is_told(void **state)
{
	struct scratch *scratch = *state;
	struct recording recording;
	struct loader loader;
	auto_free char *note = NULL;
	struct trace *trace;

	recording_start(scratch, "not held", LIMIT, &recording);
	loader = (struct loader){ recording.trace, recording.spool, recording.run };
	assert_int_equal(trace_checkpoint(recording.trace), 1);
	put(&recording, 1, 5 * PER_SEGMENT);
	load(&loader);
	lose_log(scratch, &recording);
	assert_int_equal(trace_open(scratch->db, TRACE_WRITE, &trace), 0);
	assert_int_equal(recover_all(trace, NULL, NULL), 1);
	trace_close(trace);
	note = db_text(scratch->db, "SELECT note FROM run WHERE clean_end = 0 AND recorded < requests");
	assert_non_null(note);
	assert_non_null(strstr(note, "lost or cut off"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		scratch_test(held_until_there_are_many),
		scratch_test(a_tight_spool_gives_back),
		scratch_test(a_lost_log_loses_nothing),
		scratch_test(what_is_lost_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
