/* SPDX-License-Identifier: MIT */
/* replay_wait.h - what a thread of a replay does between its actions: waits for others, and pauses. */
#ifndef FSTAPE_REPLAY_WAIT_H
#define FSTAPE_REPLAY_WAIT_H

#include "replay_worker.h"

/* Whether nobody wants the rest any more. */
bool replay_given_up(const struct replay *r);

/* Until all have ended that an action has to wait for. False: the replay is given up. */
bool wait_for_others(struct worker *w, uint32_t number);

/* A thread has done so many of its actions. */
void wait_publish(struct replay *r, uint32_t thread, uint32_t done);

/*
 * The program's own time before an action, at a recorded speed. What the replayer itself needed since the thread's former
 * action, which ended at `free_ns` of the replay's time, is taken off it. *ret_idle_ns: how long it should be. False: the
 * replay is given up.
 */
bool pause_before(struct worker *w, uint32_t number, int64_t free_ns, uint32_t *ret_idle_ns);

/* The same for an action that is not issued: its pause comes with that of the next one. */
void pause_owed(struct worker *w, uint32_t number);

/* After an action with that result: `own_ns` of its time was no system call. */
void pause_owe(struct worker *w, const struct action *a, int64_t result, int64_t own_ns);

#endif
