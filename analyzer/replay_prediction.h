/* SPDX-License-Identifier: MIT */
/*
 * replay_prediction.h - what a replay at the recorded speed says of the time that the recorded command would take there.
 * docs/prediction.md says how it comes about, and what it cannot know.
 */
#ifndef FSTAPE_REPLAY_PREDICTION_H
#define FSTAPE_REPLAY_PREDICTION_H

#include "replay_check.h"
#include "table.h"

/* A row of a table of values: a stable name for programs, words for people. */
void replay_row(struct table *table, const char *name, const char *words, int64_t value);

/* What a replay with pauses was made of; with `predicted_ns` when it was at the recorded speed and the run knows its end. */
void replay_time_rows(struct table *table, const struct plan *plan, const struct replay_result *result);

/* The same for people, on standard output. */
void replay_time_print(const struct plan *plan, const struct replay_result *result, const struct fidelity *fidelity);

/* What pauses a plan has. */
void replay_pace_rows(struct table *table, const struct plan *plan);

#endif
