/* SPDX-License-Identifier: MIT */
/*
 * loader.h - moves a spool's records into the database, each exactly once.
 *
 * A batch is one transaction: its rows and, per segment, the mark up to where they reach. Whatever dies in between,
 * rows and marks agree, and the next loader goes on at the marks. Used by the recorder's thread and by `recover`;
 * one thread at a time.
 */
#ifndef FSTAPE_LOADER_H
#define FSTAPE_LOADER_H

#include <stdbool.h>
#include <stdint.h>

#include "spool.h"
#include "trace.h"

struct loader {
	struct trace *trace;
	struct spool *spool;
	int64_t run;
	/*
	 * Bytes of loaded segments that are kept until what they held has been moved from the database's log into its file:
	 * a log that is lost, or cut off behind what SQLite had synced, loses nothing then. (It syncs the log before it moves
	 * anything: cut off before that, by somebody's hand, old pages hide newer ones.) 0: given back at once; UINT64_MAX:
	 * never.
	 */
	uint64_t hold;
	uint64_t events;  /* loaded by this loader */
	uint64_t damaged; /* segments that could not be read to their end */
};

/*
 * Loads up to about `max` records. Returns their number (0: all that was published is loaded), or -errno with the
 * database as it was before; the same batch is tried again by the next call.
 */
int64_t loader_step(struct loader *loader, int64_t max);

/* Takes up the marks that an earlier loader of this run left. Before the first loader_step(), for spool_open(). */
int loader_resume(struct loader *loader);

/* Why operations were dropped, in words, for a value of spool_state.loss_errno. */
const char *loss_text(uint32_t loss_errno);

/*
 * When everything is loaded: writes the final counts into the run's row with its `state` ('done', 'recovered') and
 * clears the marks, in one transaction. After it the spool may be removed.
 */
int loader_finish(struct loader *loader, const char *state);

/*
 * Finishes every run of the database whose recorder is gone and whose spool is still there, and marks runs as
 * 'recovered' whose recorder is gone without one. `progress` may be NULL. Returns the number of runs that were
 * recovered, or -errno; says on standard error what could not be. `*ret_left` (may be NULL): spools of which
 * something stays, as it cannot be read or is another database's; those of recorders at work are not among them.
 */
int recover_all(struct trace *trace, void (*progress)(int64_t run, uint64_t events), unsigned int *ret_left);

#endif
