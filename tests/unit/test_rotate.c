/* SPDX-License-Identifier: MIT */
/* Deleting old runs: which, from which tables, and half done. */
#include "unit.h"

#include <stdio.h>

#include "loader.h"

static void add_run(const struct scratch *scratch, const char *label, uint64_t events, bool finish)
{
	struct recording recording;
	struct loader loader;

	recording_start(scratch, label, 1 << 20, &recording);
	loader = (struct loader){ recording.trace, recording.spool, recording.run };
	assert_true(put_path(recording.writer, 1, "x"));
	assert_true(put_process(recording.writer, 1, 1, "x"));
	for (uint64_t seq = 1; seq <= events; seq++) {
		while (!put_event(recording.writer, seq))
			assert_true(loader_step(&loader, 100000) > 0);
	}
	while (loader_step(&loader, 100000) > 0)
		;
	assert_int_equal(trace_add_anchor(recording.trace, recording.run, 1, 2, 3), 0);
	if (finish) {
		assert_int_equal(loader_finish(&loader, "done"), 0);
		spool_remove(recording.spool);
	}
	recording_abandon(&recording);
}

static int rotate(const struct scratch *scratch, int64_t keep)
{
	struct trace *trace;
	int got;

	assert_int_equal(trace_open(scratch->db, TRACE_WRITE, &trace), 0);
	got = trace_runs_rotate(trace, keep);
	trace_close(trace);
	return got;
}

static void the_oldest_that_have_ended_go(void **state)
{
	struct scratch *scratch = *state;

	add_run(scratch, "alive", 10, false);
	add_run(scratch, "old", 120000, true); /* more than one transaction's */
	add_run(scratch, "new", 10, true);
	add_run(scratch, "newest", 10, true);
	db_exec(scratch->db, "INSERT INTO git_range (run, process, seq, phase) VALUES (2, 1, 999999, 1), (4, 1, 999999, 1);"
			     " INSERT INTO data VALUES (2, 1, 0, 1, x'01'), (4, 1, 0, 1, x'02'), (2, 2, 0, 1, x'02');"
			     " INSERT INTO content VALUES (x'01', 1, 0, x'aa'), (x'02', 1, 0, x'bb')");
	assert_int_equal(rotate(scratch, 4), 0);
	assert_int_equal(rotate(scratch, 2), 2);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM run WHERE label IN ('alive', 'newest')"), 2);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM run"), 2);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM op"), 20);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM path WHERE run NOT IN (1, 4)"), 0);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM process WHERE run NOT IN (1, 4)"), 0);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM clock_anchor"), 2);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM git_range WHERE run <> 4"), 0);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) > 0 FROM git_range"), 1);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM data"), 1);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM content"), 2); /* who is alive may be about to refer to it */
	assert_int_equal(rotate(scratch, 0), 1); /* that which has not ended stays */
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM run WHERE label = 'alive'"), 1);
	db_exec(scratch->db, "UPDATE run SET state = 'done'; INSERT INTO data VALUES (1, 1, 0, 1, x'02')");
	add_run(scratch, "last", 10, true);
	db_exec(scratch->db, "INSERT INTO data SELECT id, 1, 0, 1, x'02' FROM run WHERE label = 'last'");
	assert_int_equal(rotate(scratch, 1), 1);
	assert_int_equal(db_int(scratch->db, "SELECT hash = x'02' FROM content"), 1); /* one that the last run has too */
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM content"), 1);
}

/* Its author's tables are no business of ours, but names must not become SQL. */
static void odd_tables_do_no_harm(void **state)
{
	struct scratch *scratch = *state;

	add_run(scratch, "one", 10, true);
	db_exec(scratch->db, "CREATE TABLE \"mine; DROP TABLE op\" (run, x); INSERT INTO \"mine; DROP TABLE op\" VALUES (1, 2)");
	assert_int_equal(rotate(scratch, 0), 1);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM op"), 0);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM \"mine; DROP TABLE op\""), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		scratch_test(the_oldest_that_have_ended_go),
		scratch_test(odd_tables_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
