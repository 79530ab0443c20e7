/* SPDX-License-Identifier: MIT */
/*
 * trace2.h - loads git's trace2 event files into git_command, git_region, git_child and git_event.
 *
 * A story is built from files, in any order and with the processes' lines mixed or not, and then stored. Commands and
 * regions are kept in memory until then, about 300 bytes each; events go to the database as they come. Lines that are
 * no events are counted and skipped. For one thread.
 */
#ifndef FSTAPE_TRACE2_H
#define FSTAPE_TRACE2_H

#include <stdint.h>
#include <sys/types.h>

#include "clockmap.h"
#include "trace.h"

struct story;

/* What was read, and what could not be. */
struct story_counts {
	int64_t lines;
	int64_t bad;	  /* not understood: malformed, cut off */
	int64_t foreign;  /* of git commands that are none of the run's: not stored */
	int64_t timeless; /* without a time, as GIT_TRACE2_EVENT_BRIEF makes them: the last known one was taken */
	int64_t commands;
};

/*
 * Within a transaction of the caller's. `map` must live as long as the story. With `ancestor` only sessions are taken whose
 * id begins with it and '/'; NULL: all. What an earlier story of the run stored is removed. 0 or -errno.
 */
int story_begin(struct trace *trace, int64_t run, const struct clockmap *map, const char *ancestor,
	struct story **ret_story);

/* Adds the file's lines from byte `from` on; `dirfd` and `path` as for openat(2). 0 or -errno; of trace.h, too. */
int story_read(struct story *story, int dirfd, const char *path, off_t from);

/* Joins children to parents and stores what is not stored yet. */
int story_end(struct story *story, struct story_counts *ret_counts);

void story_free(struct story *story);

#endif
