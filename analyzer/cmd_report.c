/* SPDX-License-Identifier: MIT */
/* cmd_report.c - runs as a page. */
#include <stdio.h>

#include "base.h"
#include "command.h"
#include "interrupt.h"
#include "output.h"
#include "page.h"
#include "run.h"

struct report_options {
	const char *output;
};

static const struct option report_options[] = {
	{ "output", "FILE", "where the page goes; '-' is standard output", .type = OPTION_TEXT,
		.letter = 'o', .offset = offsetof(struct report_options, output) },
	{},
};

static int stopped(void)
{
	return interrupt_seen();
}

/* For output_write(). */
struct job {
	struct context *context;
	const int64_t *runs;
	size_t count;
};

static int write_page(FILE *out, void *arg)
{
	struct job *job = arg;
	struct context *context = job->context;
	struct progress progress = progress_begin(!context->common.quiet);
	struct page page = { .out = out,
		.trace = context->trace,
		.db = context->args[0],
		.progress = &progress,
		.stopped = stopped };
	int err = page_write(&page, job->runs, job->count);

	progress_end(&progress);
	if (interrupt_seen())
		return interrupt_said();
	if (err < 0 && !ferror(out))
		context_trace_error(context, err, "cannot read the runs");
	return err;
}

/* A run that is named twice is shown once: its charts have names of their own on the page. */
static int drop_repeated(int64_t *runs, int count)
{
	int kept = 0;

	for (int i = 0; i < count; i++) {
		int j = 0;

		while (j < kept && runs[j] != runs[i])
			j++;
		if (j == kept)
			runs[kept++] = runs[i];
	}
	return kept;
}

static int run_report(struct context *context)
{
	const struct report_options *options = context->options;
	struct job job = { .context = context };
	auto_free int64_t *runs = NULL;
	struct interrupt interrupt;
	int count, status;

	if (!options->output) {
		log_msg("report: where to? -o FILE.html says it");
		return STATUS_USAGE;
	}
	count = context_runs(context, &runs);
	if (count < 0)
		return count;
	count = drop_repeated(runs, count);
	for (int i = 0; i < count; i++) {
		int complete = run_check(context->trace, runs[i]);

		if (complete < 0)
			return context_trace_error(context, complete, "cannot read the runs");
	}
	job.runs = runs;
	job.count = (size_t)count;
	interrupt_catch(&interrupt, context->trace);
	status = output_write(options->output, context->args[0], write_page, &job);
	interrupt_release(&interrupt);
	return status;
}

const struct command cmd_report = {
	.name = "report",
	.summary = "a page with charts and tables about runs",
	.arguments = "DB -o FILE.html",
	.details = "One self-contained HTML file: it needs no network, and its tables no script. "
		   "Several runs are"
		   " compared first; a run of 'fstape bench' is compared with the others of its "
		   "workload. Paths and"
		   " commands of the recording are in it: think before you publish it.",
	.options = report_options,
	.options_size = sizeof(struct report_options),
	.trace = NEED_TRACE_READ,
	.flags = COMMAND_RUN,
	.min_args = 1,
	.max_args = 1,
	.run = run_report,
};
