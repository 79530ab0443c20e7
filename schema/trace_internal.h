/* SPDX-License-Identifier: MIT */
/* trace_internal.h - what the files trace*.c share; for nobody else. */
#ifndef FSTAPE_TRACE_INTERNAL_H
#define FSTAPE_TRACE_INTERNAL_H

#include <signal.h>

#include <sqlite3.h>

#include "trace.h"

enum insert { INSERT_PATH, INSERT_PROCESS, INSERT_INITIAL, INSERT_ALIAS, INSERT_MARK, INSERT_CONTENT, INSERT_DATA,
	INSERT_EXTRA, INSERT_CPU, INSERT_COUNT };

struct trace {
	sqlite3 *db;
	char *path;
	char uuid[SPOOL_UUID_LEN + 1];
	enum trace_mode mode;
	int path_fd; /* O_PATH, of the file that is open; or -1 */
	sqlite3_stmt *inserts[INSERT_COUNT]; /* prepared at first use */
	struct event_sink *sink; /* of operations; made at first use */
	struct packer *packer; /* of contents; made at first use */
	volatile sig_atomic_t interrupted; /* trace_interrupt() has been called */
	char error[512];
};

struct trace_stmt {
	struct trace *trace;
	sqlite3_stmt *sql;
};

/* Keeps SQLite's words of the last failure and returns -errno for its result code. */
int trace_fail(struct trace *trace, int result);

/* A prepared statement of trace_load.c with all parameters NULL; NULL: *ret_err says why. */
sqlite3_stmt *insert_begin(struct trace *trace, enum insert which, int *ret_err);
int insert_end(struct trace *trace, sqlite3_stmt *stmt);

/* Of trace_extras.c: which rows of op_extra are there. Forgotten when a transaction is undone. free() it. */
struct extras;
int trace_extras_new(struct extras **ret_extras);
void trace_extras_forget(struct extras *extras);

/* The row for what an operation has besides, made when there is none; 0: it has nothing. */
int trace_extra_id(struct trace *trace, struct extras *extras, int64_t run, const struct event_ref *ref, int64_t *ret_id);

/* What trace_events.c and trace_content.c keep in a trace. */
void trace_events_undone(struct trace *trace);
void trace_events_end(struct trace *trace);
void trace_content_end(struct trace *trace);

#endif
