/* SPDX-License-Identifier: MIT */
/*
 * giveway.h - serving at idle priority, so that a client goes on at once on the processor that it sleeps on.
 *
 * The scheduler wakes a thread on a processor that is free, and counts one as free on which only threads of idle priority
 * (SCHED_IDLE, sched(7)) run. So a thread that answers on its client's processor, at that priority, is put aside by the
 * client, and no other processor has to be woken, which costs several times what a request does. When the client sleeps
 * again the thread goes on, finds the request, and has never slept.
 *
 * The price is that the thread waits when others want the processor. So a guard (guard.h) looks after it.
 *
 * All but giveway_is_busy(), giveway_is_late() and giveway_relieve() are for that thread alone.
 */
#ifndef FSTAPE_GIVEWAY_H
#define FSTAPE_GIVEWAY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ban.h"

struct giveway {
	struct giveway *next;	 /* for whoever keeps a list of them */
	_Atomic int64_t busy_ns; /* with a request or its answer, since, CLOCK_MONOTONIC; 0: waiting */
	_Atomic pid_t idle;	 /* the thread while it is of idle priority, or 0 */
	_Atomic bool relieved;	 /* by another thread, since */
	_Atomic bool kept;	 /* a request was found waiting while others had the processor */
	struct ban ban;
	pid_t self;
};

/* By the thread that gives way. */
void giveway_init(struct giveway *give);

/*
 * It has a request, of thread `tid`, or waits for none. One that the kernel has made by itself (0) has kept nobody waiting:
 * when that is what was found, it was most likely the client itself that had the processor.
 */
void giveway_busy(struct giveway *give, int64_t now_ns, pid_t tid);
void giveway_wait(struct giveway *give);

/* After giveway_busy(): whether it may give way now. */
bool giveway_may(const struct giveway *give, int64_t now_ns);

/* To idle priority, and back. */
void giveway_begin(struct giveway *give);
void giveway_end(struct giveway *give);

/* From another thread: it has a request, or has not looked for the next since. */
bool giveway_is_busy(const struct giveway *give);

/* From another thread: it has been busy for longer than a guard waits, CLOCK_MONOTONIC. */
bool giveway_is_late(const struct giveway *give, int64_t now_ns);

/*
 * From another thread: back to ordinary priority; `waiting`: a request is, so for a while, should somebody wait for it.
 * False: it had that priority already.
 */
bool giveway_relieve(struct giveway *give, bool waiting);

#endif
