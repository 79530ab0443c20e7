/* SPDX-License-Identifier: MIT */
/* cmd_recover.c - finishing what a dead recorder left. */
#include <inttypes.h>
#include <stdio.h>

#include "base.h"
#include "command.h"
#include "git_story.h"
#include "loader.h"
#include "progress.h"
#include "run.h"

static void show_progress(int64_t run, uint64_t events)
{
	struct progress progress = progress_begin(true);

	progress_show(&progress, "run %" PRId64 ": %" PRIu64 " requests recovered", run, events);
}

/* The runs that are not finished, before and after: what recover_all() did is the difference. */
static int unfinished(struct context *context, int64_t **ret_runs, size_t *ret_count)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	auto_free int64_t *runs = NULL;
	size_t count = 0;
	int err = trace_prepare(context->trace,
		"SELECT id FROM run WHERE state IN ('recording', 'finishing') ORDER BY id", &stmt, NULL);

	while (err == 0 && (err = trace_step(stmt)) == 1) {
		int64_t *grown = reallocarray(runs, count + 1, sizeof(*runs));

		if (!grown)
			return log_errno(ENOMEM, "%s", context->args[0]);
		runs = grown;
		runs[count++] = trace_column_int(stmt, 0);
		err = 0;
	}
	if (err < 0)
		return context_trace_error(context, err, "cannot read the runs");
	*ret_runs = steal_ptr(&runs);
	*ret_count = count;
	return 0;
}

/* Whether the run is in the database as far as anything of it is there. */
static bool report(struct context *context, int64_t id)
{
	struct run_info run;
	bool settled;

	if (run_load(context->trace, id, &run) < 0)
		return false;
	settled = run.alive || (run.finished && !run.damaged);
	if (context->common.quiet)
		;
	else if (run.finished)
		printf("run %" PRId64 "%s%s%s: %" PRId64 " of %" PRId64
		       " requests are in the database, %" PRId64 " dropped%s%s\n",
			run.id, run.label ? " (" : "", run.label ?: "", run.label ? ")" : "", run.recorded,
			run.requests, run.dropped, run.note ? "; " : "", run.note ?: "");
	else
		printf("run %" PRId64 "%s\n", run.id, run.alive ? " is still being recorded; left alone" :
			" is not finished: its spool cannot be read, and was left alone");
	run_free(&run);
	return settled;
}

/* The number of runs that 'fstape record' is still at work on after their mounts' end; negative: -errno. */
static int print_stored_now(struct context *context)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int count = 0, err = trace_prepare(context->trace,
		"SELECT id FROM run WHERE state IN ('done', 'recovered') ORDER BY id", &stmt, NULL);

	while (err == 0 && (err = trace_step(stmt)) == 1) {
		struct run_info run;

		err = run_load(context->trace, trace_column_int(stmt, 0), &run);
		if (err < 0)
			break;
		if (run.storing) {
			printf("run %" PRId64 ": 'fstape record' is still storing what git told; left alone\n", run.id);
			count++;
		}
		run_free(&run);
	}
	return err < 0 ? context_trace_error(context, err, "cannot read the runs") : count;
}

static void print_others(int recovered, size_t listed, int stories, bool left)
{
	if (recovered > (int)listed)
		printf("%d runs that had lost their row were recovered, too\n", recovered - (int)listed);
	if (stories)
		printf("git's story of %d %s was completed\n", stories, stories == 1 ? "run" : "runs");
	if (!listed && !recovered && !stories && !left)
		printf("nothing to recover\n");
}

static int run_recover(struct context *context)
{
	auto_free int64_t *runs = NULL;
	size_t count = 0;
	unsigned int left = 0;
	int recovered, stories, err = unfinished(context, &runs, &count);
	bool terminal = !context->common.quiet && isatty(STDERR_FILENO), settled = true;

	if (err < 0)
		return err;
	recovered = recover_all(context->trace, terminal ? show_progress : NULL, &left);
	if (terminal)
		fputs("\r\033[K", stderr);
	if (recovered < 0) {
		log_msg("%s: not everything could be recovered; what is left stays in %s-spool",
			context->args[0], context->args[0]);
		return recovered;
	}
	stories = git_story_recover(context->trace);
	trace_settle(context->trace);
	if (stories < 0)
		return stories;
	for (size_t i = 0; i < count; i++)
		settled &= report(context, runs[i]);
	if (!context->common.quiet) {
		err = print_stored_now(context);
		if (err < 0)
			return err;
		print_others(recovered, count, stories, left || err);
	}
	if (left)
		log_msg("%s: not everything could be recovered; what is left is in %s-spool", context->args[0],
			context->args[0]);
	else if (!settled)
		log_msg("%s: not everything could be recovered; the runs' notes say what is missing", context->args[0]);
	return left || !settled ? STATUS_FAILED : STATUS_OK;
}

const struct command cmd_recover = {
	.name = "recover",
	.summary = "finish runs whose recorder died",
	.arguments = "DB",
	.details = "Loads what dead recorders left beside the database, in DB-spool, and marks those runs as "
		   "'recovered'."
		   " Every operation that a program was told had succeeded is in there. A recording that is "
		   "still going on is"
		   " left alone. The next recording into the database does the same. What cannot be read, or is another"
		   " database's, stays in DB-spool; then the exit status is 1, and messages say what it is and where.",
	.trace = NEED_TRACE_WRITE,
	.min_args = 1,
	.max_args = 1,
	.run = run_recover,
};
