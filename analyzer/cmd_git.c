/* SPDX-License-Identifier: MIT */
/* cmd_git.c - why is git slow here: one screen about a run. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base.h"
#include "command.h"
#include "git_findings.h"
#include "git_view.h"
#include "rows.h"
#include "run.h"

#define MOST_LOCKS 5

struct git_options {
	const char *show;
};

/* One part of the answer: a table, with its heading for people. */
struct part {
	struct context *context;
	const struct git_view *view;
	bool text;
};

static struct table *begin_table(const struct part *part)
{
	struct table *table = context_table(part->context);

	if (table)
		table_add_column(table, "run", NULL, COLUMN_INT, COLUMN_DATA_ONLY);
	return table;
}

static void heading(const struct part *part, const char *text)
{
	if (part->text)
		printf("\n%s\n", text);
}

/* --- phases ------------------------------------------------------------------------------------------------------ */

static void add_phase_row(struct table *table, const struct part *part, const char *name, const struct git_phase_view *sum)
{
	const struct git_view *view = part->view;

	table_int(table, view->run);
	table_text(table, name);
	table_int(table, sum->wall_ns);
	table_real(table, view->wall_ns ? (double)sum->wall_ns / (double)view->wall_ns : 0);
	table_int(table, sum->in_fs_ns);
	table_int(table, sum->in_shim_ns);
	table_int(table, sum->wall_ns - sum->in_fs_ns - sum->in_shim_ns);
	table_int(table, sum->count);
	table_int(table, sum->errors);
	table_int(table, sum->fs_ns);
	table_end_row(table);
}

static int compare_phases(const void *a, const void *b)
{
	const struct git_phase_view *x = *(const struct git_phase_view *const *)a;
	const struct git_phase_view *y = *(const struct git_phase_view *const *)b;

	return x->wall_ns != y->wall_ns ? (x->wall_ns < y->wall_ns) - (x->wall_ns > y->wall_ns) :
					  (x->fs_ns < y->fs_ns) - (x->fs_ns > y->fs_ns);
}

static int print_phases(const struct part *part)
{
	const struct git_phase_view *order[GIT_PHASES];
	struct git_phase_view sum = {};
	struct table *table = begin_table(part);

	if (!table)
		return -ENOMEM;
	table_add_column(table, "phase", NULL, COLUMN_TEXT, 0);
	table_add_column(table, "wall_ns", "wall", COLUMN_DURATION, 0);
	table_add_column(table, "share", NULL, COLUMN_SHARE, 0);
	table_add_column(table, "wall_fs_ns", "in fs", COLUMN_DURATION, 0);
	table_add_column(table, "wall_shim_ns", "shim", COLUMN_DURATION, 0);
	table_add_column(table, "wall_git_ns", "itself", COLUMN_DURATION, 0);
	table_add_column(table, "count", "ops", COLUMN_INT, 0);
	table_add_column(table, "errors", "errs", COLUMN_INT, 0);
	table_add_column(table, "fs_ns", "fs total", COLUMN_DURATION, COLUMN_DATA_ONLY);
	for (int p = 0; p < GIT_PHASES; p++)
		order[p] = &part->view->phases[p];
	qsort(order, GIT_PHASES, sizeof(*order), compare_phases);
	for (int p = 0; p < GIT_PHASES; p++) {
		if (!order[p]->wall_ns && !order[p]->count)
			continue;
		add_phase_row(table, part, order[p]->name, order[p]);
		sum.wall_ns += order[p]->wall_ns, sum.fs_ns += order[p]->fs_ns;
		sum.in_fs_ns += order[p]->in_fs_ns, sum.in_shim_ns += order[p]->in_shim_ns;
		sum.count += order[p]->count, sum.errors += order[p]->errors;
	}
	if (part->text)
		add_phase_row(table, part, "all", &sum);
	heading(part, "Where the time went: in the filesystem, in the shim, in git itself");
	return context_print(table);
}

/* --- anatomy of a checkout ---------------------------------------------------------------------------------------- */

struct step {
	const char *op, *where;
	struct git_cell cell;
	bool error;
};

static int compare_steps(const void *a, const void *b)
{
	const struct step *x = a, *y = b;

	return (x->cell.fs_ns < y->cell.fs_ns) - (x->cell.fs_ns > y->cell.fs_ns);
}

static size_t collect_steps(const struct git_kind *kinds, struct step *steps)
{
	static const char *const places[GIT_PLACES] = { "worktree", "git" };
	size_t count = 0;

	for (unsigned int op = 0; op < OP_COUNT; op++) {
		if (!op_get(op))
			continue;
		for (int place = 0; place < GIT_PLACES; place++) {
			if (kinds[op].good[place].count)
				steps[count++] = (struct step){ op_get(op)->name, places[place], kinds[op].good[place], false };
			if (kinds[op].bad[place].count)
				steps[count++] = (struct step){ op_get(op)->name, places[place], kinds[op].bad[place], true };
		}
	}
	qsort(steps, count, sizeof(*steps), compare_steps);
	return count;
}

static void add_step(struct table *table, const struct part *part, const struct step *step, int64_t files, int64_t all_ns)
{
	char name[64];

	snprintf(name, sizeof(name), "%s%s%s", step->op, step->error ? ", error" : "",
		strcmp(step->where, "git") == 0 ? " in .git" : "");
	table_int(table, part->view->run);
	table_text(table, name);
	table_text(table, step->op);
	table_text(table, step->where);
	table_int(table, step->error);
	table_int(table, step->cell.count);
	table_real(table, (double)step->cell.count / (double)files);
	table_int(table, step->cell.fs_ns / files);
	table_int(table, step->cell.dur_ns / files);
	table_real(table, all_ns ? (double)step->cell.fs_ns / (double)all_ns : 0);
	table_end_row(table);
}

static struct table *steps_table(const struct part *part)
{
	struct table *table = begin_table(part);

	if (!table)
		return NULL;
	table_add_column(table, "step", NULL, COLUMN_TEXT, COLUMN_TEXT_ONLY);
	table_add_column(table, "op", NULL, COLUMN_TEXT, COLUMN_DATA_ONLY);
	table_add_column(table, "place", NULL, COLUMN_TEXT, COLUMN_DATA_ONLY);
	table_add_column(table, "error", NULL, COLUMN_BOOL, COLUMN_DATA_ONLY);
	table_add_column(table, "count", NULL, COLUMN_INT, 0);
	table_add_column(table, "per_file", "per file", COLUMN_RATIO, 0);
	table_add_column(table, "fs_per_file_ns", "fs per file", COLUMN_DURATION, 0);
	table_add_column(table, "dur_per_file_ns", "dur per file", COLUMN_DURATION, 0);
	table_add_column(table, "share", "share of fs", COLUMN_SHARE, 0);
	return table;
}

/* Files of the worktree that were made in the checkout, links included. */
static int64_t files_made(const struct git_kind *kinds)
{
	return kinds ? kinds[OP_create].good[GIT_WORKTREE].count + kinds[OP_symlink].good[GIT_WORKTREE].count : 0;
}

static int print_anatomy(const struct part *part)
{
	const struct git_phase_view *checkout = &part->view->phases[GIT_CHECKOUT];
	struct step steps[OP_COUNT * GIT_PLACES * 2];
	int64_t files = files_made(checkout->kinds);
	size_t count = files ? collect_steps(checkout->kinds, steps) : 0;
	struct table *table;
	char wall[24], title[160];

	if (!files && part->text)
		return 0;
	table = steps_table(part);
	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		if (!part->text || steps[i].cell.fs_ns * 200 > checkout->fs_ns || steps[i].cell.count * 5 > files)
			add_step(table, part, &steps[i], files, checkout->fs_ns);
	snprintf(title, sizeof(title), "Anatomy of the checkout: %" PRId64 " files, %s of wall time for each", files,
		format_duration(files ? checkout->wall_ns / files : 0, wall));
	heading(part, title);
	return context_print(table);
}

/* --- locks and probes ---------------------------------------------------------------------------------------------- */

/* A lock is held from the beginning of X.lock's create to the end of its rename or unlink. */
static const char locks_sql[] =
	"WITH code (made, moved, gone) AS (SELECT (SELECT code FROM op_type WHERE name = 'create'),"
	" (SELECT code FROM op_type WHERE name = 'rename'), (SELECT code FROM op_type WHERE name = 'unlink')),"
	" act AS (SELECT p.path AS name, op.seq, op.op = code.made AS made, op.op = code.moved AS moved, op.start_ns,"
	" op.start_ns + op.dur_ns AS end_ns, op.run FROM code, op JOIN path AS p ON p.run = op.run AND p.id = op.path"
	" WHERE op.run = ?1 AND op.op IN (code.made, code.moved, code.gone) AND op.result >= 0 AND p.path GLOB '*.lock'"
	" AND instr(p.path, '.git/')),"
	" pair AS (SELECT run, name, made, start_ns, lead(end_ns) OVER w AS end_ns, lead(made) OVER w AS next_made,"
	" lead(moved) OVER w AS moved FROM act WINDOW w AS (PARTITION BY name ORDER BY seq))"
	" SELECT run, name AS lock, count(*) AS count, sum(moved) AS renamed, sum(end_ns - start_ns) AS held_ns,"
	" max(end_ns - start_ns) AS longest_ns FROM pair WHERE made AND next_made = 0"
	" GROUP BY name ORDER BY held_ns DESC, name LIMIT ?2";

static const char probes_sql[] =
	"SELECT op.run, (SELECT f.name FROM git_phase AS f WHERE f.id = g.phase) AS phase,"
	" (SELECT t.name FROM op_type AS t WHERE t.code = op.op) AS op, count(*) AS count, sum(op.fs_ns) AS fs_ns,"
	" sum(op.dur_ns) AS dur_ns FROM op LEFT JOIN git_op AS g ON g.id = op.run * 1099511627776 + op.seq"
	" WHERE op.run = ?1 AND op.result = -2 GROUP BY g.phase, op.op ORDER BY dur_ns DESC, phase, op LIMIT ?2";

static int print_query(const struct part *part, const char *title, const char *sql,
	void (*add_columns)(struct table *table))
{
	struct trace_stmt auto_stmt *stmt = NULL;
	struct table *table;
	int err = trace_prepare(part->context->trace, sql, &stmt, NULL), rows = 0;

	err = err ?: trace_bind_int(stmt, 1, part->view->run);
	err = err ?: trace_bind_int(stmt, 2, part->text ? MOST_LOCKS : INT64_MAX);
	if (err < 0)
		return context_trace_error(part->context, err, "cannot read the operations");
	table = begin_table(part);
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
	heading(part, title);
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

static void probe_columns(struct table *table)
{
	table_add_column(table, "phase", NULL, COLUMN_TEXT, 0);
	table_add_column(table, "op", NULL, COLUMN_TEXT, 0);
	table_add_column(table, "count", NULL, COLUMN_INT, 0);
	table_add_column(table, "fs_ns", "fs total", COLUMN_DURATION, 0);
	table_add_column(table, "dur_ns", "dur total", COLUMN_DURATION, 0);
}

static int print_locks(const struct part *part)
{
	return print_query(part, "Locks: from the lock file's creation to its renaming or removal", locks_sql, lock_columns);
}

static int print_probes(const struct part *part)
{
	return print_query(part, "Probes: asked for, and not there (ENOENT)", probes_sql, probe_columns);
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
static int print_host_rows(const struct part *part)
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
	err = err ?: trace_bind_int(stmt, 2, MOST_LOCKS);
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
	heading(part, "What the machine counted meanwhile, other programs included");
	return context_print(table);
}

static int print_host(const struct part *part)
{
	return part->text ? print_host_rows(part) : print_query(part, "", host_sql, host_columns);
}

/* --- findings --------------------------------------------------------------------------------------------------------- */

static int print_findings(const struct part *part)
{
	struct git_finding findings[GIT_FINDINGS];
	int count = git_findings_make(part->view, findings);
	struct table *table = count >= 0 && !part->text ? begin_table(part) : NULL;

	if (count < 0 || (!part->text && !table))
		return count < 0 ? count : -ENOMEM;
	if (part->text && count)
		heading(part, "What costs most");
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

static const struct {
	const char *name;
	int (*print)(const struct part *part);
} parts[] = {
	{ "phases", print_phases },
	{ "anatomy", print_anatomy },
	{ "locks", print_locks },
	{ "probes", print_probes },
	{ "host", print_host },
	{ "findings", print_findings },
};

/* --- the command -------------------------------------------------------------------------------------------------------- */

/* What the run was, in a line or two; and on standard error what of git's story is missing. */
static int print_head(const struct part *part)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	const struct git_view *view = part->view;
	struct table *table;
	int err = trace_prepare(part->context->trace,
		"SELECT git_note, id, label, fs_type, cache, real_ns, user_ns, sys_ns, CASE WHEN json_valid(command)"
		" THEN (SELECT group_concat(value, ' ') FROM json_each(command)) END FROM run WHERE id = ?", &stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, view->run);
	err = err ?: trace_step(stmt);
	if (err < 0)
		return context_trace_error(part->context, err, "cannot read the run");
	if (trace_column_text(stmt, 0))
		log_msg("run %" PRId64 ": %s", view->run, trace_column_text(stmt, 0));
	if (!view->attributed && view->count)
		log_msg("run %" PRId64 ": its operations are not attributed yet; 'fstape recover %s' does it", view->run,
			part->context->args[0]);
	else if (!view->commands && view->count)
		log_msg("run %" PRId64 ": no git command told its story; phases are by programs and paths", view->run);
	if (!part->text)
		return 0;
	table = context_table(part->context);
	if (!table)
		return -ENOMEM;
	table_add_column(table, "run", NULL, COLUMN_INT, 0);
	table_add_column(table, "label", NULL, COLUMN_TEXT, 0);
	table_add_column(table, "fs", NULL, COLUMN_TEXT, 0);
	table_add_column(table, "cache", NULL, COLUMN_TEXT, 0);
	table_add_column(table, "real_ns", "real", COLUMN_DURATION, 0);
	table_add_column(table, "user_ns", "user", COLUMN_DURATION, 0);
	table_add_column(table, "sys_ns", "sys", COLUMN_DURATION, 0);
	table_add_column(table, "command", NULL, COLUMN_TEXT, 0);
	rows_add_cells(table, stmt, 1);
	table_end_row(table);
	return context_print(table);
}

static int show_run(struct context *context, int64_t run, bool first)
{
	const struct git_options *options = context->options;
	struct git_view *view;
	struct part part = { .context = context, .text = context->format == TABLE_TEXT };
	int err = run_check(context->trace, run);

	if (err < 0)
		return context_trace_error(context, err, "cannot read the run");
	err = git_view_make(context->trace, run, &view);
	if (err < 0)
		return context_trace_error(context, err, "cannot read the operations");
	part.view = view;
	if (part.text && !first)
		putchar('\n');
	err = print_head(&part);
	if (err == 0 && part.text && !view->count)
		printf("no operations were recorded\n");
	for (size_t i = 0; i < ARRAY_SIZE(parts) && err == 0; i++)
		if (strcmp(options->show, "all") == 0 || strcmp(options->show, parts[i].name) == 0)
			err = parts[i].print(&part);
	git_view_free(view);
	return err;
}

static int run_git(struct context *context)
{
	auto_free int64_t *runs = NULL;
	int count = context_runs(context, &runs), err = 0;

	for (int i = 0; i < count && err == 0; i++)
		err = show_run(context, runs[i], i == 0);
	return count < 0 ? count : err;
}

static const struct option git_options[] = {
	{ "show", "all|phases|anatomy|locks|probes|host|findings", "only this part", "all", .type = OPTION_CHOICE,
		.offset = offsetof(struct git_options, show) },
	{},
};

const struct command cmd_git = {
	.name = "git",
	.summary = "why git is slow here: phases, a checkout's anatomy, locks, what costs most",
	.arguments = "DB",
	.details = "Splits a run's wall time by what git was doing: receiving a pack, checking out, refreshing the index, ..."
		   " and each of these into time in the filesystem ('in fs'), in the recorder ('shim') and in git itself,"
		   " which includes requests on their way through the kernel. The times add up to the run's. Then: what the"
		   " checkout of a file consists of, locks and how long they were held, names that were asked for and do not"
		   " exist, what the machine's devices and journals did meanwhile, and the three things that cost most, each"
		   " with the SQL that shows it.\n\nWhat belongs to which phase is told by git itself, whose trace 'record'"
		   " reads, or else by programs and paths. With --format csv or json each part is a table of its own; --show"
		   " selects one.",
	.options = git_options,
	.options_size = sizeof(struct git_options),
	.trace = NEED_TRACE_READ,
	.flags = COMMAND_RUN | COMMAND_FORMAT,
	.min_args = 1,
	.max_args = 1,
	.run = run_git,
};
