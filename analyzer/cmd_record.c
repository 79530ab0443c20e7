/* SPDX-License-Identifier: MIT */
/* cmd_record.c - a command, with everything that it does in a directory recorded. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base.h"
#include "command.h"
#include "op_stats.h"
#include "recording.h"
#include "run.h"

#define TOP_OPERATIONS 8

struct record_options {
	const char *label, *cache, *overflow, *load, *mount_options;
	int64_t spool, threads;
	bool public, no_scan;
	const char *data;
};

static int print_top(const struct context *context, const struct run_stats *stats)
{
	static const struct table_heading headings[] = {
		{ "op", NULL, COLUMN_TEXT },
		{ "count", NULL, COLUMN_INT },
		{ "errors", "errs", COLUMN_INT },
		{ "fs_total", "fs total", COLUMN_DURATION },
		{ "fs_p50", "fs p50", COLUMN_DURATION },
		{ "fs_p99", "fs p99", COLUMN_DURATION },
		{ "share", "share", COLUMN_SHARE },
	};
	struct table *table = table_new(TABLE_TEXT, !context->common.no_color, stderr);
	int err;

	if (!table)
		return -ENOMEM;
	table_add_columns(table, headings, ARRAY_SIZE(headings));
	for (size_t i = 0; i < stats->n_ops && i < TOP_OPERATIONS; i++) {
		const struct op_stats *op = &stats->ops[i];

		table_text(table, op->name);
		table_int(table, op->count);
		table_int(table, op->errors);
		table_int(table, op->time[CLOCK_FS].total_ns);
		table_int(table, op->time[CLOCK_FS].p50_ns);
		table_int(table, op->time[CLOCK_FS].p99_ns);
		table_real(table, op->time[CLOCK_FS].share);
		table_end_row(table);
	}
	err = table_print(table);
	table_free(table);
	return err;
}

static void print_headline(
	const struct recording_result *result, const struct run_info *run, const struct run_stats *stats)
{
	char real[24], user[24], sys[24], fs[24], dur[24];

	log_msg("run %" PRId64 "%s%s%s: real %s, user %s, sys %s", run->id, run->label ? " (" : "",
		run->label ?: "", run->label ? ")" : "", format_duration(result->real_ns, real),
		format_duration(result->user_ns, user), format_duration(result->sys_ns, sys));
	log_msg("%" PRId64 " requests, %" PRId64 " dropped; %s in requests, %s of it in the filesystem",
		run->requests, run->dropped, format_duration(stats->total_ns[CLOCK_DUR], dur),
		format_duration(stats->total_ns[CLOCK_FS], fs));
}

/*
 * On standard error: standard output is the command's. That a run is not complete is said also with --quiet.
 * What fails here has not made the recording fail.
 */
static void print_summary(const struct context *context, const struct recording_result *result)
{
	auto_free struct run_stats *stats = calloc(1, sizeof(*stats));
	struct trace *trace;
	struct run_info run;

	if (!stats || trace_open(context->args[0], TRACE_READ, &trace) < 0)
		return;
	if (run_load(trace, result->run, &run) == 0) {
		if (!context->common.quiet && run_stats_read(trace, result->run, CLOCK_FS, stats) == 0) {
			print_headline(result, &run, stats);
			if (stats->n_ops)
				print_top(context, stats);
		}
		run_warn(&run);
		run_free(&run);
	}
	trace_close(trace);
}

static int run_record(struct context *context)
{
	const struct record_options *options = context->options;
	char *shell[] = { getenv("SHELL") ?: "/bin/sh", NULL };
	char **argv = context->n_args > 2 ? context->args + 2 : shell;
	struct recording_options recording = {
		.db = context->args[0],
		.source = context->args[1],
		.label = options->label,
		.cache = options->cache,
		.overflow = options->overflow,
		.load = options->load,
		.mount_options = options->mount_options,
		.spool = options->spool,
		.threads = options->threads,
		.data = strcmp(options->data, "full") == 0,
		.scan = !options->no_scan,
		.public = options->public,
		.quiet = context->common.quiet,
	};
	struct recording_result result;
	int err;

	if (argv == shell && !recording.quiet)
		log_msg("recording what %s does in %s; leave it to end the recording", shell[0],
			recording.source);
	err = recording_run(&recording, argv, &result);
	if (err < 0)
		return err;
	if (!result.detached && !(recording.quiet && result.complete))
		print_summary(context, &result);
	return result.failed ? result.status ?: -EIO : result.status;
}

static const struct option record_options[] = {
	{ "label", "TEXT", "a name for the run, for --run", .type = OPTION_TEXT, .letter = 'l',
		.offset = offsetof(struct record_options, label) },
	{ "cache", "never|auto|always", "what the kernel may answer by itself, unrecorded", "always",
		.type = OPTION_CHOICE, .offset = offsetof(struct record_options, cache) },
	{ "overflow", "block|drop", "when the spool is full, let programs wait or lose records", "block",
		.type = OPTION_CHOICE, .offset = offsetof(struct record_options, overflow) },
	{ "load", "live|end", "fill the database meanwhile, or only at the end", "live",
		.type = OPTION_CHOICE, .offset = offsetof(struct record_options, load) },
	{ "data", "none|full", "record contents of files as well", "none", .type = OPTION_CHOICE,
		.offset = offsetof(struct record_options, data) },
	{ "no-scan", NULL, "do not walk the tree afterwards for what was not touched", .type = OPTION_FLAG,
		.offset = offsetof(struct record_options, no_scan) },
	{ "public", NULL, "mount for everybody, not only for the command", .type = OPTION_FLAG,
		.offset = offsetof(struct record_options, public) },
	{ "spool", "SIZE", "most space for records that are not in the database yet", .type = OPTION_SIZE,
		.min = 1 << 20, .offset = offsetof(struct record_options, spool) },
	{ "threads", "N", "most worker threads of the mount", .type = OPTION_INT, .min = 1, .max = 1024,
		.offset = offsetof(struct record_options, threads) },
	{ "mount-options", "OPTIONS", "more options for fstapefs -o", .type = OPTION_TEXT, .letter = 'o',
		.offset = offsetof(struct record_options, mount_options) },
	{},
};

const struct command cmd_record = {
	.name = "record",
	.summary = "run a command and record what it does in a directory",
	.arguments = "DB DIR [--] [COMMAND [ARGUMENT...]]",
	.details = "Mounts over DIR in place, in a mount namespace that only COMMAND sees, runs COMMAND "
		   "there (default: your"
		   " shell), unmounts, finishes the database and prints a summary. DB is made when it does "
		   "not exist; it may"
		   " not lie inside DIR.\n\nThe exit status is COMMAND's: 126 when it cannot be run, 127 "
		   "when it is not found,"
		   " 128+N when signal N ended it; 125 when fstape itself failed.",
	.options = record_options,
	.options_size = sizeof(struct record_options),
	.min_args = 2,
	.command_after = 2,
	.failure_status = STATUS_OWN_FAILURE,
	.run = run_record,
};
