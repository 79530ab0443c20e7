/* SPDX-License-Identifier: MIT */
/*
 * compare.h - runs of workloads side by side: grouped by what they were made with, medians over rounds, ratios to a
 * baseline and what can be claimed from them, and the operations that their time in the filesystem went to.
 *
 * Two groups are compared when they differ in one factor only. Between groups that differ in others nothing is said.
 * The durations of all operations of the runs are in memory at once: 8 bytes each.
 */
#ifndef FSTAPE_COMPARE_H
#define FSTAPE_COMPARE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "op.h"
#include "trace.h"

/* What runs differ in; one of them is what is compared. */
enum compare_factor {
	BY_FS,       /* the target */
	BY_WORKLOAD, /* not worth a claim, but a ratio */
	BY_CACHE,    /* "cold", "warm" */
	BY_DEVICE,   /* runs on different devices are one group unless this is compared */
	BY_OPTION,   /* of the shim: "off", "8": readahead of directories */
	BY_THROUGH,  /* "shim", "native" */
	COMPARE_FACTORS,
};

extern const char *const compare_factor_names[COMPARE_FACTORS]; /* "fs", "workload", ... */

/* The durations of one operation in a group. */
struct compare_op {
	int64_t *fs_ns;
	size_t count, size;
	size_t least, most; /* in a run */
	int64_t total_ns;
	int64_t median_ns;
	uint64_t errors;
};

/* One run's figures. */
struct compare_run {
	int64_t id;
	int64_t round;
	bool complete; /* nothing of it is missing: as run_complete() of run.h says */
	bool outlier; /* by the median absolute deviation of its group; never left out */
	double real_ns, user_ns, sys_ns;
	double requests;   /* and what follows: recordings only */
	double daemon_ns;  /* CPU time of the recorder */
	double fs_ns;      /* of all requests, inside the filesystem */
	double dur_ns;     /* of all requests */
	double covered_ns; /* in which at least one request was under way */
};

enum compare_verdict {
	VERDICT_BASELINE, /* or there is none to compare with */
	VERDICT_TOO_FEW,  /* rounds for a claim */
	VERDICT_UNDECIDED,
	VERDICT_FASTER,
	VERDICT_SLOWER,
};

struct compare_group {
	char *factors[COMPARE_FACTORS]; /* "" where nothing is known or it is not looked at */
	const char *workload, *target;  /* of these */
	bool native;
	bool no_cpu;            /* user and sys time are not known of all runs: replays have none of a command */
	int64_t order;          /* of the target, as bench was told, or --run */
	int64_t workload_first; /* least run of the workload: workloads are shown in the order of their first
				   runs */
	char *way; /* how its requests came, by compare_ways.h; NULL: not known, or there was no mount */
	struct compare_run *runs;
	size_t count;
	struct compare_op ops[OP_COUNT];
	/* Over the runs: medians, but min_real_ns. Requests and time in the filesystem are 0 in native groups. */
	double real_ns, min_real_ns, user_ns, sys_ns, requests, fs_ns, daemon_ns;
	size_t outliers;
	bool has_interval;
	double low_ns, high_ns; /* of the median of real_ns */
	size_t baseline;        /* index of the group that it is compared with; its own: there is no other */
	bool alone;             /* there are others, and none that it is compared with */
	bool has_ratio;
	double ratio; /* of real_ns to the baseline's: the median over the rounds that both have */
	bool has_ratio_interval;
	double ratio_low, ratio_high;
	bool has_p;
	double p;          /* Mann-Whitney, two-sided, of real_ns to the baseline's */
	double p_adjusted; /* by Holm's method over the table */
	enum compare_verdict verdict;
};

/* Whether the times of its commands are known: not of mounts without one, nor when who timed it was killed. */
static inline bool compare_is_timed(const struct compare_group *group)
{
	return group->min_real_ns > 0;
}

struct compare {
	struct compare_group *groups; /* in the order of tables */
	size_t count;
	size_t rounds;            /* least number of runs in a group */
	enum op_id top[OP_COUNT]; /* operations by time in the filesystem over all groups, most first */
	size_t n_top;
	enum compare_factor by;
	char *ways; /* by compare_ways.h: which came how; NULL: not noted, or all in the same way */
};

struct compare_query {
	const int64_t *runs; /* NULL: all that belong to a workload */
	size_t n_runs;
	int64_t first;        /* runs NULL: with at least this id; 0: all */
	int64_t bench;        /* runs NULL: of this benchmark; 0: of any */
	const char *baseline; /* a level of the factor; NULL: the first one */
	enum compare_factor by;
};

/*
 * -ENOENT: nothing to compare; -EINVAL: no such baseline; other errors are of trace.h.
 */
int compare_load_query(struct trace *trace, const struct compare_query *query, struct compare *ret_compare);

/* The same by filesystem. */
int compare_load(struct trace *trace, const int64_t *runs, size_t n_runs, int64_t first, const char *baseline,
	struct compare *ret_compare);
void compare_free(struct compare *compare);

/*
 * What tells a group from the others, for charts: "git-clone on ext4, cold, readahead 8, not recorded"; to be freed, NULL:
 * no memory. What all groups have in common is not said, but for workload and target.
 */
char *compare_group_name(const struct compare *compare, const struct compare_group *group);

/*
 * Whether there is a difference to the baseline that can be explained: not when an interval says that there may be none,
 * nor when the means, whose difference is what is explained, do not have it. (With too few rounds for an interval: when
 * times of both overlap.) True when times are not known.
 */
bool compare_differs(const struct compare *compare, const struct compare_group *group);

/* "faster", "slower", "cannot decide", "n too small"; "" of a baseline. */
const char *compare_verdict_text(enum compare_verdict verdict);

/* Nanoseconds as an integer, for tables; what does not fit becomes the nearest that does. */
static inline int64_t compare_round(double ns)
{
	if (!(ns > -0x1p63))
		return INT64_MIN;
	return ns < 0x1p63 ? llround(ns) : INT64_MAX;
}

#endif
