/* SPDX-License-Identifier: MIT */
/* trace_query.c - statements with results; the rows of runs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base.h"
#include "trace_internal.h"

int trace_prepare(struct trace *trace, const char *sql, struct trace_stmt **ret_stmt, const char **ret_rest)
{
	struct trace_stmt *stmt = calloc(1, sizeof(*stmt));
	const char *rest;
	int err;

	if (!stmt)
		return -ENOMEM;
	stmt->trace = trace;
	err = trace_fail(trace, sqlite3_prepare_v2(trace->db, sql, -1, &stmt->sql, &rest));
	if (err == 0 && stmt->sql && trace->mode == TRACE_READ && !sqlite3_stmt_readonly(stmt->sql)) {
		snprintf(trace->error, sizeof(trace->error),
			"the statement would write, and recordings are opened read-only");
		err = -EROFS;
	}
	if (err < 0 || !stmt->sql) {
		trace_finalize(stmt);
		stmt = NULL;
	}
	if (err < 0)
		return err;
	*ret_stmt = stmt;
	if (ret_rest)
		*ret_rest = rest;
	return 0;
}

void trace_finalize(struct trace_stmt *stmt)
{
	if (!stmt)
		return;
	sqlite3_finalize(stmt->sql);
	free(stmt);
}

int trace_parameter(const struct trace_stmt *stmt, const char *name)
{
	return sqlite3_bind_parameter_index(stmt->sql, name);
}

int trace_bind_int(struct trace_stmt *stmt, int index, int64_t value)
{
	return trace_fail(stmt->trace, sqlite3_bind_int64(stmt->sql, index, value));
}

int trace_bind_text(struct trace_stmt *stmt, int index, const char *value)
{
	return trace_fail(stmt->trace, sqlite3_bind_text(stmt->sql, index, value, -1, SQLITE_TRANSIENT));
}

int trace_bind_blob(struct trace_stmt *stmt, int index, const void *value, size_t len)
{
	return trace_fail(stmt->trace, sqlite3_bind_blob64(stmt->sql, index, value ?: "", len, SQLITE_TRANSIENT));
}

void trace_reset(struct trace_stmt *stmt)
{
	sqlite3_reset(stmt->sql);
	sqlite3_clear_bindings(stmt->sql);
}

int trace_step(struct trace_stmt *stmt)
{
	int result = stmt->trace->interrupted ? SQLITE_INTERRUPT : sqlite3_step(stmt->sql);

	if (result == SQLITE_ROW)
		return 1;
	return trace_fail(stmt->trace, result);
}

int trace_columns(const struct trace_stmt *stmt)
{
	return sqlite3_column_count(stmt->sql);
}

const char *trace_column_name(const struct trace_stmt *stmt, int column)
{
	return sqlite3_column_name(stmt->sql, column);
}

enum trace_type trace_column_type(const struct trace_stmt *stmt, int column)
{
	switch (sqlite3_column_type(stmt->sql, column)) {
	case SQLITE_INTEGER:
		return TRACE_INTEGER;
	case SQLITE_FLOAT:
		return TRACE_REAL;
	case SQLITE_TEXT:
		return TRACE_TEXT;
	case SQLITE_BLOB:
		return TRACE_BLOB;
	default:
		return TRACE_NULL;
	}
}

int64_t trace_column_int(const struct trace_stmt *stmt, int column)
{
	return sqlite3_column_int64(stmt->sql, column);
}

double trace_column_double(const struct trace_stmt *stmt, int column)
{
	return sqlite3_column_double(stmt->sql, column);
}

const char *trace_column_text(const struct trace_stmt *stmt, int column)
{
	return (const char *)sqlite3_column_text(stmt->sql, column);
}

const void *trace_column_blob(const struct trace_stmt *stmt, int column)
{
	return sqlite3_column_blob(stmt->sql, column);
}

size_t trace_column_bytes(const struct trace_stmt *stmt, int column)
{
	return (size_t)sqlite3_column_bytes(stmt->sql, column);
}

int trace_run_create(struct trace *trace, const char *label, int64_t *ret_run)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace, "INSERT INTO run (label, state) VALUES (?, 'recording')", &stmt, NULL);

	err = err ?: trace_bind_text(stmt, 1, label);
	err = err ?: trace_step(stmt);
	if (err == 0)
		*ret_run = sqlite3_last_insert_rowid(trace->db);
	return err;
}

static int run_update(struct trace *trace, int64_t run, const char *column, struct trace_stmt **ret_stmt)
{
	char sql[128];
	int err;

	snprintf(sql, sizeof(sql), "UPDATE run SET %s = ? WHERE id = ?", column);
	err = trace_prepare(trace, sql, ret_stmt, NULL);
	return err ?: trace_bind_int(*ret_stmt, 2, run);
}

int trace_run_set_int(struct trace *trace, int64_t run, const char *column, int64_t value)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = run_update(trace, run, column, &stmt);

	err = err ?: trace_bind_int(stmt, 1, value);
	return err ?: trace_step(stmt);
}

int trace_run_set_text(struct trace *trace, int64_t run, const char *column, const char *value)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = run_update(trace, run, column, &stmt);

	err = err ?: trace_bind_text(stmt, 1, value);
	return err ?: trace_step(stmt);
}

int trace_run_find(struct trace *trace, const char *name, int64_t *ret_run)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace,
		"SELECT id FROM run WHERE ?1 IS NULL OR label = ?1 OR CAST(id AS TEXT) = ?1"
		" ORDER BY CAST(id AS TEXT) IS ?1 DESC, id DESC LIMIT 1",
		&stmt, NULL);

	err = err ?: trace_bind_text(stmt, 1, name);
	err = err ?: trace_step(stmt);
	if (err < 0)
		return err;
	if (!err)
		return -ENOENT;
	*ret_run = trace_column_int(stmt, 0);
	return 0;
}
