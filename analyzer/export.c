/* SPDX-License-Identifier: MIT */
/* export.c - what exporters share, and the tables: CSV, JSON, NDJSON. */
#include "export.h"

#include <errno.h>
#include <inttypes.h>

#include "rows.h"
#include "table.h"

int export_step(struct export *export)
{
	export->done++;
	if (ferror(export->out))
		return errno ? -errno : -EIO; /* of the write that failed just now */
	if (export->done % 1024 == 0 && export->total)
		progress_show(export->progress, "%" PRId64 " of %" PRId64 " operations",
			export->done, export->total);
	return 0;
}

int export_each_run(struct export *export, const char *sql,
	int (*row)(struct export *, struct trace_stmt *, void *), void *arg)
{
	int err = 0;

	for (size_t i = 0; i < export->n_runs && err == 0; i++) {
		struct trace_stmt auto_stmt *stmt = NULL;

		err = trace_prepare(export->trace, sql, &stmt, NULL);
		err = err ?: trace_bind_int(stmt, trace_parameter(stmt, ":run"), export->runs[i]);
		if (err == 0 && trace_parameter(stmt, ":weight"))
			err = trace_bind_text(
				stmt, trace_parameter(stmt, ":weight"), export->weight);
		while (err == 0 && (err = trace_step(stmt)) == 1)
			err = row(export, stmt, arg);
	}
	return err;
}

static const char rows_sql[] =
	"SELECT run, seq, start_ns, dur_ns, fs_ns, op, class, path, path2, node, parent, fh, "
	"offset, length, result,"
	" error, pid, tid, comm, flags, mode, args, process, command, region, phase"
	" FROM git_ops WHERE run = :run ORDER BY seq";

static int add_row(struct export *export, struct trace_stmt *stmt, void *arg)
{
	rows_add_cells(arg, stmt, 0);
	table_end_row(arg);
	return export_step(export);
}

/* Columns as the statement has them: known also when there is no row. */
static int add_columns(struct export *export, struct table *table)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(export->trace, rows_sql, &stmt, NULL);

	for (int i = 0; err == 0 && i < trace_columns(stmt); i++)
		table_add_column(table, trace_column_name(stmt, i), NULL, COLUMN_ANY, 0);
	return err;
}

static int export_table(struct export *export, enum table_format format)
{
	struct table *table = table_new(format, false, export->out);
	int err = table ? add_columns(export, table) : -ENOMEM;

	err = err ?: export_each_run(export, rows_sql, add_row, table);
	err = err ?: table_print(table);
	table_free(table);
	return err;
}

int export_csv(struct export *export)
{
	return export_table(export, TABLE_CSV);
}

int export_json(struct export *export)
{
	return export_table(export, TABLE_JSON);
}

int export_ndjson(struct export *export)
{
	return export_table(export, TABLE_NDJSON);
}
