/* SPDX-License-Identifier: MIT */
/* recover_all(): what dead recorders left, what live ones are still doing, what belongs to others. */
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "loader.h"

#define LIMIT (16u * SPOOL_SEGMENT_SIZE)

static void dead_run(const struct scratch *scratch, const char *label, uint64_t events)
{
	struct recording recording;

	recording_start(scratch, label, LIMIT, &recording);
	for (uint64_t seq = 1; seq <= events; seq++)
		assert_true(put_event(recording.writer, seq));
	atomic_store(&spool_state(recording.spool)->requests, events);
	recording_abandon(&recording);
}

static int recover_and_leave(const struct scratch *scratch, unsigned int *ret_left)
{
	struct trace *trace = NULL;
	int got = trace_open(scratch->db, TRACE_WRITE, &trace);

	got = got ?: recover_all(trace, NULL, ret_left);
	trace_close(trace);
	return got;
}

static int recover(const struct scratch *scratch)
{
	unsigned int left = 0;
	int got = recover_and_leave(scratch, &left);

	assert_int_equal(left, 0);
	return got;
}

static int recover_quietly(struct scratch *scratch, unsigned int expect_left, char **ret_messages)
{
	unsigned int left = 0;
	int got;

	capture_begin(scratch);
	got = recover_and_leave(scratch, &left);
	*ret_messages = capture_end(scratch);
	assert_int_equal(left, expect_left);
	return got;
}

static void nothing_to_do(void **state)
{
	struct scratch *scratch = *state;
	struct trace *trace;

	assert_int_equal(trace_open(scratch->db, TRACE_CREATE, &trace), 0);
	trace_close(trace);
	assert_int_equal(recover(scratch), 0);
	assert_int_equal(mkdir(scratch->root, 0700), 0);
	assert_int_equal(recover(scratch), 0);
}

static void dead_runs_are_finished(void **state)
{
	struct scratch *scratch = *state;

	dead_run(scratch, "one", 100);
	dead_run(scratch, "two", 20000);
	dead_run(scratch, "none", 0);
	assert_int_equal(recover(scratch), 3);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM run WHERE state = 'recovered' AND clean_end = 0"
		" AND recorded = requests AND dropped = 0 AND damaged = 0 AND note IS NOT NULL"), 3);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM op WHERE run = 1"), 100);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM op WHERE run = 2"), 20000);
	assert_int_equal(count_entries(scratch->root, ""), -1);
	assert_int_equal(recover(scratch), 0);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM op"), 20100);
}

/* A disk that was full when the mount ended: all that is needed is in the spool. */
static void an_ended_run_gets_its_end(void **state)
{
	struct scratch *scratch = *state;
	struct recording recording;

	recording_start(scratch, "full", LIMIT, &recording);
	for (uint64_t seq = 1; seq <= 100; seq++)
		assert_true(put_event(recording.writer, seq));
	atomic_store(&spool_state(recording.spool)->requests, 100);
	atomic_store(&spool_state(recording.spool)->complete, 1);
	recording_abandon(&recording);
	assert_int_equal(recover(scratch), 1);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM run WHERE state = 'recovered' AND clean_end = 1"
		" AND note IS NULL AND end_ns = (SELECT max(start_ns + dur_ns) FROM op)"), 1);
}

/* The recorder died between the last commit and the removal of its spool. */
static void a_done_run_only_loses_its_spool(void **state)
{
	struct scratch *scratch = *state;

	dead_run(scratch, "done", 100);
	db_exec(scratch->db, "UPDATE run SET state = 'done', clean_end = 1");
	assert_int_equal(recover(scratch), 0);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM op"), 0);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM run WHERE state = 'done' AND clean_end = 1"), 1);
	assert_int_equal(count_entries(scratch->root, ""), -1);
}

static void a_live_run_is_left_alone(void **state)
{
	struct scratch *scratch = *state;
	struct recording recording;
	struct loader loader;

	recording_start(scratch, "live", LIMIT, &recording);
	assert_true(put_event(recording.writer, 1));
	dead_run(scratch, "dead", 3);
	assert_int_equal(recover(scratch), 1);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM run WHERE state = 'recording' AND label = 'live'"), 1);
	assert_true(put_event(recording.writer, 2));
	loader = (struct loader){ .trace = recording.trace, .spool = recording.spool, .run = recording.run };
	assert_int_equal(loader_step(&loader, 10), 2);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM op WHERE run = 1"), 2);
	recording_abandon(&recording);
}

/*
 * The file is cut off when it is mapped already, as if the disk did not give its pages any more: what was there is damage,
 * and no end of the process.
 */
static void pages_that_cannot_be_read_are_damage(void **state)
{
	struct scratch *scratch = *state;
	auto_free char *messages = NULL;
	auto_free char *segment = NULL;
	struct recording recording;
	pid_t pid;
	int status;

	recording_start(scratch, "cut", LIMIT, &recording);
	for (uint64_t seq = 1; seq <= 20; seq++)
		assert_true(put_event(recording.writer, seq));
	segment = path_in(spool_dir(recording.spool), "segment-000000");
	assert_int_equal(access(segment, F_OK), 0);
	capture_begin(scratch);
	pid = fork(); /* the guard is the process's */
	if (pid == 0) {
		struct loader loader = { recording.trace, recording.spool, recording.run };

		if (recover_all(recording.trace, NULL, NULL) != 0 || truncate(segment, 0) < 0)
			_exit(1);
		_exit(loader_step(&loader, 100) == 0 && loader.damaged <= 1 ? 0 : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	messages = capture_end(scratch);
	assert_int_equal(status, 0);
	recording_abandon(&recording);
}

/* A run whose spool has gone: nothing can be loaded, but it must not say "recording" for ever. */
static void orphans_are_closed(void **state)
{
	struct scratch *scratch = *state;
	struct trace *trace;
	int64_t run;

	assert_int_equal(trace_open(scratch->db, TRACE_CREATE, &trace), 0);
	assert_int_equal(trace_run_create(trace, "orphan", &run), 0);
	assert_int_equal(trace_run_create(trace, "ending", &run), 0);
	assert_int_equal(trace_run_set_text(trace, run, "state", "finishing"), 0);
	assert_int_equal(trace_run_create(trace, "fine", &run), 0);
	assert_int_equal(trace_run_set_text(trace, run, "state", "done"), 0);
	trace_close(trace);
	assert_int_equal(recover(scratch), 2);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM run WHERE id < 3 AND state = 'recovered'"
		" AND clean_end = 0 AND note LIKE '%spool is gone%'"), 2);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM run WHERE id = 3 AND state = 'done'"
		" AND note IS NULL"), 1);
}

/* The row was lost with the database's log; the spool knows enough to make it again. */
/* With the spool the counts are gone as well: they are those of what had been loaded, and no mark of it is left. */
static void an_orphan_has_what_was_loaded(void **state)
{
	struct scratch *scratch = *state;
	struct trace *trace;
	char *messages;

	dead_run(scratch, "orphan", 100);
	assert_int_equal(recover(scratch), 1);
	assert_int_equal(trace_open(scratch->db, TRACE_WRITE, &trace), 0);
	assert_int_equal(trace_run_set_text(trace, 1, "state", "recording"), 0);
	assert_int_equal(trace_run_set_text(trace, 1, "note", NULL), 0);
	assert_int_equal(trace_run_set_int(trace, 1, "requests", 0), 0);
	assert_int_equal(trace_run_set_int(trace, 1, "recorded", 0), 0);
	trace_close(trace);
	assert_int_equal(recover_quietly(scratch, 0, &messages), 1);
	free(messages);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM run WHERE state = 'recovered' AND requests = 100"
		" AND recorded = 100 AND dropped = 0 AND clean_end = 0 AND note LIKE '%spool is gone%'"
		" AND end_ns = (SELECT max(start_ns + dur_ns) FROM op)"), 1);
}

static void a_lost_row_is_restored(void **state)
{
	struct scratch *scratch = *state;

	dead_run(scratch, "it's back", 5);
	db_exec(scratch->db, "DELETE FROM run");
	assert_int_equal(recover(scratch), 1);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM run WHERE id = 1 AND label = 'it''s back'"
		" AND state = 'recovered' AND recorded = 5"), 1);
}

static void another_database_s_spool_is_left_alone(void **state)
{
	struct scratch *scratch = *state;
	auto_free char *messages = NULL;
	struct trace *trace;
	int64_t run;

	dead_run(scratch, "theirs", 5);
	unlink(scratch->db); /* and a new database in its place */
	assert_int_equal(trace_open(scratch->db, TRACE_CREATE, &trace), 0);
	assert_int_equal(trace_run_create(trace, "ours", &run), 0);
	trace_close(trace);
	assert_int_equal(recover_quietly(scratch, 1, &messages), 0);
	assert_non_null(strstr(messages, "belongs to another database"));
	assert_int_equal(count_entries(scratch->root, "run-1"), 1);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM op"), 0);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM run WHERE state = 'recording'"), 1);
}

static void a_newer_spool_is_left_alone(void **state)
{
	struct scratch *scratch = *state;
	auto_free char *file = path_in(scratch->root, "run-1/state");
	auto_free char *messages = NULL;
	const uint32_t version = SPOOL_VERSION + 1;
	int fd;

	dead_run(scratch, "newer", 5);
	dead_run(scratch, "ours", 6);
	fd = open(file, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, &version, sizeof(version), 8), sizeof(version));
	close(fd);
	assert_int_equal(recover_quietly(scratch, 1, &messages), 1);
	assert_non_null(strstr(messages, "not a spool that this version can read"));
	assert_int_equal(count_entries(scratch->root, "run-1"), 1);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM op"), 6);
}

/* Without its state nobody knows whose the records are. It is said each time, as long as it is there. */
static void a_spool_without_state_is_left_alone(void **state)
{
	struct scratch *scratch = *state;
	auto_free char *file = path_in(scratch->root, "run-1/state");

	dead_run(scratch, "stateless", 5);
	assert_int_equal(unlink(file), 0);
	for (int i = 0; i < 2; i++) {
		auto_free char *messages = NULL;

		assert_int_equal(recover_quietly(scratch, 1, &messages), 0);
		assert_non_null(strstr(messages, "run-1: not a spool that this version can read"));
		assert_int_equal(count_entries(scratch->root, "run-1"), 1);
	}
}

/* The rest is loaded; what cannot be read is missing in the run, and kept for somebody who can. */
static void a_segment_that_cannot_be_read_is_kept(void **state)
{
	struct scratch *scratch = *state;
	auto_free char *file = path_in(scratch->root, "run-1/segment-000000");
	auto_free char *kept = path_in(scratch->root, SPOOL_UNREADABLE "1-segment-000000");
	auto_free char *messages = NULL;
	struct stat st;

	dead_run(scratch, "cut", 10);
	assert_int_equal(truncate(file, 5000), 0);
	assert_int_equal(recover_quietly(scratch, 1, &messages), 1);
	assert_non_null(strstr(messages, SPOOL_UNREADABLE "1-*"));
	assert_int_equal(stat(kept, &st), 0);
	assert_int_equal(st.st_size, 5000);
	assert_int_equal(count_entries(scratch->root, "run-1"), 0);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM run WHERE state = 'recovered' AND damaged = 1"
		" AND recorded = 0 AND requests = 10 AND clean_end = 0 AND note LIKE '%1 of its segments%'"), 1);
	assert_int_equal(recover(scratch), 0);
}

/* What recorders leave that die while they make their spool, or while they remove it. */
static void half_made_spools_go(void **state)
{
	struct scratch *scratch = *state;
	static const char *const dirs[] = { "run-9", "new-abcdef", "new-ghijkl" };
	auto_free char *file = path_in(scratch->root, "new-ghijkl/state");

	dead_run(scratch, "whole", 5);
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		auto_free char *path = path_in(scratch->root, dirs[i]);

		assert_int_equal(mkdir(path, 0700), 0);
	}
	write_file(file, "", 0);
	assert_int_equal(recover(scratch), 1);
	assert_int_equal(count_entries(scratch->root, ""), -1);
}

static void part_of_a_segment_lost_is_told(void **state)
{
	struct scratch *scratch = *state;
	auto_free char *file = path_in(scratch->root, "run-1/segment-000000");
	auto_free char *messages = NULL;
	int fd;

	dead_run(scratch, "torn", 10);
	fd = open(file, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "\xff\xff\xff\xff", 4, 4096 + 6 * (16 + (off_t)sizeof(struct event))), 4);
	close(fd);
	assert_int_equal(recover_quietly(scratch, 0, &messages), 1);
	assert_non_null(strstr(messages, "slot 0 is damaged"));
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM run WHERE state = 'recovered' AND damaged = 1"
		" AND recorded = 6 AND requests = 10 AND clean_end = 0"), 1);
}

static int open_and_recover(const struct scratch *scratch, int start)
{
	struct trace *trace;
	char byte;

	if (trace_open(scratch->db, TRACE_WRITE, &trace) < 0 || read(start, &byte, 1) != 0)
		return 100;
	trace_set_busy_timeout(trace, 60000);
	return recover_all(trace, NULL, NULL);
}

/* Several recoveries at once: together they do the work once. */
static void several_at_once(void **state)
{
	struct scratch *scratch = *state;
	int start[2], total = 0;
	pid_t pids[4];

	for (int i = 0; i < 5; i++)
		dead_run(scratch, "x", 4000);
	assert_int_equal(pipe2(start, O_CLOEXEC), 0);
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			close(start[1]);
			_exit(open_and_recover(scratch, start[0]));
		}
	}
	close(start[0]);
	close(start[1]);
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		int status;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_true(WIFEXITED(status));
		assert_in_range(WEXITSTATUS(status), 0, 5);
		total += WEXITSTATUS(status);
	}
	assert_int_equal(total, 5);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM op"), 20000);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM run WHERE state = 'recovered' AND recorded = 4000"
		" AND note LIKE '%killed%'"), 5);
}

/* While another process makes, ends and removes runs all the time, none of them may be taken for an orphan. */
static void short_runs_beside_a_recovery(void **state)
{
	struct scratch *scratch = *state;
	pid_t pid;
	int status, recovered = 0;
	struct trace *trace;

	assert_int_equal(trace_open(scratch->db, TRACE_CREATE, &trace), 0);
	trace_close(trace);
	pid = fork();
	if (pid == 0) {
		for (int i = 0; i < 60; i++) {
			struct recording recording;
			struct loader loader;

			if (trace_open(scratch->db, TRACE_WRITE, &recording.trace) < 0 ||
				trace_begin(recording.trace) < 0 ||
				trace_run_create(recording.trace, "short", &recording.run) < 0 ||
				spool_create(scratch->root, recording.run, trace_uuid(recording.trace), LIMIT,
					&recording.spool) < 0 ||
				trace_commit(recording.trace) < 0)
				_exit(1);
			loader = (struct loader){ .trace = recording.trace, .spool = recording.spool,
				.run = recording.run };
			atomic_store(&spool_state(recording.spool)->complete, 1);
			if (loader_step(&loader, 10) < 0 || loader_finish(&loader, "done") < 0)
				_exit(2);
			spool_remove(recording.spool);
			spool_free(recording.spool);
			trace_close(recording.trace);
		}
		_exit(0);
	}
	while (waitpid(pid, &status, WNOHANG) == 0) {
		int got = recover(scratch);

		assert_true(got >= 0);
		recovered += got;
	}
	assert_int_equal(status, 0);
	assert_int_equal(recovered, 0);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM run WHERE state = 'done' AND clean_end = 1"), 60);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		scratch_test(nothing_to_do),
		scratch_test(dead_runs_are_finished),
		scratch_test(an_ended_run_gets_its_end),
		scratch_test(a_done_run_only_loses_its_spool),
		scratch_test(a_live_run_is_left_alone),
		scratch_test(orphans_are_closed),
		scratch_test(pages_that_cannot_be_read_are_damage),
		scratch_test(an_orphan_has_what_was_loaded),
		scratch_test(a_lost_row_is_restored),
		scratch_test(another_database_s_spool_is_left_alone),
		scratch_test(a_newer_spool_is_left_alone),
		scratch_test(a_spool_without_state_is_left_alone),
		scratch_test(a_segment_that_cannot_be_read_is_kept),
		scratch_test(half_made_spools_go),
		scratch_test(part_of_a_segment_lost_is_told),
		scratch_test(several_at_once),
		scratch_test(short_runs_beside_a_recovery),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
