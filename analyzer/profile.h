/* SPDX-License-Identifier: MIT */
/*
 * profile.h - the shape of a run, from one pass over its operations: how its work spreads over time, over durations,
 * over operations and over directories. Of fixed size but for the directories (24 bytes for each path of the run).
 *
 * Where an operation's time is spread over an interval, its time in the filesystem is spread evenly over it: where in
 * a request the filesystem worked is not recorded. Not for threads.
 */
#ifndef FSTAPE_PROFILE_H
#define FSTAPE_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "chart.h"
#include "op.h"
#include "trace.h"

#define PROFILE_STEPS 200 /* intervals of time */

struct profile_dir {
	int64_t id;	/* of the path */
	int64_t parent; /* index in `dirs`, or -1 */
	uint32_t count; /* operations on names in it, or on itself as a listing */
	double fs_ns;
};

struct profile {
	int64_t begin_ns, end_ns; /* the first operation's begin, the last one's end; both 0 when there is none */
	int64_t count, errors;
	double dur_ns, fs_ns; /* sums */
	double busy_ns;	      /* at least one request was being answered: the union of their intervals */
	double class_count[CLASS_COUNT][PROFILE_STEPS];	 /* by when they began */
	double class_fs_ns[CLASS_COUNT][PROFILE_STEPS];
	double op_bins[OP_COUNT][BIN_COUNT];	/* of fs_ns: bins of chart.h */
	double time_bins[BIN_COUNT][PROFILE_STEPS]; /* the same by when they began */
	struct profile_dir *paths; /* by id */
	size_t n_paths;
};

/* 0 or -errno of trace.h. To be freed with profile_free(). */
int profile_read(struct trace *trace, int64_t run, struct profile **ret_profile);
void profile_free(struct profile *profile);

/*
 * The directories as a tree for chart_tree(): at most `max` nodes, smaller ones are part of their parents. The shade is
 * the time per operation on a logarithmic scale, from the fastest to the slowest one. 0 or -errno of trace.h.
 */
struct dir_tree {
	struct chart_node *nodes; /* names and notes belong to it */
	size_t count;
};

int dir_tree_read(
	struct trace *trace, int64_t run, const struct profile *profile, size_t max, struct dir_tree *ret_tree);
void dir_tree_free(struct dir_tree *tree);

#endif
