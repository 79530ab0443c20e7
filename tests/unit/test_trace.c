/* SPDX-License-Identifier: MIT */
/* The database module: what it makes, what it stores, finding runs, statements, two openers. */
#include "unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static struct trace *open_as(const struct scratch *scratch, enum trace_mode mode)
{
	struct trace *trace = NULL;

	assert_int_equal(trace_open(scratch->db, mode, &trace), 0);
	return trace;
}

static void a_new_database_says_what_it_is(void **state)
{
	struct scratch *scratch = *state;
	mode_t before = umask(0);
	struct trace *trace = open_as(scratch, TRACE_CREATE);
	char uuid[SPOOL_UUID_LEN + 1];
	struct stat st;

	umask(before);
	assert_string_equal(trace_path(trace), scratch->db);
	assert_int_equal(strlen(trace_uuid(trace)), SPOOL_UUID_LEN);
	assert_int_equal(strspn(trace_uuid(trace), "0123456789abcdef-"), SPOOL_UUID_LEN);
	assert_int_equal(trace_uuid(trace)[14], '4');
	snprintf(uuid, sizeof(uuid), "%s", trace_uuid(trace));
	trace_close(trace);
	assert_int_equal(stat(scratch->db, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(db_int(scratch->db, "PRAGMA application_id"), TRACE_APPLICATION_ID);
	assert_int_equal(db_int(scratch->db, "PRAGMA user_version"), TRACE_VERSION);
	for (int mode = TRACE_READ; mode <= TRACE_CREATE; mode++) { /* opened again it is the same database */
		trace = open_as(scratch, (enum trace_mode)mode);
		assert_string_equal(trace_uuid(trace), uuid);
		trace_close(trace);
	}
}

static void two_databases_differ(void **state)
{
	struct scratch *scratch = *state;
	auto_free char *other = path_in(scratch->dir, "other.db");
	struct trace *a = open_as(scratch, TRACE_CREATE), *b = NULL;

	assert_int_equal(trace_open(other, TRACE_CREATE, &b), 0);
	assert_string_not_equal(trace_uuid(a), trace_uuid(b));
	trace_close(a);
	trace_close(b);
}

static void operations_and_errors_have_their_names(void **state)
{
	struct scratch *scratch = *state;
	int rows = 0;

	trace_close(open_as(scratch, TRACE_CREATE));
	for (unsigned int code = 0; code < OP_COUNT; code++) {
		const struct op_desc *desc = op_get(code);
		char sql[256];

		if (!desc)
			continue;
		rows++;
		snprintf(sql, sizeof(sql),
			"SELECT count(*) FROM op_type WHERE code = %u AND name = '%s' AND class = '%s' AND replay = %d",
			code, desc->name, op_class_name(desc->class), desc->replay);
		assert_int_equal(db_int(scratch->db, sql), 1);
	}
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM op_type"), rows);
	assert_int_equal(db_int(scratch->db, "SELECT code FROM errno WHERE name = 'ENOENT'"), ENOENT);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM errno WHERE name = 'EUCLEAN'"), 1);
}

static int add(struct trace *trace, int64_t run, struct event event, const char *args)
{
	event.args_len = (uint16_t)strlen(args);
	return trace_add_event(trace, run, &event, args);
}

static void events_come_back_through_the_view(void **state)
{
	struct scratch *scratch = *state;
	struct trace *trace = open_as(scratch, TRACE_CREATE);
	struct path_record path = { .id = 1, .text_len = 5 }, path2 = { .id = 2, .parent = 1, .text_len = 3 };
	struct process_record process = { .id = 1, .tid = 11, .tgid = 10, .ppid = 9, .uid = 7, .comm_len = 3,
		.exe_len = 8, .cmdline_len = 11 };
	int64_t run;

	assert_int_equal(trace_run_create(trace, "r", &run), 0);
	assert_int_equal(trace_add_path(trace, run, &path, "a/b\xff\nmore"), 0);
	assert_int_equal(trace_add_path(trace, run, &path2, "c'd"), 0);
	assert_int_equal(trace_add_process(trace, run, &process, "git/bin/git2git\0status\0"), 0);
	assert_int_equal(add(trace, run, (struct event){ .seq = 1, .start_ns = 5, .dur_ns = 4, .fs_ns = 3, .node = 8,
				 .fh = 6, .length = 4096, .result = 100, .process = 1, .path = 1, .op = OP_read }, ""), 0);
	assert_int_equal(add(trace, run, (struct event){ .seq = 2, .result = -EXDEV, .process = 1, .path = 1, .path2 = 2,
				 .op = OP_rename }, "{\"x\":1}"), 0);
	assert_int_equal(add(trace, run, (struct event){ .seq = 3, .result = -512, .process = 1, .op = OP_flush }, ""), 0);
	assert_int_equal(add(trace, run, (struct event){ .seq = 3, .op = OP_flush }, ""), -EEXIST);
	trace_close(trace);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM ops WHERE run = 1 AND seq = 1 AND start_ns = 5"
		" AND dur_ns = 4 AND fs_ns = 3 AND op = 'read' AND class = 'data' AND hex(path) = '612F62FF0A'"
		" AND path2 IS NULL AND node = 8 AND parent IS NULL AND fh = 6 AND offset = 0 AND length = 4096"
		" AND result = 100 AND error IS NULL AND pid = 10 AND tid = 11 AND comm = 'git' AND flags IS NULL"
		" AND args IS NULL"), 1);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM ops WHERE seq = 2 AND op = 'rename' AND result = 0"
		" AND error = 'EXDEV' AND path2 = 'c''d' AND offset IS NULL AND length IS NULL AND flags = 0"
		" AND args ->> 'x' = 1"), 1);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM ops WHERE seq = 3 AND error = 'E512'"
		" AND path IS NULL AND fh IS NULL"), 1);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM process WHERE exe = '/bin/git' AND ppid = 9"
		" AND cmdline = '2git status' AND uid = 7"), 1);
}

static void the_first_finding_of_an_object_counts(void **state)
{
	struct scratch *scratch = *state;
	struct trace *trace = open_as(scratch, TRACE_CREATE);
	struct initial_record late = { .seq = 9, .node = 4, .path = 1, .mode = 0120777, .size = 1, .target_len = 4 };
	struct initial_record early = late, later = late;

	early.seq = 3, early.size = 2;
	later.seq = 12, later.size = 3;
	assert_int_equal(trace_add_initial(trace, 1, &late, "late"), 0);
	assert_int_equal(trace_add_initial(trace, 1, &early, "fine"), 0);
	assert_int_equal(trace_add_initial(trace, 1, &later, "lost"), 0);
	trace_close(trace);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM initial"), 1);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM initial WHERE seq = 3 AND size = 2"
		" AND target = 'fine'"), 1);
}

static void marks(void **state)
{
	struct trace *trace = open_as(*state, TRACE_CREATE);
	uint64_t generation = 77, loaded = 77;

	assert_int_equal(trace_mark(trace, 1, 5, &generation, &loaded), 0);
	assert_int_equal(generation, 0);
	assert_int_equal(trace_set_mark(trace, 1, 5, 1, 100), 0);
	assert_int_equal(trace_set_mark(trace, 1, 5, 2, 50), 0);
	assert_int_equal(trace_set_mark(trace, 2, 5, 3, 10), 0);
	assert_int_equal(trace_mark(trace, 1, 5, &generation, &loaded), 0);
	assert_int_equal(generation, 2);
	assert_int_equal(loaded, 50);
	assert_int_equal(trace_clear_marks(trace, 1), 0);
	assert_int_equal(trace_mark(trace, 1, 5, &generation, &loaded), 0);
	assert_int_equal(generation, 0);
	assert_int_equal(trace_mark(trace, 2, 5, &generation, &loaded), 0);
	assert_int_equal(loaded, 10);
	trace_close(trace);
}

static int64_t find(struct trace *trace, const char *name)
{
	int64_t run = -1;
	int err = trace_run_find(trace, name, &run);

	return err < 0 ? err : run;
}

static void runs_are_found_by_number_and_label(void **state)
{
	struct trace *trace = open_as(*state, TRACE_CREATE);
	static const char *const labels[] = { "first", "again", "again", NULL, "1", "O'Brien; --" };
	int64_t run;

	assert_int_equal(find(trace, NULL), -ENOENT);
	for (size_t i = 0; i < ARRAY_SIZE(labels); i++) {
		assert_int_equal(trace_run_create(trace, labels[i], &run), 0);
		assert_int_equal(run, i + 1);
	}
	assert_int_equal(find(trace, NULL), 6);
	assert_int_equal(find(trace, "first"), 1);
	assert_int_equal(find(trace, "again"), 3);
	assert_int_equal(find(trace, "2"), 2);
	assert_int_equal(find(trace, "1"), 1); /* a number is a number, also when a label looks like one */
	assert_int_equal(find(trace, "O'Brien; --"), 6);
	assert_int_equal(find(trace, "7"), -ENOENT);
	assert_int_equal(find(trace, ""), -ENOENT);
	assert_int_equal(find(trace, "fir"), -ENOENT);
	assert_int_equal(find(trace, "02"), -ENOENT);
	trace_close(trace);
}

static void columns_of_a_run_are_set(void **state)
{
	struct scratch *scratch = *state;
	struct trace *trace = open_as(scratch, TRACE_CREATE);
	int64_t first, second;

	assert_int_equal(trace_run_create(trace, "a", &first), 0);
	assert_int_equal(trace_run_create(trace, "b", &second), 0);
	assert_int_equal(trace_run_set_int(trace, second, "requests", INT64_MAX), 0);
	assert_int_equal(trace_run_set_text(trace, second, "note", "it's \"odd\""), 0);
	assert_int_equal(trace_run_set_text(trace, first, "label", NULL), 0);
	assert_int_equal(trace_run_set_int(trace, first, "no_such_column", 1), -EINVAL);
	assert_non_null(strstr(trace_error(trace), "no_such_column"));
	trace_close(trace);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM run WHERE id = 2 AND requests = 9223372036854775807"
		" AND note = 'it''s \"odd\"' AND state = 'recording'"), 1);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM run WHERE id = 1 AND label IS NULL"
		" AND requests IS NULL"), 1);
}

static void statements(void **state)
{
	struct trace *trace = open_as(*state, TRACE_CREATE);
	const char *text = "SELECT 1 AS one, 2.5, 'x', x'00ff', NULL; SELECT 2", *rest = NULL;
	struct trace_stmt *stmt = NULL;

	assert_int_equal(trace_prepare(trace, text, &stmt, &rest), 0);
	assert_string_equal(rest, " SELECT 2");
	assert_int_equal(trace_columns(stmt), 5);
	assert_string_equal(trace_column_name(stmt, 0), "one");
	assert_int_equal(trace_step(stmt), 1);
	assert_int_equal(trace_column_type(stmt, 0), TRACE_INTEGER);
	assert_int_equal(trace_column_type(stmt, 1), TRACE_REAL);
	assert_true(trace_column_double(stmt, 1) > 2.4 && trace_column_double(stmt, 1) < 2.6);
	assert_int_equal(trace_column_type(stmt, 2), TRACE_TEXT);
	assert_string_equal(trace_column_text(stmt, 2), "x");
	assert_int_equal(trace_column_type(stmt, 3), TRACE_BLOB);
	assert_int_equal(trace_column_bytes(stmt, 3), 2);
	assert_int_equal(trace_column_type(stmt, 4), TRACE_NULL);
	assert_null(trace_column_text(stmt, 4));
	assert_int_equal(trace_step(stmt), 0);
	trace_finalize(stmt);
	stmt = (void *)trace;
	assert_int_equal(trace_prepare(trace, " -- nothing\n", &stmt, &rest), 0);
	assert_null(stmt);
	assert_string_equal(rest, "");
	assert_int_equal(trace_prepare(trace, "SELECT nonsense", &stmt, NULL), -EINVAL);
	assert_non_null(strstr(trace_error(trace), "nonsense"));
	trace_close(trace);
}

static void *interrupt_soon(void *arg)
{
	usleep(100000);
	trace_interrupt(arg);
	return NULL;
}

static void a_long_query_can_be_ended(void **state)
{
	struct trace *trace = open_as(*state, TRACE_CREATE);
	struct trace_stmt *stmt;
	pthread_t thread;

	assert_int_equal(trace_prepare(trace, "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c)"
		" SELECT count(*) FROM c", &stmt, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, interrupt_soon, trace), 0);
	assert_int_equal(trace_step(stmt), -EINTR);
	pthread_join(thread, NULL);
	trace_finalize(stmt);
	/* one that comes between two statements is not lost */
	assert_int_equal(trace_prepare(trace, "SELECT 1", &stmt, NULL), 0);
	assert_int_equal(trace_step(stmt), -EINTR);
	trace_finalize(stmt);
	assert_int_equal(trace_exec(trace, "SELECT 1"), 0);
	trace_close(trace);
}

static void a_second_writer_waits_and_then_is_told(void **state)
{
	struct trace *a = open_as(*state, TRACE_CREATE), *b = open_as(*state, TRACE_WRITE);
	int64_t start;

	assert_int_equal(trace_begin(a), 0);
	trace_set_busy_timeout(b, 50);
	start = clock_ns(CLOCK_MONOTONIC);
	assert_int_equal(trace_begin(b), -EBUSY);
	assert_true(clock_ns(CLOCK_MONOTONIC) - start >= 40000000);
	trace_rollback(b); /* without a transaction: nothing */
	assert_int_equal(trace_commit(a), 0);
	assert_int_equal(trace_begin(b), 0);
	trace_rollback(b);
	trace_close(a);
	trace_close(b);
}

static void settling_leaves_one_file(void **state)
{
	struct scratch *scratch = *state;
	struct trace *a = open_as(scratch, TRACE_CREATE), *b = open_as(scratch, TRACE_READ);
	int64_t run;

	assert_int_equal(trace_run_create(a, "kept", &run), 0);
	assert_int_equal(find(b, "kept"), 1);
	trace_settle(a); /* in use: stays as it is, and usable */
	assert_int_equal(trace_run_create(a, "more", &run), 0);
	assert_int_equal(find(b, "more"), 2);
	trace_close(b);
	trace_settle(a);
	assert_int_equal(count_entries(scratch->dir, "t.db"), 1);
	trace_close(a);
	assert_int_equal(count_entries(scratch->dir, "t.db"), 1);
	a = open_as(scratch, TRACE_READ);
	assert_int_equal(find(a, NULL), 2);
	trace_close(a);
}

static void *open_and_close(void *arg)
{
	struct trace *trace = NULL;
	int err = trace_open(arg, TRACE_CREATE, &trace);

	if (err == 0)
		trace_close(trace);
	return (void *)(intptr_t)err;
}

/* All at once: one makes the database, the others find it made. */
static void many_create_at_once(void **state)
{
	struct scratch *scratch = *state;
	pthread_t threads[24];

	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, scratch->db), 0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
		void *result;

		pthread_join(threads[i], &result);
		assert_int_equal((intptr_t)result, 0);
	}
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM meta WHERE key = 'uuid'"), 1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		scratch_test(a_new_database_says_what_it_is),
		scratch_test(two_databases_differ),
		scratch_test(operations_and_errors_have_their_names),
		scratch_test(events_come_back_through_the_view),
		scratch_test(the_first_finding_of_an_object_counts),
		scratch_test(marks),
		scratch_test(runs_are_found_by_number_and_label),
		scratch_test(columns_of_a_run_are_set),
		scratch_test(statements),
		scratch_test(a_long_query_can_be_ended),
		scratch_test(a_second_writer_waits_and_then_is_told),
		scratch_test(settling_leaves_one_file),
		scratch_test(many_create_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
