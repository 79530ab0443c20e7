/* SPDX-License-Identifier: MIT */
/* cmd_query.c - SQL of the user's, read-only, and the named reports. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base.h"
#include "command.h"
#include "interrupt.h"
#include "report.h"
#include "rows.h"
#include "run.h"

struct query_options {
	const char *report;
	struct text_list set;
	bool list, print_sql;
};

static int fail(struct context *context, int err)
{
	if (err == -EINTR)
		return interrupt_said();
	if (err == -EACCES)
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
		rows_add_cells(table, stmt, 0);
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
		return log_errno(
			sql->failed ? ENOMEM : errno, "cannot read SQL from standard input");
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

static int run_sql(struct context *context)
{
	struct strbuf auto_strbuf input = {};
	const char *sql = context->args[1];
	int err = 0;

	if (strcmp(sql, "-") == 0) {
		err = read_sql(&input);
		sql = input.buf;
	}
	if (err == 0)
		err = warn_of_partial_runs(context);
	return err ?: run_statements(context, sql);
}

/* The rows of one run; `*data`, the one table of all runs in CSV and JSON, is made when its columns are known. */
static int report_run(
	struct context *context, const struct report *report, int64_t run, struct table **data)
{
	const struct query_options *options = context->options;
	struct trace_stmt auto_stmt *stmt = NULL;
	struct table *table = *data;
	int err = report_prepare(context->trace, report, run, &options->set, &stmt);

	if (err < 0)
		return err == -EDOM ? err : fail(context, err);
	if (!table && !(table = context_table(context)))
		return -ENOMEM;
	if (!*data) {
		table_add_column(table, "run", NULL, COLUMN_INT, COLUMN_DATA_ONLY);
		report_add_columns(table, stmt);
	}
	if (context->format == TABLE_TEXT)
		printf("run %" PRId64 ": %s\n", run, report->title);
	else
		*data = table;
	while (!ferror(stdout) && (err = trace_step(stmt)) == 1) {
		table_int(table, run);
		rows_add_cells(table, stmt, 0);
		table_end_row(table);
	}
	if (err < 0)
		fail(context, err);
	if (*data)
		return err;
	if (err == 0)
		return context_print(table);
	table_free(table);
	return err;
}

static int run_report(struct context *context, const struct report *report)
{
	auto_free int64_t *runs = NULL;
	struct table *data = NULL;
	int count = context_runs(context, &runs), err = count < 0 ? count : 0;

	for (int i = 0; i < count && err == 0; i++) {
		err = run_check(context->trace, runs[i]);
		if (err < 0)
			return context_trace_error(context, err, "cannot read the run");
		if (context->format == TABLE_TEXT && i)
			fputc('\n', stdout);
		err = report_run(context, report, runs[i], &data);
	}
	if (err == 0 && data)
		return context_print(data);
	table_free(data);
	return err;
}

/* As the sqlite3 shell takes it. */
static void print_sql(const struct report *report)
{
	int64_t number;

	printf("-- %s\n.parameter set :run 1\n", report->title);
	for (const struct report_param *param = report->params; param->name; param++) {
		const char *quote = parse_int(param->preset, &number) < 0 ? "'" : "";

		printf(".parameter set :%s \"%s%s%s\"\n", param->name, quote, param->preset, quote);
	}
	printf("%s\n", report->sql);
}

static void add_params(struct strbuf *text, const struct report *report)
{
	strbuf_add(text, "", 0);
	for (const struct report_param *param = report->params; param->name; param++)
		strbuf_addf(text, "%s%s=%s", text->len ? " " : "", param->name, param->preset);
}

static int list_reports(struct context *context)
{
	struct table *table = context_table(context);

	if (!table)
		return -ENOMEM;
	table_add_column(table, "report", NULL, COLUMN_TEXT, 0);
	table_add_column(table, "title", NULL, COLUMN_TEXT, 0);
	table_add_column(table, "parameters", NULL, COLUMN_TEXT, 0);
	table_add_column(table, "about", NULL, COLUMN_TEXT, COLUMN_DATA_ONLY);
	for (const struct report *report = reports; report->name; report++) {
		struct strbuf auto_strbuf params = {};

		add_params(&params, report);
		table_text(table, report->name);
		table_text(table, report->title);
		table_text(table, params.buf);
		table_text(table, report->about);
		table_end_row(table);
	}
	return context_print(table);
}

/* What a report shows and takes, for people. */
static void describe(const struct report *report)
{
	printf("%s: %s\n\n", report->name, report->title);
	options_wrap(report->about, 0, 0, stdout);
	for (const struct report_param *param = report->params; param->name; param++) {
		int column = printf("\n  --set %s=%s", param->name, param->preset);

		fputs("  ", stdout);
		options_wrap(param->help, 8, (unsigned int)column + 1, stdout);
	}
}

static int usage(const char *text)
{
	log_msg("query: %s; see 'fstape query --help'", text);
	return STATUS_USAGE;
}

static int without_trace(struct context *context)
{
	const struct query_options *options = context->options;
	const struct report *report = options->report ? report_find(options->report) : NULL;

	if (options->report && !report) {
		log_msg("there is no report '%s'; 'fstape query --list' has their names",
			options->report);
		return STATUS_USAGE;
	}
	if (options->print_sql && !report)
		return usage("--print-sql needs --report");
	if (options->print_sql)
		print_sql(report);
	else if (report)
		describe(report);
	else
		return list_reports(context);
	return STATUS_OK;
}

static int check_use(const struct context *context)
{
	const struct query_options *options = context->options;

	if (options->list || options->print_sql ||
		(options->report && !report_find(options->report)))
		return 0;
	if (context->n_args == 0)
		return usage("which database?");
	if (options->report && context->n_args > 1)
		return usage("either SQL or --report, not both");
	if (!options->report && context->n_args < 2)
		return usage("SQL or --report NAME is missing");
	if (!options->report && (options->set.count || context->common.runs.count))
		return usage("--run and --set are for reports; SQL says itself what it is about");
	return 0;
}

static int run_query(struct context *context)
{
	const struct query_options *options = context->options;
	const struct report *report = options->report ? report_find(options->report) : NULL;
	struct interrupt interrupt;
	int err = check_use(context);

	if (err)
		return err;
	if (options->list || options->print_sql || (options->report && !report))
		return without_trace(context);
	err = trace_open(context->args[0], TRACE_READ, &context->trace);
	if (err < 0)
		return err;
	interrupt_catch(&interrupt, context->trace);
	err = report ? run_report(context, report) : run_sql(context);
	interrupt_release(&interrupt);
	return err == -EDOM ? STATUS_USAGE : err;
}

static const struct option query_options[] = {
	{ "report", "NAME", "a named report instead of SQL", .type = OPTION_TEXT, .letter = 'r',
		.offset = offsetof(struct query_options, report) },
	{ "set", "NAME=VALUE", "a parameter of the report; may be repeated", .type = OPTION_LIST,
		.letter = 's', .offset = offsetof(struct query_options, set) },
	{ "list", NULL, "list the reports; with --report, describe that one", .type = OPTION_FLAG,
		.offset = offsetof(struct query_options, list) },
	{ "print-sql", NULL, "print the report's SQL, as the sqlite3 shell takes it",
		.type = OPTION_FLAG, .offset = offsetof(struct query_options, print_sql) },
	{},
};

const struct command cmd_query = {
	.name = "query",
	.summary = "answer SQL, read-only, and named reports",
	.arguments = "DB [SQL]",
	.details = "SQL is one or more statements; '-' reads them from standard input. The view "
		   "'ops' has one row per"
		   " operation: run, seq, start_ns, dur_ns, fs_ns, op, class, path, path2, node, "
		   "parent, fh, offset, length,"
		   " result, error, pid, tid, comm. The database is opened read-only: statements "
		   "that write are refused.\n\n"
		   "--report shows one of the reports that --list names, of the runs that --run "
		   "names. Times are of the real"
		   " filesystem ('fs') where nothing else is said.",
	.options = query_options,
	.options_size = sizeof(struct query_options),
	.trace = NEED_NO_TRACE, /* the list needs none */
	.flags = COMMAND_RUN | COMMAND_FORMAT,
	.max_args = 2,
	.run = run_query,
};
