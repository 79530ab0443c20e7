/* SPDX-License-Identifier: MIT */
/*
 * trace.h - a recording's database. trace*.c are the only files that know of SQLite.
 *
 * A `struct trace` is one connection, to be used by one thread at a time. Functions return 0 or -errno (a database
 * that is locked is -EBUSY, one on a full disk -ENOSPC, one that is no database or is damaged -EUCLEAN, one of another
 * kind or version -EPROTO); trace_error() has the words of the last failure. Only trace_open() prints them itself.
 *
 * Databases may come from strangers. For reading they are opened read-only and "defensive", with the schema untrusted
 * (https://www.sqlite.org/security.html): tables are checked to be plain tables, and our views are made afresh in the
 * temporary schema, where they come before whatever the file calls by the same name.
 */
#ifndef FSTAPE_TRACE_H
#define FSTAPE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event.h"
#include "spool.h"

#define TRACE_APPLICATION_ID 0x66737470 /* "fstp" */
#define TRACE_VERSION 1			/* user_version; a higher one is refused, a lower one migrated */

struct trace;
struct trace_stmt;

enum trace_mode {
	TRACE_READ,   /* must exist; nothing can be written */
	TRACE_WRITE,  /* must exist; migrated when it is older */
	TRACE_CREATE, /* made when missing, 0600 */
};

/* Opens the database, or says on standard error what is wrong with it. */
int trace_open(const char *path, enum trace_mode mode, struct trace **ret_trace);
void trace_close(struct trace *trace);

const char *trace_path(const struct trace *trace);
const char *trace_uuid(const struct trace *trace); /* SPOOL_UUID_LEN characters */
const char *trace_error(const struct trace *trace);

/* 0, or -EIO when the disk has failed to read or write this file since it was opened: what was found in it is no damage. */
int trace_check_disk(struct trace *trace);
const char *trace_sqlite_version(void);

/* The directory of spools of the database at `path`: "PATH-spool", to be freed; NULL: no memory. */
char *trace_spool_root(const char *path);

/* Where git's trace2 files of a run of that database are until they are loaded: "PATH-spool/git-RUN"; as above. */
char *trace_story_dir(const char *path, int64_t run);

/* How long a writer waits for another one before -EBUSY. Default 5 s. */
void trace_set_busy_timeout(struct trace *trace, int ms);

int trace_begin(struct trace *trace);
int trace_commit(struct trace *trace);
void trace_rollback(struct trace *trace);

/*
 * After the last run has ended: moves the log into the file and leaves write-ahead mode, so that one file is all there
 * is and a copy of it can be read anywhere. Does nothing while others have it open.
 */
void trace_settle(struct trace *trace);

/*
 * Moves what is committed from the log into the file, and both to the disk. 1: everything; 0: a reader keeps part of it in
 * the log; -errno.
 */
int trace_checkpoint(struct trace *trace);

/* Bytes of the file, as far as it is in use; what is in the log counts as if it were in the file. */
int trace_size(struct trace *trace, int64_t *ret_bytes);

/* The file has been deleted, or its directory with it: what is written goes nowhere. */
bool trace_is_deleted(const struct trace *trace);

/* Calls `report` for each column that this version's tables have and the database's have not, or have otherwise. */
int trace_check_schema(struct trace *trace, void (*report)(void *arg, const char *text), void *arg);

/* Gives back the memory of SQLite's page cache, and what this thread keeps. */
void trace_release_memory(struct trace *trace);

/*
 * For a process in which a thread stores rows while others must not wait for malloc()'s locks. trace_memory_setup() comes
 * before all other use of SQLite (-EBUSY: it did not, and nothing changes). The thread that stores calls trace_memory_keep(),
 * from then on keeps some of what SQLite frees for SQLite's next request, and calls trace_memory_end() before it ends.
 */
int trace_memory_setup(void);
void trace_memory_keep(void);
void trace_memory_release(void);
void trace_memory_end(void);

/* --- runs ------------------------------------------------------------------------------------------------------- */

/* A new run's row in state 'recording'. */
int trace_run_create(struct trace *trace, const char *label, int64_t *ret_run);

/* One column of a run's row; NULL text stores NULL. `column` is a name of schema.sql, never from outside. */
int trace_run_set_int(struct trace *trace, int64_t run, const char *column, int64_t value);
int trace_run_set_text(struct trace *trace, int64_t run, const char *column, const char *value);

/*
 * Deletes the oldest runs that have ended, so that `keep` runs are left (or more, when they have not ended). Many short
 * transactions: a run that is cut short says so in its note, and the next call goes on with it. Returns the number of runs
 * deleted, or -errno.
 */
int trace_runs_rotate(struct trace *trace, int64_t keep);

/* The run that `name` (a number or a label; NULL: the last one) means: the latest, when labels recur. -ENOENT. */
int trace_run_find(struct trace *trace, const char *name, int64_t *ret_run);

/* --- loading: see loader.h -------------------------------------------------------------------------------------- */

int trace_add_event(struct trace *trace, int64_t run, const struct event *event, const char *args);

/*
 * The same for many, in one statement. *ret_added, also on failure: how many of them are in, from the first on; the next
 * is the one that failed (-EEXIST: its seq is there already).
 */
struct event_ref {
	const struct event *event;
	const char *args; /* event->args_len bytes */
};
int trace_add_events(struct trace *trace, int64_t run, const struct event_ref *events, size_t count, size_t *ret_added);
int trace_add_path(struct trace *trace, int64_t run, const struct path_record *path, const char *text);
int trace_add_process(struct trace *trace, int64_t run, const struct process_record *process, const char *text);
int trace_add_initial(struct trace *trace, int64_t run, const struct initial_record *initial, const char *target);
int trace_add_content(struct trace *trace, const struct content_hash *hash, const void *bytes, uint32_t len);
int trace_add_data(struct trace *trace, int64_t run, const struct data_record *data);
int trace_add_cpu(struct trace *trace, int64_t run, const struct cpu_record *cpu);
int trace_add_anchor(struct trace *trace, int64_t run, int64_t before_ns, int64_t real_ns, int64_t after_ns);

/* How far a segment has been loaded; `*ret_generation` is 0 when there is no mark. */
int trace_mark(struct trace *trace, int64_t run, uint32_t slot, uint64_t *ret_generation, uint64_t *ret_loaded);
int trace_set_mark(struct trace *trace, int64_t run, uint32_t slot, uint64_t generation, uint64_t loaded);
int trace_clear_marks(struct trace *trace, int64_t run);

/* --- queries ---------------------------------------------------------------------------------------------------- */

enum trace_type { TRACE_NULL, TRACE_INTEGER, TRACE_REAL, TRACE_TEXT, TRACE_BLOB };

/*
 * Prepares the first statement of `sql`. `*ret_rest`, when not NULL, gets what follows it. A text without a statement
 * gives *ret_stmt NULL and 0. -EROFS for a statement that would write when the trace is open for reading.
 */
int trace_prepare(struct trace *trace, const char *sql, struct trace_stmt **ret_stmt, const char **ret_rest);
void trace_finalize(struct trace_stmt *stmt);
#define auto_stmt __attribute__((cleanup(cleanup_stmt)))
static inline void cleanup_stmt(struct trace_stmt **stmt)
{
	trace_finalize(*stmt);
}

/* The number of a named parameter, ":name"; 0: the statement has none of that name, and binding it fails. */
int trace_parameter(const struct trace_stmt *stmt, const char *name);

/* Parameters count from 1. Text is copied. */
int trace_bind_int(struct trace_stmt *stmt, int index, int64_t value);
int trace_bind_text(struct trace_stmt *stmt, int index, const char *value);

int trace_bind_blob(struct trace_stmt *stmt, int index, const void *value, size_t len);

/* Ready to be stepped again, with all parameters NULL. */
void trace_reset(struct trace_stmt *stmt);

/* 1: a row; 0: no more; or -errno (-EINTR after trace_interrupt()). */
int trace_step(struct trace_stmt *stmt);

/* Of the current row; columns count from 0. Text is NUL-terminated, NULL for NULL, and valid until the next step. */
int trace_columns(const struct trace_stmt *stmt);
const char *trace_column_name(const struct trace_stmt *stmt, int column);
enum trace_type trace_column_type(const struct trace_stmt *stmt, int column);
int64_t trace_column_int(const struct trace_stmt *stmt, int column);
double trace_column_double(const struct trace_stmt *stmt, int column);
const char *trace_column_text(const struct trace_stmt *stmt, int column);
const void *trace_column_blob(const struct trace_stmt *stmt, int column); /* NULL also for an empty one */
size_t trace_column_bytes(const struct trace_stmt *stmt, int column); /* of the text or blob */

/* Runs statements that return no rows; bindings are not possible. */
int trace_exec(struct trace *trace, const char *sql);

/* Ends a running query of this connection, and each that is stepped later; may be called from a signal handler. */
void trace_interrupt(struct trace *trace);

#endif
