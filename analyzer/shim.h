/* SPDX-License-Identifier: MIT */
/*
 * shim.h - the life of one fstapefs: found, started, ready, unmounted.
 *
 * The shim is a child in a session of its own, so that a terminal's Ctrl-C does not reach it, and gets
 * SIGTERM when this process dies without shim_close(). Not for threads.
 */
#ifndef FSTAPE_SHIM_H
#define FSTAPE_SHIM_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base.h"
#include "keeper.h"
#include "namespace.h"

enum shim_place {
	SHIM_PRIVATE,      /* root: a mount namespace */
	SHIM_PRIVATE_USER, /* an ordinary user: a user and mount namespace */
	SHIM_PUBLIC,       /* root: seen by everybody */
	SHIM_PUBLIC_USER,  /* an ordinary user: through fusermount3, seen by everybody who may look */
};

struct shim {
	pid_t pid; /* 0: not started; the caller reaps it */
	enum shim_place place;
	const char *mountpoint; /* the caller's, absolute */
	int ready; /* reads as "RUN\n" once it serves requests, and ends without that when it failed */
	struct namespace namespace;
	struct keeper keeper;
};

/*
 * How a mount over `directory` can be had: `public` when asked for. `*ret_why` says why it is a public one
 * though that was not asked for, or is NULL. -errno after a message: no way.
 */
int shim_choose(const char *directory, bool public, enum shim_place *ret_place, const char **ret_why);

/* Adds ",NAME=VALUE" (or ",NAME" when value is NULL) to -o options, escaped as FUSE wants it. */
void shim_option(struct strbuf *options, const char *name, const char *value);

/*
 * Starts it over shim->mountpoint in place, as shim->place says, with `options` for -o; `signals` is the mask
 * that it gets. -errno after a message. Then read from shim->ready, and call shim_joinable() before anything
 * joins it.
 */
int shim_start(struct shim *shim, const char *options, const sigset_t *signals);
int shim_joinable(struct shim *shim);

/* Unmounts; `lazy`: detaches. -EBUSY: in use. -EINVAL: it is not mounted. */
int shim_unmount(const struct shim *shim, bool lazy);

void shim_close(struct shim *shim);

/*
 * Who keeps the mount busy, as "1234 (bash), 1240 (sleep)" into `who`; their number, 0: nobody was found (a
 * process of somebody else's, perhaps).
 */
int shim_holders(const struct shim *shim, struct strbuf *who);

/* Whether the process whose directory of /proc `process` is keeps the mount busy. */
bool shim_is_held_by(const struct shim *shim, int process);

#endif
