/* SPDX-License-Identifier: MIT */
/* trace_rotate.c - deleting old runs, whatever tables there are. */
#include <inttypes.h>
#include <stdio.h>

#include "base.h"
#include "trace_internal.h"

#define CHUNK 50000 /* operations per transaction: the log stays small, and other recorders get their turn */

/* Statements, each of which deletes the rows of run ?1 from one table; `run` itself is the last. */
static int read_statements(struct trace *trace, struct strbuf *sql)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int got, err = trace_prepare(trace,
		"SELECT format('\"%w\"', m.name) FROM sqlite_schema AS m, pragma_table_info(m.name) AS c"
		" WHERE m.type = 'table' AND m.rootpage > 0 AND c.name = 'run'",
		&stmt, NULL);

	if (err < 0)
		return err;
	while ((got = trace_step(stmt)) == 1)
		strbuf_addf(sql, "DELETE FROM %s WHERE run = ?1;", trace_column_text(stmt, 0));
	strbuf_addf(sql, "DELETE FROM run WHERE id = ?1");
	return got < 0 ? got : sql->failed ? -ENOMEM : 0;
}

static int with_run(struct trace *trace, const char *sql, int64_t run, const char **ret_rest)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace, sql, &stmt, ret_rest);

	err = err ?: trace_bind_int(stmt, 1, run);
	return err ?: trace_step(stmt);
}

/* From now on it is not whole, should we not get to its end. */
static int announce(struct trace *trace, int64_t run)
{
	return with_run(trace, "UPDATE run SET clean_end = 0, note = 'being deleted: operations are missing' WHERE id = ?1", run,
		NULL);
}

static int delete_operations(struct trace *trace, int64_t run)
{
	char sql[160];
	int err;

	snprintf(sql, sizeof(sql),
		"DELETE FROM op WHERE run = ?1 AND seq <= (SELECT seq FROM op WHERE run = ?1 ORDER BY seq LIMIT 1 OFFSET %d)",
		CHUNK);
	do
		err = with_run(trace, sql, run, NULL);
	while (err == 0 && sqlite3_changes(trace->db) > 0);
	return err;
}

/*
 * Contents that no run refers to any more. A recorder that is at it may be about to refer to one, so not then: the next
 * deletion will find them.
 */
static int drop_contents(struct trace *trace)
{
	return trace_exec(trace, "DELETE FROM content WHERE NOT EXISTS (SELECT 1 FROM run WHERE state IN ('recording',"
				 " 'finishing')) AND hash NOT IN (SELECT hash FROM data UNION ALL SELECT hash FROM initial_data)");
}

static int delete_run(struct trace *trace, int64_t run)
{
	struct strbuf auto_strbuf statements = {};
	const char *rest;
	int err = read_statements(trace, &statements);

	err = err ?: announce(trace, run);
	err = err ?: delete_operations(trace, run);
	err = err ?: trace_begin(trace);
	for (rest = statements.buf; err == 0 && *rest;)
		err = with_run(trace, rest, run, &rest);
	err = err ?: drop_contents(trace);
	err = err ?: trace_commit(trace);
	trace_rollback(trace);
	return err;
}

/* 1 and the oldest run that has ended, when there are more than `keep`; 0; or -errno. */
static int next_to_go(struct trace *trace, int64_t keep, int64_t *ret_run)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace,
		"SELECT id FROM run WHERE state IN ('done', 'recovered', 'native')"
		" AND (SELECT count(*) FROM run) > ?1 ORDER BY id LIMIT 1",
		&stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, keep);
	err = err ?: trace_step(stmt);
	if (err == 1)
		*ret_run = trace_column_int(stmt, 0);
	return err;
}

int trace_runs_rotate(struct trace *trace, int64_t keep)
{
	int64_t run;
	int count = 0, got;

	while ((got = next_to_go(trace, keep, &run)) == 1) {
		got = delete_run(trace, run);
		if (got < 0)
			break;
		count++;
	}
	return got < 0 ? got : count;
}
