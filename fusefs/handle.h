/* SPDX-License-Identifier: MIT */
/*
 * handle.h - open files and directories: one descriptor each, from OPEN, CREATE or OPENDIR to RELEASE.
 *
 * The kernel's `fh` is the handle's address; what is recorded is its `id`, which counts up and is never used again.
 * RELEASE carries no caller, so a handle remembers who opened it. A handle holds a reference to its node.
 */
#ifndef FSTAPE_HANDLE_H
#define FSTAPE_HANDLE_H

#include <fcntl.h>

#include "fs.h"

struct backing;
struct dir_stream;

struct handle {
	uint64_t id;
	int fd;
	_Atomic uint32_t refs;
	struct node *node;
	struct handle *next; /* of the node's handles, under the table's lock */
	uint32_t process;    /* who opened it */
	struct dir_stream *dir;
	struct backing *backing; /* backing.h, under its lock; NULL: none */
	bool unbacked;		 /* with data_passthrough: it goes through us all the same */
};

/* Takes over `fd` in any case. NULL: no memory. */
struct handle *handle_new(struct fs *fs, struct node *node, int fd, uint32_t process);

/* Tells the kernel of c->fh, a file that has just been opened. */
void handle_answer(struct fs *fs, struct call *c);

/* The descriptor, which stays open until handle_put(). Under the table's lock: a handle in the node's list is alive. */
int handle_hold(struct handle *handle);
void handle_put(struct fs *fs, struct handle *handle);

/* RELEASE: the handle leaves its node's list; it ends when nobody holds it. Adds the time of close(2) to the call. */
void handle_release(struct fs *fs, struct call *c, struct handle *handle);

/* Of a node, at the mount's end: files whose RELEASE does not come any more. Nobody may use them then. */
void handle_free_list(struct handle *handles);

/* For the descriptor below. The writeback cache reads what surrounds a write, through handles of who only writes, too. */
static inline int handle_flags(const struct fs *fs, int flags)
{
	return fs->options.writeback && (flags & O_ACCMODE) == O_WRONLY ? (flags & ~O_ACCMODE) | O_RDWR : flags;
}

static inline struct handle *handle_of(const struct fuse_file_info *fi)
{
	return fi ? (struct handle *)(uintptr_t)fi->fh : NULL;
}

#endif
