/* SPDX-License-Identifier: MIT */
/*
 * bench.h - runs workloads on targets in rounds and keeps each measurement as a run.
 *
 * Every round is a block. In it each target gets one turn, in a balanced random order, on the device that is its for
 * this round; in a turn each workload is measured in every variant (through the shim or not, with cold caches or warm,
 * with and without readahead of directories), again in a balanced order. A measurement begins on a filesystem of its
 * own; variants of a workload that changes nothing share one.
 *
 * The environment of this process is changed (see repository_environment()); meant to run under
 * isolate_run().
 */
#ifndef FSTAPE_BENCH_H
#define FSTAPE_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "genrepo.h"
#include "place.h"
#include "target.h"
#include "workload.h"

#define READAHEAD_OFF   0
#define READAHEAD_UNSET -1 /* native runs have none, and others when nobody has asked for it */

struct variant {
	bool shim, cold;
	int64_t dir_readahead; /* threads, or one of the above */
};

struct bench_options {
	const char *db;
	int64_t id; /* of the row in table bench */
	const struct target *targets;
	size_t n_targets;
	const struct workload *workloads;
	size_t n_workloads;
	const struct variant *variants;
	size_t n_variants;
	const char *repo; /* to copy; NULL: generate */
	struct genrepo_options generate;
	struct place_options place;
	bool destroy; /* what is on the devices */
	bool resume;  /* leave out what has been measured */
	const char *kernel_cache; /* of the shim; NULL: its choice */
	uint64_t seed;            /* of the order */
	int64_t rounds;
	int64_t first_round; /* the number that the first one gets */
	bool progress;       /* on standard error */
};

/* Whether all can be made here; says on standard error what cannot. */
int bench_check(const struct bench_options *options);

/*
 * All rounds. What has been measured is in the database from the moment it is, and stays there.
 * -ECANCELED after a signal (without a message), else -errno after a message.
 */
int bench_run(const struct bench_options *options);

#endif
