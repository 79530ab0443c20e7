/* SPDX-License-Identifier: MIT */
/* cmd_bench.c - makes filesystems, runs workloads on them, and compares. */
#include <inttypes.h>
#include <string.h>

#include "base.h"
#include "bench.h"
#include "command.h"
#include "compare.h"
#include "compare_table.h"
#include "files.h"
#include "isolate.h"

struct bench_values {
	struct text_list fs;
	struct text_list workloads;
	const char *repo;
	int64_t files, mean_size, commits, rounds, seed, size, columns;
	const char *through;
	const char *cache;
	const char *dir;
};

#define AT(member) .offset = offsetof(struct bench_values, member)

static const struct option bench_options[] = {
	{ "fs", "SPEC,...",
		"what to compare: ext3, ext4, xfs, btrfs (new, on loop images; as root), each with"
		" options as in ext4:mkfs=-O^has_journal:mount=noatime, or dir=PATH",
		.type = OPTION_LIST, AT(fs) },
	{ "workload", "NAME,...", "git-clone, git-checkout, git-status (default: all)", .type = OPTION_LIST,
		AT(workloads) },
	{ "rounds", "N", "how often; 6 or more to claim a difference", "3", .type = OPTION_INT, .min = 1,
		.max = 10000, AT(rounds) },
	{ "through", "shim|native|both", "recorded, or timed alone, or either", "shim", .type = OPTION_CHOICE,
		AT(through) },
	{ "cache", "never|auto|always", "what the kernel may cache above the shim", "always",
		.type = OPTION_CHOICE, AT(cache) },
	{ "repo", "PATH", "a git repository to work on a copy of", .type = OPTION_TEXT, AT(repo) },
	{ "files", "N", "else one is generated with so many files", "5000", .type = OPTION_INT, .min = 1,
		.max = 10000000, AT(files) },
	{ "mean-size", "BYTES", "... of this mean size", "8K", .type = OPTION_SIZE, .min = 1, .max = 16 << 20,
		AT(mean_size) },
	{ "commits", "N", "... in so many commits", "4", .type = OPTION_INT, .min = 1, .max = 100000,
		AT(commits) },
	{ "dir", "DIR", "where images and work files are (default: $TMPDIR or /tmp)", .type = OPTION_TEXT,
		AT(dir) },
	{ "size", "BYTES", "of an image; it takes only what is written to it", "4G", .type = OPTION_SIZE,
		.min = 1, AT(size) },
	{ "seed", "N", "of the generated files and the order of turns", "1", .type = OPTION_INT, AT(seed) },
	{ "columns", "N", "how many operations get a column in the result (0: 4, or as many as fit)", "0", .type = OPTION_INT,
		.max = OP_COUNT, AT(columns) },
	{},
};

/* The lists behind the pointers of a struct bench_options. */
struct lists {
	struct target *targets;
	const struct workload **workloads;
};

static int add_workload(const char *name, size_t len, struct lists *lists, struct bench_options *bench)
{
	const struct workload *workload = workload_find(name, len);
	const struct workload **grown;

	if (!workload) {
		struct strbuf auto_strbuf names = {};

		workload_names(&names);
		log_msg("--workload: unknown workload '%.*s'; known are %s", (int)len, name, names.buf ?: "");
		return -EINVAL;
	}
	for (size_t i = 0; i < bench->n_workloads; i++) {
		if (lists->workloads[i] == workload) {
			log_msg("--workload: '%s' is there twice", workload->name);
			return -EINVAL;
		}
	}
	grown = reallocarray(lists->workloads, bench->n_workloads + 1, sizeof(*grown));
	if (!grown)
		return log_errno(ENOMEM, "--workload");
	lists->workloads = grown;
	grown[bench->n_workloads++] = workload;
	return 0;
}

static int add_workloads(const char *text, struct lists *lists, struct bench_options *bench)
{
	for (;;) {
		size_t len = strcspn(text, ",");
		int err = len || text[len] ? add_workload(text, len, lists, bench) : -EINVAL;

		if (err < 0 || !text[len])
			return err;
		text += len + 1;
		text += strspn(text, " ");
	}
}

static int parse_lists(const struct bench_values *values, struct lists *lists, struct bench_options *bench)
{
	struct strbuf auto_strbuf all = {};
	int err = 0;

	if (!values->fs.count) {
		log_msg("bench: --fs says what to compare, as in --fs ext4,xfs or"
			" --fs dir=/mnt/a,dir=/mnt/b");
		return -EINVAL;
	}
	for (size_t i = 0; i < values->fs.count && err == 0; i++)
		err = targets_parse(values->fs.items[i], &lists->targets, &bench->n_targets);
	for (size_t i = 0; i < values->workloads.count && err == 0; i++)
		err = add_workloads(values->workloads.items[i], lists, bench);
	if (!values->workloads.count && err == 0) {
		workload_names(&all);
		err = all.failed ? -ENOMEM : add_workloads(all.buf, lists, bench);
	}
	bench->targets = lists->targets;
	bench->workloads = lists->workloads;
	return err;
}

static int column_max(struct trace *trace, const char *column, int64_t *ret_max)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	char sql[64];
	int err;

	snprintf(sql, sizeof(sql), "SELECT coalesce(max(%s), 0) FROM run", column);
	err = trace_prepare(trace, sql, &stmt, NULL);
	err = err ?: trace_step(stmt);
	if (err < 0)
		return err;
	*ret_max = trace_column_int(stmt, 0);
	return 0;
}

/* Makes the database, before hours of work; rounds and runs are numbered on from what is in it. */
static int look_at_database(const char *db, int64_t *ret_first_run, int64_t *ret_first_round)
{
	struct trace *trace;
	int64_t run, round;
	int err = trace_open(db, TRACE_CREATE, &trace);

	if (err < 0)
		return err;
	err = column_max(trace, "id", &run);
	err = err ?: column_max(trace, "round", &round);
	if (err < 0) {
		log_msg("%s: cannot read the runs: %s", db, trace_error(trace));
	} else {
		trace_settle(trace);
		*ret_first_run = run + 1;
		*ret_first_round = round + 1;
	}
	trace_close(trace);
	return err;
}

static int work(void *arg)
{
	/* Standard output is the result's alone. */
	if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		return log_errno(errno, "bench");
	return bench_run(arg);
}

static int show_result(const struct context *context, int64_t first_run)
{
	const struct bench_values *values = context->options;
	struct compare compare;
	struct trace *trace;
	int err = trace_open(context->args[0], TRACE_READ, &trace);

	if (err < 0)
		return err;
	err = compare_load(trace, NULL, 0, first_run, NULL, &compare);
	if (err < 0 && err != -ENOENT)
		log_msg("%s: cannot compare: %s", context->args[0], trace_error(trace));
	trace_close(trace);
	if (err < 0)
		return err;
	err = compare_print(context, &compare, (size_t)values->columns, NULL);
	compare_free(&compare);
	return err;
}

static int run_isolated(const struct context *context, struct bench_options *bench)
{
	auto_free char *folder = NULL;
	int64_t first_run;
	int err = look_at_database(bench->db, &first_run, &bench->first_round), shown;

	err = err ?: folder_make_temp(bench->place.image_dir, "fstape-work", &folder);
	if (err < 0)
		return err;
	bench->place.work_dir = folder;
	err = isolate_run(folder, work, bench);
	if (err == -ECANCELED)
		log_msg("stopped; what was measured until then is in %s", bench->db);
	shown = show_result(context, first_run);
	if (shown < 0 && shown != -ENOENT)
		err = err ?: shown;
	return err;
}

static int run_bench(struct context *context)
{
	const struct bench_values *values = context->options;
	const char *given = values->dir ?: getenv("TMPDIR") ?: "/tmp";
	auto_free char *dir = realpath(given, NULL);
	int err = dir ? 0 : -errno;
	struct bench_options bench = {
		.db = context->args[0],
		.repo = values->repo,
		.generate = { (uint32_t)values->files, (uint32_t)values->mean_size, (uint32_t)values->commits,
			(uint64_t)values->seed },
		.place = { .image_dir = dir, .size = values->size },
		.cache = values->cache,
		.seed = (uint64_t)values->seed,
		.rounds = values->rounds,
		.through_shim = strcmp(values->through, "native") != 0,
		.native = strcmp(values->through, "shim") != 0,
		.progress = !context->common.quiet && isatty(STDERR_FILENO),
	};
	struct lists lists = {};

	err = err < 0 ? log_errno(err, "--dir %s", given) : parse_lists(values, &lists, &bench);
	if (err == -EINVAL) {
		err = STATUS_USAGE;
	} else {
		err = err ?: bench_check(&bench);
		err = err ?: run_isolated(context, &bench);
	}
	targets_free(lists.targets, bench.n_targets);
	free(lists.workloads);
	return err;
}

const struct command cmd_bench = {
	.name = "bench",
	.summary = "make filesystems, run git on them, record and compare",
	.arguments = "DB --fs SPEC,...",
	.details = "Each round gives every target one turn, on a filesystem made for it, in a balanced random"
		   " order. What a workload starts from is made outside the clock, and its result is checked. All"
		   " is kept in DB; rounds add to those that are there. Images are files without a name, mounted"
		   " where only the benchmark sees them: nothing of them is left, however it ends.",
	.options = bench_options,
	.options_size = sizeof(struct bench_values),
	.trace = NEED_NO_TRACE,
	.flags = COMMAND_FORMAT,
	.min_args = 1,
	.max_args = 1,
	.run = run_bench,
};
