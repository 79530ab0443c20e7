/* SPDX-License-Identifier: MIT */
/*
 * fs.h - the mount's state and what passes between the layers of the shim.
 *
 *   bind.c      FUSE signature -> struct call
 *   dispatch.c  clock, handler, event, reply: the only place that sees all of them
 *   ops_*.c     the handlers: plain passthrough, `int64_t do_NAME(struct fs *, struct call *)`
 *   node.c      inodes that the kernel knows, by device and number; their descriptors are in fdcache.c
 *   handle.c    open files and directories
 *   path.c      ids of paths, for events
 *   who.c       the threads behind requests, for events
 *   backing.c   files that the kernel reads and writes without us, when asked for
 *   readahead.c threads that look at what an opened directory holds, when asked for
 *   recorder.c  events -> spool -> database
 *   mount.c     a connection to the kernel: session.c has what is agreed with it, worker.c the threads that read
 *               its requests, ring.c those that take them from io_uring
 *   leader.c    how a worker waits for a lone client's requests, and lanes.c how those of io_uring do; guard.c sees
 *               to it that nobody has to wait for them, or for the loader
 */
#ifndef FSTAPE_FS_H
#define FSTAPE_FS_H

#define FUSE_USE_VERSION 314

#include <fuse_lowlevel.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base.h"
#include "op.h"
#include "options.h"

struct guard;
struct handle;
struct mount;
struct mountinfo;
struct node;
struct recorder;

struct fs {
	struct options options;
	int source_fd; /* O_RDONLY: of the real directory, opened before anything is mounted over it */
	cpu_set_t processors; /* that the daemon may use; a thread that keeps to one of them may start others */
	bool detached;	 /* the mountpoint has been given up already */
	bool privileged; /* root: callers' identities are taken on, file handles can be opened */
	struct node_table *nodes;
	struct fdcache *fdcache;
	struct path_table *paths;
	struct who_table *who;
	struct lock_table *locks;
	struct guard *guard;	   /* NULL: none */
	struct recorder *recorder; /* NULL with `norecord` */
	struct readahead *readahead;	 /* NULL: off */
	struct mount *mounts;		 /* the one asked for, then those inside it */
	struct mountinfo *source_mounts; /* as they were before ours */
	const struct fuse_args *mount_args; /* libfuse's options; borrowed */
	_Atomic uint64_t handle_ids;
	pthread_mutex_t backing_lock; /* backing.h */
	_Atomic bool backing_refused; /* which has been said */
};

/* One request on its way through the layers. bind.c fills the arguments, a handler the results. */
struct call {
	struct mount *mount; /* where it came in */

	/* who asks: from the FUSE header */
	uid_t uid;
	gid_t gid;
	pid_t tid;
	mode_t umask;
	bool kill_suidgid; /* the caller lacks CAP_FSETID: writing clears set-id bits */

	/* arguments */
	struct node *node, *parent, *parent2;
	const char *name, *name2;
	struct handle *fh, *fh2;
	struct fuse_file_info *fi;
	int64_t offset, offset2;
	uint64_t length;
	uint32_t flags;
	mode_t mode;
	dev_t rdev;
	struct stat *attr;   /* setattr: the values; `flags` says which */
	const char *data;    /* of write and setxattr, `length` bytes; of an ioctl, `length` bytes */
	struct flock *lock;
	uint64_t lock_owner;
	bool sleep;	     /* a lock may be waited for */
	size_t count;	     /* forget_multi */
	struct fuse_forget_data *forgets;

	/* results */
	struct fuse_entry_param entry;
	struct stat stat;
	struct statvfs *statvfs;
	char *buf; /* the answer's bytes: result says how many */
	int32_t backing_id;    /* of an opened file, 0: none */
	int ioctl_result;
	bool had_locks;	       /* flush: locks of c->lock_owner have gone */
	uint32_t listed;       /* entries of a listing, */
	uint64_t listed_names; /* and the sum of XXH3_64bits() of their names: does not depend on their order */

	/* accounts */
	int64_t start_ns, fs_ns;
	uint64_t seq;
	uint32_t process, path, path2;
	uint64_t node_id, parent_id, fh_id, victim_id;
	bool cpu_is_due; /* the caller's processor time is to be read before the answer */
	bool other_ids; /* uid and gid are not those of the process row */
};

/* A SETATTR that sets nothing: it clears set-id bits, if the caller may do that. */
static inline bool setattr_is_empty(const struct call *c)
{
	return !(c->flags & (FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID | FUSE_SET_ATTR_SIZE |
				    FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_ATIME_NOW |
				    FUSE_SET_ATTR_MTIME_NOW));
}

/* Adds the time of one system call on the real filesystem to the operation's account. */
#define FS_CALL(c, expr)                                                                           \
	({                                                                                         \
		int64_t fs_call_start = clock_ns(CLOCK_MONOTONIC);                                 \
		typeof(expr) fs_call_result = (expr);                                              \
		(c)->fs_ns += clock_ns(CLOCK_MONOTONIC) - fs_call_start;                           \
		fs_call_result;                                                                    \
	})

/* A handler that has handed its call to another thread, which will call dispatch_complete(). */
#define CALL_DEFERRED INT64_MIN

#define OP(code, name, class, reply, cols, replay) int64_t do_##name(struct fs *fs, struct call *c);
#include "ops.def"
#undef OP

#endif
