/* SPDX-License-Identifier: MIT */
/* cmd_stats.c - per operation: how often, how long. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base.h"
#include "command.h"
#include "op_stats.h"
#include "run.h"

struct stats_options {
	const char *by;
};

static const char *const clock_prefix[CLOCK_KINDS] = { [CLOCK_DUR] = "dur", [CLOCK_FS] = "fs" };
static const char *const clock_title[CLOCK_KINDS] = {
	[CLOCK_DUR] = "whole request (dur)",
	[CLOCK_FS] = "inside the real filesystem (fs)",
};

static void add_time_columns(struct table *table, enum op_clock clock)
{
	static const struct {
		const char *name;
		enum column_kind kind;
	} columns[] = {
		{ "total", COLUMN_DURATION },
		{ "mean", COLUMN_DURATION },
		{ "p50", COLUMN_DURATION },
		{ "p95", COLUMN_DURATION },
		{ "p99", COLUMN_DURATION },
		{ "max", COLUMN_DURATION },
		{ "share", COLUMN_SHARE },
	};
	char name[32];

	for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
		snprintf(name, sizeof(name), "%s_%s%s", clock_prefix[clock], columns[i].name,
			columns[i].kind == COLUMN_DURATION ? "_ns" : "");
		table_add_column(table, name, columns[i].name, columns[i].kind, 0);
	}
}

static void add_time_cells(struct table *table, const struct time_stats *time)
{
	table_int(table, time->total_ns);
	table_real(table, time->mean_ns);
	table_int(table, time->p50_ns);
	table_int(table, time->p95_ns);
	table_int(table, time->p99_ns);
	table_int(table, time->max_ns);
	table_real(table, time->share);
}

/* The clocks from `first` to `last` side by side. */
static struct table *new_table(const struct context *context, enum op_clock first, enum op_clock last)
{
	struct table *table = context_table(context);

	if (!table)
		return NULL;
	table_add_column(table, "run", NULL, COLUMN_INT, COLUMN_DATA_ONLY);
	table_add_column(table, "complete", NULL, COLUMN_BOOL, COLUMN_DATA_ONLY);
	table_add_column(table, "op", NULL, COLUMN_TEXT, 0);
	table_add_column(table, "count", NULL, COLUMN_INT, 0);
	table_add_column(table, "errors", "errs", COLUMN_INT, 0);
	for (enum op_clock clock = first; clock <= last; clock++)
		add_time_columns(table, clock);
	return table;
}

static void add_rows(struct table *table, int64_t run, bool complete, const struct run_stats *stats,
	enum op_clock first, enum op_clock last)
{
	for (size_t i = 0; i < stats->n_ops; i++) {
		const struct op_stats *op = &stats->ops[i];

		table_int(table, run);
		table_int(table, complete);
		table_text(table, op->name);
		table_int(table, op->count);
		table_int(table, op->errors);
		for (enum op_clock clock = first; clock <= last; clock++)
			add_time_cells(table, &op->time[clock]);
		table_end_row(table);
	}
}

/* For people: a heading, and one table per clock, as both side by side are too wide for a terminal. */
static int print_text(const struct context *context, int64_t run, const struct run_stats *stats, bool first)
{
	const struct stats_options *options = context->options;
	char total[24];

	for (enum op_clock clock = 0; clock < CLOCK_KINDS; clock++) {
		struct table *table;
		int err;

		if (options->by && strcmp(options->by, clock_prefix[clock]) != 0)
			continue;
		printf("%srun %" PRId64 ", %s: %" PRId64 " requests, %" PRId64 " errors, %s\n",
			first ? "" : "\n", run, clock_title[clock], stats->count, stats->errors,
			format_duration(stats->total_ns[clock], total));
		first = false;
		if (!stats->n_ops)
			continue;
		table = new_table(context, clock, clock);
		if (!table)
			return -ENOMEM;
		add_rows(table, run, true, stats, clock, clock);
		err = context_print(table);
		if (err < 0)
			return err;
	}
	return 0;
}

static int show_run(const struct context *context, int64_t run, struct table *data, bool first)
{
	const struct stats_options *options = context->options;
	enum op_clock order = options->by && strcmp(options->by, "dur") == 0 ? CLOCK_DUR : CLOCK_FS;
	auto_free struct run_stats *stats = calloc(1, sizeof(*stats));
	int complete, err = stats ? run_stats_read(context->trace, run, order, stats) : -ENOMEM;

	if (err < 0)
		return context_trace_error(context, err, "cannot read the operations");
	complete = run_check(context->trace, run);
	if (complete < 0)
		return context_trace_error(context, complete, "cannot read the run");
	if (!data)
		return print_text(context, run, stats, first);
	add_rows(data, run, complete, stats, CLOCK_DUR, CLOCK_FS);
	return 0;
}

static int run_stats(struct context *context)
{
	auto_free int64_t *runs = NULL;
	int count = context_runs(context, &runs), err = 0;
	struct table *data = NULL;

	if (count < 0)
		return count;
	if (context->format != TABLE_TEXT && !(data = new_table(context, CLOCK_DUR, CLOCK_FS)))
		return -ENOMEM;
	for (int i = 0; i < count && err == 0; i++)
		err = show_run(context, runs[i], data, i == 0);
	if (err < 0 || !data) {
		table_free(data);
		return err;
	}
	return context_print(data);
}

static const struct option stats_options[] = {
	{ "by", "dur|fs",
		"order by, and show only, the time of the whole request or the time in the filesystem",
		.type = OPTION_CHOICE, .offset = offsetof(struct stats_options, by) },
	{},
};

const struct command cmd_stats = {
	.name = "stats",
	.summary = "count and time operations",
	.arguments = "DB",
	.details = "Per operation: count, errors, total, mean, median, 95th and 99th percentile (nearest "
		   "rank), maximum and"
		   " share of the total, longest total first. 'dur' is a request from its arrival to just "
		   "before the reply,"
		   " 'fs' the part of it spent in system calls on the real filesystem: that part compares "
		   "filesystems.",
	.options = stats_options,
	.options_size = sizeof(struct stats_options),
	.trace = NEED_TRACE_READ,
	.flags = COMMAND_RUN | COMMAND_FORMAT,
	.min_args = 1,
	.max_args = 1,
	.run = run_stats,
};
