/* SPDX-License-Identifier: MIT */
/*
 * client_cpu.h - how much processor time a thread that makes requests has used by now, read now and then.
 *
 * The time between two requests of a program has in it the way from the recorder back to the program and to the recorder
 * again: waking up, waiting for a processor. /proc/TID/schedstat tells what the thread itself used (sum_exec_runtime) and
 * for how long it could have run but did not (run_delay). It is read while the thread waits for its answer, when it is
 * off its processor and the numbers stand still; nothing of it takes a lock of the thread, so any request will do.
 *
 * Readings come in pairs, with one request and with the next one of the thread: what lies between the two readings is one
 * gap, what lies between two pairs many. The further a thread has come, the less often it is looked at.
 */
#ifndef FSTAPE_CLIENT_CPU_H
#define FSTAPE_CLIENT_CPU_H

#include <stdbool.h>
#include <sys/types.h>

#include "event.h"

#define CLIENT_CPU_LONG_NS 1000000

/* Of one thread. Protected by whoever owns it. */
struct client_cpu {
	int fd;	  /* -1: the kernel tells nothing */
	bool again; /* the first reading of a pair has been made */
	uint32_t pairs;
	uint32_t skip;	/* so many requests without, unless the thread is slow */
	int64_t due_ns; /* the run's time: not before that */
};

/* `dir_fd`: /proc/TID. */
void client_cpu_open(struct client_cpu *cpu, int dir_fd);
void client_cpu_close(struct client_cpu *cpu);

/* A request came at `now`: whether it is one to read with. */
static inline bool client_cpu_is_due(struct client_cpu *cpu, int64_t now)
{
	if (cpu->fd < 0 || (!cpu->again && now < cpu->due_ns))
		return false;
	if (cpu->again || !cpu->skip || now >= cpu->due_ns + CLIENT_CPU_LONG_NS)
		return true;
	cpu->skip--;
	return false;
}

/*
 * Reads into *ret_record, before the answer to a request that came at `now`. False: the thread is gone, or the kernel has
 * nothing to tell; the descriptor is closed then.
 */
bool client_cpu_read(struct client_cpu *cpu, int64_t now, struct cpu_record *ret_record);

#endif
