/* SPDX-License-Identifier: MIT */
/* page_git.c - git's part of a run: phases, what costs most, what ran when. Nothing when git told nothing. */
#include <inttypes.h>
#include <string.h>

#include "base.h"
#include "git_findings.h"
#include "git_view.h"
#include "html.h"
#include "page_internal.h"

#define MAX_SPANS 240
#define MAX_LEVEL 8
#define SMALL	  0.01 /* of the whole: phases below it share a row */

/* A row of the charts of phases. */
struct phase {
	char *name, *note;
	double wall_ns, in_fs_ns, in_shim_ns;
	double op_fs_ns[OP_COUNT], fs_ns; /* by operation; their sum */
	int64_t operations;
};

struct phases {
	struct phase items[GIT_PHASES];
	size_t count;
};

static int add_phase(struct phases *phases, const struct git_phase_view *view)
{
	struct phase *phase = &phases->items[phases->count];

	*phase = (struct phase){ .name = strdup(view->name),
		.wall_ns = (double)view->wall_ns,
		.in_fs_ns = (double)view->in_fs_ns,
		.in_shim_ns = (double)view->in_shim_ns,
		.fs_ns = (double)view->fs_ns,
		.operations = view->count };
	for (size_t op = 0; view->kinds && op < OP_COUNT; op++)
		phase->op_fs_ns[op] =
			(double)(git_sum(view->kinds[op].good).fs_ns + git_sum(view->kinds[op].bad).fs_ns);
	phases->count++;
	return phase->name ? 0 : -ENOMEM;
}

static int by_wall_time(const void *a, const void *b)
{
	const struct phase *x = a, *y = b;

	if (x->wall_ns != y->wall_ns)
		return x->wall_ns < y->wall_ns ? 1 : -1;
	return (x->fs_ns < y->fs_ns) - (x->fs_ns > y->fs_ns);
}

static bool is_small(const struct phase *phase, const struct phase *sum)
{
	return phase->wall_ns < sum->wall_ns * SMALL && phase->fs_ns < sum->fs_ns * SMALL;
}

/* Adds `from` to a row for several. */
static void merge_phase(struct phase *into, const struct phase *from)
{
	into->wall_ns += from->wall_ns;
	into->in_fs_ns += from->in_fs_ns;
	into->in_shim_ns += from->in_shim_ns;
	into->fs_ns += from->fs_ns;
	into->operations += from->operations;
	for (size_t op = 0; op < OP_COUNT; op++)
		into->op_fs_ns[op] += from->op_fs_ns[op];
}

/* Small phases become one, at the end. */
static int merge_small(struct phases *phases)
{
	struct phase sum = {}, rest = {};
	size_t kept = 0, merged = 0;

	for (size_t i = 0; i < phases->count; i++)
		merge_phase(&sum, &phases->items[i]);
	for (size_t i = 0; i < phases->count; i++) {
		struct phase *phase = &phases->items[i];

		if (!is_small(phase, &sum)) {
			phases->items[kept++] = *phase;
			continue;
		}
		merge_phase(&rest, phase);
		free(phase->name);
		merged++;
	}
	phases->count = kept;
	if (!merged)
		return 0;
	if (asprintf(&rest.name, "%zu smaller phase%s", merged, merged == 1 ? "" : "s") < 0)
		return -ENOMEM;
	phases->items[phases->count++] = rest;
	return 0;
}

static int write_notes(struct phases *phases)
{
	for (size_t i = 0; i < phases->count; i++) {
		char count[40];

		if (asprintf(&phases->items[i].note, "%s operation%s",
			    chart_number(UNIT_COUNT, (double)phases->items[i].operations, count),
			    phases->items[i].operations == 1 ? "" : "s") < 0)
			return -ENOMEM;
	}
	return 0;
}

static int make_phases(const struct git_view *view, struct phases *phases)
{
	int err = 0;

	for (size_t i = 1; i < GIT_PHASES && err == 0; i++) {
		if (view->phases[i].wall_ns > 0 || view->phases[i].count > 0)
			err = add_phase(phases, &view->phases[i]);
	}
	array_sort(phases->items, phases->count, sizeof(phases->items[0]), by_wall_time);
	err = err ?: merge_small(phases);
	return err ?: write_notes(phases);
}

static void free_phases(struct phases *phases)
{
	for (size_t i = 0; i < phases->count; i++) {
		free(phases->items[i].name);
		free(phases->items[i].note);
	}
}

static void write_walls(const struct page *page, const struct page_run *run, const struct phases *phases)
{
	static const char *const columns[] = { "in the filesystem", "in the recorder", "elsewhere" };
	static const unsigned char colours[] = { 0, 2, CHART_SERIES - 1 }; /* elsewhere is not the filesystem's: grey */
	const char *names[GIT_PHASES], *notes[GIT_PHASES];
	double values[GIT_PHASES * ARRAY_SIZE(columns)];
	char id[48];

	for (size_t i = 0; i < phases->count; i++) {
		const struct phase *phase = &phases->items[i];
		double *row = &values[i * ARRAY_SIZE(columns)];

		names[i] = phase->name;
		notes[i] = phase->note;
		row[0] = phase->in_fs_ns;
		row[1] = phase->in_shim_ns;
		row[2] = phase->wall_ns - phase->in_fs_ns - phase->in_shim_ns;
	}
	chart_stack(page->out,
		&(struct chart){ .id = page_chart_id(run, "phases", id),
			.title = "Where the wall time went",
			.subtitle = "The phases of git's work add up to the run. Elsewhere: git's own computing, waiting "
				    "for other processes, requests on their way through the kernel.",
			.description = "Stacked bars of wall time in the filesystem, in the recorder and elsewhere for "
				       "each phase of git's work.",
			.unit = UNIT_NS },
		&(struct matrix){ .rows = phases->count,
			.columns = ARRAY_SIZE(columns),
			.row_names = names,
			.row_notes = notes,
			.column_names = columns,
			.colours = colours,
			.values = values });
}

/* The costliest operations have a colour of their own, in the order of the run's statistics. */
static void write_operations(const struct page *page, const struct page_run *run, const struct phases *phases)
{
	size_t n_ops = run->stats->n_ops, columns = n_ops < CHART_SERIES ? n_ops : CHART_SERIES, rows = 0;
	const char *names[GIT_PHASES], *ops[CHART_SERIES];
	double values[GIT_PHASES * CHART_SERIES] = {};
	char id[48];

	for (size_t op = 0; op < columns; op++)
		ops[op] = run->stats->ops[op].name;
	if (n_ops > CHART_SERIES)
		ops[CHART_SERIES - 1] = "others";
	for (size_t i = 0; i < phases->count; i++) {
		if (phases->items[i].fs_ns <= 0)
			continue;
		names[rows] = phases->items[i].name;
		for (size_t op = 0; op < n_ops; op++)
			values[rows * columns + (op < columns ? op : columns - 1)] +=
				phases->items[i].op_fs_ns[run->stats->ops[op].code];
		rows++;
	}
	chart_stack(page->out,
		&(struct chart){ .id = page_chart_id(run, "phase-ops", id),
			.title = "Which operations in which phase",
			.subtitle = "Time in the filesystem, summed up over operations: several may wait at once.",
			.description = "Stacked bars of time in the filesystem by operation for each phase of git's "
				       "work.",
			.unit = UNIT_NS },
		&(struct matrix){
			.rows = rows, .columns = columns, .row_names = names, .column_names = ops, .values = values });
}

/* The sentences, each with the query that shows it. */
static int write_findings(const struct page *page, const struct git_view *view)
{
	struct git_finding findings[GIT_FINDINGS] = {};
	int count = git_findings_make(view, findings);

	if (count > 0)
		fputs("<h3>What costs most</h3>\n<ol class=\"findings\">\n", page->out);
	for (int i = 0; i < count; i++) {
		fputs("<li>", page->out);
		html_text(page->out, findings[i].text.buf, findings[i].text.len);
		fputs("<details><summary>SQL</summary><code>", page->out);
		html_text(page->out, findings[i].sql.buf, findings[i].sql.len);
		fputs("</code></details></li>\n", page->out);
	}
	if (count > 0)
		fputs("</ol>\n", page->out);
	git_findings_free(findings);
	return count < 0 ? count : 0;
}

int page_git_phases(const struct page *page, const struct page_run *run)
{
	auto_free struct phases *phases = calloc(1, sizeof(*phases));
	int err = phases ? 0 : -ENOMEM;

	if (err == 0 && run->view->attributed) {
		err = write_findings(page, run->view);
		err = err ?: make_phases(run->view, phases);
		if (err == 0 && phases->count) {
			write_walls(page, run, phases);
			write_operations(page, run, phases);
		}
		free_phases(phases);
	}
	return err;
}

/* --- what ran when ---------------------------------------------------------------------------------------------- */

/* The longest commands and regions. A command is as deep as its hierarchy ('clone/index-pack'), its regions below. */
static const char spans_sql[] =
	"WITH c AS (SELECT id, coalesce(name, '?') AS name, argv, start_ns, end_ns,"
	" length(hierarchy) - length(replace(hierarchy, '/', '')) AS depth FROM git_command WHERE run = ?1)"
	" SELECT * FROM (SELECT 'git ' || name, argv, start_ns, end_ns, depth, 0 AS series FROM c"
	" UNION ALL"
	" SELECT r.category || '/' || r.label, coalesce(r.message, ''), r.start_ns, r.end_ns, c.depth + r.nesting, 1"
	" FROM git_region AS r JOIN c ON c.id = r.command WHERE r.run = ?1 AND r.category <> 'progress')"
	" ORDER BY series, end_ns - start_ns DESC LIMIT ?2";

struct spans {
	struct chart_span items[MAX_SPANS];
	size_t count;
};

static int add_span(struct spans *spans, const struct trace_stmt *stmt)
{
	struct chart_span *span = &spans->items[spans->count++];
	const char *note = trace_column_text(stmt, 1);
	int64_t level = trace_column_int(stmt, 4);

	*span = (struct chart_span){
		.name = strdup(trace_column_text(stmt, 0) ?: ""),
		.note = note && *note ? strdup(note) : NULL,
		.begin_ns = trace_column_int(stmt, 2),
		.end_ns = trace_column_int(stmt, 3),
		.level = level < 0 ? 0 : level > MAX_LEVEL ? MAX_LEVEL : (unsigned int)level,
		.series = (unsigned int)trace_column_int(stmt, 5),
	};
	if (span->begin_ns < 0 || span->end_ns < span->begin_ns)
		span->begin_ns = span->end_ns = 0; /* a hostile database */
	return span->name ? 0 : -ENOMEM;
}

static int read_spans(const struct page *page, const struct page_run *run, struct spans *spans)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(page->trace, spans_sql, &stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, run->info.id);
	err = err ?: trace_bind_int(stmt, 2, MAX_SPANS);
	while (err == 0 && spans->count < MAX_SPANS && (err = trace_step(stmt)) == 1)
		err = add_span(spans, stmt);
	return err;
}

int page_git_lanes(const struct page *page, const struct page_run *run)
{
	static const char *const series[] = { "commands", "regions that git names" };
	auto_free struct spans *spans = calloc(1, sizeof(*spans));
	int err = spans ? read_spans(page, run, spans) : -ENOMEM;
	char id[48];

	if (err == 0 && spans->count)
		chart_lanes(page->out,
			&(struct chart){ .id = page_chart_id(run, "git", id),
				.title = "What ran when",
				.subtitle = "Git's commands, what they started, and the parts of their work: the "
					    "longest ones.",
				.description = "Commands and regions of git as bars over the time of the run." },
			spans->items, spans->count, series, ARRAY_SIZE(series), page_time(run));
	for (size_t i = 0; spans && i < spans->count; i++) {
		free((char *)spans->items[i].name);
		free((char *)spans->items[i].note);
	}
	return err;
}
