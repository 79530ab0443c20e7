/* SPDX-License-Identifier: MIT */
#include "rows.h"

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

void rows_add_cells(struct table *table, const struct trace_stmt *stmt, int first)
{
	for (int i = first; i < trace_columns(stmt); i++)
		add_cell(table, stmt, i);
}
