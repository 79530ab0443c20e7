/* SPDX-License-Identifier: MIT */
/*
 * replay_pace.h - the time that threads spent between their operations, for replays at the recorded speed.
 *
 * Between the reply to a thread's request and its next request lie the way back, what the program did, and the way to
 * the recorder again. The ways are not the program's: they are the same for the pairs of requests that the kernel made
 * within one system call, where the program did nothing in between, and are measured by those.
 *
 * When a thread was silent for long while a thread of its process, its child or its parent was busy, it waited for that
 * one: its time counts from the end of the other's last operation, so that a quicker filesystem shortens both.
 */
#ifndef FSTAPE_REPLAY_PACE_H
#define FSTAPE_REPLAY_PACE_H

#include "replay_load.h"
#include "replay_plan.h"

/* Fills think_ns, after and round_trip_ns of the plan. 0 or -ENOMEM. */
int pace_compile(struct plan *plan, const struct survey *survey);

#endif
