/* SPDX-License-Identifier: MIT */
/* lock_internal.h - what ops_lock.c and lock_conflict.c share. */
#ifndef FSTAPE_LOCK_INTERNAL_H
#define FSTAPE_LOCK_INTERNAL_H

#include <fcntl.h>
#include <pthread.h>

#include "lock.h"

/* One owner's locks on one inode. */
struct owner {
	struct owner *next;
	struct node *node; /* held by a reference */
	uint64_t id;
	pid_t tid; /* who asked last */
	uint64_t handle; /* id of the open file that it locked through last */
	int fd;
	unsigned int refs; /* the table's and those of waits */
};

/* A lock that is being waited for. */
struct wait {
	struct wait *next;
	struct fs *fs;
	fuse_req_t req;
	enum op_id op;
	struct call call;
	struct flock lock;
	struct owner *owner; /* of a POSIX lock */
	pthread_t thread;
	_Atomic bool interrupted, over;
};

struct lock_table {
	pthread_mutex_t mutex;
	pthread_cond_t ended;
	struct owner *owners;
	struct wait *waits;
	_Atomic unsigned int n_owners;
};

/* lock_conflict.c; both under the table's mutex. */

/* The owner that stands in the way of `lock` on `node` for the owner `id`, or NULL: nobody, or nobody of this mount. */
struct owner *lock_holder(struct lock_table *table, const struct node *node, uint64_t id, const struct flock *lock);

/* Whether waiting for the lock would close a circle of owners that wait for each other: fcntl(2), EDEADLK. */
bool lock_would_deadlock(struct lock_table *table, const struct node *node, uint64_t id, const struct flock *lock);

#endif
