/* SPDX-License-Identifier: MIT */
/* replay_worker.h - a thread of a replay, as the operations of replay_ops*.c see it; for replay_*.c only. */
#ifndef FSTAPE_REPLAY_WORKER_H
#define FSTAPE_REPLAY_WORKER_H

#include <stdatomic.h>
#include <sys/stat.h>

#include "base.h"
#include "replay_dirs.h"
#include "replay_run.h"

struct open_file {
	_Atomic int fd;	   /* -1: not open */
	uint64_t names_sum; /* of the listing so far, as in the recording */
	int64_t entries, bytes;
};

/* How far a thread has come; a line of the cache each, as others look at it all the time. */
struct advance {
	_Atomic uint32_t done;	  /* actions */
	_Atomic uint32_t sleepers; /* threads in futex(2) on `done` */
	char padding[56];
};

struct replay {
	const struct plan *plan;
	const struct replay_options *options;
	struct dirs *dirs;
	struct open_file *files; /* by handle */
	struct advance *advances; /* by thread */
	struct outcome *outcomes;
	int64_t start_ns; /* CLOCK_MONOTONIC */
	_Atomic uint32_t waiting; /* threads that are not ready to start yet */
	_Atomic bool abandoned;
	struct doubles doubles; /* 0: without pauses */
};

struct worker {
	struct replay *replay;
	uint32_t thread;
	int64_t fs_ns;	/* of the action under way, */
	int64_t calls;	/* in so many system calls */
	int64_t making_ns; /* processor time for what the action under way writes */
	int64_t waited_ns; /* for other threads, before it */
	int64_t debt_ns;   /* of our own time, what has not been taken off a pause yet */
	struct replay_times times;
	uint8_t state;	/* enum outcome_state, when the operation has compared more than its result */
	char *buffer;	/* PLAN_LENGTH_MAX would be too much for each: as long as the longest transfer, from `room` */
	size_t room;
	struct trace *trace; /* where recorded contents come from: opened at the first write that has any */
	struct content_reader *contents;
};

/* Adds the time of one system call to the operation's account. */
#define TIMED(w, expr)                                                    \
	({                                                                \
		int64_t timed_start = clock_ns(CLOCK_MONOTONIC);          \
		typeof(expr) timed_result = (expr);                       \
		(w)->fs_ns += clock_ns(CLOCK_MONOTONIC) - timed_start;    \
		(w)->calls++;                                             \
		timed_result;                                             \
	})

/* Performs an action: its result, a count, 0 or -errno. */
int64_t worker_perform(struct worker *w, const struct action *a);

/* At least `size` bytes, or NULL. */
char *worker_buffer(struct worker *w, size_t size);

/*
 * What a write writes, in the worker's buffer: as it was recorded (data=full), else made by the filler. 0 or -errno
 * after a message, of which there is one per worker.
 */
int worker_contents(struct worker *w, const struct action *a, char **ret_bytes);

/* A mode as it was recorded, but for rights that a stranger's recording must not give away. Not of directories. */
static inline mode_t worker_mode(const struct worker *w, mode_t mode)
{
	return w->replay->options->allow_setid ? mode : mode & ~(mode_t)(S_ISUID | S_ISGID);
}

/* The end of a worker: its buffer and connection. */
void worker_free(struct worker *w);

/* One function per replayable row of ops.def, in replay_ops*.c. */
#define OP(code, name, class, reply, cols, replay) int64_t replay_##name(struct worker *w, const struct action *a);
#include "ops.def"
#undef OP

#endif
