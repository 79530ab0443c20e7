/* SPDX-License-Identifier: MIT */
#include "bench.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "bench_store.h"
#include "child.h"
#include "isolate.h"
#include "plan.h"
#include "recording.h"

struct bench {
	const struct bench_options *options;
	const char *git_version;
	struct place source; /* where the repository is */
	struct repository repo;
	size_t done, total; /* measurements */
	int64_t start_ns;
};

/* A target with a way of access: what a round gives its turn. */
struct arm {
	const struct target *target;
	bool shim;
};

static size_t ways(const struct bench_options *options)
{
	return (size_t)options->through_shim + options->native;
}

static struct arm arm_at(const struct bench_options *options, size_t index)
{
	return (struct arm){
		.target = &options->targets[index / ways(options)],
		.shim = options->through_shim && (!options->native || index % 2 == 0),
	};
}

static void show_progress(
	const struct bench *bench, int64_t round, const struct arm *arm, const char *workload)
{
	int64_t elapsed = clock_ns(CLOCK_MONOTONIC) - bench->start_ns;

	if (!bench->options->progress)
		return;
	fprintf(stderr, "\r\033[Kround %" PRId64 " of %" PRId64 ": %s on %s%s (%zu of %zu)", round + 1,
		bench->options->rounds, workload, arm->target->name, arm->shim ? "" : ", native",
		bench->done + 1, bench->total);
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

static int time_native(char *const words[], const char *cwd, struct measurement *m)
{
	struct child_result result;
	int err;

	m->start_real_ns = clock_ns(CLOCK_REALTIME);
	err = child_run(words, &(struct child_options){ .cwd = cwd }, &result);
	if (err < 0)
		return log_errno(err, "cannot run %s", words[0]);
	m->status = result.status;
	m->real_ns = result.real_ns;
	m->user_ns = result.user_ns;
	m->sys_ns = result.sys_ns;
	return 0;
}

static int time_recorded(const struct bench *bench, char *const words[], const char *source, const char *cwd,
	const char *label, struct measurement *m)
{
	const struct recording_options options = {
		.db = bench->options->db,
		.source = source,
		.cwd = cwd,
		.label = label,
		.cache = bench->options->cache,
		.quiet = true,
	};
	struct recording_result result;
	int err = recording_run(&options, words, &result);

	if (err < 0)
		return isolate_stopped() ? -ECANCELED : err;
	if (result.interrupted)
		return -ECANCELED;
	if (!result.complete)
		return -EIO;
	m->run = result.run;
	m->status = result.status;
	return 0;
}

/* Times the command at a site that has been prepared, checks its work, and stores the result. */
static int measure(const struct bench *bench, const struct workload_site *site, struct measurement *m)
{
	char *words[WORKLOAD_MAX_WORDS + 1];
	auto_free char *cwd = NULL;
	auto_free char *label = NULL;
	int err;

	if (asprintf(&cwd, "%s%s", site->dir, m->workload->cwd) < 0 ||
		asprintf(&label, "%s/%s/%" PRId64, m->workload->name, m->target->name, m->round) < 0)
		return log_errno(ENOMEM, "%s", site->what);
	workload_command(m->workload, site->repo, words);
	m->label = label;
	m->words = words;
	m->source = site->dir;
	err = m->shim ? time_recorded(bench, words, site->dir, cwd, label, m) : time_native(words, cwd, m);
	if (err < 0)
		return err;
	if (isolate_stopped() || m->status == 128 + SIGINT || m->status == 128 + SIGTERM)
		return -ECANCELED;
	if (m->status != 0) {
		log_msg("%s: 'git %s' failed with exit status %d", site->what, words[1], m->status);
		return -EIO;
	}
	err = m->workload->check(site);
	return err ?: measurement_store(bench->options->db, m);
}

static int run_workload(struct bench *bench, const struct place *place, const struct arm *arm,
	const struct workload *workload, int64_t round, const char *setup)
{
	struct measurement m = {
		.workload = workload,
		.target = arm->target,
		.shim = arm->shim,
		.round = bench->options->first_round + round,
		.setup = setup,
	};
	auto_free char *dir = NULL;
	auto_free char *what = NULL;
	struct workload_site site = { .repo = &bench->repo };
	int err;

	show_progress(bench, round, arm, workload->name);
	if (asprintf(&dir, "%s/%s", place->dir, workload->name) < 0 ||
		asprintf(&what, "%s on %s, round %" PRId64, workload->name, arm->target->name, round + 1) < 0)
		return log_errno(ENOMEM, "%s", workload->name);
	if (mkdir(dir, 0755) < 0)
		return log_errno(errno, "%s", dir);
	site.dir = dir;
	site.what = what;
	err = workload->prepare ? workload->prepare(&site) : 0;
	err = err ?: place_sync(place);
	if (err == 0 && isolate_stopped())
		err = -ECANCELED;
	err = err ?: measure(bench, &site, &m);
	bench->done += err == 0;
	return err;
}

/* The programs say that a disk is full; which one, and what helps, they cannot know. */
static void hint_if_full(const struct place *place)
{
	struct statvfs fs;

	if (place->mountpoint && statvfs(place->dir, &fs) == 0 && fs.f_bavail < fs.f_blocks / 50)
		log_msg("the image is full; --size makes larger ones");
}

/* One turn: a fresh filesystem, and every workload in a folder of its own on it. */
static int run_arm(struct bench *bench, const struct arm *arm, int64_t round)
{
	const struct bench_options *options = bench->options;
	struct strbuf auto_strbuf setup = {};
	struct place place;
	int err;

	strbuf_addf(&setup, "{\"order\":%zu", (size_t)(arm->target - options->targets));
	target_describe(arm->target, &options->place, &setup);
	strbuf_addf(&setup, ",\"repository\":");
	strbuf_add_json(&setup, bench->repo.origin, strlen(bench->repo.origin));
	strbuf_addf(&setup, ",\"head\":\"%s\",\"files\":%" PRIu32 ",\"git\":", bench->repo.head,
		bench->repo.head_files);
	strbuf_add_json(&setup, bench->git_version, strlen(bench->git_version));
	strbuf_addf(&setup, ",\"seed\":%" PRIu64 "}", options->seed);
	if (setup.failed)
		return log_errno(ENOMEM, "%s", arm->target->name);
	err = place_make(arm->target, &options->place, &place);
	if (err < 0)
		return isolate_stopped() ? -ECANCELED : err;
	for (size_t i = 0; i < options->n_workloads && err == 0; i++)
		err = run_workload(bench, &place, arm, options->workloads[i], round, setup.buf);
	if (err < 0 && err != -ECANCELED)
		hint_if_full(&place);
	place_remove(&place);
	return err;
}

static int run_rounds(struct bench *bench)
{
	const struct bench_options *options = bench->options;
	size_t n = options->n_targets * ways(options);
	auto_free size_t *order = calloc(n, sizeof(*order));
	int err = order ? 0 : log_errno(ENOMEM, "bench");

	bench->total = n * options->n_workloads * (size_t)options->rounds;
	bench->start_ns = clock_ns(CLOCK_MONOTONIC);
	for (int64_t round = 0; round < options->rounds && err == 0; round++) {
		plan_round(options->seed, (size_t)(options->first_round + round - 1), n, order);
		for (size_t i = 0; i < n && err == 0; i++) {
			struct arm arm = arm_at(options, order[i]);

			err = run_arm(bench, &arm, round);
		}
	}
	return err;
}

/*
 * The repository stands on a filesystem of its own, always ext4: its reads are no part of what is compared.
 * An ordinary user's is in the work folder.
 */
static int make_source(struct bench *bench)
{
	const struct bench_options *options = bench->options;
	const char *dir = options->place.work_dir;
	int err = 0;

	bench->source = (struct place){ .loop = LOOP_NONE };
	if (options->progress)
		fprintf(stderr, "%s the repository ...", options->repo ? "copying" : "generating");
	if (geteuid() == 0) {
		struct target *target = NULL;
		size_t count = 0;

		err = targets_parse("ext4", &target, &count);
		err = err ?: place_make(target, &options->place, &bench->source);
		targets_free(target, count);
		dir = bench->source.dir;
	}
	err = err ?: repository_make(&bench->repo, dir, options->repo, &options->generate);
	clear_progress(bench);
	if (err < 0 && err != -ECANCELED)
		hint_if_full(&bench->source);
	return err;
}

static int need_parent(const struct bench *bench)
{
	for (size_t i = 0; i < bench->options->n_workloads; i++) {
		if (!bench->options->workloads[i]->needs_parent || bench->repo.parent[0])
			continue;
		log_msg("%s: needs a repository with at least two commits; this one has one (%s)",
			bench->options->workloads[i]->name, bench->repo.origin);
		return -EINVAL;
	}
	return 0;
}

int bench_check(const struct bench_options *options)
{
	int err = 0;

	if (options->repo && access(options->repo, R_OK | X_OK) < 0)
		return log_errno(errno, "--repo %s", options->repo);
	if (access(options->place.image_dir, W_OK | X_OK) < 0)
		return log_errno(errno, "--dir %s", options->place.image_dir);
	for (size_t i = 0; i < options->n_targets && err == 0; i++)
		err = target_check(&options->targets[i], &options->place);
	return err;
}

int bench_run(const struct bench_options *options)
{
	struct bench bench = { .options = options };
	auto_free char *version = NULL;
	int err = repository_environment(options->place.work_dir);

	err = err ?: repository_git_version(&version);
	bench.git_version = version;
	err = err ?: make_source(&bench);
	err = err ?: need_parent(&bench);
	err = err ?: run_rounds(&bench);
	clear_progress(&bench);
	repository_free(&bench.repo);
	place_remove(&bench.source);
	return isolate_stopped() ? -ECANCELED : err;
}
