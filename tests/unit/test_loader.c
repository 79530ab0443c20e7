/* SPDX-License-Identifier: MIT */
/* The loader: each record once, whatever fails or dies in between; the final counts. */
#include "unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "loader.h"

#define LIMIT (64u * SPOOL_SEGMENT_SIZE)

static struct loader loader_of(struct recording *recording)
{
	return (struct loader){ .trace = recording->trace, .spool = recording->spool, .run = recording->run };
}

static int64_t load_all(struct loader *loader, int64_t batch)
{
	int64_t total = 0, got;

	while ((got = loader_step(loader, batch)) > 0)
		total += got;
	return got < 0 ? got : total;
}

/* Exactly the events 1 to `count`, each once. */
static void expect_events(const struct scratch *scratch, int64_t run, int64_t count)
{
	char sql[160];

	snprintf(sql, sizeof(sql), "SELECT count(*) FROM ops WHERE run = %d", (int)run);
	assert_int_equal(db_int(scratch->db, sql), count);
	snprintf(sql, sizeof(sql), "SELECT coalesce(sum(seq), 0) FROM ops WHERE run = %d AND start_ns = seq * 1000", (int)run);
	assert_int_equal(db_int(scratch->db, sql), count * (count + 1) / 2);
}

static void every_kind_of_record_arrives(void **state)
{
	struct recording recording;
	struct loader loader;

	recording_start(*state, "all", LIMIT, &recording);
	loader = loader_of(&recording);
	assert_int_equal(loader_step(&loader, 100), 0);
	assert_true(put_path(recording.writer, 1, "dir/fil\xe9"));
	assert_true(put_path(recording.writer, 2, ""));
	assert_true(put_process(recording.writer, 1, 4711, "git"));
	for (uint64_t seq = 1; seq <= 10; seq++)
		assert_true(put_event(recording.writer, seq));
	assert_int_equal(load_all(&loader, 4), 13);
	assert_int_equal(loader.events, 10);
	assert_int_equal(loader.damaged, 0);
	expect_events(*state, recording.run, 10);
	assert_int_equal(db_int(((struct scratch *)*state)->db, "SELECT count(*) FROM ops WHERE pid = 4711"
		" AND comm = 'git' AND hex(path) = hex('dir/fil') || 'E9' AND result = 0"
		" AND error IS CASE WHEN seq % 3 = 0 THEN 'ENOENT' END"), 10);
	recording_abandon(&recording);
}

static void small_batches_lose_nothing(void **state)
{
	static const int64_t batches[] = { 1, 7, 1000, 1000000 };

	for (size_t i = 0; i < ARRAY_SIZE(batches); i++) {
		const uint64_t count = batches[i] == 1 ? 50 : 30000;
		struct recording recording;
		struct loader loader;

		recording_start(*state, "batch", LIMIT, &recording);
		loader = loader_of(&recording);
		for (uint64_t seq = 1; seq <= count; seq++)
			assert_true(put_event(recording.writer, seq));
		assert_int_equal(loader_step(&loader, batches[i]), batches[i] < (int64_t)count ? batches[i] : (int64_t)count);
		assert_true(load_all(&loader, batches[i]) >= 0);
		expect_events(*state, recording.run, (int64_t)count);
		recording_abandon(&recording);
	}
}

/* A batch that fails half-way, for want of room, is undone whole and comes again. */
static void a_failed_batch_is_tried_again(void **state)
{
	struct recording recording;
	struct loader loader;
	const uint64_t count = 20000;

	recording_start(*state, "full", LIMIT, &recording);
	loader = loader_of(&recording);
	for (uint64_t seq = 1; seq <= count; seq++)
		assert_true(put_event(recording.writer, seq));
	assert_int_equal(loader_step(&loader, 500), 500);
	assert_int_equal(trace_exec(recording.trace, "PRAGMA max_page_count = 50"), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(loader_step(&loader, 50000), -ENOSPC);
	assert_int_equal(loader.events, 500);
	assert_int_equal(db_int(((struct scratch *)*state)->db, "SELECT count(*) FROM op"), 500);
	assert_int_equal(trace_exec(recording.trace, "PRAGMA max_page_count = 1000000"), 0);
	assert_int_equal(load_all(&loader, 3000), count - 500);
	assert_int_equal(loader.events, count);
	expect_events(*state, recording.run, (int64_t)count);
	recording_abandon(&recording);
}

static void a_locked_database_is_tried_again(void **state)
{
	struct scratch *scratch = *state;
	struct recording recording;
	struct loader loader;
	struct trace *other;

	recording_start(scratch, "busy", LIMIT, &recording);
	loader = loader_of(&recording);
	assert_int_equal(trace_open(scratch->db, TRACE_WRITE, &other), 0);
	trace_set_busy_timeout(recording.trace, 20);
	assert_true(put_event(recording.writer, 1));
	assert_int_equal(trace_begin(other), 0);
	assert_int_equal(loader_step(&loader, 10), -EBUSY);
	assert_int_equal(loader_finish(&loader, "done"), -EBUSY);
	trace_rollback(other);
	assert_int_equal(loader_step(&loader, 10), 1);
	expect_events(scratch, recording.run, 1);
	trace_close(other);
	recording_abandon(&recording);
}

/* As a loader that takes over from a dead recorder has it: nothing known but the files and the marks. */
static struct loader take_over(struct recording *recording)
{
	auto_free char *dir = strdup(spool_dir(recording->spool));
	struct loader loader;

	spool_writer_free(recording->writer);
	recording->writer = NULL;
	spool_free(recording->spool);
	assert_int_equal(spool_open(dir, &recording->spool), 0);
	loader = loader_of(recording);
	assert_int_equal(loader_resume(&loader), 0);
	return loader;
}

/* A loader that takes over finds the marks of the one before it, also for segments that were used again since. */
static void a_second_loader_goes_on(void **state)
{
	struct recording recording;
	struct loader loader;
	uint64_t seq = 0;

	recording_start(*state, "resumed", 4 * SPOOL_SEGMENT_SIZE, &recording);
	loader = loader_of(&recording);
	for (int part = 0; part < 12; part++) { /* some 5 segments' worth: slots reach later generations */
		for (int i = 0; i < 4000; i++, seq++)
			while (!put_event(recording.writer, seq + 1))
				assert_true(load_all(&loader, 100) > 0);
		assert_true(loader_step(&loader, 3900) > 0);
	}
	loader = take_over(&recording);
	assert_in_range(load_all(&loader, 1000), 1, 2000);
	loader = take_over(&recording);
	assert_int_equal(load_all(&loader, 1000), 0); /* once is enough */
	expect_events(*state, recording.run, (int64_t)seq);
	recording_abandon(&recording);
}

static void load_until_killed(const struct scratch *scratch)
{
	auto_free char *dir = path_in(scratch->root, "run-1");
	struct loader loader = { .run = 1 };
	int64_t got;

	if (trace_open(scratch->db, TRACE_WRITE, &loader.trace) < 0 || spool_open(dir, &loader.spool) < 0 ||
		loader_resume(&loader) < 0)
		_exit(1);
	while ((got = loader_step(&loader, 700)) > 0)
		;
	_exit(got < 0 || loader_finish(&loader, "recovered") < 0 ? 2 : 0);
}

/* Loaders that are killed at any moment, one after the other, until one comes to the end. */
static void killed_loaders_load_each_record_once(void **state)
{
	struct scratch *scratch = *state;
	struct recording recording;
	const uint64_t count = 60000;
	auto_free char *integrity = NULL;
	int killed = 0, status;

	recording_start(scratch, "killed", LIMIT, &recording);
	for (uint64_t seq = 1; seq <= count; seq++)
		assert_true(put_event(recording.writer, seq));
	atomic_store(&spool_state(recording.spool)->requests, count);
	recording_abandon(&recording);
	for (useconds_t delay = 1000;; delay += 1000 + delay / 8) {
		pid_t pid = fork();

		if (pid == 0)
			load_until_killed(scratch);
		usleep(delay);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (WIFEXITED(status))
			break;
		killed++;
	}
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_true(killed >= 3);
	expect_events(scratch, 1, (int64_t)count);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM spool_mark"), 0);
	assert_int_equal(db_int(scratch->db, "SELECT recorded FROM run WHERE id = 1"), count);
	integrity = db_text(scratch->db, "PRAGMA integrity_check");
	assert_string_equal(integrity, "ok");
}

struct stream {
	struct recording *recording;
	uint64_t count;
	atomic_bool ended;
};

static void *write_stream(void *arg)
{
	struct stream *stream = arg;

	for (uint64_t seq = 1; seq <= stream->count; seq++)
		while (!put_event(stream->recording->writer, seq))
			spool_wait_free(stream->recording->spool, NSEC_PER_SEC / 100);
	atomic_store(&stream->ended, true);
	return NULL;
}

static void loading_keeps_up_with_a_writer(void **state)
{
	struct recording recording;
	struct stream stream = { .recording = &recording, .count = 150000 };
	struct loader loader;
	pthread_t thread;
	bool ended = false;

	recording_start(*state, "live", 4 * SPOOL_SEGMENT_SIZE, &recording);
	loader = loader_of(&recording);
	assert_int_equal(pthread_create(&thread, NULL, write_stream, &stream), 0);
	while (!ended) {
		ended = atomic_load(&stream.ended);
		assert_true(load_all(&loader, 5000) >= 0);
	}
	pthread_join(thread, NULL);
	assert_int_equal(loader.events, stream.count);
	expect_events(*state, recording.run, (int64_t)stream.count);
	recording_abandon(&recording);
}

static void finish_of_a_whole_run(void **state)
{
	struct scratch *scratch = *state;
	struct recording recording;
	struct loader loader;

	recording_start(scratch, "whole", LIMIT, &recording);
	loader = loader_of(&recording);
	for (uint64_t seq = 1; seq <= 9; seq++)
		assert_true(put_event(recording.writer, seq));
	atomic_store(&spool_state(recording.spool)->requests, 9);
	atomic_store(&spool_state(recording.spool)->complete, 1);
	assert_int_equal(load_all(&loader, 100), 9);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM spool_mark"), 1);
	assert_int_equal(loader_finish(&loader, "done"), 0);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM spool_mark"), 0);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM run WHERE state = 'done' AND clean_end = 1"
		" AND requests = 9 AND recorded = 9 AND dropped = 0 AND damaged = 0 AND dropped_by_op IS NULL"
		" AND note IS NULL"), 1);
	recording_abandon(&recording);
}

static void finish_of_a_run_with_losses(void **state)
{
	struct scratch *scratch = *state;
	struct recording recording;
	struct loader loader;

	recording_start(scratch, "losses", LIMIT, &recording);
	loader = loader_of(&recording);
	assert_true(put_event(recording.writer, 1));
	atomic_store(&spool_state(recording.spool)->requests, 8);
	atomic_store(&spool_state(recording.spool)->dropped[OP_write], 5);
	atomic_store(&spool_state(recording.spool)->dropped[OP_flock], 2);
	atomic_store(&spool_state(recording.spool)->complete, 1);
	assert_int_equal(load_all(&loader, 100), 1);
	assert_int_equal(loader_finish(&loader, "done"), 0);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM run WHERE state = 'done' AND clean_end = 0"
		" AND requests = 8 AND recorded = 1 AND dropped = 7 AND json_valid(dropped_by_op)"
		" AND dropped_by_op ->> 'write' = 5 AND dropped_by_op ->> 'flock' = 2"
		" AND (SELECT count(*) FROM json_each(dropped_by_op)) = 2 AND note LIKE '%spool was full%'"), 1);
	recording_abandon(&recording);
}

static void finish_of_a_run_whose_recorder_died(void **state)
{
	struct scratch *scratch = *state;
	struct recording recording;
	struct loader loader;

	recording_start(scratch, "died", LIMIT, &recording);
	loader = loader_of(&recording);
	for (uint64_t seq = 1; seq <= 4; seq++)
		assert_true(put_event(recording.writer, seq));
	atomic_store(&spool_state(recording.spool)->requests, 4);
	assert_int_equal(load_all(&loader, 100), 4);
	assert_int_equal(loader_finish(&loader, "recovered"), 0);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM run WHERE state = 'recovered' AND clean_end = 0"
		" AND recorded = 4 AND end_ns = 4500 AND note LIKE '%killed%'"), 1);
	recording_abandon(&recording);
}

/* What comes before the damage is kept, the rest is counted, and loading ends instead of going round for ever. */
static void damaged_records_end_their_segment(void **state)
{
	struct scratch *scratch = *state;
	struct recording recording;
	struct loader loader;
	auto_free char *messages = NULL;
	void *record;

	recording_start(scratch, "damaged", LIMIT, &recording);
	loader = loader_of(&recording);
	assert_true(put_event(recording.writer, 1));
	assert_true(put_event(recording.writer, 1)); /* the same seq again: not a recorder's work */
	assert_true(put_event(recording.writer, 2));
	spool_writer_free(recording.writer);
	recording.writer = spool_writer_new(recording.spool);
	record = spool_reserve(recording.writer, 8); /* shorter than any event */
	memset(record, 0, 8);
	spool_publish(recording.writer, RECORD_EVENT, 8);
	spool_writer_free(recording.writer);
	recording.writer = spool_writer_new(recording.spool);
	assert_true(put_event(recording.writer, 3));
	record = spool_reserve(recording.writer, 64);
	memset(record, 0xff, 64); /* a path whose length reaches far behind it */
	spool_publish(recording.writer, RECORD_PATH, 64);
	spool_writer_free(recording.writer);
	recording.writer = spool_writer_new(recording.spool);
	record = spool_reserve(recording.writer, 8);
	memset(record, 0, 8);
	spool_publish(recording.writer, (enum record_kind)99, 8);
	atomic_store(&spool_state(recording.spool)->complete, 1);
	capture_begin(scratch);
	assert_int_equal(load_all(&loader, 100), 2);
	messages = capture_end(scratch);
	assert_non_null(strstr(messages, "is damaged at byte"));
	assert_int_equal(loader.events, 2);
	assert_int_equal(loader.damaged, 4);
	assert_int_equal(loader_finish(&loader, "done"), 0);
	assert_int_equal(db_int(scratch->db, "SELECT damaged FROM run"), 4);
	assert_int_equal(db_int(scratch->db, "SELECT clean_end FROM run"), 0);
	assert_int_equal(db_int(scratch->db, "SELECT coalesce(sum(seq), 0) FROM op"), 4);
	recording_abandon(&recording);
}

/* Damage of the database is no damage of the spool, which must survive it. */
static void a_damaged_database_costs_no_records(void **state)
{
	struct scratch *scratch = *state;
	struct recording recording;
	struct loader loader;
	char garbage[4096];
	off_t page;
	int fd;

	recording_start(scratch, "broken", LIMIT, &recording);
	loader = loader_of(&recording);
	assert_true(put_event(recording.writer, 1));
	trace_settle(recording.trace);
	trace_close(recording.trace);
	page = db_int(scratch->db, "SELECT rootpage FROM sqlite_schema WHERE name = 'op'");
	memset(garbage, 0xaa, sizeof(garbage));
	fd = open(scratch->db, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, garbage, sizeof(garbage), (page - 1) * 4096), sizeof(garbage));
	close(fd);
	assert_int_equal(trace_open(scratch->db, TRACE_WRITE, &recording.trace), 0);
	loader.trace = recording.trace;
	assert_int_equal(loader_step(&loader, 10), -EUCLEAN);
	assert_int_equal(loader_step(&loader, 10), -EUCLEAN);
	assert_int_equal(loader.damaged, 0);
	assert_int_equal(loader.events, 0);
	assert_int_equal(spool_used(recording.spool), SPOOL_SEGMENT_SIZE);
	recording_abandon(&recording);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		scratch_test(every_kind_of_record_arrives),
		scratch_test(small_batches_lose_nothing),
		scratch_test(a_failed_batch_is_tried_again),
		scratch_test(a_locked_database_is_tried_again),
		scratch_test(a_second_loader_goes_on),
		scratch_test(killed_loaders_load_each_record_once),
		scratch_test(loading_keeps_up_with_a_writer),
		scratch_test(finish_of_a_whole_run),
		scratch_test(finish_of_a_run_with_losses),
		scratch_test(finish_of_a_run_whose_recorder_died),
		scratch_test(damaged_records_end_their_segment),
		scratch_test(a_damaged_database_costs_no_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
