/* SPDX-License-Identifier: MIT */
/* replay_readings.h - what was read of the processor time of recorded threads, and of the command; for replay_pace.c. */
#ifndef FSTAPE_REPLAY_READINGS_H
#define FSTAPE_REPLAY_READINGS_H

#include <stddef.h>
#include <stdint.h>

struct trace;

/* A thread's times when a request of it had come. */
struct times {
	int64_t cpu_ns;	  /* processor time that it had used */
	int64_t delay_ns; /* that it had been ready and not running */
};

struct reading {
	int64_t seq; /* of the request */
	struct times at;
};

struct readings {
	struct reading *all; /* by seq */
	size_t count, room;
	int64_t command_ns;	/* the command's start, the run's time; -1: not known */
	int64_t command_end_ns; /* -1: not known */
};

/* Of a run; without a row there are none. Readings that no thread can have had are left out. 0 or -errno. */
int readings_load(struct trace *trace, int64_t run, struct readings *ret_readings);
void readings_free(struct readings *readings);

/* The one with a request, or NULL. */
const struct reading *readings_of(const struct readings *readings, int64_t seq);

#endif
