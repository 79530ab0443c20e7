/* SPDX-License-Identifier: MIT */
/*
 * compare.h - runs of workloads side by side: grouped by workload, target and way of access, medians over
 * rounds, and the operations that their time in the filesystem went to.
 *
 * The durations of all operations of the runs are in memory at once: 8 bytes each.
 */
#ifndef FSTAPE_COMPARE_H
#define FSTAPE_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "op.h"
#include "trace.h"

/* The durations of one operation in a group. */
struct compare_op {
	int64_t *fs_ns;
	size_t count, size;
	int64_t total_ns;
	int64_t median_ns;
	uint64_t errors;
};

/* One run's figures. */
struct compare_run {
	int64_t id;
	int64_t round;
	double real_ns, user_ns, sys_ns;
	double requests; /* and what follows: recordings only */
	double fs_ns;
};

struct compare_group {
	char *workload;
	char *target;
	bool native;
	int64_t order;          /* of the target, as bench was told */
	int64_t workload_first; /* least run of the workload: workloads are shown in the order of their first
				   runs */
	struct compare_run *runs;
	size_t count;
	struct compare_op ops[OP_COUNT];
	/* Over the runs: medians, but min_real_ns. Requests and time in the filesystem are 0 in native
	 * groups. */
	double real_ns, min_real_ns, user_ns, sys_ns, requests, fs_ns;
	bool has_interval;
	double low_ns, high_ns; /* of the median of real_ns */
	bool has_ratio;
	double ratio; /* of real_ns to the baseline's: the median over the rounds that both have */
};

struct compare {
	struct compare_group *groups; /* in the order of tables */
	size_t count;
	size_t rounds;            /* least number of runs in a group */
	enum op_id top[OP_COUNT]; /* operations by time in the filesystem over all groups, most first */
	size_t n_top;
};

/*
 * Reads the given runs; `runs` NULL: all that belong to a workload and have an id of at least `first`.
 * `baseline` is a target's name; NULL: the first. -ENOENT: nothing to compare; -EINVAL: no such baseline;
 * other errors are of trace.h.
 */
int compare_load(struct trace *trace, const int64_t *runs, size_t n_runs, int64_t first, const char *baseline,
	struct compare *ret_compare);
void compare_free(struct compare *compare);

#endif
