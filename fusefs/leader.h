/* SPDX-License-Identifier: MIT */
/*
 * leader.h - how the one worker that serves a lone client waits for that client's next request.
 *
 * Most of a request's price is waking up: of the worker when the request comes, of the client when the answer does. A
 * thread that is woken on another, idle processor costs several times what handling the request does (docs/performance.md
 * has figures). There are three ways to wait, and which is best depends on the machine, so they are tried in turn, the
 * time from answer to next request is measured, and the best is used until the next trial:
 *
 *   sleep    wait for the kernel's wake-up
 *   poll     ask again and again for POLL_NS at most, giving way to others in between
 *   follow   run on the processor that the client runs on. While it answers the worker is of idle priority, so that the
 *            scheduler takes that processor for a free one and lets the client go on where it is, at once.
 *
 * The client's own placement is never touched, and a worker without requests sleeps in any case.
 *
 * Each worker has one of these; all but leader_busy_since() and leader_relieve() are for that worker alone.
 */
#ifndef FSTAPE_LEADER_H
#define FSTAPE_LEADER_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "options.h"

struct leader;

/* What holds for all workers. */
struct leader_settings {
	cpu_set_t processors;
	bool can_follow; /* there are several, and a thread gets back from idle priority */
	enum wait_mode wait;
};

void leader_settings_init(enum wait_mode wait, struct leader_settings *ret_settings);

/* By the worker whose it will be: it gets all processors back that the thread that started it may have given up. */
int leader_new(const struct leader_settings *settings, struct leader **ret_leader);
void leader_free(struct leader *leader);

/* The worker takes the lead, or gives it up. */
void leader_begin(struct leader *leader);
void leader_end(struct leader *leader);

/* A request has come, of thread `tid` (0: of the kernel itself). `may_look`: /proc may be read for it (who.h). */
void leader_received(struct leader *leader, pid_t tid, bool may_look);

/* Around the answer of a request. */
void leader_before_reply(struct leader *leader);
void leader_after_reply(struct leader *leader);

/* No request was there. True: ask again now, instead of sleeping. */
bool leader_poll(struct leader *leader);

/* From another thread: since when it has been busy with a request or its answer, CLOCK_MONOTONIC; 0: it is not. */
int64_t leader_busy_since(const struct leader *leader);

/* From another thread: the leader gets back its ordinary priority, if it is answering. */
void leader_relieve(struct leader *leader);

#endif
