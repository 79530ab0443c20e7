/* SPDX-License-Identifier: MIT */
/* cmd_runs.c - the runs of a database, one row each. */
#include <string.h>

#include "base.h"
#include "command.h"
#include "rows.h"
#include "run.h"

/* One row of the list: what it is called, and how it is shown. */
struct field {
	const char *sql;
	const char *name, *title;
	enum column_kind kind;
	unsigned int flags;
};

/* A run that is still going on, is not whole, or could not see everything, says so where people look first. */
static const struct field fields[] = {
	{ "id", "id", NULL, COLUMN_INT },
	{ "label", "label", NULL, COLUMN_TEXT },
	{ "state || iif(state IN ('done', 'recovered') AND NOT " RUN_COMPLETE_SQL ", ', partial', '')"
	  " || coalesce(', ' || nullif(modes, ''), '') || iif(transport = 'uring', ', io_uring', '')",
		"state", "state", COLUMN_TEXT, COLUMN_TEXT_ONLY },
	{ "state", "state", NULL, COLUMN_TEXT, COLUMN_DATA_ONLY },
	{ RUN_COMPLETE_SQL, "complete", NULL, COLUMN_BOOL, COLUMN_DATA_ONLY },
	{ "source", "source", NULL, COLUMN_TEXT },
	{ "fs_type", "fs_type", "fs", COLUMN_TEXT },
	{ "CASE WHEN state <> 'native'"
	  " THEN coalesce(requests, (SELECT count(*) FROM op WHERE op.run = run.id)) END",
		"requests", NULL, COLUMN_INT },
	{ "recorded", "recorded", NULL, COLUMN_INT, COLUMN_DATA_ONLY },
	{ "dropped", "dropped", NULL, COLUMN_INT },
	{ "real_ns", "real_ns", "real", COLUMN_DURATION },
	{ "user_ns", "user_ns", NULL, COLUMN_DURATION, COLUMN_DATA_ONLY },
	{ "sys_ns", "sys_ns", NULL, COLUMN_DURATION, COLUMN_DATA_ONLY },
	{ "start_real_ns", "started", NULL, COLUMN_TIME },
	{ "exit_status", "exit_status", "exit", COLUMN_INT },
	{ "cache", "cache", NULL, COLUMN_TEXT, COLUMN_DATA_ONLY },
	{ "modes", "modes", NULL, COLUMN_TEXT, COLUMN_DATA_ONLY },
	{ "transport", "transport", NULL, COLUMN_TEXT, COLUMN_DATA_ONLY },
	{ "wait", "wait", NULL, COLUMN_TEXT, COLUMN_DATA_ONLY },
	{ "workload", "workload", NULL, COLUMN_TEXT, COLUMN_DATA_ONLY },
	{ "target", "target", NULL, COLUMN_TEXT, COLUMN_DATA_ONLY },
	{ "round", "round", NULL, COLUMN_INT, COLUMN_DATA_ONLY },
	{ "caches", "caches", NULL, COLUMN_TEXT, COLUMN_DATA_ONLY },
	{ "note", "note", NULL, COLUMN_TEXT, COLUMN_DATA_ONLY },
	{ "CASE WHEN json_valid(command) THEN (SELECT group_concat(value, ' ') FROM json_each(command)) END",
		"command", NULL, COLUMN_TEXT, COLUMN_TEXT_ONLY },
	{ "CASE WHEN json_valid(command) THEN command END", "command", NULL, COLUMN_JSON, COLUMN_DATA_ONLY },
};

static int prepare(const struct context *context, struct trace_stmt **ret_stmt)
{
	struct strbuf auto_strbuf sql = {};
	int err;

	strbuf_addf(&sql, "SELECT ");
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		strbuf_addf(&sql, "%s%s", i ? ", " : "", fields[i].sql);
	strbuf_addf(&sql, " FROM run WHERE ?1 IS NULL OR id = ?1 ORDER BY id");
	err = sql.failed ? -ENOMEM : trace_prepare(context->trace, sql.buf, ret_stmt, NULL);
	return err < 0 ? context_trace_error(context, err, "cannot read the runs") : 0;
}

/* Adds the rows of `run`, or of all runs when it is NULL. */
static int add_rows(const struct context *context, const int64_t *run, struct table *table)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = prepare(context, &stmt);

	if (err == 0 && run)
		err = trace_bind_int(stmt, 1, *run);
	if (err < 0)
		return err;
	while ((err = trace_step(stmt)) == 1) {
		rows_add_cells(table, stmt, 0);
		table_end_row(table);
	}
	return err < 0 ? context_trace_error(context, err, "cannot read the runs") : 0;
}

static int add_runs(const struct context *context, struct table *table)
{
	auto_free int64_t *runs = NULL;
	int count, err = 0;

	if (!context->common.runs.count)
		return add_rows(context, NULL, table);
	count = context_runs(context, &runs);
	for (int i = 0; i < count && err == 0; i++)
		err = add_rows(context, &runs[i], table);
	return count < 0 ? count : err;
}

static int run_runs(struct context *context)
{
	struct table *table = context_table(context);
	int err;

	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		table_add_column(table, fields[i].name, fields[i].title, fields[i].kind, fields[i].flags);
	err = add_runs(context, table);
	if (err == 0)
		return context_print(table);
	table_free(table);
	return err;
}

const struct command cmd_runs = {
	.name = "runs",
	.summary = "list the runs of a database",
	.arguments = "DB",
	.details = "One row per run; all of them unless --run says which. The state is 'recording' while the "
		   "directory is mounted, 'finishing' while the rest is"
		   " loaded, 'done', or 'recovered' when the recorder died and 'fstape recover' completed "
		   "the run; a run that"
		   " misses operations is marked as partial, one in a mode that keeps requests from being recorded"
		   " with that mode, and one whose requests came through io_uring with that.",
	.trace = NEED_TRACE_READ,
	.flags = COMMAND_RUN | COMMAND_FORMAT,
	.min_args = 1,
	.max_args = 1,
	.run = run_runs,
};
