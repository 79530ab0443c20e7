/* SPDX-License-Identifier: MIT */
/*
 * replay_store.h - a replay as a run of its own: the same tables as a recording, so that all commands read it. Each of
 * its operations is linked to the recorded one by a row of `replayed`.
 */
#ifndef FSTAPE_REPLAY_STORE_H
#define FSTAPE_REPLAY_STORE_H

#include "replay_run.h"
#include "trace.h"

struct replay_store {
	const char *label;  /* or NULL */
	const char *target; /* the directory: from the root, as of recordings */
	int root_fd;	    /* of it */
	bool cold;
};

/*
 * Adds the run to `into`, in one transaction, and gives its number. `from` is the database of the original, which may be
 * the same file. Git's commands, regions and phases come along: times of commands and regions stay the
 * original's, spans are made anew. 0, or -errno after a message.
 */
int replay_store(struct trace *from, struct trace *into, const struct plan *plan, const struct replay_result *result,
	const struct replay_store *store, int64_t *ret_run);

#endif
