/* SPDX-License-Identifier: MIT */
/*
 * replay_args.h - the JSON objects of the column `args` as lists of struct arg in a plan.
 *
 * SQLite's JSON functions take them apart. Most operations that have any have the same ones as those before them, so the
 * last few hundred are remembered.
 */
#ifndef FSTAPE_REPLAY_ARGS_H
#define FSTAPE_REPLAY_ARGS_H

#include "replay_plan.h"
#include "trace.h"

struct args_reader;

int args_reader_new(struct trace *trace, struct args_reader **ret_reader);
void args_reader_free(struct args_reader *reader);

/* Adds the members of `json` to the plan; *ret_first 0: none. -EBADMSG: it is no JSON object; or -errno of trace.h. */
int args_read(struct args_reader *reader, struct plan *plan, const char *json, size_t len, uint32_t *ret_first);

#endif
