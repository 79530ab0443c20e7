/* SPDX-License-Identifier: MIT */
/* page_compare.c - runs side by side, as `compare` groups them. */
#include <math.h>
#include <string.h>

#include "base.h"
#include "compare.h"
#include "compare_table.h"
#include "compare_ways.h"
#include "html.h"
#include "page_internal.h"
#include "statistics.h"
#include "table.h"

enum { REAL, USER, SYS, IN_FS, TIMES };

static const char *const time_names[TIMES] = { "real", "user", "sys", "in the filesystem" };

/* One time of all runs of a group: its median, and the interval where there are enough of them. */
static int summarise(const struct compare_group *group, int which, double *values, double *low, double *high)
{
	auto_free double *all = calloc(group->count, sizeof(*all));
	int err;

	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < group->count; i++) {
		const struct compare_run *run = &group->runs[i];

		all[i] = (double[TIMES]){ run->real_ns, run->user_ns, run->sys_ns, run->fs_ns }[which];
	}
	values[which] = median(all, group->count);
	low[which] = high[which] = NAN;
	err = bootstrap_median(all, group->count, &low[which], &high[which]);
	return err == -ENOMEM ? err : 0;
}

static char *group_note(const struct compare *compare, const struct compare_group *group)
{
	char *note = NULL;

	const char *plural = group->count == 1 ? "" : "s";
	int len;

	if (group->has_ratio && group->verdict != VERDICT_BASELINE)
		len = asprintf(&note, "%zu run%s, real %.2f times the first: %s%s", group->count, plural, group->ratio,
			compare_verdict_text(group->verdict),
			compare_differs(compare, group) ? "" : "; no difference to be explained");
	else
		len = asprintf(&note, "%zu run%s", group->count, plural);
	return len < 0 ? NULL : note;
}

/* The names and numbers of the chart of bars. */
struct bars {
	char **names, **notes;
	double *values, *low, *high;
};

static int fill_bars(const struct compare *compare, struct bars *bars)
{
	for (size_t i = 0; i < compare->count; i++) {
		const struct compare_group *group = &compare->groups[i];

		bars->names[i] = compare_group_name(compare, group);
		bars->notes[i] = group_note(compare, group);
		if (!bars->names[i] || !bars->notes[i])
			return -ENOMEM;
		for (int which = 0; which < TIMES; which++) {
			int err = summarise(group, which, bars->values + i * TIMES, bars->low + i * TIMES,
				bars->high + i * TIMES);

			if (err < 0)
				return err;
		}
	}
	return 0;
}

static int write_bars(const struct page *page, const struct compare *compare)
{
	size_t n = compare->count;
	struct bars bars = { calloc(n, sizeof(char *)), calloc(n, sizeof(char *)), calloc(n * TIMES, sizeof(double)),
		calloc(n * TIMES, sizeof(double)), calloc(n * TIMES, sizeof(double)) };
	int err = bars.names && bars.notes && bars.values && bars.low && bars.high ? 0 : -ENOMEM;

	err = err ?: fill_bars(compare, &bars);
	if (err == 0)
		chart_bars(page->out,
			&(struct chart){ .id = "compare-times",
				.title = "Times by filesystem",
				.subtitle = compare->rounds < CLAIM_MIN_ROUNDS
						    ? "Medians over the runs; whiskers are 95% bootstrap intervals, "
						      "from three runs on. With fewer than six runs of each, "
						      "differences of times may be chance."
						    : "Medians over the runs; whiskers are 95% bootstrap intervals.",
				.description = "Bars of real, user and system time and time in the filesystem for each "
					       "group of runs.",
				.unit = UNIT_NS },
			&(struct matrix){ .rows = n,
				.columns = TIMES,
				.row_names = (const char *const *)bars.names,
				.row_notes = (const char *const *)bars.notes,
				.column_names = time_names,
				.values = bars.values,
				.low = bars.low,
				.high = bars.high });
	for (size_t i = 0; i < n; i++) {
		free(bars.names ? bars.names[i] : NULL);
		free(bars.notes ? bars.notes[i] : NULL);
	}
	free(bars.names);
	free(bars.notes);
	free(bars.values);
	free(bars.low);
	free(bars.high);
	return err;
}

static int write_operations(const struct page *page, const struct compare *compare)
{
	const char *names[CHART_SERIES];
	size_t columns = compare->n_top < CHART_SERIES ? compare->n_top : CHART_SERIES, n = compare->count;
	auto_free double *values = calloc(n * CHART_SERIES + 1, sizeof(*values));
	char **groups = calloc(n + 1, sizeof(*groups));

	if (!values || !groups) {
		free(groups);
		return -ENOMEM;
	}
	for (size_t op = 0; op < columns; op++)
		names[op] = op_get(compare->top[op])->name;
	if (compare->n_top > CHART_SERIES)
		names[CHART_SERIES - 1] = "others";
	for (size_t i = 0; i < n; i++) {
		groups[i] = compare_group_name(compare, &compare->groups[i]);
		for (size_t op = 0; op < compare->n_top; op++)
			values[i * columns + (op < columns ? op : columns - 1)] +=
				(double)compare->groups[i].ops[compare->top[op]].total_ns /
				(double)compare->groups[i].count;
	}
	chart_stack(page->out,
		&(struct chart){ .id = "compare-ops",
			.title = "Operations that the time went to",
			.subtitle = "Time in the filesystem of a run, by operation.",
			.description = "Stacked bars of time in the filesystem by operation for each group of runs.",
			.unit = UNIT_NS },
		&(struct matrix){ .rows = n,
			.columns = columns,
			.row_names = (const char *const *)groups,
			.column_names = names,
			.values = values });
	for (size_t i = 0; i < n; i++)
		free(groups[i]);
	free(groups);
	return 0;
}

static int write_table(const struct page *page, const struct compare *compare)
{
	struct table *table = page_table(page);
	int err;

	if (!table)
		return -ENOMEM;
	fputs("<details><summary>All operations, by group of runs</summary>\n", page->out);
	compare_ops_table(compare, table);
	err = page_table_end(table);
	fputs("</details>\n", page->out);
	return err;
}

/* All runs of the benchmark that the run belongs to; 0: of none. To be freed. */
static int runs_of_workload(struct trace *trace, int64_t run, int64_t **ret_runs)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	auto_free int64_t *runs = NULL;
	int count = 0;
	int err = trace_prepare(trace,
		"SELECT id FROM run WHERE workload = (SELECT workload FROM run WHERE id = ?) ORDER BY id", &stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, run);
	while (err == 0 && (err = trace_step(stmt)) == 1) {
		int64_t *grown = reallocarray(runs, (size_t)count + 1, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		runs = grown;
		runs[count++] = trace_column_int(stmt, 0);
		err = 0;
	}
	if (err < 0)
		return err;
	*ret_runs = steal_ptr(&runs);
	return count;
}

int page_compare(const struct page *page, const int64_t *runs, size_t count)
{
	auto_free int64_t *others = NULL;
	struct compare compare;
	int err;

	if (count == 1) {
		int n = runs_of_workload(page->trace, runs[0], &others);

		if (n <= 1)
			return n < 0 ? n : 0;
		runs = others;
		count = (size_t)n;
	}
	err = compare_load(page->trace, runs, count, 0, NULL, &compare);
	if (err < 0)
		return err;
	err = compare_note_ways(page->trace, &compare);
	fputs("<section id=\"compare\">\n<h2>Comparison</h2>\n", page->out);
	if (err == 0 && compare.ways) {
		fputs("<p class=\"warning\" role=\"alert\"><strong>Transport:</strong> ", page->out);
		html_str(page->out, compare.ways);
		fputs("</p>\n", page->out);
	}
	err = err ?: write_bars(page, &compare);
	err = err ?: write_operations(page, &compare);
	err = err ?: write_table(page, &compare);
	fputs("</section>\n", page->out);
	compare_free(&compare);
	return err;
}
