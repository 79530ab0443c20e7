/* SPDX-License-Identifier: MIT */
/*
 * guard.h - a thread that looks after those of idle priority: a program that is busy can keep them from the processor for
 * seconds, and with them whoever needs what they hold. It looks every GUARD_NS for as long as somebody is busy, and not at
 * all when nobody is.
 *
 * There is one for all mounts and the recorder. Where there is none (NULL) all of this does nothing.
 */
#ifndef FSTAPE_GUARD_H
#define FSTAPE_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#define GUARD_NS 1000000

struct guard;

/* By the guard, CLOCK_MONOTONIC. True: somebody is busy. `last`: it sleeps after this, if nobody anywhere is. */
typedef bool guard_look(void *arg, int64_t now_ns, bool last);

/* What it looks at; belongs to who adds it, until it has been removed. */
struct guard_post {
	guard_look *look;
	void *arg;
	struct guard_post *next;
};

/* 0 or -errno. */
int guard_new(struct guard **ret_guard);
void guard_free(struct guard *guard);

/*
 * At ordinary priority, and not under a lock that a look takes: they wait for one that goes on. One that was never added can
 * be removed. A look must not take a lock that somebody may hold at idle priority.
 */
void guard_add(struct guard *guard, struct guard_post *post);
void guard_remove(struct guard *guard, struct guard_post *post);

/* By whoever gets busy, after it can be seen that it is. Nothing but a look at a flag while the guard is awake. */
void guard_wake(struct guard *guard);

#endif
