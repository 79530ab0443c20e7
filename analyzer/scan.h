/* SPDX-License-Identifier: MIT */
/*
 * scan.h - what a run never touched: a walk over the tree after it, for `initial`.
 *
 * What the run met is in `initial` already. The walk adds what was there before the run and was not met: all names of
 * the tree whose inodes are older than the run, by their paths at the start - what lies in a directory that was moved
 * comes from its old place. What the run made, linked or moved is told apart by schema/initial.h, by btime (ctime where
 * the filesystem has none), and by what was made under a name. Further names of met files are added as well. With
 * data=full the contents of old files are stored; extended attributes of what the run left as it was always are.
 *
 * The tree must not be mounted over (any more), and nobody should change it. Symlinks are not followed and other
 * filesystems not entered. Memory: that of the index of schema/initial.h, and the paths of directories still to be
 * walked.
 */
#ifndef FSTAPE_SCAN_H
#define FSTAPE_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "trace.h"

struct scan_options {
	bool contents; /* data=full */
	bool progress;
	bool (*stop)(void *arg); /* asked now and then: true ends the walk; may be NULL */
	void *stop_arg;
};

/*
 * Walks `root` and writes rows and the run's columns `scan` and `scanned`. The run must have ended. Commits now and then.
 * The number of rows, or -errno after a message; -EINTR when it was stopped. What could not be read is left out, which
 * makes `scan` 'partial' and is said.
 */
int64_t scan_tree(struct trace *trace, int64_t run, const char *root, const struct scan_options *options);

#endif
