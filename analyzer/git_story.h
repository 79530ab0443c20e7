/* SPDX-License-Identifier: MIT */
/* git_story.h - brings git's trace2 files of a run into the database; what `record` and `recover` share. */
#ifndef FSTAPE_GIT_STORY_H
#define FSTAPE_GIT_STORY_H

#include <stdint.h>
#include <sys/types.h>

#include "trace.h"

/* Where git wrote its events. */
struct git_source {
	int dirfd;	      /* of a directory with a file per process, when `path` is NULL; or what `path` is relative to */
	const char *path;     /* one file for all processes, or a directory */
	off_t from;	      /* in a file: where what was there before the run ends */
	const char *ancestor; /* as in trace2.h */
	const char *note;     /* what else is to be said of the story, or NULL */
};

/*
 * Loads them in one transaction, together with git_lines, git_bad_lines, git_note and clock_step_ns of the run's row, and
 * attributes the operations. 0 or -errno after a message; then the database is as it was, but for the attribution.
 */
int git_story_import(struct trace *trace, int64_t run, const struct git_source *source);

/* Only attributes, and stores `note` as git_note. 0 or -errno after a message. */
int git_story_none(struct trace *trace, int64_t run, const char *note);

/*
 * For `recover`: the stories that dead `record`s left in the spool, and runs whose operations are not attributed. Returns
 * their number or -errno after a message.
 */
int git_story_recover(struct trace *trace);

/* Removes a directory of ours and the files in it. */
void git_story_remove(const char *dir, int dir_fd);

#endif
