/* SPDX-License-Identifier: MIT */
/*
 * loss.h - when operations are not recorded any more, and the account of those.
 *
 * With overflow=block a worker that finds no room waits. It must not wait for ever: the trouble may be one that does not
 * end. While the loader fails, a worker gives up after STALL_LIMIT_NS, or, when another program has the database locked,
 * which ends one day, after LOCK_LIMIT_NS. When the loader gets on again, recording does too. Some reasons are final:
 * nothing is recorded after them.
 *
 * All functions may be called from any thread, but loss_note_result() and loss_set_final() from the loader's only.
 */
#ifndef FSTAPE_LOSS_H
#define FSTAPE_LOSS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base.h"
#include "spool.h"

#define STALL_LIMIT_NS (20 * NSEC_PER_SEC)
#define LOCK_LIMIT_NS (300 * NSEC_PER_SEC)

struct loss {
	_Atomic int64_t stalled_since_ns; /* CLOCK_MONOTONIC; 0: the loader gets on */
	_Atomic int error;		  /* errno of the loader's trouble, 0 or more */
	_Atomic int final;		  /* errno of what ends the recording */
};

/* `result` is what the loader got, 0 or -errno. Returns for how long it has been failing, ns. */
int64_t loss_note_result(struct loss *loss, int result);
void loss_set_final(struct loss *loss, int error);

bool loss_is_due(const struct loss *loss);
bool loss_is_final(const struct loss *loss);

/* One operation is not recorded: counts it, and notes when and why. */
void loss_count(const struct loss *loss, struct spool_state *state, unsigned int op, int64_t now_ns);

#endif
