/* SPDX-License-Identifier: MIT */
/* cmd_replay.c - a recorded load again, on a directory of any filesystem. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base.h"
#include "beneath.h"
#include "command.h"
#include "files.h"
#include "progress.h"
#include "replay_report.h"
#include "replay_run.h"
#include "replay_store.h"
#include "run.h"
#include "start_state.h"

struct replay_command {
	const char *speed, *threads, *start, *explain, *show, *into, *label;
	int64_t seed, compressible, max_bytes;
	bool dry_run, keep, allow_mismatch, allow_devices, allow_setid, owners, read_opened, cold, no_order;
};

/* What the words of the command line come to. */
struct request {
	const struct context *context;
	const struct replay_command *words;
	int64_t run;
	double pace;
	unsigned int threads;
	enum start_mode start;
	enum replay_show show;
	struct progress progress;
	const char *stage;
	bool contents; /* of writes were recorded */
	bool scanned;  /* the start state is known as a whole */
};

/* What Ctrl-C ends. The only thing that a signal handler can be told is a variable of the file. */
static volatile sig_atomic_t stop;

static void on_stop(int sig)
{
	stop = sig;
}

static void catch_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = on_stop }, before;

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		sigaction(signals[i], NULL, &before);
		if (before.sa_handler != SIG_IGN)
			sigaction(signals[i], &action, NULL);
	}
}

/* --- words ------------------------------------------------------------------------------------------------------- */

static int usage(const char *option, const char *value, const char *wanted)
{
	log_msg("%s '%s': %s; see 'fstape replay --help'", option, value, wanted);
	return -EINVAL;
}

static int parse_speed(const char *text, double *ret_pace)
{
	char *end;
	double factor = strtod(text, &end);

	if (strcmp(text, "max") == 0)
		*ret_pace = 0;
	else if (strcmp(text, "recorded") == 0)
		*ret_pace = 1;
	else if (end == text || *end || !(factor >= 0.001 && factor <= 1e6))
		return usage("--speed", text, "max, recorded, or a factor from 0.001 to 1000000");
	else
		*ret_pace = factor;
	return 0;
}

static int parse_threads(const char *text, unsigned int *ret_threads)
{
	int64_t number = 0;

	if (strcmp(text, "keep") != 0 && (parse_int(text, &number) < 0 || number < 1 || number > PLAN_THREADS_MAX))
		return usage("--threads", text, "keep, or a number from 1 to 1024");
	*ret_threads = (unsigned int)number;
	return 0;
}

static int parse_words(const struct replay_command *words, struct request *request)
{
	static const char *const shows[] = { "all", "summary", "operations", "mismatches" };
	int err = parse_speed(words->speed, &request->pace);

	err = err ?: parse_threads(words->threads, &request->threads);
	request->start = strcmp(words->start, "keep") == 0 ? START_KEEP :
			 strcmp(words->start, "none") == 0 ? START_NONE :
							     START_BUILD;
	for (size_t i = 0; i < ARRAY_SIZE(shows); i++)
		if (strcmp(words->show, shows[i]) == 0)
			request->show = (enum replay_show)i;
	if (request->show == SHOW_ALL && request->context->format != TABLE_TEXT)
		request->show = SHOW_OPERATIONS;
	return err;
}

/* --- work -------------------------------------------------------------------------------------------------------- */

static void show_progress(void *arg, uint64_t done, uint64_t total)
{
	struct request *request = arg;

	progress_show(&request->progress, "%s: %" PRIu64 " of %" PRIu64 " operations (%" PRIu64 "%%)", request->stage,
		done, total, total ? done * 100 / total : 100);
}

static struct filler filler_of(const struct replay_command *words)
{
	return (struct filler){ .seed = (uint64_t)words->seed, .compressible = (unsigned int)words->compressible };
}

static int compile(struct request *request, struct plan *ret_plan)
{
	const struct plan_options options = {
		.allow_devices = request->words->allow_devices,
		.allow_setid = request->words->allow_setid,
		.no_order = request->words->no_order,
		.threads = request->threads,
		.pace = request->pace > 0 || request->words->dry_run,
		.stop = &stop,
		.progress = show_progress,
		.progress_arg = request,
	};
	int err;

	request->stage = "compiling";
	err = plan_compile(request->context->trace, request->run, &options, ret_plan);
	progress_end(&request->progress);
	if (err == -EINTR)
		log_msg("stopped by a signal before anything was replayed");
	return err;
}

/* A recording must not be able to fill the disk: what all its writes could come to is held against a bound. */
static int check_room(const struct request *request, const struct plan *plan, int root_fd)
{
	const char *target = request->context->args[1];
	uint64_t need = plan->counts.bytes_written, limit = (uint64_t)request->words->max_bytes, objects, bytes;
	struct statvfs fs;
	int err;

	if (request->start == START_BUILD) {
		err = start_state_size(request->context->trace, request->run, &objects, &bytes);
		if (err < 0)
			return err;
		need += bytes;
	}
	if (fstatvfs(root_fd, &fs) < 0)
		return log_errno(errno, "%s", target);
	if (!limit)
		limit = (uint64_t)fs.f_bavail * fs.f_frsize / 2;
	if (need <= limit)
		return 0;
	log_msg("%s: the run may write up to %" PRIu64 " bytes there, and the bound is %" PRIu64
		" (%s); --max-bytes sets another",
		target, need, limit, request->words->max_bytes ? "--max-bytes" : "half of what is free");
	return -ENOSPC;
}

static void say_left_out(const struct start_result *result)
{
	const struct {
		uint64_t count;
		const char *what;
	} parts[] = {
		{ result->devices_left_out, "device files left out (--allow-devices makes them)" },
		{ result->setid_left_out, "set-id bits left out (--allow-setid sets them)" },
		{ result->xattrs_left_out, "attributes left out that are rights (--allow-setid sets them)" },
		{ result->owners_failed, "owners that cannot be set here" },
		{ result->xattrs_failed, "attributes that cannot be set here" },
		{ result->data_missing, "files whose recorded contents cannot be read, and were made up" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (parts[i].count)
			log_msg("start state: %" PRIu64 " %s", parts[i].count, parts[i].what);
}

static int make_start(struct request *request, int root_fd)
{
	const struct replay_command *words = request->words;
	const struct start_options options = {
		.mode = request->start,
		.filler = filler_of(words),
		.max_bytes = (uint64_t)words->max_bytes,
		.allow_devices = words->allow_devices,
		.allow_setid = words->allow_setid,
		.owners = words->owners,
		.progress = request->progress.on,
	};
	struct start_result result = {};
	int err;

	if (request->start != START_BUILD)
		return 0;
	umask(0); /* modes were recorded with the callers' umasks applied */
	err = start_state_build(
		request->context->trace, request->run, root_fd, request->context->args[1], &options, &stop, &result);
	if (err == -EINTR)
		log_msg("stopped by a signal while the start state was made in %s", request->context->args[1]);
	else if (err == 0)
		say_left_out(&result);
	/* Writing it to disk later would be taken for time of the replay. */
	return err ?: syncfs(root_fd) < 0 ? log_errno(errno, "%s", request->context->args[1]) : 0;
}

static int open_target(const struct request *request, int *ret_fd)
{
	const char *target = request->context->args[1];
	int err = beneath_root(target, request->start != START_KEEP, ret_fd);

	if (err == -ENOTEMPTY)
		log_msg("%s is not empty; replay into an empty directory, or say --start-state keep when what was "
			"there at the run's start is there already",
			target);
	else if (err < 0)
		log_errno(err, "%s", target);
	return err;
}

static int perform(struct request *request, const struct plan *plan, int root_fd, struct replay_result *ret_result)
{
	const struct replay_command *words = request->words;
	struct replay_options options = {
		.filler = filler_of(words),
		.pace = request->pace,
		.read_opened = words->read_opened,
		.allow_setid = words->allow_setid,
		.cold = words->cold,
		.stop = &stop,
		.progress = show_progress,
		.progress_arg = request,
	};
	int err;

	if (request->contents)
		options.contents = request->context->args[0];
	request->stage = "replaying";
	err = replay_run(plan, root_fd, &options, ret_result);
	progress_end(&request->progress);
	return err;
}

static int judge(struct request *request, const struct plan *plan, const struct replay_result *result)
{
	auto_free struct fidelity *fidelity = calloc(1, sizeof(*fidelity));
	int err = fidelity ? fidelity_of(plan, result, fidelity) : -ENOMEM;

	if (err < 0)
		return log_errno(err, "cannot compare the results");
	err = replay_report(request->context, plan, result, fidelity, request->show);
	if (err < 0)
		return err;
	if (result->stopped) {
		log_msg("stopped by a signal: %" PRIu64 " of %u operations were replayed", result->done,
			plan->n_actions);
		return STATUS_FAILED;
	}
	if (fidelity->violations && !request->words->no_order)
		log_msg("%" PRIu64 " waits were violated: this is a fault of fstape", fidelity->violations);
	return (fidelity->all.mismatched && !request->words->allow_mismatch) || fidelity->violations ? STATUS_FAILED :
												       STATUS_OK;
}

/* As a run of its own, in this database or another. */
static int store(
	const struct request *request, const struct plan *plan, const struct replay_result *result, int root_fd)
{
	const struct replay_command *words = request->words;
	auto_free char *target = realpath(request->context->args[1], NULL);
	const struct replay_store store = {
		.label = words->label,
		.target = target ?: request->context->args[1], /* what it has replayed into may be gone */
		.root_fd = root_fd,
		.cold = words->cold,
	};
	struct trace *into;
	int64_t run;
	int err;

	if (!words->into)
		return 0;
	err = trace_open(words->into, TRACE_CREATE, &into);
	if (err < 0)
		return err;
	err = replay_store(request->context->trace, into, plan, result, &store, &run);
	trace_close(into);
	if (err == 0 && !request->context->common.quiet)
		log_msg("%s: the replay is run %" PRId64, words->into, run);
	return err;
}

/* Whether --into can be written to is better known before than after. What it has is no part of what is replayed. */
static int check_into(const struct request *request)
{
	const char *into = request->words->into, *target = request->context->args[1];
	auto_free char *path = NULL, *directory = NULL;
	struct trace *trace;
	int err;

	if (!into)
		return 0;
	path = path_resolve_new(into);
	directory = realpath(target, NULL);
	if (!path || !directory)
		return log_errno(errno, "%s", path ? target : into);
	if (path_lies_in(path, directory)) {
		log_msg("--into %s lies in %s: a database cannot be inside what is replayed; put it elsewhere", into, target);
		return -EINVAL;
	}
	err = trace_open(into, TRACE_CREATE, &trace);
	if (err == 0)
		trace_close(trace);
	return err;
}

/* Whether the run's contents were recorded, and whether all is known of what was there when it began. */
static int look_at_run(const struct request *request, bool *ret_contents, bool *ret_scanned)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(
		request->context->trace, "SELECT data IS 'full', scan IS 'done' FROM run WHERE id = ?", &stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, request->run);
	err = err ?: trace_step(stmt);
	if (err < 0)
		return context_trace_error(request->context, err, "cannot read the run");
	*ret_contents = trace_column_int(stmt, 0);
	*ret_scanned = trace_column_int(stmt, 1);
	return 0;
}

static int replay(struct request *request, const struct plan *plan)
{
	struct replay_result result = {};
	int auto_close root_fd = -1;
	int err = look_at_run(request, &request->contents, &request->scanned);

	if (err == 0 && request->start == START_BUILD && !request->scanned && !request->context->common.quiet)
		log_msg("run %" PRId64
			" does not tell all of what was there when it began: untouched files are missing",
			request->run);
	err = err ?: open_target(request, &root_fd);

	err = err ?: check_room(request, plan, root_fd);
	err = err ?: check_into(request); /* which makes it: what else can fail has been looked at */
	err = err ?: make_start(request, root_fd);
	err = err ?: perform(request, plan, root_fd, &result);
	err = err ?: store(request, plan, &result, root_fd);
	if (err == 0)
		err = judge(request, plan, &result);
	free(result.outcomes);
	return err;
}

/* One file again, when nobody else has it open; we had, when it is the one that we read. */
static void settle(struct context *context, const char *into)
{
	struct trace *trace;

	if (!into)
		return;
	trace_close(context->trace);
	context->trace = NULL;
	if (access(into, F_OK) < 0 || trace_open(into, TRACE_WRITE, &trace) < 0)
		return;
	trace_settle(trace);
	trace_close(trace);
}

static int run_replay(struct context *context)
{
	const struct replay_command *words = context->options;
	struct request request = {
		.context = context, .words = words, .progress = progress_begin(!context->common.quiet)
	};
	bool need_target = !words->dry_run && !words->explain;
	auto_free int64_t *runs = NULL;
	struct plan plan = {};
	int err = parse_words(words, &request);

	if (err == 0 && need_target && context->n_args < 2) {
		log_msg("replay: where to? TARGET, an empty directory, is missing; see 'fstape replay --help'");
		err = -EINVAL;
	}
	if (err == 0 && !need_target && context->n_args == 2)
		err = usage("TARGET", context->args[1], "--dry-run and --explain need none");
	if (err < 0)
		return STATUS_USAGE;
	err = context_runs(context, &runs);
	if (err > 1)
		return log_msg("replay takes one run at a time"), STATUS_USAGE;
	if (err < 0)
		return err;
	request.run = runs[0];
	err = run_check(context->trace, request.run);
	if (err < 0)
		return context_trace_error(context, err, "cannot read the run");
	catch_signals();
	err = compile(&request, &plan);
	if (err == 0)
		err = words->explain ? replay_explain(context, &plan, words->explain) :
		      words->dry_run ? replay_report_plan(context, &plan) :
				       replay(&request, &plan);
	plan_free(&plan);
	settle(context, words->into);
	return err;
}

static const struct option replay_options[] = {
	{ "speed", "max|recorded|FACTOR", "without pauses; with those that the programs made; or so many times faster",
		"max", .type = OPTION_TEXT, .offset = offsetof(struct replay_command, speed) },
	{ "threads", "keep|N", "as many as were recorded at once, or N", "keep", .type = OPTION_TEXT,
		.offset = offsetof(struct replay_command, threads) },
	{ "start-state", "build|keep|none",
		"make what was there before the run; take what is in TARGET; or begin empty", "build",
		.type = OPTION_CHOICE, .offset = offsetof(struct replay_command, start) },
	{ "into", "DB2", "store the replay as a run of its own there; DB2 may be DB", .type = OPTION_TEXT,
		.offset = offsetof(struct replay_command, into) },
	{ "label", "TEXT", "a name for that run", .type = OPTION_TEXT, .letter = 'l',
		.offset = offsetof(struct replay_command, label) },
	{ "show", "all|summary|operations|mismatches",
		"what is printed; csv and json have one table (all: operations)", "all", .type = OPTION_CHOICE,
		.offset = offsetof(struct replay_command, show) },
	{ "allow-mismatch", NULL, "results that differ are no failure", .type = OPTION_FLAG,
		.offset = offsetof(struct replay_command, allow_mismatch) },
	{ "dry-run", NULL, "compile the run, print what would be done and what waits for what; takes no TARGET",
		.type = OPTION_FLAG, .offset = offsetof(struct replay_command, dry_run) },
	{ "explain", "PATH|SEQ", "print what operations on a path, or one operation, wait for; takes no TARGET",
		.type = OPTION_TEXT, .offset = offsetof(struct replay_command, explain) },
	{ "read-opened", NULL,
		"read each file that is opened for reading: caches may have served that when it was recorded",
		.type = OPTION_FLAG, .offset = offsetof(struct replay_command, read_opened) },
	{ "cold", NULL, "write everything to disk and drop the kernel's caches first (root)", .type = OPTION_FLAG,
		.offset = offsetof(struct replay_command, cold) },
	{ "allow-devices", NULL, "replay runs that make device files", .type = OPTION_FLAG,
		.offset = offsetof(struct replay_command, allow_devices) },
	{ "allow-setid", NULL, "set the set-id bits of files, and attributes that are rights, as recorded",
		.type = OPTION_FLAG, .offset = offsetof(struct replay_command, allow_setid) },
	{ "owners", NULL, "the start state's owners as recorded (root)", .type = OPTION_FLAG,
		.offset = offsetof(struct replay_command, owners) },
	{ "max-bytes", "SIZE", "most that may be written to TARGET (0: half of what is free)", "0",
		.type = OPTION_SIZE, .offset = offsetof(struct replay_command, max_bytes) },
	{ "compressible", "PERCENT", "how far contents that were not recorded can be compressed", "50",
		.type = OPTION_INT, .max = 100, .offset = offsetof(struct replay_command, compressible) },
	{ "seed", "N", "of these contents", "1", .type = OPTION_INT, .offset = offsetof(struct replay_command, seed) },
	/* Shows what the order is good for: without it results differ. */
	{ "no-order", NULL, NULL, .type = OPTION_FLAG, .offset = offsetof(struct replay_command, no_order) },
	{},
};

const struct command cmd_replay = {
	.name = "replay",
	.summary = "replay a run in a directory of any filesystem",
	.arguments = "DB [TARGET]",
	.details =
		"Issues the operations of a run below TARGET, an empty directory: in the threads that made them, with"
		" their sizes, offsets, flags and modes, in an order that keeps what depended on one another and lets"
		" the rest overlap. Compares each result with the recorded one, and times.\n\nExit status 1 when a"
		" result differs.",
	.options = replay_options,
	.options_size = sizeof(struct replay_command),
	.trace = NEED_TRACE_READ,
	.flags = COMMAND_RUN | COMMAND_FORMAT,
	.min_args = 1,
	.max_args = 2,
	.run = run_replay,
};
