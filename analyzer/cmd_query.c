/* SPDX-License-Identifier: MIT */
/* cmd_query.c - SQL of the user's, read-only. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base.h"
#include "command.h"
#include "run.h"

/* What Ctrl-C ends. The only thing that a signal handler can be told is a variable of the file. */
static struct trace *volatile running;

static void on_interrupt(int sig)
{
	(void)sig;
	if (running)
		trace_interrupt(running);
}

static void add_cell(struct table *table, const struct trace_stmt *stmt, int column)
{
	const char *text;

	switch (trace_column_type(stmt, column)) {
	case TRACE_NULL:
		table_null(table);
		break;
	case TRACE_INTEGER:
		table_int(table, trace_column_int(stmt, column));
		break;
	case TRACE_REAL:
		table_real(table, trace_column_double(stmt, column));
		break;
	case TRACE_TEXT:
		text = trace_column_text(stmt, column);
		table_bytes(table, text ?: "", trace_column_bytes(stmt, column));
		break;
	case TRACE_BLOB:
		text = trace_column_text(stmt, column);
		table_blob(table, text ?: "", trace_column_bytes(stmt, column));
		break;
	}
}

static int fail(struct context *context, int err)
{
	if (err == -EINTR)
		log_msg("interrupted");
	else if (err == -EACCES)
		context_trace_error(context, err, "only reading this database is allowed");
	else
		context_trace_error(context, err, "the query failed");
	return err;
}

static int print_rows(struct context *context, struct trace_stmt *stmt)
{
	struct table *table = context_table(context);
	int err = 0, columns = trace_columns(stmt);

	if (!table)
		return -ENOMEM;
	for (int i = 0; i < columns; i++)
		table_add_column(table, trace_column_name(stmt, i), NULL, COLUMN_ANY, 0);
	while (!ferror(stdout) && (err = trace_step(stmt)) == 1) {
		for (int i = 0; i < columns; i++)
			add_cell(table, stmt, i);
		table_end_row(table);
	}
	if (err >= 0)
		return context_print(table);
	table_free(table);
	return fail(context, err);
}

/* One statement after another; each that has columns prints a table (JSON: an array) of its own. */
static int run_statements(struct context *context, const char *sql)
{
	int err = 0, printed = 0;

	while (err == 0 && *sql) {
		struct trace_stmt auto_stmt *stmt = NULL;

		err = trace_prepare(context->trace, sql, &stmt, &sql);
		if (err < 0)
			return fail(context, err);
		if (!stmt)
			continue;
		if (!trace_columns(stmt)) {
			err = trace_step(stmt);
			if (err < 0)
				return fail(context, err);
			continue;
		}
		if (printed++ && context->format != TABLE_JSON)
			fputc('\n', stdout);
		err = print_rows(context, stmt);
	}
	return err;
}

static int read_sql(struct strbuf *sql)
{
	char chunk[4096];
	size_t got;

	strbuf_add(sql, "", 0);
	while ((got = fread(chunk, 1, sizeof(chunk), stdin)) > 0)
		strbuf_add(sql, chunk, got);
	if (ferror(stdin) || sql->failed)
		return log_errno(sql->failed ? ENOMEM : errno, "cannot read SQL from standard input");
	return 0;
}

/* The statement decides what is read, so any run that is not whole may be in the answer. */
static int warn_of_partial_runs(struct context *context)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(context->trace, "SELECT id FROM run ORDER BY id", &stmt, NULL);

	while (err == 0 && (err = trace_step(stmt)) == 1)
		err = run_check(context->trace, trace_column_int(stmt, 0)) < 0 ? -EIO : 0;
	return err < 0 ? context_trace_error(context, err, "cannot read the runs") : 0;
}

static int run_query(struct context *context)
{
	struct sigaction interrupt = { .sa_handler = on_interrupt, .sa_flags = SA_RESTART | SA_RESETHAND };
	struct sigaction before;
	struct strbuf auto_strbuf input = {};
	const char *sql = context->args[1];
	int err = 0;

	if (strcmp(sql, "-") == 0) {
		err = read_sql(&input);
		sql = input.buf;
	}
	if (err == 0)
		err = warn_of_partial_runs(context);
	if (err < 0)
		return err;
	running = context->trace;
	sigaction(SIGINT, &interrupt, &before);
	err = run_statements(context, sql);
	sigaction(SIGINT, &before, NULL);
	running = NULL;
	return err;
}

const struct command cmd_query = {
	.name = "query",
	.summary = "answer SQL, read-only",
	.arguments = "DB SQL",
	.details = "SQL is one or more statements; '-' reads them from standard input. The view 'ops' has "
		   "one row per"
		   " operation: run, seq, start_ns, dur_ns, fs_ns, op, class, path, path2, node, parent, fh, "
		   "offset, length,"
		   " result, error, pid, tid, comm. The database is opened read-only: statements that write "
		   "are refused.",
	.trace = NEED_TRACE_READ,
	.flags = COMMAND_FORMAT,
	.min_args = 2,
	.max_args = 2,
	.run = run_query,
};
