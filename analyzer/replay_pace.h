/* SPDX-License-Identifier: MIT */
/*
 * replay_pace.h - the time that threads spent between their operations, for replays at the recorded speed.
 *
 * Between the reply to a thread's request and its next request lie the way back, what the program did, and the way to
 * the recorder again. docs/prediction.md says how the program's part is told from the ways, and what that can't know.
 */
#ifndef FSTAPE_REPLAY_PACE_H
#define FSTAPE_REPLAY_PACE_H

#include "replay_load.h"
#include "replay_plan.h"

/* Fills plan->pace. 0, -ENOMEM, or -errno after a message. */
int pace_compile(struct plan *plan, const struct survey *survey, struct trace *trace);
void pace_free(struct pace *pace);

#endif
