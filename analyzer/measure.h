/* SPDX-License-Identifier: MIT */
/* measure.h - one measurement: a command that is timed, checked, and stored. */
#ifndef FSTAPE_MEASURE_H
#define FSTAPE_MEASURE_H

#include "bench.h"
#include "bench_store.h"

/*
 * Times the workload's command at a site that has been prepared, checks its work, and stores the result: `m` has who,
 * where and when, and gets the rest. -ECANCELED after a signal (without a message), else -errno after a message.
 */
int measure(const struct bench_options *options, const struct place *place, struct workload_site *site,
	struct measurement *m);

/* The same command, neither timed nor recorded nor checked: so that what it reads is in the caches. */
int measure_warm_up(const struct workload_site *site);

#endif
