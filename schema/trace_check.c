/* SPDX-License-Identifier: MIT */
/* trace_check.c - a database's tables against those that this version makes. */
#include <stdio.h>
#include <string.h>

#include "base.h"
#include "embedded.h"
#include "trace_internal.h"

/* Every column of every plain table; a difference is a row that the other one has not. */
static const char columns_sql[] =
	"SELECT m.name, c.name, c.type, c.\"notnull\", c.pk FROM sqlite_schema AS m, pragma_table_info(m.name) AS c"
	" WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY m.name, c.cid";

static int has_column(struct trace *trace, sqlite3_stmt *wanted, bool *ret_has)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace,
		"SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2 AND type = ?3 AND \"notnull\" = ?4 AND pk = ?5", &stmt, NULL);

	for (int i = 0; i < 3 && err == 0; i++)
		err = trace_bind_text(stmt, i + 1, (const char *)sqlite3_column_text(wanted, i));
	for (int i = 3; i < 5 && err == 0; i++)
		err = trace_bind_int(stmt, i + 1, sqlite3_column_int64(wanted, i));
	err = err ?: trace_step(stmt);
	if (err < 0)
		return err;
	*ret_has = err == 1;
	return 0;
}

int trace_check_schema(struct trace *trace, void (*report)(void *arg, const char *text), void *arg)
{
	sqlite3 *model = NULL;
	sqlite3_stmt *wanted = NULL;
	int err = 0;

	if (sqlite3_open(":memory:", &model) != SQLITE_OK ||
		sqlite3_exec(model, embedded_schema_sql, NULL, NULL, NULL) != SQLITE_OK ||
		sqlite3_prepare_v2(model, columns_sql, -1, &wanted, NULL) != SQLITE_OK)
		err = -ENOMEM;
	while (err == 0 && sqlite3_step(wanted) == SQLITE_ROW) {
		char text[256];
		bool has;

		err = has_column(trace, wanted, &has);
		if (err < 0 || has)
			continue;
		snprintf(text, sizeof(text), "table %s has no column '%s' of type %s as this version makes it",
			sqlite3_column_text(wanted, 0), sqlite3_column_text(wanted, 1), sqlite3_column_text(wanted, 2));
		report(arg, text);
	}
	sqlite3_finalize(wanted);
	sqlite3_close(model);
	return err;
}
