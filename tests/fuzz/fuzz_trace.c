/* SPDX-License-Identifier: MIT */
/*
 * fuzz_trace.c - a libFuzzer target: the input is a database of a stranger. It is made in one of three ways: the bytes of
 * the input as they are; a good database with some bytes changed, here and there; or a good one into which the input has
 * been run as SQL, with all that SQLite lets its author do: triggers, views, other tables under our names, forged schemas.
 * Opening it for reading, all that `fstape check` and `fstape stats` do, and opening it for writing and recovering, must
 * come to an end, with an error or without.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "fuzz.h"
#include "loader.h"
#include "op_stats.h"
#include "run.h"

#define STEPS_OF_AUTHOR 200000 /* of SQLite's machine: the author's own loops are not what is tested */
#define ROWS_READ 200

struct change {
	uint32_t offset;
	uint8_t len;
} __attribute__((packed));

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void with_changes(const struct fuzz_place *place, struct fuzz_input *in)
{
	unsigned char *file = malloc(place->template_size);
	struct change change;

	if (!file)
		abort();
	memcpy(file, place->template, place->template_size);
	while (fuzz_take(in, &change, sizeof(change))) {
		size_t at = change.offset % place->template_size, room = place->template_size - at;
		size_t len = change.len < in->size ? change.len : in->size;

		fuzz_take(in, file + at, len < room ? len : room);
	}
	fuzz_write(place->db, file, place->template_size);
	free(file);
}

static int stop(void *arg)
{
	(void)arg;
	return 1;
}

static int no_other_files(void *arg, int action, const char *a, const char *b, const char *c, const char *d)
{
	(void)arg, (void)a, (void)b, (void)c, (void)d;
	return action == SQLITE_ATTACH ? SQLITE_DENY : SQLITE_OK;
}

static void with_sql(const struct fuzz_place *place, struct fuzz_input *in)
{
	char *sql = strndup((const char *)in->data, in->size);
	sqlite3 *db;

	fuzz_database(place);
	if (!sql || sqlite3_open(place->db, &db) != SQLITE_OK)
		abort();
	sqlite3_exec(db, "PRAGMA writable_schema = ON; PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY", NULL, NULL, NULL);
	sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 1 << 20);
	sqlite3_set_authorizer(db, no_other_files, NULL);
	sqlite3_progress_handler(db, STEPS_OF_AUTHOR, stop, NULL);
	sqlite3_exec(db, sql, NULL, NULL, NULL);
	sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
	sqlite3_close(db);
	free(sql);
}

static void read_view(struct trace *trace, const char *sql)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int got = trace_prepare(trace, sql, &stmt, NULL);

	for (int rows = 0; got == 0 && rows < ROWS_READ && (got = trace_step(stmt)) == 1; rows++) {
		for (int i = 0; i < trace_columns(stmt); i++)
			trace_column_text(stmt, i);
		got = 0;
	}
}

static void read_all(struct trace *trace)
{
	FILE *nowhere = fopen("/dev/null", "w");
	struct check check = { .trace = trace, .table = table_new(TABLE_JSON, false, nowhere) };
	struct run_stats *stats = calloc(1, sizeof(*stats));
	int64_t run;

	if (!nowhere || !check.table || !stats)
		abort();
	read_view(trace, "SELECT * FROM ops ORDER BY seq");
	read_view(trace, "SELECT * FROM git_ops");
	if (trace_run_find(trace, NULL, &run) == 0) {
		run_check(trace, run);
		run_stats_read(trace, run, CLOCK_FS, stats);
	}
	for (int i = 0; i < 4; i++)
		table_add_column(check.table, "x", NULL, COLUMN_ANY, 0);
	check_all(&check);
	table_free(check.table);
	free(stats);
	fclose(nowhere);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct fuzz_place *place = fuzz_place();
	struct fuzz_input in = { data, size };
	struct trace *trace;

	switch (fuzz_byte(&in) % 3) {
	case 0:
		fuzz_write(place->db, in.data, in.size);
		break;
	case 1:
		with_changes(place, &in);
		break;
	default:
		with_sql(place, &in);
	}
	if (trace_open(place->db, TRACE_READ, &trace) == 0) {
		read_all(trace);
		trace_close(trace);
	}
	if (trace_open(place->db, TRACE_WRITE, &trace) == 0) {
		recover_all(trace, NULL, NULL);
		trace_close(trace);
	}
	fuzz_clear(place);
	return 0;
}
