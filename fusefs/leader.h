/* SPDX-License-Identifier: MIT */
/*
 * leader.h - how the one worker that serves a lone client waits for that client's next request.
 *
 * Most of a request's price is waking up: of the worker when the request comes, of the client when the answer does. A
 * thread that is woken on another, idle processor costs several times what handling the request does (docs/performance.md
 * has figures). There are three ways to wait, and which is best depends on the machine, so they are tried in turn, the
 * time from answer to next request is measured, and the best is used until the next trial. What is far from it is dropped
 * after a few requests, as a trial of a bad way costs more than all else that this brings.
 *
 *   sleep    wait for the kernel's wake-up
 *   poll     ask again and again for POLL_NS at most, giving way to others in between
 *   follow   run on the processor that the client runs on, and give way to it: giveway.h
 *
 * The client's own placement is never touched, and a worker without requests sleeps in any case.
 *
 * Each worker has one of these, for itself alone.
 */
#ifndef FSTAPE_LEADER_H
#define FSTAPE_LEADER_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "options.h"

struct giveway;
struct leader;

enum leader_way { LEADER_SLEEP, LEADER_POLL, LEADER_FOLLOW, LEADER_WAYS };

/* What holds for all workers of a mount, and what the one that leads has found out for the next. */
struct leader_settings {
	cpu_set_t processors;
	bool can_follow; /* there are several, and a thread gets back from idle priority */
	enum wait_mode wait;
	_Atomic uint32_t cost[LEADER_WAYS]; /* ns from answer to request, a low quartile; 0: not known */
	_Atomic unsigned int trusted, trust; /* judgements since the last trial, and how many until the next */
	_Atomic unsigned int best;	     /* enum leader_way, of the last trial */
};

void leader_settings_init(enum wait_mode wait, struct leader_settings *ret_settings);

int leader_new(struct leader_settings *settings, struct leader **ret_leader);
void leader_free(struct leader *leader);

/* The worker takes the lead, or gives it up. */
void leader_begin(struct leader *leader);
void leader_end(struct leader *leader);

/* A request has come, of thread `tid` (0: of the kernel itself). `may_look`: /proc may be read for it (who.h). */
void leader_received(struct leader *leader, pid_t tid, bool may_look);

void leader_before_reply(struct leader *leader);

/* Back to all processors and ordinary priority, which threads started now inherit; until it next has a client to follow. */
void leader_rest(struct leader *leader);

/* No request was there. True: ask again now, instead of sleeping. */
bool leader_poll(struct leader *leader);

/* For the guard. */
struct giveway *leader_giveway(struct leader *leader);

#endif
