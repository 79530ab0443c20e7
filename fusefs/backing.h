/* SPDX-License-Identifier: MIT */
/*
 * backing.h - data_passthrough: the kernel reads, writes and maps files by the file below, without asking us.
 *
 * A file below is made known to the kernel once per inode and connection, as a `backing`, which all handles of the inode
 * share: the kernel refuses two of them for one inode, and an inode of which some handles have one and some go through
 * the page cache. Needs Linux 6.9 and CAP_SYS_ADMIN, not a newer libfuse: the answer to OPEN is completed on its way out.
 */
#ifndef FSTAPE_BACKING_H
#define FSTAPE_BACKING_H

#include "fs.h"

/* Whether the kernel lets this process have backings in this mount. Says what is in the way; -errno. */
int backing_probe(struct mount *mount);

/*
 * For a handle of a regular file that has just been opened: the backing to answer with, or 0 when the file goes through
 * us after all. One system call at most, on the kernel's memory alone.
 */
int32_t backing_take(struct fs *fs, struct call *c, struct handle *handle);

/* The handle ends. A handle without a backing: nothing. */
void backing_drop(struct fs *fs, struct call *c, struct handle *handle);

/* The same when the connection has ended, and the kernel's part with it; nobody may use the handle. */
void backing_free(struct handle *handle);

#endif
