/* SPDX-License-Identifier: MIT */
/*
 * unit.h - what the unit tests share: a scratch directory per test, captured messages, and records to put in spools.
 *
 * Everything here ends the test when something goes wrong, so callers check nothing. Not thread-safe, except put_*().
 */
#ifndef FSTAPE_UNIT_H
#define FSTAPE_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#ifdef assert_uint_in_range /* cmocka 2 has a name for each kind of number, and warns of the old one */
#undef assert_in_range
#define assert_in_range assert_uint_in_range
#endif

#include "base.h"
#include "spool.h"
#include "trace.h"

struct scratch {
	char dir[128]; /* empty, deleted with all that is in it after the test */
	char db[160];  /* where a database may be made: dir/t.db */
	char root[192]; /* its spools */
	int stderr_fd; /* the real one while messages are captured, else -1 */
};

int scratch_setup(void **state);
int scratch_teardown(void **state);

/* A test in a scratch directory of its own; `*state` is its struct scratch. */
#define scratch_test(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)

/* Standard error goes to a file until capture_end(), which returns the text (to be freed). */
void capture_begin(struct scratch *scratch);
char *capture_end(struct scratch *scratch);

/* DIR/NAME; to be freed. */
char *path_in(const char *dir, const char *name);

void write_file(const char *path, const void *data, size_t len);
char *slurp(const char *path, size_t *ret_len);

/* Number of entries of a directory whose names start so; -1 when there is no directory. */
int count_entries(const char *dir, const char *prefix);

/* A single integer from the database, which is opened for it with plain SQLite. */
int64_t db_int(const char *db, const char *sql);
/* A single text, to be freed; NULL for NULL. */
char *db_text(const char *db, const char *sql);
/* Runs statements on a file with plain SQLite, without any of the trace module's safety. */
void db_exec(const char *db, const char *sql);

/* Records as a recorder makes them. put_event() returns false when the spool has no room. */
bool put_event(struct spool_writer *writer, uint64_t seq);
bool put_path(struct spool_writer *writer, uint32_t id, const char *text);
bool put_process(struct spool_writer *writer, uint32_t id, int32_t pid, const char *comm);

/* A database with one run and its spool, as a recorder has them; events of it come from put_event(). */
struct recording {
	struct trace *trace;
	struct spool *spool;
	struct spool_writer *writer;
	int64_t run;
};

void recording_start(const struct scratch *scratch, const char *label, uint64_t limit, struct recording *ret_recording);
/* As after the death of the recorder: the lock goes, files stay. */
void recording_abandon(struct recording *recording);

#endif
