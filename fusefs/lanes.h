/* SPDX-License-Identifier: MIT */
/*
 * lanes.h - lets the threads that serve the requests of one processor give way (giveway.h) to a lone client there, also
 * while they wait for requests: they have one system call for both (ring.h).
 *
 * That is for as long as a canary of the same priority is given the processor. When it is not, somebody else wants it: then
 * they have their ordinary priority back for a while (ban.h), and also when there have been no requests for some time.
 */
#ifndef FSTAPE_LANES_H
#define FSTAPE_LANES_H

#include "giveway.h"

struct guard;
struct lanes;

/* One for each of `count` processors. 0 or -errno. */
int lanes_new(struct guard *guard, unsigned int count, struct lanes **ret_lanes);

/* After the last thread has left; nothing for NULL. */
void lanes_free(struct lanes *lanes);

/* By a thread of that lane, which starts with ordinary priority; `give` is its own until it leaves. */
void lanes_join(struct lanes *lanes, unsigned int lane, struct giveway *give);
void lanes_leave(struct lanes *lanes, unsigned int lane, struct giveway *give);

/* By one that has joined, before it answers a request of the thread `tid` (0: of the kernel itself). */
void lanes_answer(struct lanes *lanes, unsigned int lane, struct giveway *give, pid_t tid);

#endif
