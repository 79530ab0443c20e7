/* SPDX-License-Identifier: MIT */
/* check_rules.c - the checks that are SQL: of the file, of references between tables, of what runs say of themselves. */
#include <inttypes.h>
#include <string.h>

#include "check.h"
#include "op.h"

#define MESSAGES "20" /* of SQLite about a file: one is damage enough */

/* Rows of a rule are faults: run, how many, and what. */
struct rule {
	const char *name, *sql;
};

static const struct rule rules[] = {
	{ "state", "SELECT id, 1, format('the state is ''%s''', state) FROM run"
		   " WHERE state NOT IN ('recording', 'finishing', 'done', 'recovered', 'native')" },
	{ "counters", "SELECT id, 1, 'it has ended without counts' FROM run"
		      " WHERE state IN ('done', 'recovered') AND (requests IS NULL OR recorded IS NULL OR dropped IS NULL)" },
	{ "counters", "SELECT id, 1, format('%d recorded and %d dropped are more than %d requests', recorded, dropped, requests)"
		      " FROM run WHERE recorded < 0 OR dropped < 0 OR requests < 0 OR recorded > requests - dropped" },
	{ "counters", "SELECT id, 1, format('it is called whole, but %d of %d requests are recorded, %d dropped,"
		      " %d segments damaged', recorded, requests, dropped, damaged)"
		      " FROM run WHERE clean_end = 1 AND state IN ('done', 'recovered')"
		      " AND (dropped <> 0 OR damaged <> 0 OR recorded <> requests)" },
	{ "counters", "SELECT id, 1, 'operations are missing, and no note says why' FROM run"
		      " WHERE state IN ('done', 'recovered') AND clean_end IS NOT 1 AND note IS NULL" },
	{ "dropped", "SELECT id, 1, 'dropped_by_op is no JSON object' FROM run"
		     " WHERE dropped_by_op IS NOT NULL AND iif(json_valid(dropped_by_op), json_type(dropped_by_op), '') <> 'object'" },
	{ "dropped", "SELECT r.id, 1, format('dropped_by_op adds up to %d, dropped is %d', sum(j.value), r.dropped)"
		     " FROM run AS r, json_each(iif(json_valid(r.dropped_by_op), r.dropped_by_op, '{}')) AS j"
		     " GROUP BY r.id HAVING sum(j.value) IS NOT r.dropped" },
	{ "dropped", "SELECT id, 1, format('%d were dropped, of no kind of operation', dropped) FROM run"
		     " WHERE dropped > 0 AND dropped_by_op IS NULL" },
	{ "dropped", "SELECT r.id, count(*), format('operations were dropped that do not exist, such as ''%s''', min(j.key))"
		     " FROM run AS r, json_each(iif(json_valid(r.dropped_by_op), r.dropped_by_op, '{}')) AS j"
		     " WHERE j.key NOT IN (SELECT name FROM op_type) GROUP BY r.id" },
	{ "marks", "SELECT run, count(*), 'it has ended, but marks of its spool are left' FROM spool_mark"
		   " WHERE run IN (SELECT id FROM run WHERE state IN ('done', 'recovered')) GROUP BY run" },
	{ "clock", "SELECT run, count(*), 'clock readings go backwards' FROM clock_anchor"
		   " WHERE before_ns > after_ns GROUP BY run" },
	{ "initial", "SELECT i.run, count(*), format('found by operations that never were, such as %d', max(i.seq))"
		     " FROM initial AS i JOIN run AS r ON r.id = i.run WHERE i.seq < 0 OR i.seq > r.requests GROUP BY i.run" },
	{ "client_cpu", "SELECT c.run, count(*), format('of operations that never were, such as %d, or less than nothing', max(c.seq))"
			" FROM client_cpu AS c JOIN run AS r ON r.id = c.run"
			" WHERE c.seq < 1 OR c.seq > r.requests OR c.cpu_ns < 0 OR c.delay_ns < 0 GROUP BY c.run" },
	{ "initial", "SELECT run, count(*), 'sizes or numbers of links are negative' FROM initial"
		     " WHERE size < 0 OR nlink < 0 GROUP BY run" },
};

/*
 * References that the schema does not declare, as their targets are found by run and id. NULL refers to nothing. The
 * target's table has a column `run`, unless `global`.
 */
static const struct reference {
	const char *table, *column, *target, *key;
	bool global;
} references[] = {
	{ "op", "extra", "op_extra", "id" },
	{ "op_extra", "path2", "path", "id" },
	{ "initial", "path", "path", "id" },
	{ "initial_xattr", "path", "path", "id" },
	{ "initial_data", "path", "path", "id" },
	{ "initial_data", "hash", "content", "hash", true },
	{ "data", "seq", "op", "seq" },
	{ "data", "hash", "content", "hash", true },
	{ "replayed", "seq", "op", "seq" },
	{ "git_command", "parent", "git_command", "id" },
	{ "git_command", "region", "git_region", "id" },
	{ "git_command", "phase", "git_phase", "id", true },
	{ "git_region", "command", "git_command", "id" },
	{ "git_region", "parent", "git_region", "id" },
	{ "git_region", "phase", "git_phase", "id", true },
	{ "git_child", "command", "git_command", "id" },
	{ "git_event", "command", "git_command", "id" },
	{ "git_range", "process", "process", "id" },
	{ "git_range", "command", "git_command", "id" },
	{ "git_range", "region", "git_region", "id" },
	{ "git_range", "phase", "git_phase", "id", true },
	{ "git_span", "command", "git_command", "id" },
	{ "git_span", "region", "git_region", "id" },
	{ "git_span", "phase", "git_phase", "id", true },
	{ "host_value", "counter", "host_counter", "id" },
};

/* A rule that does not fit the tables: theirs is reported by the check of the schema, else the rule is out of date. */
static int prepare(struct check *check, const char *sql, struct trace_stmt **ret_stmt)
{
	int err = trace_prepare(check->trace, sql, ret_stmt, NULL);

	if (err != -EINVAL)
		return err;
	check_fault(check, 0, "schema", 1, "%s", trace_error(check->trace));
	return 0;
}

static int run_rule(struct check *check, const struct rule *rule)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int got = prepare(check, rule->sql, &stmt);

	while (got == 0 && stmt && (got = trace_step(stmt)) == 1) {
		check_fault(check, trace_column_int(stmt, 0), rule->name, trace_column_int(stmt, 1), "%s",
			trace_column_text(stmt, 2) ?: "");
		got = 0;
	}
	return got;
}

static int check_reference(struct check *check, const struct reference *ref)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	struct strbuf auto_strbuf sql = {};
	int got;

	strbuf_addf(&sql,
		"SELECT c.run, count(*) FROM \"%s\" AS c WHERE c.\"%s\" IS NOT NULL"
		" AND NOT EXISTS (SELECT 1 FROM \"%s\" AS t WHERE t.\"%s\" = c.\"%s\"%s) GROUP BY c.run",
		ref->table, ref->column, ref->target, ref->key, ref->column, ref->global ? "" : " AND t.run = c.run");
	got = sql.failed ? -ENOMEM : prepare(check, sql.buf, &stmt);
	while (got == 0 && stmt && (got = trace_step(stmt)) == 1) {
		check_fault(check, trace_column_int(stmt, 0), "references", trace_column_int(stmt, 1),
			"rows of table %s have a %s that table %s has not", ref->table, ref->column, ref->target);
		got = 0;
	}
	return got;
}

/* Rows of runs that are not there: in any table with a column `run`, whoever has made it. Jumps from run to run. */
static int check_runs_of(struct check *check, const char *table)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	struct strbuf auto_strbuf sql = {};
	int got;

	strbuf_addf(&sql,
		"WITH RECURSIVE r (x) AS (SELECT min(run) FROM %s"
		" UNION ALL SELECT (SELECT min(run) FROM %s WHERE run > x) FROM r WHERE x IS NOT NULL)"
		" SELECT x FROM r WHERE x IS NOT NULL AND x NOT IN (SELECT id FROM run)",
		table, table);
	got = sql.failed ? -ENOMEM : trace_prepare(check->trace, sql.buf, &stmt, NULL);
	while (got == 0 && (got = trace_step(stmt)) == 1) {
		check_fault(check, trace_column_int(stmt, 0), "references", 1, "there is no such run, but table %s has rows of it",
			table);
		got = 0;
	}
	return got;
}

/* References that the schema declares. Those of `op`, which may be millions, are checked where its rows are read. */
static int check_keys_of(struct check *check, const char *table)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	struct strbuf auto_strbuf sql = {};
	int got;

	if (strcmp(table, "\"op\"") == 0)
		return 0;
	strbuf_addf(&sql, "SELECT count(*), parent FROM pragma_foreign_key_check(%s) WHERE parent <> 'run' GROUP BY parent",
		table);
	got = sql.failed ? -ENOMEM : trace_prepare(check->trace, sql.buf, &stmt, NULL);
	while (got == 0 && (got = trace_step(stmt)) == 1) {
		check_fault(check, 0, "references", trace_column_int(stmt, 0), "rows of table %s refer to rows that table %s"
									   " has not",
			table, trace_column_text(stmt, 1) ?: "?");
		got = 0;
	}
	return got;
}

/* Calls `each` with the quoted names of plain tables, only those with a column `run` when that is wanted. */
static int each_table(struct check *check, bool with_run, int (*each)(struct check *, const char *))
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int got = trace_prepare(check->trace,
		"SELECT format('\"%w\"', m.name) FROM sqlite_schema AS m WHERE m.type = 'table' AND m.rootpage > 0"
		" AND (NOT ?1 OR EXISTS (SELECT 1 FROM pragma_table_info(m.name) AS c WHERE c.name = 'run'))",
		&stmt, NULL);

	got = got ?: trace_bind_int(stmt, 1, with_run);
	while (got == 0 && (got = trace_step(stmt)) == 1)
		got = each(check, trace_column_text(stmt, 0) ?: "");
	return got;
}

/* Names that were changed would make every report lie. */
static int check_names(struct check *check)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int got = trace_prepare(check->trace, "SELECT code, name, class FROM op_type", &stmt, NULL);

	while (got == 0 && (got = trace_step(stmt)) == 1) {
		int64_t code = trace_column_int(stmt, 0);
		const struct op_desc *desc = code > 0 && code < OP_COUNT ? op_get((unsigned int)code) : NULL;
		const char *name = trace_column_text(stmt, 1), *class = trace_column_text(stmt, 2);

		if (desc && (!name || !class || strcmp(name, desc->name) != 0 || strcmp(class, op_class_name(desc->class)) != 0))
			check_fault(check, 0, "names", 1, "operation %" PRId64 " is %s, but is called '%s'", code, desc->name,
				name ?: "");
		got = 0;
	}
	return got;
}

int check_rules(struct check *check)
{
	int err = check_names(check);

	for (size_t i = 0; i < ARRAY_SIZE(rules) && err == 0; i++)
		err = run_rule(check, &rules[i]);
	for (size_t i = 0; i < ARRAY_SIZE(references) && err == 0; i++)
		err = check_reference(check, &references[i]);
	err = err ?: each_table(check, true, check_runs_of);
	return err ?: each_table(check, false, check_keys_of);
}

static void schema_fault(void *arg, const char *text)
{
	check_fault(arg, 0, "schema", 1, "%s", text);
}

int check_file(struct check *check)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int got;

	progress_show(&check->progress, "the file's pages");
	got = trace_prepare(check->trace, "PRAGMA integrity_check(" MESSAGES ")", &stmt, NULL);
	while (got == 0 && (got = trace_step(stmt)) == 1) {
		const char *text = trace_column_text(stmt, 0) ?: "";

		/* what a page that could not be read looks like says nothing about the file */
		got = trace_check_disk(check->trace);
		if (got < 0)
			break;
		if (strcmp(text, "ok") != 0)
			check_fault(check, 0, "file", 1, "%s", text);
		got = 0;
	}
	return got ?: trace_check_schema(check->trace, schema_fault, check);
}
