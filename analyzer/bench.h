/* SPDX-License-Identifier: MIT */
/*
 * bench.h - runs workloads on targets in rounds, through the shim and without it, and keeps each as a run.
 *
 * The environment of this process is changed (see repository_environment()); meant to run under
 * isolate_run().
 */
#ifndef FSTAPE_BENCH_H
#define FSTAPE_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "genrepo.h"
#include "target.h"
#include "workload.h"

struct bench_options {
	const char *db;
	const struct target *targets;
	size_t n_targets;
	const struct workload *const *workloads;
	size_t n_workloads;
	const char *repo; /* to copy; NULL: generate */
	struct genrepo_options generate;
	struct target_options place;
	const char *cache; /* of the shim; NULL: its choice */
	uint64_t seed;     /* of the order */
	int64_t rounds;
	int64_t first_round; /* the number that the first one gets */
	bool through_shim, native;
	bool progress; /* on standard error */
};

/* Whether all can be made here; says on standard error what cannot. */
int bench_check(const struct bench_options *options);

/*
 * All rounds. What has been measured is in the database from the moment it is, and stays there.
 * -ECANCELED after a signal (without a message), else -errno after a message.
 */
int bench_run(const struct bench_options *options);

#endif
