/* SPDX-License-Identifier: MIT */
/*
 * priority.h - threads that are of idle priority (SCHED_IDLE, sched(7)) for a while.
 *
 * At other times they are of ordinary priority, but do not put aside who wakes them (SCHED_BATCH): that is a client which
 * is about to wait anyway, and may not be through with what it does in the kernel.
 */
#ifndef FSTAPE_PRIORITY_H
#define FSTAPE_PRIORITY_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Whether a thread may become of idle priority: whether it would get back, which takes CAP_SYS_NICE, and whether the daemon
 * was not started with a scheduling policy of its own, which it keeps.
 */
bool priority_may_be_idle(void);

/* By a thread that serves requests, before all else. */
void priority_init(void);

/* `thread` is a thread's number, 0: the calling one. */
void priority_set_idle(pid_t thread, bool idle);

#endif
