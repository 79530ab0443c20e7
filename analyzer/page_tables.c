/* SPDX-License-Identifier: MIT */
/* page_tables.c - the tables of one run: its operations, and named reports. */
#include <inttypes.h>
#include <string.h>

#include "base.h"
#include "html.h"
#include "page_internal.h"
#include "report.h"
#include "rows.h"
#include "table.h"

#define MAX_ROWS 25 /* of a report; more are for the terminal */

static const struct {
	const char *name;
	enum column_kind kind;
} op_columns[] = {
	{ "operation", COLUMN_TEXT },
	{ "count", COLUMN_INT },
	{ "errors", COLUMN_INT },
	{ "in filesystem", COLUMN_DURATION },
	{ "share", COLUMN_SHARE },
	{ "mean", COLUMN_DURATION },
	{ "median", COLUMN_DURATION },
	{ "95%", COLUMN_DURATION },
	{ "99%", COLUMN_DURATION },
	{ "longest", COLUMN_DURATION },
	{ "whole request", COLUMN_DURATION },
};

static int write_ops(const struct page *page, const struct page_run *run)
{
	struct table *table;

	fputs("<h3>Operations</h3>\n<p>Times in the real filesystem, the last column: in all, with the recorder's "
	      "part.</p>\n",
		page->out);
	table = page_table(page);
	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(op_columns); i++)
		table_add_column(table, op_columns[i].name, NULL, op_columns[i].kind, 0);
	for (size_t i = 0; i < run->stats->n_ops; i++) {
		const struct op_stats *op = &run->stats->ops[i];
		const struct time_stats *fs = &op->time[CLOCK_FS];

		table_text(table, op->name);
		table_int(table, op->count);
		table_int(table, op->errors);
		table_int(table, fs->total_ns);
		table_real(table, fs->share);
		table_real(table, fs->mean_ns);
		table_int(table, fs->p50_ns);
		table_int(table, fs->p95_ns);
		table_int(table, fs->p99_ns);
		table_int(table, fs->max_ns);
		table_int(table, op->time[CLOCK_DUR].total_ns);
		table_end_row(table);
	}
	return page_table_end(table);
}

/* Those that a page has, in their order: each costs about as much as a count of all operations. */
static const char *const shown[] = { "slowest", "file-life", "enoent", "directories", "programs", "locks", "syncs" };

static int write_rows(const struct page *page, struct trace_stmt *stmt, size_t *ret_left)
{
	struct table *table = page_table(page);
	size_t rows = 0;
	int err = 0;

	if (!table)
		return -ENOMEM;
	report_add_columns(table, stmt);
	while ((err = trace_step(stmt)) == 1) {
		if (rows++ >= MAX_ROWS)
			continue;
		rows_add_cells(table, stmt, 0);
		table_end_row(table);
	}
	if (err < 0) {
		table_free(table);
		return err;
	}
	*ret_left = rows > MAX_ROWS ? rows - MAX_ROWS : 0;
	return page_table_end(table);
}

static int write_report(const struct page *page, const struct page_run *run, const struct report *report)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	size_t left;
	int err = report_prepare(page->trace, report, run->info.id, NULL, &stmt);

	if (err < 0)
		return err;
	fprintf(page->out, "<h3 id=\"run-%" PRId64 "-report-%s\">", run->info.id, report->name);
	html_str(page->out, report->title);
	fputs("</h3>\n<p>", page->out);
	html_str(page->out, report->about);
	fputs("</p>\n", page->out);
	err = write_rows(page, stmt, &left);
	if (err == 0 && left)
		fprintf(page->out, "<p>%zu more rows: <code>fstape query --report %s</code></p>\n", left, report->name);
	return err;
}

int page_run_tables(const struct page *page, const struct page_run *run)
{
	int err = write_ops(page, run);

	for (size_t i = 0; i < ARRAY_SIZE(shown) && err == 0; i++) {
		const struct report *report = report_find(shown[i]);

		if (report)
			err = write_report(page, run, report);
	}
	return err;
}
