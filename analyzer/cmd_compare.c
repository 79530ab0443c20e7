/* SPDX-License-Identifier: MIT */
/* cmd_compare.c - runs side by side: which target is faster, and which operations say so. */
#include <string.h>

#include "base.h"
#include "command.h"
#include "compare.h"
#include "compare_table.h"
#include "run.h"

struct compare_options {
	const char *baseline;
	int64_t columns;
	bool operations;
};

static const struct option compare_options[] = {
	{ "baseline", "TARGET", "what ratios are to (default: the first target)", .type = OPTION_TEXT,
		.offset = offsetof(struct compare_options, baseline) },
	{ "columns", "N", "how many operations get a column (0: 4, or as many as fit)", "0",
		.type = OPTION_INT, .max = OP_COUNT, .offset = offsetof(struct compare_options, columns) },
	{ "operations", NULL, "a row for every operation instead", .type = OPTION_FLAG,
		.offset = offsetof(struct compare_options, operations) },
	{},
};

static int load(const struct context *context, const char *baseline, struct compare *ret_compare)
{
	auto_free int64_t *runs = NULL;
	int count = 0, err;

	if (context->common.runs.count && (count = context_runs(context, &runs)) < 0)
		return count;
	err = compare_load(context->trace, runs, (size_t)count, 0, baseline, ret_compare);
	if (err == -ENOENT)
		log_msg("%s: no run has a workload; 'fstape bench' makes such runs, --run names others",
			context->args[0]);
	else if (err == -EINVAL && baseline)
		log_msg("%s: no target is called '%s'", context->args[0], baseline);
	else if (err < 0)
		context_trace_error(context, err, "cannot read the runs");
	return err;
}

static void warn_of_partial(const struct context *context, const struct compare *compare)
{
	for (size_t i = 0; i < compare->count; i++) {
		for (size_t j = 0; j < compare->groups[i].count; j++)
			run_check(context->trace, compare->groups[i].runs[j].id);
	}
}

static int print_operations(const struct context *context, const struct compare *compare)
{
	struct table *table = context_table(context);

	if (!table)
		return -ENOMEM;
	compare_ops_table(compare, table);
	return context_print(table);
}

static int run_compare(struct context *context)
{
	const struct compare_options *options = context->options;
	struct compare compare;
	int err = load(context, options->baseline, &compare);

	if (err < 0)
		return err;
	warn_of_partial(context, &compare);
	if (options->operations)
		err = print_operations(context, &compare);
	else
		err = compare_print(context, &compare, (size_t)options->columns, options->baseline);
	compare_free(&compare);
	return err;
}

const struct command cmd_compare = {
	.name = "compare",
	.summary = "runs side by side, and which operations explain the difference",
	.arguments = "DB",
	.details =
		"Compares the runs of 'fstape bench', or those that --run names, by workload and target:"
		" medians over the rounds, the ratio to a baseline over the rounds that both have, a 95%"
		" bootstrap interval from 3 rounds on. Times in the filesystem do not contain the cost of the"
		" recording.",
	.options = compare_options,
	.options_size = sizeof(struct compare_options),
	.trace = NEED_TRACE_READ,
	.flags = COMMAND_RUN | COMMAND_FORMAT,
	.min_args = 1,
	.max_args = 1,
	.run = run_compare,
};
