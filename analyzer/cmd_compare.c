/* SPDX-License-Identifier: MIT */
/* cmd_compare.c - runs side by side: which target is faster, and which operations say so. */
#include <stdio.h>
#include <string.h>

#include "base.h"
#include "command.h"
#include "compare.h"
#include "compare_table.h"
#include "compare_ways.h"
#include "compare_why.h"
#include "run.h"

struct compare_options {
	const char *baseline;
	const char *by;
	int64_t columns;
	bool operations, rounds, why;
};

static const struct option compare_options[] = {
	{ "by", "fs|workload|cache|device|option|through", "what is compared", "fs", .type = OPTION_CHOICE,
		.offset = offsetof(struct compare_options, by) },
	{ "baseline", "LABEL", "what ratios are to: a target, or a value of what --by names (default: the first)",
		.type = OPTION_TEXT,
		.offset = offsetof(struct compare_options, baseline) },
	{ "columns", "N", "how many operations get a column (0: 4, or as many as fit)", "0",
		.type = OPTION_INT, .max = OP_COUNT, .offset = offsetof(struct compare_options, columns) },
	{ "operations", NULL, "a row for every operation instead", .type = OPTION_FLAG,
		.offset = offsetof(struct compare_options, operations) },
	{ "rounds", NULL, "a row for every round instead", .type = OPTION_FLAG,
		.offset = offsetof(struct compare_options, rounds) },
	{ "why", NULL, "what the differences consist of instead, all of it", .type = OPTION_FLAG,
		.offset = offsetof(struct compare_options, why) },
	{},
};

static enum compare_factor factor_named(const char *name)
{
	enum compare_factor factor = 0;

	while (strcmp(compare_factor_names[factor], name) != 0)
		factor++; /* options.c has seen to it that there is one */
	return factor;
}

static int load(const struct context *context, const struct compare_options *options, struct compare *ret_compare)
{
	struct compare_query query = { .baseline = options->baseline, .by = factor_named(options->by) };
	auto_free int64_t *runs = NULL;
	int count = 0, err;

	if (context->common.runs.count && (count = context_runs(context, &runs)) < 0)
		return count;
	query.runs = runs;
	query.n_runs = (size_t)count;
	err = compare_load_query(context->trace, &query, ret_compare);
	if (err == 0) {
		err = compare_note_ways(context->trace, ret_compare);
		if (err < 0)
			compare_free(ret_compare);
	}
	if (err == -ENOENT)
		log_msg("%s: no run has a workload; 'fstape bench' makes such runs, --run names others",
			context->args[0]);
	else if (err == -EINVAL && options->baseline)
		log_msg("%s: no %s is called '%s'", context->args[0],
			query.by == BY_FS ? "target" : options->by, options->baseline);
	else if (err < 0)
		context_trace_error(context, err, "cannot read the runs");
	return err;
}

static void warn_of_runs(const struct context *context, const struct compare *compare)
{
	for (size_t i = 0; i < compare->count; i++)
		for (size_t j = 0; j < compare->groups[i].count; j++)
			run_check(context->trace, compare->groups[i].runs[j].id);
}

static int print_table(
	const struct context *context, const struct compare *compare, void (*fill)(const struct compare *, struct table *))
{
	struct table *table = context_table(context);
	int err;

	if (!table)
		return -ENOMEM;
	fill(compare, table);
	err = context_print(table);
	if (err == 0)
		compare_print_ways(context, compare);
	return err;
}

/* For people, the largest parts of the differences under the table. */
static int print_summary(const struct context *context, const struct compare *compare)
{
	const struct compare_options *options = context->options;
	int err = compare_print(context, compare, (size_t)options->columns, options->baseline);

	if (err < 0 || context->format != TABLE_TEXT || context->common.quiet || !compare_why_has_any(compare))
		return err;
	puts("\nWhy: the largest parts of the differences, means of the runs (all: --why)");
	return compare_why_print(context, compare, WHY_SUMMARY);
}

static int run_compare(struct context *context)
{
	const struct compare_options *options = context->options;
	struct compare compare;
	int err = load(context, options, &compare);

	if (err < 0)
		return err;
	warn_of_runs(context, &compare);
	if (options->operations)
		err = print_table(context, &compare, compare_ops_table);
	else if (options->rounds)
		err = print_table(context, &compare, compare_rounds_table);
	else if (options->why)
		err = compare_why_print(context, &compare, WHY_ALL);
	else
		err = print_summary(context, &compare);
	compare_free(&compare);
	return err;
}

const struct command cmd_compare = {
	.name = "compare",
	.summary = "runs side by side, and which operations explain the difference",
	.arguments = "DB",
	.details =
		"Compares the runs of 'fstape bench', or those that --run names, where they differ in one thing only:"
		" medians over the rounds, 95% bootstrap intervals from 3 rounds on, the ratio to a baseline over the"
		" rounds that both have, and from 6 rounds on whether that is a difference. Then why: what the difference"
		" consists of. Times in the filesystem do not contain the cost of the recording.",
	.options = compare_options,
	.options_size = sizeof(struct compare_options),
	.trace = NEED_TRACE_READ,
	.flags = COMMAND_RUN | COMMAND_FORMAT,
	.min_args = 1,
	.max_args = 1,
	.run = run_compare,
};
