/* SPDX-License-Identifier: MIT */
/*
 * clockmap.h - wall clock time to a run's time, by the anchors that were taken during the run.
 *
 * Between two anchors both clocks are taken to go evenly, so a wall clock that is being slewed is followed; one that was
 * set during the run is noticed. Outside the anchors the nearest one counts.
 */
#ifndef FSTAPE_CLOCKMAP_H
#define FSTAPE_CLOCKMAP_H

#include <stddef.h>
#include <stdint.h>

#include "trace.h"

struct clockmap {
	struct clock_pair {
		int64_t real_ns, run_ns;
	} *pairs; /* in the order of run_ns; owned */
	size_t count;
	int64_t step_ns; /* the largest step of the wall clock between two anchors, with its sign; 0: none */
};

/* Reads the run's anchors; a run without any is taken to have one at its start. 0 or -errno. */
int clockmap_load(struct trace *trace, int64_t run, struct clockmap *ret_map);
void clockmap_free(struct clockmap *map);

/* The run's time in ns; negative before its start. */
int64_t clockmap_run_ns(const struct clockmap *map, int64_t real_ns);

#endif
