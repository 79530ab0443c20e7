/* SPDX-License-Identifier: MIT */
#include "bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "isolate.h"
#include "measure.h"
#include "plan.h"

struct bench {
	const struct bench_options *options;
	const char *git_version;
	struct place source; /* where the repository is */
	struct repository repo;
	size_t done, total; /* measurements of this invocation */
	int64_t start_ns;
};

/* One target's chance in a round. */
struct turn {
	const struct target *target;
	size_t device; /* the first of its devices this time */
	int64_t round; /* from 0 */
	char *setup;   /* JSON */
};

static void show_progress(const struct bench *bench, const struct turn *turn, const struct workload *workload)
{
	int64_t elapsed = clock_ns(CLOCK_MONOTONIC) - bench->start_ns;

	if (!bench->options->progress)
		return;
	fprintf(stderr, "\r\033[Kround %" PRId64 " of %" PRId64 ": %.30s on %.30s (%zu of %zu)", turn->round + 1,
		bench->options->rounds, workload->name, turn->target->name, bench->done + 1, bench->total);
	if (bench->done) {
		int64_t left =
			elapsed / (int64_t)bench->done * (int64_t)(bench->total - bench->done) / NSEC_PER_SEC;

		fprintf(stderr, ", about %" PRId64 ":%02" PRId64 " left", left / 60, left % 60);
	}
	fflush(stderr);
}

static void clear_progress(const struct bench *bench)
{
	if (bench->options->progress)
		fputs("\r\033[K", stderr);
}

/* The programs say that a disk is full; which one, and what helps, they cannot know. */
static void hint_if_full(const struct place *place)
{
	struct statvfs fs;

	if (place->mountpoint && statvfs(place->dir, &fs) == 0 && fs.f_bavail < fs.f_blocks / 50)
		log_msg("the filesystem is full; --size makes larger ones");
}

static struct measurement measurement_of(
	const struct bench *bench, const struct turn *turn, const struct workload *workload, const struct variant *variant)
{
	return (struct measurement){
		.workload = workload,
		.target = turn->target,
		.variant = variant,
		.round = bench->options->first_round + turn->round,
		.setup = turn->setup,
	};
}

/* Whether an earlier invocation has measured it. */
static int is_measured(const struct bench *bench, const struct turn *turn, const struct workload *workload,
	const struct variant *variant)
{
	struct measurement m = measurement_of(bench, turn, workload, variant);

	return bench->options->resume ? measurement_exists(bench->options->db, bench->options->id, &m) : 0;
}

static int prepare_caches(const struct bench *bench, struct place *place, const struct workload_site *site, bool cold)
{
	int err;

	if (!cold) /* what a set-up that is shared leaves in the caches depends on who was before */
		return site->workload->type->keeps ? measure_warm_up(site) : place_sync(place);
	err = place_cool(place);
	/* the repository's own disk is no part of what is compared */
	return err ?: repository_warm(&bench->repo);
}

/* A place with the workload's set-up. */
static int prepare(const struct bench *bench, const struct turn *turn, struct place *place, struct workload_site *site)
{
	int err = place_make(turn->target, &bench->options->place, turn->device, place);

	if (err < 0)
		return isolate_stopped() ? -ECANCELED : err;
	site->dir = place->dir;
	err = site->workload->type->prepare ? site->workload->type->prepare(site) : 0;
	err = err ?: place_sync(place);
	return err == 0 && isolate_stopped() ? -ECANCELED : err;
}

static int run_variant(struct bench *bench, const struct turn *turn, struct place *place, struct workload_site *site,
	const struct variant *variant)
{
	struct measurement m = measurement_of(bench, turn, site->workload, variant);
	int err = 0;

	show_progress(bench, turn, site->workload);
	if (!place->dir)
		err = prepare(bench, turn, place, site);
	err = err ?: prepare_caches(bench, place, site, variant->cold);
	err = err ?: measure(bench->options, place, site, &m);
	bench->done += err == 0;
	if (err < 0 && err != -ECANCELED && place->dir)
		hint_if_full(place);
	if (err < 0 || !site->workload->type->keeps)
		place_remove(place);
	return err;
}

/* All variants of a workload. */
static int run_workload(struct bench *bench, const struct turn *turn, size_t index)
{
	const struct bench_options *options = bench->options;
	const struct workload *workload = &options->workloads[index];
	auto_free size_t *order = calloc(options->n_variants, sizeof(*order));
	struct place place = { .loops = { LOOP_NONE, LOOP_NONE } };
	struct workload_site site = { .repo = &bench->repo, .workload = workload };
	auto_free char *what = NULL;
	int err = 0;

	if (!order || asprintf(&what, "%s on %s, round %" PRId64, workload->name, turn->target->name, turn->round + 1) < 0)
		return log_errno(ENOMEM, "%s", workload->name);
	site.what = what;
	/* an order of its own for each workload and target */
	plan_round(options->seed + 1 + index * options->n_targets + (size_t)(turn->target - options->targets),
		(size_t)(options->first_round + turn->round - 1), options->n_variants, order);
	for (size_t i = 0; i < options->n_variants && err == 0; i++) {
		const struct variant *variant = &options->variants[order[i]];

		err = is_measured(bench, turn, workload, variant);
		if (err == 0)
			err = run_variant(bench, turn, &place, &site, variant);
		else if (err > 0)
			err = 0;
	}
	place_remove(&place);
	return err;
}

static int describe(const struct bench *bench, struct turn *turn)
{
	const struct bench_options *options = bench->options;
	struct strbuf setup = {};

	strbuf_addf(&setup, "{\"order\":%zu", (size_t)(turn->target - options->targets));
	target_describe(turn->target, &setup);
	place_describe(turn->target, &options->place, turn->device, &setup);
	strbuf_addf(&setup, ",\"repository\":");
	strbuf_add_json(&setup, bench->repo.origin, strlen(bench->repo.origin));
	strbuf_addf(&setup, ",\"head\":\"%s\",\"files\":%" PRIu32 ",\"git\":", bench->repo.head,
		bench->repo.head_files);
	strbuf_add_json(&setup, bench->git_version, strlen(bench->git_version));
	strbuf_addf(&setup, ",\"seed\":%" PRIu64 "}", options->seed);
	turn->setup = setup.buf;
	return setup.failed ? log_errno(ENOMEM, "%s", turn->target->name) : 0;
}

/*
 * The device of a target moves on by one from round to round: over as many rounds as there are devices each target has
 * been on each of them once.
 */
static int run_turn(struct bench *bench, size_t target, int64_t round)
{
	const struct bench_options *options = bench->options;
	struct turn turn = {
		.target = &options->targets[target],
		.device = options->place.n_devices ? (target + (size_t)round) % options->place.n_devices : 0,
		.round = round,
	};
	int err = describe(bench, &turn);

	for (size_t i = 0; i < options->n_workloads && err == 0; i++)
		err = run_workload(bench, &turn, i);
	free(turn.setup);
	return err;
}

/* How much there is to do, for the time left. */
static int count_work(struct bench *bench)
{
	const struct bench_options *options = bench->options;
	int64_t measured = 0;
	int err = options->resume ? measurement_count(options->db, options->id, &measured) : 0;

	bench->total = options->n_targets * options->n_workloads * options->n_variants * (size_t)options->rounds -
		       (size_t)measured;
	bench->start_ns = clock_ns(CLOCK_MONOTONIC);
	return err;
}

static int run_rounds(struct bench *bench)
{
	const struct bench_options *options = bench->options;
	auto_free size_t *order = calloc(options->n_targets, sizeof(*order));
	int err = order ? count_work(bench) : log_errno(ENOMEM, "bench");

	for (int64_t round = 0; round < options->rounds && err == 0; round++) {
		plan_round(options->seed, (size_t)(options->first_round + round - 1), options->n_targets, order);
		for (size_t i = 0; i < options->n_targets && err == 0; i++)
			err = run_turn(bench, order[i], round);
	}
	return err;
}

/* The first workload that needs a tar, or else a parent commit; NULL: none does. */
static const struct workload *who_needs(const struct bench_options *options, bool tar)
{
	for (size_t i = 0; i < options->n_workloads; i++) {
		const struct workload_type *type = options->workloads[i].type;

		if (tar ? type->needs_tar : type->needs_parent)
			return &options->workloads[i];
	}
	return NULL;
}

/*
 * The repository stands on a filesystem of its own, always ext4: its reads are no part of what is compared.
 * An ordinary user's is in the work folder.
 */
static int make_source(struct bench *bench)
{
	const struct bench_options *options = bench->options;
	struct place_options place = options->place;
	const char *dir = place.work_dir;
	int err = 0;

	place.n_devices = 0;
	if (options->progress)
		fprintf(stderr, "%s the repository ...", options->repo ? "copying" : "generating");
	if (geteuid() == 0) {
		struct target *target = NULL;
		size_t count = 0;

		err = targets_parse("ext4", &target, &count);
		err = err ?: place_make(target, &place, 0, &bench->source);
		targets_free(target, count);
		bench->source.target = NULL;
		dir = bench->source.dir;
	}
	err = err ?: repository_make(&bench->repo, dir, options->repo, &options->generate);
	if (err == 0 && who_needs(options, true))
		err = repository_make_tar(&bench->repo);
	clear_progress(bench);
	if (err < 0 && err != -ECANCELED)
		hint_if_full(&bench->source);
	return err;
}

static int need_parent(const struct bench *bench)
{
	const struct workload *workload = who_needs(bench->options, false);

	if (!workload || bench->repo.parent[0])
		return 0;
	log_msg("%s: needs a repository with at least two commits; this one has one (%s)", workload->name,
		bench->repo.origin);
	return -EINVAL;
}

static int check_devices(const struct bench_options *options)
{
	int err = 0;

	/* what was ours when we were stopped is on them still */
	for (size_t i = 0; i < options->place.n_devices && err == 0; i++)
		err = device_check(&options->place.devices[i], options->destroy || options->resume);
	for (size_t i = 0; i < options->n_targets && options->place.n_devices && err == 0; i++) {
		if (target_devices(&options->targets[i]) <= options->place.n_devices)
			continue;
		log_msg("%s: needs two devices", options->targets[i].name);
		err = -EINVAL;
	}
	return err;
}

int bench_check(const struct bench_options *options)
{
	int err = 0;

	if (options->repo && access(options->repo, R_OK | X_OK) < 0)
		return log_errno(errno, "--repo %s", options->repo);
	if (access(options->place.image_dir, W_OK | X_OK) < 0)
		return log_errno(errno, "--dir %s", options->place.image_dir);
	for (size_t i = 0; i < options->n_variants; i++) {
		if (options->variants[i].cold && geteuid() != 0) {
			log_msg("--cache cold: only root can drop the kernel's caches");
			return -EPERM;
		}
	}
	for (size_t i = 0; i < options->n_targets && err == 0; i++)
		err = target_check(&options->targets[i], options->place.n_devices ? 0 : options->place.size);
	return err ?: check_devices(options);
}

int bench_run(const struct bench_options *options)
{
	struct bench bench = { .options = options, .source = { .loops = { LOOP_NONE, LOOP_NONE } } };
	auto_free char *version = NULL;
	int err = repository_environment(options->place.work_dir);

	err = err ?: repository_git_version(&version);
	bench.git_version = version;
	err = err ?: make_source(&bench);
	err = err ?: need_parent(&bench);
	err = err ?: run_rounds(&bench);
	err = err ?: bench_finish(options->db, options->id);
	clear_progress(&bench);
	repository_free(&bench.repo);
	place_remove(&bench.source);
	return isolate_stopped() ? -ECANCELED : err;
}
