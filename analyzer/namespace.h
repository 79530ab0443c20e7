/* SPDX-License-Identifier: MIT */
/*
 * namespace.h - a mount namespace that a mount can be hidden in; for ordinary users inside a user namespace,
 * where they may mount. Ids are mapped to themselves there, so that files keep their owners.
 */
#ifndef FSTAPE_NAMESPACE_H
#define FSTAPE_NAMESPACE_H

#include <stdbool.h>
#include <sys/types.h>

struct namespace
{
	int user; /* descriptors; -1: the caller's own */
	int mount;
	int root; /* the process's: not the namespace's own when it is in a chroot(2), as we are then */
};

#define NAMESPACE_OWN ((struct namespace){ -1, -1, -1 })

/*
 * Puts the calling process, which must have one thread, into a new mount namespace (`user`: and user
 * namespace) where nothing that is mounted is seen outside. -errno; the process is of no use any more then.
 */
int namespace_new(bool user);

/* Whether namespace_new(true) would work. Tried out in a child. 0 or -errno. */
int namespace_probe(void);

/* Lets the program that the process executes next keep the right to mount in its namespace, and nothing else. */
int namespace_keep_rights(void);

/* The namespaces of a process. Close with namespace_close(). */
int namespace_of(pid_t pid, bool user, struct namespace *ret_namespace);
void namespace_close(struct namespace *namespace);

/* Joins them; for a child that has one thread. In a user namespace it has all rights until it executes a program. */
int namespace_join(const struct namespace *namespace);

#endif
