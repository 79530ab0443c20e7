/* SPDX-License-Identifier: MIT */
/* cmd_bench.c - makes filesystems, runs workloads on them, and compares. */
#include <string.h>

#include "base.h"
#include "bench.h"
#include "bench_store.h"
#include "command.h"
#include "compare.h"
#include "compare_table.h"
#include "compare_ways.h"
#include "files.h"
#include "isolate.h"

struct bench_values {
	struct text_list fs;
	struct text_list workloads;
	struct text_list devices;
	const char *repo;
	int64_t files, mean_size, commits, rounds, seed, size, columns;
	const char *through;
	const char *caches;
	const char *kernel_cache;
	const char *dir_readahead;
	const char *dir;
	bool destroy_data;
	bool resume;
};

#define AT(member) .offset = offsetof(struct bench_values, member)

#define DEFAULT_WORKLOADS "git-clone,git-checkout,git-status"

static const struct option bench_options[] = {
	{ "fs", "SPEC,...",
		"what to compare: ext3, ext4, xfs, btrfs, f2fs, tmpfs, overlay (new; as root), each with"
		" options as in ext4:mkfs=-O^has_journal:mount=noatime:label=fast; btrfs:raid1; or dir=PATH",
		.type = OPTION_LIST, AT(fs) },
	{ "workload", "NAME,...",
		"git-clone, git-clone-local, git-checkout[:WORKERS], git-status, git-add, git-commit, git-gc,"
		" git-log-walk, find, ls-lR, rm-rf, untar, or cmd=COMMAND (default: " DEFAULT_WORKLOADS ")",
		.type = OPTION_LIST, AT(workloads) },
	{ "rounds", "N", "how often; 6 or more to claim a difference", "3", .type = OPTION_INT, .min = 1,
		.max = 10000, AT(rounds) },
	{ "cache", "cold|warm|both",
		"cold: synced, mounted anew and the kernel's caches dropped before each command (as root)", "warm",
		.type = OPTION_CHOICE, AT(caches) },
	{ "through", "shim|native|both", "recorded, or timed alone, or either", "shim", .type = OPTION_CHOICE,
		AT(through) },
	{ "dir-readahead", "off|N,...",
		"readahead of directories in the shim: off, or by so many threads; several are compared",
		.type = OPTION_TEXT, AT(dir_readahead) },
	{ "kernel-cache", "never|auto|always", "what the kernel may cache above the shim", "always",
		.type = OPTION_CHOICE, AT(kernel_cache) },
	{ "repo", "PATH", "a git repository to work on a copy of", .type = OPTION_TEXT, AT(repo) },
	{ "files", "N", "else one is generated with so many files", "5000", .type = OPTION_INT, .min = 1,
		.max = 10000000, AT(files) },
	{ "mean-size", "BYTES", "... of this mean size", "8K", .type = OPTION_SIZE, .min = 1, .max = 16 << 20,
		AT(mean_size) },
	{ "commits", "N", "... in so many commits", "4", .type = OPTION_INT, .min = 1, .max = 100000,
		AT(commits) },
	{ "device", "PATH,...",
		"block devices or image files to make filesystems on; the targets cross over between them",
		.type = OPTION_LIST, AT(devices) },
	{ "destroy-data", NULL, "devices may be formatted whatever is on them", .type = OPTION_FLAG, AT(destroy_data) },
	{ "dir", "DIR", "where images and work files are (default: $TMPDIR or /tmp)", .type = OPTION_TEXT,
		AT(dir) },
	{ "size", "BYTES", "of an image; it takes only what is written to it", "4G", .type = OPTION_SIZE,
		.min = 1, AT(size) },
	{ "seed", "N", "of the generated files and the order of turns", "1", .type = OPTION_INT, AT(seed) },
	{ "resume", NULL, "go on with the last benchmark of DB, with its options", .type = OPTION_FLAG, AT(resume) },
	{ "columns", "N", "how many operations get a column in the result (0: 4, or as many as fit)", "0", .type = OPTION_INT,
		.max = OP_COUNT, AT(columns) },
	{},
};

/* The lists behind the pointers of a struct bench_options. */
struct lists {
	struct target *targets;
	struct workload *workloads;
	struct device *devices;
	struct variant *variants;
};

static int add_variant(struct lists *lists, struct bench_options *bench, struct variant variant)
{
	struct variant *grown = reallocarray(lists->variants, bench->n_variants + 1, sizeof(*grown));

	if (!grown)
		return log_errno(ENOMEM, "bench");
	lists->variants = grown;
	grown[bench->n_variants++] = variant;
	bench->variants = grown;
	return 0;
}

/* "off,8": the next one of `*text`. */
static int next_readahead(const char **text, int64_t *ret_threads)
{
	size_t len = strcspn(*text, ",");
	auto_free char *word = strndup(*text, len);

	if (!word)
		return log_errno(ENOMEM, "--dir-readahead");
	*ret_threads = READAHEAD_OFF;
	if (strcmp(word, "off") != 0 && (parse_int(word, ret_threads) < 0 || *ret_threads < 1 || *ret_threads > 64)) {
		log_msg("--dir-readahead: '%s' is neither 'off' nor a number of threads from 1 to 64", word);
		return -EINVAL;
	}
	*text += len + ((*text)[len] == ',');
	return 0;
}

/* Native runs, then those through the shim with each readahead; the same with cold caches and warm. */
static int add_variants_of(const struct bench_values *values, struct lists *lists, struct bench_options *bench, bool cold)
{
	bool shim = strcmp(values->through, "native") != 0, native = strcmp(values->through, "shim") != 0;
	const char *text = values->dir_readahead;
	int err = 0;

	if (native)
		err = add_variant(lists, bench, (struct variant){ false, cold, READAHEAD_UNSET });
	if (shim && !text)
		err = err ?: add_variant(lists, bench, (struct variant){ true, cold, READAHEAD_UNSET });
	while (shim && text && *text && err == 0) {
		struct variant variant = { true, cold, READAHEAD_OFF };

		err = next_readahead(&text, &variant.dir_readahead);
		for (size_t i = 0; i < bench->n_variants && err == 0; i++) {
			if (lists->variants[i].shim && lists->variants[i].cold == cold &&
				lists->variants[i].dir_readahead == variant.dir_readahead)
				err = (log_msg("--dir-readahead: '%s' has one twice", values->dir_readahead), -EINVAL);
		}
		err = err ?: add_variant(lists, bench, variant);
	}
	return err;
}

static int add_variants(const struct bench_values *values, struct lists *lists, struct bench_options *bench)
{
	int err = 0;

	if (values->dir_readahead && strcmp(values->through, "native") == 0) {
		log_msg("--dir-readahead is the shim's: --through native has none");
		return -EINVAL;
	}
	if (values->dir_readahead && !*values->dir_readahead) {
		log_msg("--dir-readahead needs a value: off, or a number of threads");
		return -EINVAL;
	}
	if (strcmp(values->caches, "warm") != 0)
		err = add_variants_of(values, lists, bench, true);
	if (strcmp(values->caches, "cold") != 0)
		err = err ?: add_variants_of(values, lists, bench, false);
	return err;
}

static int parse_lists(const struct bench_values *values, struct lists *lists, struct bench_options *bench)
{
	int err = 0;

	if (!values->fs.count) {
		log_msg("bench: --fs says what to compare, as in --fs ext4,xfs or"
			" --fs dir=/mnt/a,dir=/mnt/b");
		return -EINVAL;
	}
	for (size_t i = 0; i < values->fs.count && err == 0; i++)
		err = targets_parse(values->fs.items[i], &lists->targets, &bench->n_targets);
	for (size_t i = 0; i < values->workloads.count && err == 0; i++)
		err = workloads_parse(values->workloads.items[i], &lists->workloads, &bench->n_workloads);
	if (!values->workloads.count && err == 0)
		err = workloads_parse(DEFAULT_WORKLOADS, &lists->workloads, &bench->n_workloads);
	for (size_t i = 0; i < values->devices.count && err == 0; i++)
		err = devices_parse(values->devices.items[i], &lists->devices, &bench->place.n_devices);
	bench->targets = lists->targets;
	bench->workloads = lists->workloads;
	bench->place.devices = lists->devices;
	return err ?: add_variants(values, lists, bench);
}

static void free_lists(struct lists *lists, const struct bench_options *bench)
{
	targets_free(lists->targets, bench->n_targets);
	workloads_free(lists->workloads, bench->n_workloads);
	devices_free(lists->devices, bench->place.n_devices);
	free(lists->variants);
}

static int work(void *arg)
{
	/* Standard output is the result's alone. */
	if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		return log_errno(errno, "bench");
	return bench_run(arg);
}

static int show_result(const struct context *context, const struct bench_values *values, int64_t bench)
{
	struct compare compare;
	struct trace *trace;
	int err = trace_open(context->args[0], TRACE_READ, &trace);

	if (err < 0)
		return err;
	err = compare_load_query(trace, &(struct compare_query){ .bench = bench }, &compare);
	if (err == 0 && compare_note_ways(trace, &compare) < 0)
		log_msg("%s: cannot tell whether all runs were recorded in the same way: %s", context->args[0], trace_error(trace));
	if (err < 0 && err != -ENOENT)
		log_msg("%s: cannot compare: %s", context->args[0], trace_error(trace));
	trace_close(trace);
	if (err < 0)
		return err;
	err = compare_print(context, &compare, (size_t)values->columns, NULL);
	compare_free(&compare);
	return err;
}

static int run_isolated(
	const struct context *context, const struct bench_values *values, struct bench_options *bench)
{
	auto_free char *folder = NULL;
	int err = folder_make_temp(bench->place.image_dir, "fstape-work", &folder), shown;

	if (err < 0)
		return err;
	bench->place.work_dir = folder;
	err = isolate_run(folder, work, bench);
	if (err == -ECANCELED)
		log_msg("stopped; what was measured until then is in %s, 'fstape bench --resume' goes on", bench->db);
	shown = show_result(context, values, bench->id);
	if (shown < 0 && shown != -ENOENT)
		err = err ?: shown;
	return err;
}

/* A new benchmark's row, or the one that is resumed. */
static int begin(const struct bench_values *values, struct bench_options *bench, const struct bench_row *resumed)
{
	const struct option_set set = { bench_options, (void *)(uintptr_t)values };
	struct strbuf auto_strbuf words = {};
	struct bench_row row;
	int err;

	if (resumed->id) {
		bench->id = resumed->id;
		bench->first_round = resumed->first_round;
		bench->resume = true;
		return 0;
	}
	options_words(&set, "resume", &words);
	if (words.failed)
		return log_errno(ENOMEM, "bench");
	err = bench_begin(bench->db, words.buf, values->rounds, &row);
	if (err == 0) {
		bench->id = row.id;
		bench->first_round = row.first_round;
	}
	return err;
}

static int run_with(const struct context *context, const struct bench_values *values, const struct bench_row *resumed)
{
	const char *given = values->dir ?: getenv("TMPDIR") ?: "/tmp";
	auto_free char *dir = realpath(given, NULL);
	int err = dir ? 0 : -errno;
	struct bench_options bench = {
		.db = context->args[0],
		.repo = values->repo,
		.generate = { (uint32_t)values->files, (uint32_t)values->mean_size, (uint32_t)values->commits,
			(uint64_t)values->seed },
		.place = { .image_dir = dir, .size = values->size },
		.destroy = values->destroy_data,
		.resume = resumed->id != 0,
		.kernel_cache = values->kernel_cache,
		.seed = (uint64_t)values->seed,
		.rounds = values->rounds,
		.progress = !context->common.quiet && isatty(STDERR_FILENO),
	};
	struct lists lists = {};

	err = err < 0 ? log_errno(err, "--dir %s", given) : parse_lists(values, &lists, &bench);
	if (err == -EINVAL) {
		err = STATUS_USAGE;
	} else {
		err = err ?: bench_check(&bench);
		err = err ?: begin(values, &bench, resumed);
		err = err ?: run_isolated(context, values, &bench);
	}
	free_lists(&lists, &bench);
	return err;
}

enum given { GIVEN_NOTHING, GIVEN_SAME, GIVEN_OTHERS };

/* What was given with --resume, beside the options that the benchmark was begun with. */
static enum given look_at_given(const struct bench_values *given, const struct bench_row *row)
{
	const struct option_set set = { bench_options, (void *)(uintptr_t)given };
	struct strbuf auto_strbuf words = {}, presets = {};
	struct bench_values nothing = {};
	const struct option_set preset = { bench_options, &nothing };

	if (options_init(&preset, 1) < 0)
		return GIVEN_OTHERS;
	options_words(&set, "resume", &words);
	options_words(&preset, "resume", &presets);
	options_free(&preset, 1);
	if (words.failed || presets.failed)
		return GIVEN_OTHERS;
	if (strcmp(words.buf, presets.buf) == 0)
		return GIVEN_NOTHING;
	return strcmp(words.buf, row->words) == 0 ? GIVEN_SAME : GIVEN_OTHERS;
}

/* A database may come from a stranger: what could do harm is not done because it says so. */
static bool is_harmless(const struct bench_values *values)
{
	for (size_t i = 0; i < values->workloads.count; i++) {
		if (strstr(values->workloads.items[i], "cmd="))
			return false;
	}
	return !values->devices.count && !values->destroy_data;
}

static int check_given(const struct context *context, const struct bench_values *given, const struct bench_values *stored,
	const struct bench_row *row)
{
	enum given what = look_at_given(given, row);

	if (what == GIVEN_OTHERS)
		log_msg("--resume goes on with the options of the benchmark in %s, and those given are others; it was"
			" begun with %s", context->args[0], row->words);
	else if (what == GIVEN_NOTHING && !is_harmless(stored))
		log_msg("%s: this benchmark runs a command of its own or formats devices: to go on, give its options"
			" again; they are %s", context->args[0], row->words);
	else
		return 0;
	return STATUS_USAGE;
}

static int resume(const struct context *context, const struct bench_values *given)
{
	struct bench_values values = {};
	const struct option_set set = { bench_options, &values };
	auto_free char **parsed = NULL; /* the same words: parsing takes the options out */
	struct bench_row row;
	char **words = NULL;
	size_t count = 0;
	int err = bench_find(context->args[0], &row, &words);

	if (err < 0)
		return err;
	while (words[count])
		count++;
	parsed = calloc(count + 1, sizeof(*parsed));
	if (parsed)
		memcpy(parsed, words, count * sizeof(*parsed));
	err = parsed ? options_init(&set, 1) : log_errno(ENOMEM, "bench");
	err = err ?: options_parse(&set, 1, parsed, 0);
	err = err < 0 ? err : check_given(context, given, &values, &row);
	err = err ?: run_with(context, &values, &row);
	options_free(&set, 1);
	bench_words_free(words);
	free(row.words);
	return err;
}

static int run_bench(struct context *context)
{
	const struct bench_values *values = context->options;
	int err = target_extend_path();

	if (err < 0)
		return err;
	if (values->resume)
		return resume(context, values);
	return run_with(context, values, &(struct bench_row){});
}

const struct command cmd_bench = {
	.name = "bench",
	.summary = "make filesystems, run git on them, record and compare",
	.arguments = "DB --fs SPEC,...",
	.details = "Each round gives every target one turn, in a balanced random order; each measurement has a filesystem"
		   " made for it. What a workload starts from is made outside the clock, and its result is checked. All"
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
