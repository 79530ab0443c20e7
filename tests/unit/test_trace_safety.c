/* SPDX-License-Identifier: MIT */
/* Files that are not ours, not of our version or made to harm; and that reading never writes. */
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const enum trace_mode all_modes[] = { TRACE_READ, TRACE_WRITE, TRACE_CREATE };

static void make(const struct scratch *scratch)
{
	struct trace *trace;

	assert_int_equal(trace_open(scratch->db, TRACE_CREATE, &trace), 0);
	trace_settle(trace);
	trace_close(trace);
}

/* Opening fails with `expected`, says `words`, and leaves the file as it was, with nothing beside it. */
static void expect_refused(struct scratch *scratch, enum trace_mode mode, int expected, const char *words)
{
	size_t before_len, after_len;
	auto_free char *before = slurp(scratch->db, &before_len);
	auto_free char *after = NULL;
	auto_free char *text = NULL;
	struct trace *trace = NULL;
	int err;

	capture_begin(scratch);
	err = trace_open(scratch->db, mode, &trace);
	text = capture_end(scratch);
	if (err != expected || trace || !strstr(text, words) || strncmp(text, "fstape: ", 8) != 0 ||
		!strstr(text, scratch->db))
		fail_msg("mode %d: got %d, '%s'; wanted %d, '%s'", mode, err, text, expected, words);
	after = slurp(scratch->db, &after_len);
	if (before_len != after_len || memcmp(before, after, before_len) != 0)
		fail_msg("mode %d: the refused file was changed", mode);
	assert_int_equal(count_entries(scratch->dir, "t.db"), 1);
}

static void a_newer_version_is_refused(void **state)
{
	struct scratch *scratch = *state;
	char pragma[64], numbers[64];

	make(scratch);
	snprintf(pragma, sizeof(pragma), "PRAGMA user_version = %d", TRACE_VERSION + 41);
	snprintf(numbers, sizeof(numbers), "version %d, this program knows up to %d", TRACE_VERSION + 41, TRACE_VERSION);
	db_exec(scratch->db, pragma);
	for (size_t i = 0; i < ARRAY_SIZE(all_modes); i++)
		expect_refused(scratch, all_modes[i], -EPROTO, numbers);
}

static void a_stranger_is_refused(void **state)
{
	struct scratch *scratch = *state;

	db_exec(scratch->db, "CREATE TABLE bookmarks (url); INSERT INTO bookmarks VALUES ('precious')");
	for (size_t i = 0; i < ARRAY_SIZE(all_modes); i++)
		expect_refused(scratch, all_modes[i], -EPROTO, "not a recording of fstape");
	db_exec(scratch->db, "PRAGMA application_id = 1234; PRAGMA user_version = 1");
	for (size_t i = 0; i < ARRAY_SIZE(all_modes); i++)
		expect_refused(scratch, all_modes[i], -EPROTO, "not a recording of fstape");
}

static void what_is_no_database_is_refused(void **state)
{
	struct scratch *scratch = *state;
	char text[5000];

	memset(text, 'x', sizeof(text));
	write_file(scratch->db, text, sizeof(text));
	for (size_t i = 0; i < ARRAY_SIZE(all_modes); i++)
		expect_refused(scratch, all_modes[i], -EUCLEAN, "not a database");
}

static void an_empty_file_becomes_one_only_when_asked(void **state)
{
	struct scratch *scratch = *state;

	write_file(scratch->db, "", 0);
	expect_refused(scratch, TRACE_READ, -EPROTO, "not a recording of fstape");
	expect_refused(scratch, TRACE_WRITE, -EPROTO, "not a recording of fstape");
	make(scratch);
	assert_int_equal(db_int(scratch->db, "PRAGMA user_version"), TRACE_VERSION);
}

static void missing_files_and_directories(void **state)
{
	struct scratch *scratch = *state;
	auto_free char *deep = path_in(scratch->dir, "no/such/dir.db");
	auto_free char *text = NULL;
	struct trace *trace = NULL;
	int errs[6];

	capture_begin(scratch);
	errs[0] = trace_open(scratch->db, TRACE_READ, &trace);
	errs[1] = trace_open(scratch->db, TRACE_WRITE, &trace);
	errs[2] = trace_open(deep, TRACE_CREATE, &trace);
	errs[3] = trace_open(scratch->dir, TRACE_CREATE, &trace);
	errs[4] = trace_open(scratch->dir, TRACE_READ, &trace);
	errs[5] = trace_open("", TRACE_CREATE, &trace);
	text = capture_end(scratch);
	assert_null(trace);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(errs[i], -ENOENT);
	assert_int_equal(errs[3], -EISDIR);
	assert_true(errs[4] < 0);
	assert_int_equal(errs[5], -ENOENT);
	assert_non_null(strstr(text, "No such file or directory"));
	assert_non_null(strstr(text, "directory"));
	assert_int_equal(access(scratch->db, F_OK), -1); /* none of them made it */
}

static void reading_writes_nothing(void **state)
{
	struct scratch *scratch = *state;
	auto_free char *stolen = path_in(scratch->dir, "stolen.db");
	struct trace *trace;
	char attach[256], vacuum[256];
	const char *attempts[] = {
		"INSERT INTO run (state) VALUES ('x')", "UPDATE op SET result = 0", "DELETE FROM path",
		"DROP TABLE op", "CREATE TABLE t (x)", "CREATE TEMP TABLE t (x)", "REINDEX", "VACUUM", "ANALYZE",
		"PRAGMA user_version = 9", "PRAGMA application_id = 9", "REPLACE INTO meta VALUES ('uuid', 'x')",
		"INSERT INTO sqlite_schema VALUES (1, 2, 3, 4, 5)", "DROP VIEW ops", "ALTER TABLE op ADD COLUMN x",
		"SELECT load_extension('x')", "WITH x AS (SELECT 1) DELETE FROM op", attach, vacuum,
	};
	size_t before_len, after_len;
	auto_free char *before = NULL;
	auto_free char *after = NULL;

	make(scratch);
	before = slurp(scratch->db, &before_len);
	snprintf(attach, sizeof(attach), "ATTACH '%s' AS other", stolen);
	snprintf(vacuum, sizeof(vacuum), "VACUUM INTO '%s'", stolen);
	assert_int_equal(trace_open(scratch->db, TRACE_READ, &trace), 0);
	for (size_t i = 0; i < ARRAY_SIZE(attempts); i++) {
		struct trace_stmt auto_stmt *stmt = NULL;
		int err = trace_prepare(trace, attempts[i], &stmt, NULL);

		err = err ?: trace_step(stmt);
		if (strncmp(attempts[i], "PRAGMA", 6) != 0) { /* a pragma may be let through to do nothing */
			if (err >= 0)
				fail_msg("'%s' was not refused", attempts[i]);
			assert_true(trace_error(trace)[0] != '\0');
		}
	}
	trace_close(trace);
	after = slurp(scratch->db, &after_len);
	assert_int_equal(before_len, after_len);
	assert_memory_equal(before, after, before_len);
	assert_int_equal(access(stolen, F_OK), -1);
}

static void our_view_comes_before_the_file_s(void **state)
{
	struct scratch *scratch = *state;
	struct trace_stmt *stmt;
	struct trace *trace;

	make(scratch);
	db_exec(scratch->db, "DROP VIEW ops; CREATE VIEW ops AS SELECT 'forged' AS op;"
			     " INSERT INTO op (run, seq, start_ns, dur_ns, fs_ns, op, process, result)"
			     " VALUES (1, 1, 0, 0, 0, 1, 1, 0)");
	assert_int_equal(trace_open(scratch->db, TRACE_READ, &trace), 0);
	assert_int_equal(trace_prepare(trace, "SELECT op FROM ops", &stmt, NULL), 0);
	assert_int_equal(trace_step(stmt), 1);
	assert_string_equal(trace_column_text(stmt, 0), "lookup");
	assert_int_equal(trace_step(stmt), 0);
	trace_finalize(stmt);
	trace_close(trace);
}

/* A view or virtual table in place of a table of ours would run its author's SQL whenever it is read. */
static void tables_must_be_tables(void **state)
{
	static const char *const forgeries[] = {
		"DROP TABLE spool_mark; CREATE VIEW spool_mark AS SELECT 1 AS run, 1 AS slot, 1 AS generation, 1 AS loaded",
		"DROP TABLE spool_mark; CREATE VIRTUAL TABLE spool_mark USING fts5(run, slot, generation, loaded)",
		"DROP TABLE spool_mark",
		"DROP TABLE meta",
	};

	for (size_t i = 0; i < ARRAY_SIZE(forgeries); i++) {
		struct scratch *scratch = *state;

		make(scratch);
		db_exec(scratch->db, forgeries[i]);
		expect_refused(scratch, TRACE_READ, -EUCLEAN, "damaged: tables are missing");
		unlink(scratch->db);
	}
}

static void a_missing_identity_is_damage(void **state)
{
	static const char *const harms[] = {
		"DELETE FROM meta",
		"UPDATE meta SET value = 'short' WHERE key = 'uuid'",
	};

	for (size_t i = 0; i < ARRAY_SIZE(harms); i++) {
		struct scratch *scratch = *state;

		make(scratch);
		db_exec(scratch->db, harms[i]);
		expect_refused(scratch, TRACE_READ, -EUCLEAN, "damaged: it has no uuid");
		unlink(scratch->db);
	}
}

/* A trigger of the file's author must not fire when recordings are written into it. */
static void foreign_triggers_do_not_fire(void **state)
{
	struct scratch *scratch = *state;
	struct trace *trace;
	int64_t run;

	make(scratch);
	db_exec(scratch->db, "CREATE TRIGGER evil AFTER INSERT ON run BEGIN DELETE FROM meta; END");
	assert_int_equal(trace_open(scratch->db, TRACE_WRITE, &trace), 0);
	assert_int_equal(trace_run_create(trace, "x", &run), 0);
	trace_close(trace);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM meta"), 1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		scratch_test(a_newer_version_is_refused),
		scratch_test(a_stranger_is_refused),
		scratch_test(what_is_no_database_is_refused),
		scratch_test(an_empty_file_becomes_one_only_when_asked),
		scratch_test(missing_files_and_directories),
		scratch_test(reading_writes_nothing),
		scratch_test(our_view_comes_before_the_file_s),
		scratch_test(tables_must_be_tables),
		scratch_test(a_missing_identity_is_damage),
		scratch_test(foreign_triggers_do_not_fire),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
