/* SPDX-License-Identifier: MIT */
/*
 * cohort.h - a signal for all that runs on a mount, as a terminal gives one to its job: who exists at one instant gets
 * it, once each, and nobody who is started afterwards: a trap's clean-up must not be hit.
 *
 * A terminal's signal is one step of the kernel's. Ours takes many, while shells go on starting children; so we look
 * again after the first time, and tell from its number whether a process was there when its parent was told, and has
 * been overlooked. Not for threads.
 */
#ifndef FSTAPE_COHORT_H
#define FSTAPE_COHORT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "shim.h"

/* A process: its number may be used again, the two together are not. In this order processes are started. */
struct member {
	uint64_t start_ticks; /* field 22 of /proc/PID/stat, proc(5) */
	pid_t pid;
};

/* Who has been told, and the newest of all processes then; newest.pid is 0 where the kernel does not say. */
struct told {
	struct member is, newest;
};

/* {} is one that nobody belongs to yet. */
struct cohort {
	struct told *told;
	size_t n_told;
};

/*
 * Sends `sig` to those of the cohort who have not got it: `command` (0: none) and its descendants, and who holds the
 * mount, parents before their children; on a public mount only members of our process group, and of the command's.
 * The first call tells everybody, as does one that finds none of those left who were told: who is there then is nobody's
 * reaction. Returns the number of processes told by this call, or -errno.
 */
int cohort_tell(struct cohort *cohort, const struct shim *shim, pid_t command, int sig);

void cohort_clear(struct cohort *cohort);

#endif
