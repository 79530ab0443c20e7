/* SPDX-License-Identifier: MIT */
/* git_parts_waits.c - locks, probes, the machine, and what costs most; declared in git_parts.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base.h"
#include "git_findings.h"
#include "git_parts.h"
#include "rows.h"

#define MOST_ROWS 5 /* for people */

/* --- locks and probes ---------------------------------------------------------------------------------------------- */

/* A lock is held from the beginning of X.lock's create to the end of its rename or unlink. */
static const char locks_sql[] =
	"WITH code (made, moved, gone) AS (SELECT (SELECT code FROM op_type WHERE name = 'create'),"
	" (SELECT code FROM op_type WHERE name = 'rename'), (SELECT code FROM op_type WHERE name = 'unlink')),"
	" act AS (SELECT p.path AS name, op.seq, op.op = code.made AS made, op.op = code.moved AS moved, op.start_ns,"
	" op.start_ns + op.dur_ns AS end_ns, op.run FROM code, op JOIN path AS p ON p.run = op.run AND p.id = op.path"
	" WHERE op.run = ?1 AND op.op IN (code.made, code.moved, code.gone) AND op.result >= 0 AND op.path IN"
	" (SELECT id FROM path WHERE run = ?1 AND path GLOB '*.lock' AND instr(path, '.git/'))),"
	" pair AS (SELECT run, name, made, start_ns, lead(end_ns) OVER w AS end_ns, lead(made) OVER w AS next_made,"
	" lead(moved) OVER w AS moved FROM act WINDOW w AS (PARTITION BY name ORDER BY seq))"
	" SELECT run, name AS lock, count(*) AS count, sum(moved) AS renamed, sum(end_ns - start_ns) AS held_ns,"
	" max(end_ns - start_ns) AS longest_ns FROM pair WHERE made AND next_made = 0"
	" GROUP BY name ORDER BY held_ns DESC, name LIMIT ?2";

static int print_query(const struct git_part *part, const char *title, const char *sql,
	void (*add_columns)(struct table *table))
{
	struct trace_stmt auto_stmt *stmt = NULL;
	struct table *table;
	int err = trace_prepare(part->context->trace, sql, &stmt, NULL), rows = 0;

	err = err ?: trace_bind_int(stmt, 1, part->view->run);
	err = err ?: trace_bind_int(stmt, 2, part->text ? MOST_ROWS : INT64_MAX);
	if (err < 0)
		return context_trace_error(part->context, err, "cannot read the operations");
	table = git_part_table(part);
	if (!table)
		return -ENOMEM;
	add_columns(table);
	while ((err = trace_step(stmt)) == 1) {
		rows_add_cells(table, stmt, 0);
		table_end_row(table);
		rows++;
	}
	if (err < 0)
		context_trace_error(part->context, err, "cannot read the operations");
	if (err < 0 || (part->text && !rows)) {
		table_free(table);
		return err;
	}
	git_part_heading(part, title);
	return context_print(table);
}

static void lock_columns(struct table *table)
{
	table_add_column(table, "lock", NULL, COLUMN_TEXT, 0);
	table_add_column(table, "count", "times", COLUMN_INT, 0);
	table_add_column(table, "renamed", NULL, COLUMN_INT, 0);
	table_add_column(table, "held_ns", "held", COLUMN_DURATION, 0);
	table_add_column(table, "longest_ns", "longest", COLUMN_DURATION, 0);
}

int git_print_locks(const struct git_part *part)
{
	return print_query(part, "Locks: from the lock file's creation to its renaming or removal", locks_sql, lock_columns);
}

struct probe {
	const struct git_phase_view *phase;
	unsigned int op;
	struct git_cell cell;
};

static int compare_probes(const void *a, const void *b)
{
	const struct probe *x = a, *y = b;

	return (x->cell.dur_ns < y->cell.dur_ns) - (x->cell.dur_ns > y->cell.dur_ns);
}

static size_t collect_probes(const struct git_view *view, struct probe *probes)
{
	size_t count = 0;

	for (int p = 0; p < GIT_PHASES; p++) {
		const struct git_phase_view *phase = &view->phases[p];

		for (unsigned int op = 0; phase->kinds && op < OP_COUNT; op++)
			if (op_get(op) && phase->kinds[op].missing.count)
				probes[count++] = (struct probe){ phase, op, phase->kinds[op].missing };
	}
	array_sort(probes, count, sizeof(*probes), compare_probes);
	return count;
}

int git_print_probes(const struct git_part *part)
{
	auto_free struct probe *probes = calloc((size_t)GIT_PHASES * OP_COUNT, sizeof(*probes));
	size_t count = probes ? collect_probes(part->view, probes) : 0;
	struct table *table = probes && (count || !part->text) ? git_part_table(part) : NULL;

	if (!table)
		return probes && !count && part->text ? 0 : -ENOMEM;
	table_add_column(table, "phase", NULL, COLUMN_TEXT, 0);
	table_add_column(table, "op", NULL, COLUMN_TEXT, 0);
	table_add_column(table, "count", NULL, COLUMN_INT, 0);
	table_add_column(table, "fs_ns", "fs total", COLUMN_DURATION, 0);
	table_add_column(table, "dur_ns", "dur total", COLUMN_DURATION, 0);
	for (size_t i = 0; i < count && !(part->text && i == MOST_ROWS); i++) {
		table_int(table, part->view->run);
		table_text(table, probes[i].phase->name);
		table_text(table, op_get(probes[i].op)->name);
		table_int(table, probes[i].cell.count);
		table_int(table, probes[i].cell.fs_ns);
		table_int(table, probes[i].cell.dur_ns);
		table_end_row(table);
	}
	git_part_heading(part, "Probes: asked for, and not there (ENOENT)");
	return context_print(table);
}

/* --- the machine ---------------------------------------------------------------------------------------------------- */

static const char host_sql[] =
	"SELECT c.run, c.source, c.name, c.unit, (SELECT v.value FROM host_value AS v WHERE v.run = c.run AND v.counter = c.id"
	" ORDER BY v.time_ns DESC LIMIT 1) - (SELECT v.value FROM host_value AS v WHERE v.run = c.run AND v.counter = c.id"
	" ORDER BY v.time_ns LIMIT 1) AS change FROM host_counter AS c WHERE c.run = ?1 AND c.kind = 'counter'"
	" AND change > 0 AND (?2 > 100 OR c.source GLOB 'disk:*' AND c.name IN ('writes', 'written', 'flushes', 'flush_time',"
	" 'reads', 'busy_time') OR c.source = 'pressure:io' OR c.source GLOB 'jbd2:*' OR c.source GLOB 'btrfs:*'"
	" OR c.source GLOB 'xfs:*' AND c.name IN ('log_force', 'log_force_sleep', 'sleep_logspace'))"
	" ORDER BY c.source, c.id";

static void host_columns(struct table *table)
{
	table_add_column(table, "source", NULL, COLUMN_TEXT, 0);
	table_add_column(table, "name", NULL, COLUMN_TEXT, 0);
	table_add_column(table, "unit", NULL, COLUMN_TEXT, 0);
	table_add_column(table, "change", NULL, COLUMN_INT, 0);
}

static void add_change(struct strbuf *line, const struct trace_stmt *stmt)
{
	const char *name = trace_column_text(stmt, 2) ?: "", *unit = trace_column_text(stmt, 3) ?: "";
	int64_t change = trace_column_int(stmt, 4);
	char duration[24];

	strbuf_addf(line, "%s%s ", line->len ? ", " : "", name);
	if (strcmp(unit, "ns") == 0)
		strbuf_addf(line, "%s", format_duration(change, duration));
	else if (strcmp(unit, "bytes") == 0)
		strbuf_addf(line, "%.1f MB", (double)change / 1e6);
	else
		strbuf_addf(line, "%" PRId64, change);
}

static void end_source(struct table *table, struct strbuf *source, struct strbuf *line)
{
	if (source->len) {
		table_text(table, source->buf);
		table_text(table, line->buf);
		table_end_row(table);
	}
	source->len = line->len = 0;
}

/* For people one row per source. */
static int print_host_rows(const struct git_part *part)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	struct strbuf auto_strbuf source = {}, auto_strbuf line = {};
	struct table *table = context_table(part->context);
	int err = table ? trace_prepare(part->context->trace, host_sql, &stmt, NULL) : -ENOMEM, rows = 0;

	if (!table)
		return err;
	table_add_column(table, "source", NULL, COLUMN_TEXT, 0);
	table_add_column(table, "change", NULL, COLUMN_TEXT, 0);
	err = err ?: trace_bind_int(stmt, 1, part->view->run);
	err = err ?: trace_bind_int(stmt, 2, MOST_ROWS);
	while (err == 0 && (err = trace_step(stmt)) == 1) {
		const char *name = trace_column_text(stmt, 1) ?: "";

		if (!source.buf || strcmp(source.buf, name) != 0) {
			end_source(table, &source, &line);
			strbuf_addf(&source, "%s", name);
		}
		add_change(&line, stmt);
		rows++;
		err = 0;
	}
	end_source(table, &source, &line);
	if (err < 0 || !rows) {
		table_free(table);
		return err < 0 ? context_trace_error(part->context, err, "cannot read the machine's counters") : 0;
	}
	git_part_heading(part, "What the machine counted meanwhile, other programs included");
	return context_print(table);
}

int git_print_host(const struct git_part *part)
{
	return part->text ? print_host_rows(part) : print_query(part, "", host_sql, host_columns);
}

/* --- findings --------------------------------------------------------------------------------------------------------- */

int git_print_findings(const struct git_part *part)
{
	struct git_finding findings[GIT_FINDINGS];
	int count = git_findings_make(part->view, findings);
	struct table *table = count >= 0 && !part->text ? git_part_table(part) : NULL;

	if (count < 0 || (!part->text && !table))
		return count < 0 ? count : -ENOMEM;
	if (part->text && count)
		git_part_heading(part, "What costs most");
	for (int i = 0; i < count && part->text; i++) {
		char cost[24], text[32];

		snprintf(text, sizeof(text), "%d. %s:", i + 1, format_duration(findings[i].cost_ns, cost));
		fputs(text, stdout);
		options_wrap(findings[i].text.buf, 3, (unsigned int)strlen(text), stdout);
		printf("   %s\n", findings[i].sql.buf);
	}
	if (table) {
		table_add_column(table, "cost_ns", NULL, COLUMN_DURATION, 0);
		table_add_column(table, "finding", NULL, COLUMN_TEXT, 0);
		table_add_column(table, "sql", NULL, COLUMN_TEXT, 0);
	}
	for (int i = 0; i < count && table; i++) {
		table_int(table, part->view->run);
		table_int(table, findings[i].cost_ns);
		table_text(table, findings[i].text.buf);
		table_text(table, findings[i].sql.buf);
		table_end_row(table);
	}
	git_findings_free(findings);
	return table ? context_print(table) : 0;
}
