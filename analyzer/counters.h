/* SPDX-License-Identifier: MIT */
/*
 * counters.h - what the kernel counts of the devices and filesystem of a place, before and after a measurement.
 *
 * Names, each the growth over the measurement:
 *   device.reads, device.read_bytes, device.writes, device.write_bytes, device.flushes,
 *   device.read_ns, device.write_ns, device.flush_ns (summed over requests), device.busy_ns
 *                       of the block devices (Documentation/block/stat.rst), summed when there are two
 *   jbd2.transactions   commits of the journal of ext3 and ext4 (/proc/fs/jbd2/DEVICE/info)
 *   xfs.log_writes, xfs.log_blocks, xfs.log_forces, xfs.log_noiclogs   (/sys/fs/xfs/DEVICE/stats)
 *   btrfs.commits, btrfs.commit_ns                                      (/sys/fs/btrfs/UUID/commit_stats)
 *   ext4.written_kbytes
 * A counter that the kernel does not have is not there.
 */
#ifndef FSTAPE_COUNTERS_H
#define FSTAPE_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

#include "place.h"

#define COUNTERS_MAX 32

struct counter {
	const char *name;
	int64_t value;
};

struct counters {
	struct counter items[COUNTERS_MAX];
	size_t count;
};

void counters_read(const struct place *place, struct counters *ret_counters);

/* `after` becomes what each has grown by since `before`. */
void counters_since(struct counters *after, const struct counters *before);

void counters_add(struct counters *counters, const char *name, int64_t value);

#endif
