/* SPDX-License-Identifier: MIT */
/* cmd_export.c - recordings as files for other programs. */
#include <inttypes.h>
#include <string.h>

#include "base.h"
#include "command.h"
#include "export.h"
#include "interrupt.h"
#include "output.h"
#include "run.h"

struct export_options {
	const char *format, *output, *weight;
};

static const struct {
	const char *name;
	int (*export)(struct export *);
} formats[] = {
	{ "csv", export_csv },
	{ "json", export_json },
	{ "ndjson", export_ndjson },
	{ "perfetto", export_perfetto },
	{ "folded", export_folded },
	{ "fio", export_fio },
};

/* For output_write(). */
struct job {
	struct context *context;
	struct export export;
};

/* How many operations there are to come. */
static int count_operations(struct export *export)
{
	int err = 0;

	for (size_t i = 0; i < export->n_runs && err == 0; i++) {
		struct trace_stmt auto_stmt *stmt = NULL;

		err = trace_prepare(
			export->trace, "SELECT count(*) FROM op WHERE run = ?", &stmt, NULL);
		err = err ?: trace_bind_int(stmt, 1, export->runs[i]);
		err = err ?: trace_step(stmt);
		if (err == 1) {
			export->total += trace_column_int(stmt, 0);
			err = 0;
		}
	}
	return err;
}

static int run_exporter(struct export *export, const char *format)
{
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
		if (strcmp(formats[i].name, format) == 0)
			return formats[i].export(export);
	return -EINVAL; /* the option's words are those of the table */
}

static int write_export(FILE *out, void *arg)
{
	struct job *job = arg;
	struct export *export = &job->export;
	const struct export_options *options = job->context->options;
	struct progress progress = progress_begin(!job->context->common.quiet);
	int err;

	export->out = out;
	export->progress = &progress;
	err = progress.on ? count_operations(export) : 0;
	err = err ?: run_exporter(export, options->format);
	progress_end(&progress);
	if (interrupt_seen())
		return interrupt_said();
	if (ferror(out))
		return err; /* whoever closes it says so */
	return err < 0 ? context_trace_error(job->context, err, "cannot read the operations") : 0;
}

static int run_export(struct context *context)
{
	const struct export_options *options = context->options;
	auto_free int64_t *runs = NULL;
	struct job job = { .context = context };
	struct interrupt interrupt;
	int count, err = 0;

	if (!options->format) {
		log_msg("export: as what? --format csv, json, ndjson, perfetto, folded or fio");
		return STATUS_USAGE;
	}
	count = context_runs(context, &runs);
	for (int i = 0; i < count && err >= 0; i++)
		err = run_check(context->trace, runs[i]);
	if (err < 0)
		return context_trace_error(context, err, "cannot read the run");
	if (count < 0)
		return count;
	job.export = (struct export){ .trace = context->trace,
		.runs = runs,
		.n_runs = (size_t)count,
		.weight = options->weight };
	interrupt_catch(&interrupt, context->trace);
	err = output_write(options->output, context->args[0], write_export, &job);
	interrupt_release(&interrupt);
	if (err == 0 && job.export.left_out && !context->common.quiet)
		log_msg("left out: %" PRId64 " lines whose file names are longer than fio can read",
			job.export.left_out);
	return err;
}

static const struct option export_options[] = {
	{ "format", "csv|json|ndjson|perfetto|folded|fio", "what to write", .type = OPTION_CHOICE,
		.letter = 'f', .offset = offsetof(struct export_options, format) },
	{ "output", "FILE", "where to; '-' is standard output", "-", .type = OPTION_TEXT,
		.letter = 'o', .offset = offsetof(struct export_options, output) },
	{ "weight", "fs|dur|count",
		"of folded stacks: time in the filesystem or of whole requests, in ns, or their "
		"number",
		"fs", .type = OPTION_CHOICE, .offset = offsetof(struct export_options, weight) },
	{},
};

const struct command cmd_export = {
	.name = "export",
	.summary = "write operations for other programs",
	.arguments = "DB",
	.details = "csv, json and ndjson (an object on each line) have the columns of the view "
		   "'git_ops', times in ns.\n\n"
		   "perfetto is a trace for ui.perfetto.dev or chrome://tracing, with a track for "
		   "each thread, git's commands and"
		   " regions, and counters of the machine.\n\n"
		   "folded has lines of phase;command;operation;directory and a number, for flame "
		   "graphs. \n\n"
		   "fio is an iolog, version 3, of opens, reads, writes, syncs and closes of "
		   "files; what else was done fio cannot"
		   " express. Blanks in names are written as \\x20, names of more than 255 bytes "
		   "left out.",
	.options = export_options,
	.options_size = sizeof(struct export_options),
	.trace = NEED_TRACE_READ,
	.flags = COMMAND_RUN,
	.min_args = 1,
	.max_args = 1,
	.run = run_export,
};
