/* SPDX-License-Identifier: MIT */
/*
 * git_view.h - a run as git's work: by phase, how long it took and what it spent that time on. Made by one pass over the
 * operations; for a run whose operations have been attributed (schema/attribute.h).
 *
 * Wall time is that of git_span, and so adds up to the run's; where that only says "git, other" the time of requests goes
 * to the phases of their paths. At each moment it is: in the filesystem or in the shim when
 * at least one operation is going on, and else git itself, which includes the way of requests through the kernel. While
 * several operations overlap, that which began first counts.
 */
#ifndef FSTAPE_GIT_VIEW_H
#define FSTAPE_GIT_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "op.h"
#include "trace.h"

#define GIT_PHASES 32 /* numbers of git_phase are below it; 0: not attributed */
#define GIT_NAME_LEN 32
#define GIT_OTHER 4     /* git outside its regions: what it asks for tells more */
#define GIT_CHECKOUT 10
#define GIT_BUCKETS 512

/* Where an operation took place. */
enum git_place { GIT_WORKTREE, GIT_DIRECTORY, GIT_PLACES };

struct git_cell {
	int64_t count, fs_ns, dur_ns;
};

/* The operations of one kind in one phase. */
struct git_kind {
	struct git_cell good[GIT_PLACES], bad[GIT_PLACES]; /* with an error; places are told apart in checkout only */
	struct git_cell missing;			   /* of the bad ones, those with ENOENT */
	uint32_t *histogram;				   /* of fs_ns of the good ones; NULL: none */
};

struct git_phase_view {
	char name[GIT_NAME_LEN];
	int64_t wall_ns, in_fs_ns, in_shim_ns; /* the rest of the wall time is git's own */
	int64_t count, errors, fs_ns;	       /* of its operations, summed up */
	struct git_kind *kinds;		       /* OP_COUNT of them, or NULL */
};

struct git_view {
	int64_t run;
	int64_t wall_ns, count, errors, fs_ns, dur_ns;
	bool attributed; /* else only counts and sums mean something, and all is in phase 0 */
	int64_t commands; /* of git, that told their story */
	struct git_phase_view phases[GIT_PHASES];
	unsigned char *in_git; /* a bit for each path up to last_path: it is in a .git */
	int64_t last_path;
};

/* 0 or -errno (of trace.h, too). Free with git_view_free(). */
int git_view_make(struct trace *trace, int64_t run, struct git_view **ret_view);
void git_view_free(struct git_view *view);

/* Of the good operations of a kind: the time in the filesystem that a share of them does not exceed, within 7%. */
int64_t git_percentile(const struct git_kind *kind, double share);

/* Both places together. */
struct git_cell git_sum(const struct git_cell cells[static GIT_PLACES]);

#endif
