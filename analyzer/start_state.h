/* SPDX-License-Identifier: MIT */
/*
 * start_state.h - the tree as it was when a run began, made again in a directory.
 *
 * Comes from the run's rows in `initial` (and `initial_xattr`): types, sizes, modes, times of modification, hard links,
 * symlinks; owners when asked for and root. Contents come from `content` where the run has them (data=full): what files
 * held after the run, and over it what the run read and copied of them before it wrote there. Else they are made by
 * filler.h, with a hash of dev and ino as the file's key. Sizes are the recorded ones; files that were sparse become sparse.
 *
 * The recording may be a stranger's: every path goes through beneath.h, devices are made only with allow_devices, and
 * nothing is begun that would need more than max_bytes or max_objects, nor more than the filesystem has free. What
 * cannot be made although it is harmless (an owner, an xattr that the filesystem does not take) is counted, not fatal.
 */
#ifndef FSTAPE_START_STATE_H
#define FSTAPE_START_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "filler.h"
#include "trace.h"

enum start_mode {
	START_BUILD, /* TARGET must be empty; the tree is made */
	START_KEEP,  /* TARGET has the tree already (an earlier build, a copy of the original): used as it is */
	START_NONE,  /* nothing is made and nothing expected; objects of the start are missing */
};

struct start_options {
	enum start_mode mode;
	struct filler filler;
	uint64_t max_bytes;   /* 0: half of what is free */
	uint64_t max_objects; /* 0: half of the free inodes, where the filesystem counts them */
	bool allow_devices;
	bool allow_setid; /* set-id bits of files, security.* and trusted.* attributes: root would hand out rights */
	bool owners; /* uid and gid as recorded; needs root */
	bool progress; /* show it on a terminal */
};

struct start_result {
	uint64_t dirs, files, links, symlinks, others; /* made; links: further names of files */
	uint64_t bytes;		 /* of contents written */
	uint64_t recorded_bytes; /* of these, as they were recorded */
	uint64_t devices_left_out, setid_left_out, xattrs_left_out; /* not allowed */
	uint64_t owners_failed, xattrs_failed;			    /* not possible here */
	uint64_t data_missing; /* files with contents that are recorded and cannot be read: made up instead */
};

/*
 * Makes the start state of `run` in the directory `root_fd` (from beneath_root()); `target` is its name for messages.
 * Root's own mode, owner and times are set as well. 0, or -errno after a message; what has been made by then stays.
 * Blocks; a signal handler may set *stop (not NULL) to have it end with -EINTR, the one error without a message.
 */
int start_state_build(struct trace *trace, int64_t run, int root_fd, const char *target,
	const struct start_options *options, const volatile int *stop, struct start_result *ret_result);

/* What start_state_build() would need, without touching anything. -errno after a message, also when a path is bad. */
int start_state_size(struct trace *trace, int64_t run, uint64_t *ret_objects, uint64_t *ret_bytes);

#endif
