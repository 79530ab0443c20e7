/* SPDX-License-Identifier: MIT */
/* cmd_check.c - whether a database is whole. */
#include <inttypes.h>
#include <stdio.h>

#include "check.h"
#include "command.h"

static int run_check_command(struct context *context)
{
	struct check check = { .trace = context->trace, .table = context_table(context) };
	int err;

	if (!check.table)
		return -ENOMEM;
	check.progress = progress_begin(!context->common.quiet);
	table_add_column(check.table, "run", NULL, COLUMN_INT, 0);
	table_add_column(check.table, "check", NULL, COLUMN_TEXT, 0);
	table_add_column(check.table, "found", NULL, COLUMN_INT, 0);
	table_add_column(check.table, "detail", NULL, COLUMN_TEXT, 0);
	err = check_all(&check);
	progress_end(&check.progress);
	if (err < 0) {
		table_free(check.table);
		return context_trace_error(context, err, "cannot be checked to its end");
	}
	if (check.faults || context->format != TABLE_TEXT)
		err = context_print(check.table);
	else
		table_free(check.table);
	if (!check.faults && context->format == TABLE_TEXT && !context->common.quiet)
		printf("%s: no fault in %" PRId64 " runs with %" PRId64 " operations\n", context->args[0], check.runs,
			check.operations);
	if (check.faults)
		log_msg("%s: %" PRId64 " faults", context->args[0], check.faults);
	return err < 0 ? err : check.faults ? STATUS_FAILED : STATUS_OK;
}

const struct command cmd_check = {
	.name = "check",
	.summary = "find what is wrong with a database",
	.arguments = "DB",
	.details = "Reads all of the database: the file's structure and its tables, references between them, the runs' counters"
		   " against what is there, that seq has no gap that the run does not account for, and that times and paths are"
		   " possible. Exit status 1 when there is a fault. That a run is partial is said, but is no fault.",
	.trace = NEED_TRACE_READ,
	.flags = COMMAND_FORMAT,
	.min_args = 1,
	.max_args = 1,
	.run = run_check_command,
};
