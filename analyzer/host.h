/* SPDX-License-Identifier: MIT */
/*
 * host.h - what the machine counts while something is recorded: the block devices below a directory, also those below
 * loop devices, dm, md and btrfs; dirty memory and writeback; stalls (PSI); CPU time; the filesystem's own counters
 * where it has them (jbd2, ext4, xfs, btrfs). Everything is read from /proc and /sys every 100 ms by a thread; what a
 * machine does not have, or does not show us, is left out.
 *
 * Only changes are kept, 24 bytes each. Readings of the clocks are kept with them: they become anchors of the run, so that
 * a wall clock that is set meanwhile is noticed.
 */
#ifndef FSTAPE_HOST_H
#define FSTAPE_HOST_H

#include <stdint.h>

#include "trace.h"

struct host;

/* Finds out what to read for the filesystem that `source` is on, and takes the first sample. 0 or -ENOMEM. */
int host_open(const char *source, struct host **ret_host);

/* Samples from now on in a thread, which gets no signals. 0 or -errno. */
int host_start(struct host *host);

/* Takes the last sample and ends the thread. May be called when there is none. */
void host_stop(struct host *host);

/*
 * Stores the samples in host_counter and host_value, and the clock readings in clock_anchor; `start_mono_ns` is the run's
 * time 0 on CLOCK_MONOTONIC. Within a transaction of the caller's. 0 or -errno of trace.h.
 */
int host_store(const struct host *host, struct trace *trace, int64_t run, int64_t start_mono_ns);

void host_free(struct host *host); /* NULL is fine */

#endif
