/* SPDX-License-Identifier: MIT */
/* cmd_report.c - runs as a page: where it goes, so that nobody ever finds half of one. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base.h"
#include "command.h"
#include "page.h"
#include "run.h"

struct report_options {
	const char *output;
};

static const struct option report_options[] = {
	{ "output", "FILE", "where the page goes; '-' is standard output", .type = OPTION_TEXT, .letter = 'o',
		.offset = offsetof(struct report_options, output) },
	{},
};

/* What Ctrl-C ends. The only things that a signal handler can be told are variables of the file. */
static struct trace *volatile running;
static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig)
{
	interrupted = sig;
	if (running)
		trace_interrupt(running);
}

static int stopped(void)
{
	return interrupted;
}

static const int signals[] = { SIGINT, SIGTERM, SIGHUP };

static void catch_signals(struct trace *trace, struct sigaction before[])
{
	struct sigaction action = { .sa_handler = on_interrupt, .sa_flags = SA_RESTART };

	running = trace;
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		sigaction(signals[i], NULL, &before[i]);
		if (before[i].sa_handler != SIG_IGN)
			sigaction(signals[i], &action, NULL);
	}
}

static void release_signals(const struct sigaction before[])
{
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaction(signals[i], &before[i], NULL);
	running = NULL;
}

static int write_page(struct context *context, const int64_t *runs, size_t count, FILE *out)
{
	struct progress progress = progress_begin(!context->common.quiet);
	struct page page = { .out = out,
		.trace = context->trace,
		.db = context->args[0],
		.progress = &progress,
		.stopped = stopped };
	int err = page_write(&page, runs, count);

	progress_end(&progress);
	if (interrupted)
		log_msg("interrupted");
	else if (err < 0 && !ferror(out))
		context_trace_error(context, err, "cannot read the runs");
	return interrupted ? -EINTR : err;
}

/* Into a new file beside it that takes its place when it is whole. */
static int write_file(struct context *context, const int64_t *runs, size_t count, const char *path)
{
	auto_free char *temp = NULL;
	int fd, err;
	FILE *out;

	if (asprintf(&temp, "%s.new-%d", path, getpid()) < 0)
		return log_errno(ENOMEM, "%s", path);
	fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	out = fd < 0 ? NULL : fdopen(fd, "w");
	if (!out)
		return log_errno(errno, "cannot write %s", path);
	err = write_page(context, runs, count, out);
	if (err < 0 && ferror(out))
		log_msg("cannot write %s", path);
	if ((fclose(out) < 0 && err == 0) || (err == 0 && rename(temp, path) < 0))
		err = log_errno(errno, "cannot write %s", path);
	if (err < 0)
		unlink(temp);
	return err;
}

/* Devices, pipes and what else is no plain file are written to as they are. */
static int write_special(struct context *context, const int64_t *runs, size_t count, const char *path)
{
	FILE *out = fopen(path, "we");
	int err;

	if (!out)
		return log_errno(errno, "cannot write %s", path);
	err = write_page(context, runs, count, out);
	if (fclose(out) < 0 && err == 0)
		err = log_errno(errno, "cannot write %s", path);
	return err;
}

static int write_output(struct context *context, const int64_t *runs, size_t count, const char *path)
{
	auto_free char *real = realpath(path, NULL);
	struct stat st, db;

	if (strcmp(path, "-") == 0) {
		int err = write_page(context, runs, count, stdout);

		return ferror(stdout) ? STATUS_OK : err; /* main() says it */
	}
	if (!real)
		return write_file(context, runs, count, path);
	if (stat(real, &st) < 0 || stat(context->args[0], &db) < 0)
		return log_errno(errno, "%s", path);
	if (st.st_dev == db.st_dev && st.st_ino == db.st_ino) {
		log_msg("%s is the database itself; name another file for the page", path);
		return -EINVAL;
	}
	if (S_ISDIR(st.st_mode))
		return log_errno(EISDIR, "cannot write %s", path);
	return S_ISREG(st.st_mode) ? write_file(context, runs, count, real)
				   : write_special(context, runs, count, real);
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
	struct sigaction before[ARRAY_SIZE(signals)];
	auto_free int64_t *runs = NULL;
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
	/* before there is a file that a signal could leave behind */
	catch_signals(context->trace, before);
	status = write_output(context, runs, (size_t)count, options->output);
	release_signals(before);
	return status;
}

const struct command cmd_report = {
	.name = "report",
	.summary = "a page with charts and tables about runs",
	.arguments = "DB -o FILE.html",
	.details = "One self-contained HTML file: it needs no network, and its tables no script. Several runs are"
		   " compared first; a run of 'fstape bench' is compared with the others of its workload. Paths and"
		   " commands of the recording are in it: think before you publish it.",
	.options = report_options,
	.options_size = sizeof(struct report_options),
	.trace = NEED_TRACE_READ,
	.flags = COMMAND_RUN,
	.min_args = 1,
	.max_args = 1,
	.run = run_report,
};
