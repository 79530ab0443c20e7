/* SPDX-License-Identifier: MIT */
/* cmd_git.c - why is git slow here: one screen about a run. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base.h"
#include "command.h"
#include "git_parts.h"
#include "rows.h"
#include "run.h"

struct git_options {
	const char *show;
};

static const struct {
	const char *name;
	int (*print)(const struct git_part *part);
} parts[] = {
	{ "phases", git_print_phases },
	{ "anatomy", git_print_anatomy },
	{ "locks", git_print_locks },
	{ "probes", git_print_probes },
	{ "host", git_print_host },
	{ "findings", git_print_findings },
};

/* What the run was, in a line or two; and on standard error what of git's story is missing. */
static int print_head(const struct git_part *part, const struct run_info *run)
{
	static const struct table_heading headings[] = {
		{ "run", NULL, COLUMN_INT },
		{ "label", NULL, COLUMN_TEXT },
		{ "fs", NULL, COLUMN_TEXT },
		{ "cache", NULL, COLUMN_TEXT },
		{ "real_ns", "real", COLUMN_DURATION },
		{ "user_ns", "user", COLUMN_DURATION },
		{ "sys_ns", "sys", COLUMN_DURATION },
		{ "command", NULL, COLUMN_TEXT },
	};
	struct strbuf auto_strbuf story = {};
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
	run_describe_story(run, &story);
	if (story.len && !story.failed)
		log_msg("%s", story.buf);
	else if (!view->commands && view->count)
		log_msg("run %" PRId64 ": no git command told its story; phases are by programs and paths", view->run);
	if (!part->text)
		return 0;
	table = context_table(part->context);
	if (!table)
		return -ENOMEM;
	table_add_columns(table, headings, ARRAY_SIZE(headings));
	rows_add_cells(table, stmt, 1);
	table_end_row(table);
	return context_print(table);
}

static int show_run(struct context *context, int64_t run, bool first)
{
	const struct git_options *options = context->options;
	struct git_view *view;
	struct git_part part = { .context = context, .text = context->format == TABLE_TEXT };
	struct run_info info;
	int err = run_load(context->trace, run, &info);

	if (err < 0)
		return context_trace_error(context, err, "cannot read the run");
	run_warn(&info);
	err = git_view_make(context->trace, run, &view);
	if (err < 0) {
		run_free(&info);
		return context_trace_error(context, err, "cannot read the operations");
	}
	part.view = view;
	if (part.text && !first)
		putchar('\n');
	err = print_head(&part, &info);
	run_free(&info);
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
	.summary = "why git is slow here: its phases, and what costs most",
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
