/* SPDX-License-Identifier: MIT */
/*
 * git_story.c, trace2*.c, clockmap.c, attribute*.c: from git's lines to who did which operation. Times are us since the
 * run's start.
 */
#include "unit.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "attribute.h"
#include "clockmap.h"
#include "git_story.h"
#include "op.h"

#define REAL_S 1000000000LL /* of the run's start: 2001-09-09T01:46:40Z */
#define CLONE "20010909T014640.000000Z-H00000000-P00000064"
#define WORKER CLONE "/20010909T014640.000000Z-H00000000-P00000065"

struct story_test {
	const struct scratch *scratch;
	struct trace *trace;
	int64_t run;
	struct strbuf file;
};

static void begin(struct story_test *t, void **state)
{
	*t = (struct story_test){ .scratch = *state };
	assert_int_equal(trace_open(t->scratch->db, TRACE_CREATE, &t->trace), 0);
	assert_int_equal(trace_run_create(t->trace, NULL, &t->run), 0);
	assert_int_equal(trace_add_anchor(t->trace, t->run, 0, REAL_S * NSEC_PER_SEC, 0), 0);
	assert_int_equal(trace_add_anchor(t->trace, t->run, NSEC_PER_SEC, (REAL_S + 1) * NSEC_PER_SEC, NSEC_PER_SEC), 0);
}

/* A line of session `sid` at `us`, with more members. */
static void tell(struct story_test *t, const char *event, const char *sid, int us, const char *more)
{
	strbuf_addf(&t->file, "{\"event\":\"%s\",\"sid\":\"%s\",\"thread\":\"main\",\"time\":\"2001-09-09T01:46:40.%06dZ\"%s}\n",
		event, sid, us, more);
}

static int import(struct story_test *t, const char *ancestor, off_t from)
{
	auto_free char *path = path_in(t->scratch->dir, "trace");
	struct git_source source = { .dirfd = AT_FDCWD, .path = path, .ancestor = ancestor, .from = from };

	write_file(path, t->file.buf, t->file.len);
	return git_story_import(t->trace, t->run, &source);
}

static void end(struct story_test *t)
{
	trace_close(t->trace);
	strbuf_free(&t->file);
}

static void add_process(struct story_test *t, uint32_t id, int32_t pid, int32_t ppid, const char *comm)
{
	struct process_record record = { .id = id, .tid = pid, .tgid = pid, .ppid = ppid, .comm_len = (uint16_t)strlen(comm) };

	assert_int_equal(trace_add_process(t->trace, t->run, &record, comm), 0);
}

static void add_op(struct story_test *t, uint64_t seq, uint32_t process, int us, const char *path)
{
	struct event event = { .seq = seq, .op = OP_create, .start_ns = us * 1000LL, .dur_ns = 1000, .process = process,
		.path = (uint32_t)seq };
	struct path_record record = { .id = (uint32_t)seq, .text_len = (uint32_t)strlen(path) };

	assert_int_equal(trace_add_event(t->trace, t->run, &event, ""), 0);
	assert_int_equal(trace_add_path(t->trace, t->run, &record, path), 0);
}

/* A clone with a worker: unpack_trees from 200 to 900 us, a region in it, the worker from 300 to 800. */
static void tell_clone(struct story_test *t)
{
	tell(t, "version", CLONE, 110, ",\"exe\":\"2.39.5\"");
	tell(t, "start", CLONE, 120, ",\"t_abs\":0.000020,\"argv\":[\"git\",\"clone\",\"a b\"]");
	tell(t, "cmd_name", CLONE, 125, ",\"name\":\"clone\",\"hierarchy\":\"clone\"");
	tell(t, "region_enter", CLONE, 200, ",\"nesting\":1,\"category\":\"unpack_trees\",\"label\":\"unpack_trees\"");
	tell(t, "region_enter", CLONE, 210, ",\"nesting\":2,\"category\":\"unpack_trees\",\"label\":\"traverse_trees\"");
	tell(t, "region_leave", CLONE, 250, ",\"t_rel\":0.000040,\"category\":\"unpack_trees\",\"label\":\"traverse_trees\"");
	tell(t, "child_start", CLONE, 290, ",\"child_id\":0,\"child_class\":\"?\",\"argv\":[\"git\",\"checkout--worker\"]");
	tell(t, "start", WORKER, 310, ",\"t_abs\":0.000010,\"argv\":[\"git\",\"checkout--worker\"]");
	tell(t, "cmd_name", WORKER, 320, ",\"name\":\"checkout--worker\",\"hierarchy\":\"clone/checkout--worker\"");
	tell(t, "atexit", WORKER, 800, ",\"t_abs\":0.000500,\"code\":0");
	tell(t, "child_exit", CLONE, 810, ",\"child_id\":0,\"pid\":101,\"code\":0,\"t_rel\":0.000520");
	tell(t, "data", CLONE, 850, ",\"t_abs\":0.000750,\"category\":\"index\",\"key\":\"write/version\",\"value\":\"2\"");
	tell(t, "region_leave", CLONE, 900, ",\"t_rel\":0.000700,\"category\":\"unpack_trees\",\"label\":\"unpack_trees\"");
	tell(t, "atexit", CLONE, 1000, ",\"t_abs\":0.000900,\"code\":3");
}

static void commands_and_regions(void **state)
{
	struct story_test t;
	auto_free char *path = NULL, *argv = NULL;

	begin(&t, state);
	tell_clone(&t);
	assert_int_equal(import(&t, NULL, 0), 0);
	end(&t);
	assert_int_equal(db_int(t.scratch->db, "SELECT count(*) FROM git_command"), 2);
	assert_int_equal(db_int(t.scratch->db, "SELECT start_ns FROM git_command WHERE name = 'clone'"), 100000);
	assert_int_equal(db_int(t.scratch->db, "SELECT end_ns FROM git_command WHERE name = 'clone'"), 1000000);
	assert_int_equal(db_int(t.scratch->db, "SELECT exit_code FROM git_command WHERE pid = 100"), 3);
	argv = db_text(t.scratch->db, "SELECT argv FROM git_command WHERE pid = 100");
	assert_string_equal(argv, "git clone a b");
	assert_int_equal(db_int(t.scratch->db, "SELECT p.pid FROM git_command AS c JOIN git_command AS p"
					       " ON p.run = c.run AND p.id = c.parent WHERE c.pid = 101"), 100);
	path = db_text(t.scratch->db, "SELECT path FROM git_region WHERE label = 'traverse_trees'");
	assert_string_equal(path, "unpack_trees/unpack_trees > unpack_trees/traverse_trees");
	assert_int_equal(db_int(t.scratch->db, "SELECT end_ns FROM git_region WHERE label = 'unpack_trees'"), 900000);
	assert_int_equal(db_int(t.scratch->db, "SELECT pid FROM git_child WHERE end_ns = 810000"), 101);
	assert_int_equal(db_int(t.scratch->db, "SELECT value FROM git_event WHERE event = 'data' AND"
					       " category = 'index' AND label = 'write/version'"), 2);
	assert_int_equal(db_int(t.scratch->db, "SELECT git_lines FROM run"), 14);
	assert_int_equal(db_int(t.scratch->db, "SELECT git_bad_lines FROM run"), 0);
}

static char *one_op(const struct story_test *t, const char *column, int seq)
{
	char sql[128];

	snprintf(sql, sizeof(sql), "SELECT %s FROM git_ops WHERE seq = %d", column, seq);
	return db_text(t->scratch->db, sql);
}

static void assert_op(const struct story_test *t, int seq, const char *command, const char *region, const char *phase)
{
	auto_free char *got_command = one_op(t, "command", seq), *got_region = one_op(t, "region", seq);
	auto_free char *got_phase = one_op(t, "phase", seq);

	assert_string_equal(got_command ?: "NULL", command);
	assert_string_equal(got_region ?: "NULL", region);
	assert_string_equal(got_phase ?: "NULL", phase);
}

static void operations_go_to_command_region_and_phase(void **state)
{
	struct story_test t;

	begin(&t, state);
	tell_clone(&t);
	add_process(&t, 1, 100, 1, "git");
	add_process(&t, 2, 101, 100, "git");
	add_process(&t, 3, 0, 0, "kernel");
	add_process(&t, 4, 500, 1, "cp");
	add_process(&t, 5, 600, 1, "git"); /* told nothing */
	add_op(&t, 1, 1, 220, "c/f1");
	add_op(&t, 2, 1, 260, "c/f2");
	add_op(&t, 3, 2, 400, "c/f3");
	add_op(&t, 4, 1, 950, "c/.git/HEAD");
	add_op(&t, 5, 3, 960, "c/f1");
	add_op(&t, 6, 4, 970, "c/.git/HEAD");
	add_op(&t, 7, 5, 980, "c/.git/index.lock");
	add_op(&t, 8, 1, 2000, "c/.git/other"); /* released late: still its command's */
	add_op(&t, 9, 1, 50, "c/.git/config");	/* before git told that it began */
	add_op(&t, 10, 4, 990, "c/.git/HEAD");	/* goes on, with others' in between */
	assert_int_equal(import(&t, NULL, 0), 0);
	end(&t);
	assert_op(&t, 1, "git clone a b", "unpack_trees/unpack_trees > unpack_trees/traverse_trees", "checkout");
	assert_op(&t, 2, "git clone a b", "unpack_trees/unpack_trees", "checkout");
	assert_op(&t, 3, "git checkout--worker", "unpack_trees/unpack_trees", "checkout");
	assert_op(&t, 4, "git clone a b", "NULL", "refs and config");
	assert_op(&t, 5, "kernel", "NULL", "kernel");
	assert_op(&t, 6, "cp", "NULL", "other programs");
	assert_op(&t, 7, "git", "NULL", "write index");
	assert_op(&t, 8, "git clone a b", "NULL", "git, other");
	assert_op(&t, 9, "git clone a b", "NULL", "refs and config");
	assert_op(&t, 10, "cp", "NULL", "other programs");
	assert_int_equal(db_int(t.scratch->db, "SELECT count(*) FROM git_range"), 9);
}

static void spans_cover_the_run_without_gap(void **state)
{
	struct story_test t;

	begin(&t, state);
	tell_clone(&t);
	assert_int_equal(trace_exec(t.trace, "UPDATE run SET command_ns = 50000, real_ns = 1100000"), 0);
	assert_int_equal(import(&t, NULL, 0), 0);
	end(&t);
	assert_int_equal(db_int(t.scratch->db, "SELECT min(start_ns) FROM git_span"), 50000);
	assert_int_equal(db_int(t.scratch->db, "SELECT max(end_ns) FROM git_span"), 1150000);
	assert_int_equal(db_int(t.scratch->db, "SELECT sum(end_ns - start_ns) FROM git_span"), 1100000);
	assert_int_equal(db_int(t.scratch->db, "SELECT sum(end_ns - start_ns) FROM git_span WHERE phase = 10"), 700000);
	assert_int_equal(db_int(t.scratch->db, "SELECT sum(s.end_ns - s.start_ns) FROM git_span AS s JOIN git_command AS c"
					       " ON c.run = s.run AND c.id = s.command WHERE c.pid = 101"), 500000);
	assert_int_equal(db_int(t.scratch->db, "SELECT sum(end_ns - start_ns) FROM git_span WHERE command IS NULL"),
		200000);
}

static void what_is_no_event_is_counted_and_skipped(void **state)
{
	static const char garbage[] = "{\"event\":\"data\"\n"
				      "\n"
				      "[]\nnull\n\x80\xff\n"
				      "{\"event\":3,\"sid\":\"" CLONE "\"}\n"
				      "{\"event\":\"data\",\"sid\":\"nobody\"}\n"
				      "{\"event\":\"data\",\"sid\":\"x-P00000000\"}\n";
	struct story_test t;
	auto_free char *note = NULL, *argv = NULL;

	begin(&t, state);
	strbuf_addf(&t.file, "%s", garbage);
	tell(&t, "start", CLONE, 10, ",\"argv\":[\"git\",\"add\",\"caf\xe9\"]");
	/* members of the wrong kind, leaves without an enter, an end without a start: nothing to fall over */
	tell(&t, "region_leave", CLONE, 20, ",\"category\":7,\"label\":null,\"t_rel\":\"x\"");
	tell(&t, "region_enter", CLONE, 30, ",\"nesting\":\"deep\",\"category\":[],\"label\":{}");
	tell(&t, "child_exit", CLONE, 40, ",\"child_id\":99,\"pid\":-4,\"t_rel\":1e300");
	tell(&t, "new_kind_of_event", CLONE, 50, ",\"t_abs\":-3");
	/* years that do not fit into 64 bits of ns: as if it had no time */
	strbuf_addf(&t.file, "{\"event\":\"data\",\"sid\":\"" CLONE "\",\"time\":\"2626-11-30T12:59:24.865714Z\"}\n");
	strbuf_addf(&t.file, "{\"event\":\"atexit\",\"sid\":\"" CLONE "\",\"ti");
	assert_int_equal(import(&t, NULL, 0), 0);
	end(&t);
	assert_int_equal(db_int(t.scratch->db, "SELECT git_bad_lines FROM run"), 9);
	assert_int_equal(db_int(t.scratch->db, "SELECT git_lines FROM run"), 15);
	note = db_text(t.scratch->db, "SELECT git_note FROM run");
	assert_non_null(strstr(note, "9 of 15 lines"));
	argv = db_text(t.scratch->db, "SELECT argv FROM git_command");
	assert_string_equal(argv, "git add caf\xef\xbf\xbd");
	/* killed: it ends with its last event */
	assert_int_equal(db_int(t.scratch->db, "SELECT end_ns FROM git_command WHERE exit_code IS NULL"), 50000);
	assert_int_equal(db_int(t.scratch->db, "SELECT end_ns FROM git_region"), 50000);
}

/* Who was killed ends when its parent says so, else with its last operation; so do the regions it was in. */
static void ends_that_were_not_told(void **state)
{
	struct story_test t;

	begin(&t, state);
	tell(&t, "start", CLONE, 10, "");
	tell(&t, "region_enter", CLONE, 15, ",\"category\":\"a\",\"label\":\"b\"");
	tell(&t, "child_start", CLONE, 20, ",\"child_id\":0");
	tell(&t, "start", WORKER, 30, "");
	tell(&t, "child_exit", CLONE, 500, ",\"child_id\":0,\"pid\":101,\"code\":137");
	add_process(&t, 1, 100, 1, "git");
	add_op(&t, 1, 1, 899, "c/f1");
	assert_int_equal(import(&t, NULL, 0), 0);
	end(&t);
	assert_int_equal(db_int(t.scratch->db, "SELECT end_ns FROM git_command WHERE pid = 101"), 500000);
	assert_int_equal(db_int(t.scratch->db, "SELECT exit_code FROM git_command WHERE pid = 101"), 137);
	assert_int_equal(db_int(t.scratch->db, "SELECT end_ns FROM git_command WHERE pid = 100"), 900000);
	assert_int_equal(db_int(t.scratch->db, "SELECT end_ns FROM git_region"), 900000);
	assert_op(&t, 1, "git", "a/b", "worktree");
}

static void only_our_sessions_are_taken_from_a_shared_file(void **state)
{
	struct story_test t;
	size_t old;

	begin(&t, state);
	tell(&t, "start", "ours/" CLONE, 10, ",\"argv\":[\"git\",\"old\"]");
	old = t.file.len;
	tell(&t, "start", "ours/" CLONE, 10, ",\"argv\":[\"git\",\"mine\"]");
	tell(&t, "start", "ours2/" CLONE, 10, ",\"argv\":[\"git\",\"not mine\"]");
	tell(&t, "start", WORKER, 10, ",\"argv\":[\"git\",\"nor this\"]");
	assert_int_equal(import(&t, "ours", (off_t)old), 0);
	/* again: what was there is replaced */
	assert_int_equal(import(&t, "ours", (off_t)old), 0);
	end(&t);
	assert_int_equal(db_int(t.scratch->db, "SELECT count(*) FROM git_command"), 1);
	assert_int_equal(db_int(t.scratch->db, "SELECT argv = 'git mine' FROM git_command"), 1);
	assert_int_equal(db_int(t.scratch->db, "SELECT git_lines FROM run"), 1);
}

static void a_clock_that_was_set_is_noticed(void **state)
{
	struct story_test t;
	struct clockmap map;
	int64_t s = NSEC_PER_SEC;

	begin(&t, state);
	/* a second later the clock has gone back by an hour */
	assert_int_equal(trace_add_anchor(t.trace, t.run, 2 * s, (REAL_S + 2 - 3600) * s, 2 * s), 0);
	assert_int_equal(clockmap_load(t.trace, t.run, &map), 0);
	assert_int_equal(map.step_ns, -3600 * s);
	assert_int_equal(clockmap_run_ns(&map, REAL_S * s + s / 2), s / 2);
	assert_int_equal(clockmap_run_ns(&map, (REAL_S + 3 - 3600) * s), 3 * s);
	clockmap_free(&map);
	tell_clone(&t);
	assert_int_equal(import(&t, NULL, 0), 0);
	end(&t);
	assert_int_equal(db_int(t.scratch->db, "SELECT clock_step_ns FROM run"), -3600 * s);
}

static void a_slewed_clock_is_followed(void **state)
{
	struct story_test t;
	struct clockmap map;
	int64_t s = NSEC_PER_SEC;

	begin(&t, state);
	/* 0.05% fast for 9 s */
	assert_int_equal(trace_add_anchor(t.trace, t.run, 10 * s, REAL_S * s + 10 * s + 4500000, 10 * s), 0);
	assert_int_equal(clockmap_load(t.trace, t.run, &map), 0);
	assert_int_equal(map.step_ns, 0);
	assert_in_range(clockmap_run_ns(&map, REAL_S * s + s + (9 * s + 4500000) / 2), 5500000000 - 1000, 5500000000 + 1000);
	clockmap_free(&map);
	end(&t);
}

/* The rules are this program's, not those that another one left in the file, or a stranger. */
static void views_of_the_file_do_not_count(void **state)
{
	struct story_test t;

	begin(&t, state);
	tell_clone(&t);
	add_process(&t, 1, 100, 1, "git");
	add_op(&t, 1, 1, 220, "c/f1");
	trace_close(t.trace);
	db_exec(t.scratch->db, "DROP VIEW path_phase; DROP VIEW git_region_rule; DROP VIEW git_command_rule;"
			       "CREATE VIEW git_region_rule AS SELECT id FROM git_region");
	assert_int_equal(trace_open(t.scratch->db, TRACE_WRITE, &t.trace), 0);
	assert_int_equal(import(&t, NULL, 0), 0);
	end(&t);
	assert_op(&t, 1, "git clone a b", "unpack_trees/unpack_trees > unpack_trees/traverse_trees", "checkout");
}

static void deleting_old_runs_takes_their_attribution_along(void **state)
{
	struct story_test t;
	int64_t first;

	begin(&t, state);
	first = t.run;
	add_op(&t, 1, 1, 220, "f");
	assert_int_equal(attribute_run(t.trace, t.run), 0);
	assert_int_equal(trace_run_set_text(t.trace, t.run, "state", "done"), 0);
	assert_int_equal(trace_run_create(t.trace, NULL, &t.run), 0);
	add_op(&t, 1, 1, 220, "f");
	assert_int_equal(attribute_run(t.trace, t.run), 0);
	assert_int_equal(trace_runs_rotate(t.trace, 1), 1);
	end(&t);
	assert_int_equal(db_int(t.scratch->db, "SELECT count(*) FROM git_range"), 1);
	assert_true(db_int(t.scratch->db, "SELECT run FROM git_range") == first + 1);
}

/* What a dead `record` left: a directory in the spool, of a run that is finished. */
static void recovers_a_story_that_was_left_behind(void **state)
{
	struct story_test t;
	auto_free char *dir = NULL, *file = NULL;

	begin(&t, state);
	assert_int_equal(trace_run_set_text(t.trace, t.run, "state", "done"), 0);
	dir = trace_story_dir(t.scratch->db, t.run);
	assert_int_equal(mkdir(t.scratch->root, 0700), 0);
	assert_int_equal(mkdir(dir, 0700), 0);
	file = path_in(dir, "one");
	tell_clone(&t);
	write_file(file, t.file.buf, t.file.len);
	assert_int_equal(git_story_recover(t.trace), 1);
	assert_int_equal(git_story_recover(t.trace), 0);
	end(&t);
	assert_int_equal(db_int(t.scratch->db, "SELECT count(*) FROM git_command"), 2);
	assert_int_equal(access(t.scratch->root, F_OK), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(commands_and_regions),
		scratch_test(operations_go_to_command_region_and_phase),
		scratch_test(spans_cover_the_run_without_gap),
		scratch_test(what_is_no_event_is_counted_and_skipped),
		scratch_test(ends_that_were_not_told),
		scratch_test(only_our_sessions_are_taken_from_a_shared_file),
		scratch_test(a_clock_that_was_set_is_noticed),
		scratch_test(a_slewed_clock_is_followed),
		scratch_test(views_of_the_file_do_not_count),
		scratch_test(deleting_old_runs_takes_their_attribution_along),
		scratch_test(recovers_a_story_that_was_left_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
