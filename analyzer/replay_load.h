/* SPDX-License-Identifier: MIT */
/*
 * replay_load.h - a run's rows as a compiler needs them. Whoever made the database may have put anything into them: what
 * could do harm or take us out of our depth is refused here, with a message that names the operation.
 */
#ifndef FSTAPE_REPLAY_LOAD_H
#define FSTAPE_REPLAY_LOAD_H

#include <stdint.h>

#include "replay_plan.h"
#include "trace.h"

#define NO_NAME UINT32_MAX

/* A row of `op`; ids of 0: none. */
struct row {
	uint64_t node, parent, fh;
	int64_t seq, start_ns, dur_ns, fs_ns, offset, length, result;
	uint32_t process, path, path2, flags, mode, args;
	uint8_t op;
};

/* Rows of `path`, by id. */
struct paths {
	uint32_t *parent;
	uint32_t *name; /* last component, a text of the plan; NO_NAME: it has none that may be used */
	uint32_t count; /* one above the highest id */
};

/* A thread that made requests, as processes.id has it: exec gives it another id, but it stays the same thread. */
struct recorded_thread {
	int64_t tid, start_ticks;
	int64_t pid, ppid;
	uint32_t left; /* operations not compiled yet */
	uint32_t last; /* its former action but RELEASE and FORGET; 0: none */
	int slot;      /* thread of the replay, -1: none yet */
};

/* What one pass over the run tells before it is compiled. */
struct survey {
	uint64_t operations;
	struct idmap made; /* nodes that an operation of the run made */
	struct idmap thread_of; /* process id -> index in threads, from 1 */
	struct recorded_thread *threads; /* [1, n_threads] */
	uint32_t n_threads, threads_room;
};

int survey_run(struct trace *trace, int64_t run, struct survey *ret_survey);
void survey_free(struct survey *survey);

int paths_load(struct trace *trace, int64_t run, struct plan *plan, struct paths *ret_paths);
void paths_free(struct paths *paths);

/* The whole text of a path, to be freed; -ENOENT when there is no such row. */
int path_text(struct trace *trace, int64_t run, uint32_t path, char **ret_text);

struct rows;

/* The rows in the order of `seq`. rows_next(): 1, 0 at the end, or -errno after a message. */
int rows_open(struct trace *trace, struct plan *plan, struct rows **ret_rows);
int rows_next(struct rows *rows, struct row *ret_row);
void rows_close(struct rows *rows);

/* The message when the database failed; returns `err`, of which only failures are said. */
int trace_said(struct trace *trace, int err);

/* The message of a recording that is refused; returns -EBADMSG. */
int refuse(const struct row *row, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
