/* SPDX-License-Identifier: MIT */
/*
 * op_stats.h - how often each operation of a run ran and how long it took.
 *
 * Percentiles are exact, by nearest rank: the smallest time that at least p percent of the operations did not
 * exceed. Memory: 16 bytes per operation of the run while it is read. Not for threads.
 */
#ifndef FSTAPE_OP_STATS_H
#define FSTAPE_OP_STATS_H

#include <stddef.h>
#include <stdint.h>

#include "op.h"
#include "trace.h"

enum op_clock {
	CLOCK_DUR, /* request taken up to just before the reply */
	CLOCK_FS,  /* of that, inside system calls on the real filesystem */
	CLOCK_KINDS,
};

struct time_stats {
	int64_t total_ns, p50_ns, p95_ns, p99_ns, max_ns;
	double mean_ns;
	double share; /* of the run's total, 0..1 */
};

struct op_stats {
	unsigned int code; /* enum op_id */
	const char *name;
	int64_t count, errors;
	struct time_stats time[CLOCK_KINDS];
};

struct run_stats {
	struct op_stats ops[OP_COUNT]; /* those that occur, the longest total of `order` first */
	size_t n_ops;
	int64_t count, errors;
	int64_t total_ns[CLOCK_KINDS];
};

/* Reads a run once. 0 or -errno of trace.h. */
int run_stats_read(struct trace *trace, int64_t run, enum op_clock order, struct run_stats *ret_stats);

#endif
