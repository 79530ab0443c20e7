/* SPDX-License-Identifier: MIT */
/*
 * check_operations.c - one pass over the operations of a run, in the order of `seq`, which is the order on disk.
 *
 * What they refer to is known from bitmaps over the ids of paths and processes: ids are handed out one after another, so
 * that bitmaps are small; ids that are not, are a fault of their own.
 */
#include <inttypes.h>
#include <string.h>

#include "check.h"
#include "op.h"

#define PROGRESS_ROWS 65536

/* A set of ids from 1 to `max`. */
struct id_set {
	uint8_t *bits;
	int64_t max;
};

enum fault_kind { GAP, BAD_SEQ, BAD_OP, BAD_TIME, LATE, BACKWARDS, NO_PROCESS, NO_PATH, BAD_PATH, BAD_PATH2, BAD_ARGS, FAULT_KINDS };

static const struct {
	const char *name, *text;
} fault_texts[FAULT_KINDS] = {
	[GAP] = { "sequence", "numbers are missing in seq, the first is %" PRId64 },
	[BAD_SEQ] = { "sequence", "operations have a seq that was never given out, such as %" PRId64 },
	[BAD_OP] = { "operations", "operations are of no known kind, such as the one with seq %" PRId64 },
	[BAD_TIME] = { "times", "times are negative, or fs_ns is more than dur_ns, such as at seq %" PRId64 },
	[LATE] = { "times", "operations end after their run, such as the one with seq %" PRId64 },
	[BACKWARDS] = { "times", "times go backwards within a thread, first at seq %" PRId64 },
	[NO_PROCESS] = { "references", "operations are of processes that are not there, such as the one with seq %" PRId64 },
	[NO_PATH] = { "references", "paths of operations are not there, such as at seq %" PRId64 },
	[BAD_PATH] = { "paths", "operations have paths that leave the tree, such as the one with seq %" PRId64 },
	[BAD_PATH2] = { "references", "second paths of operations are not there, such as at seq %" PRId64 },
	[BAD_ARGS] = { "operations", "args are no JSON, such as at seq %" PRId64 },
};

struct pass {
	struct check *check;
	int64_t run, requests, recorded, dropped, end_ns;
	bool ended, whole;
	struct id_set paths, odd_paths, processes;
	int64_t *last_ns; /* per process, of its last request that it waited for */
	int64_t count, last_seq, missing;
	int64_t found[FAULT_KINDS], first[FAULT_KINDS];
};

static void note(struct pass *pass, enum fault_kind kind, int64_t seq)
{
	if (!pass->found[kind]++)
		pass->first[kind] = seq;
}

static bool has_id(const struct id_set *set, int64_t id)
{
	return id > 0 && id <= set->max && (set->bits[id / 8] >> (id % 8) & 1);
}

static void add_id(struct id_set *set, int64_t id)
{
	if (id > 0 && id <= set->max)
		set->bits[id / 8] |= (uint8_t)(1 << (id % 8));
}

/* Room for ids that are handed out one by one, with some lost to crashes; a stranger's absurd ones are left out. */
static int id_set_new(int64_t max, int64_t rows, struct id_set *ret_set)
{
	int64_t sane = rows + rows / 2 + 100000;

	ret_set->max = max < 0 ? 0 : max < sane ? max : sane;
	ret_set->bits = calloc((size_t)ret_set->max / 8 + 1, 1);
	return ret_set->bits ? 0 : -ENOMEM;
}

/* The highest id and the number of rows of the run in a table. */
static int id_range(struct pass *pass, const char *sql, int64_t *ret_max, int64_t *ret_rows)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(pass->check->trace, sql, &stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, pass->run);
	err = err ?: trace_step(stmt);
	if (err < 0)
		return err;
	*ret_max = trace_column_int(stmt, 0);
	*ret_rows = trace_column_int(stmt, 1);
	return 0;
}

/* Relative, and never up: '' is the root. A path that was too long begins with "...", a directory of no such name. */
static bool leaves_tree(const char *path, size_t len)
{
	const char *end = path + len;

	if (memchr(path, '\0', len) || (len && *path == '/'))
		return true;
	for (const char *at = path; at < end;) {
		const char *slash = memchr(at, '/', (size_t)(end - at)) ?: end;

		if (slash - at == 2 && at[0] == '.' && at[1] == '.')
			return true;
		at = slash + 1;
	}
	return false;
}

static int read_paths(struct pass *pass)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int64_t max = 0, rows = 0, cyclic = 0, first = 0;
	int got = id_range(pass, "SELECT max(id), count(*) FROM path WHERE run = ?", &max, &rows);

	got = got ?: id_set_new(max, rows, &pass->paths);
	got = got ?: id_set_new(max, rows, &pass->odd_paths);
	got = got ?: trace_prepare(pass->check->trace, "SELECT id, parent, path FROM path WHERE run = ? ORDER BY id", &stmt, NULL);
	got = got ?: trace_bind_int(stmt, 1, pass->run);
	while (got == 0 && (got = trace_step(stmt)) == 1) {
		int64_t id = trace_column_int(stmt, 0), parent = trace_column_int(stmt, 1);
		const char *text = trace_column_text(stmt, 2);

		add_id(&pass->paths, id);
		if (!text || leaves_tree(text, trace_column_bytes(stmt, 2)))
			add_id(&pass->odd_paths, id);
		/* A directory has its id before what is in it: this is also why following parents comes to an end. */
		if (parent != 0 && (parent >= id || !has_id(&pass->paths, parent)) && !cyclic++)
			first = id;
		got = 0;
	}
	if (max > pass->paths.max)
		check_fault(pass->check, pass->run, "paths", 1, "ids go up to %" PRId64 ", with only %" PRId64 " paths", max, rows);
	if (cyclic)
		check_fault(pass->check, pass->run, "paths", cyclic,
			"paths have a parent that does not come before them, or is not there, such as %" PRId64, first);
	return got;
}

static int read_processes(struct pass *pass)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int64_t max = 0, rows = 0;
	int got = id_range(pass, "SELECT max(id), count(*) FROM process WHERE run = ?", &max, &rows);

	got = got ?: id_set_new(max, rows, &pass->processes);
	if (got == 0 && !(pass->last_ns = calloc((size_t)pass->processes.max + 1, sizeof(*pass->last_ns))))
		got = -ENOMEM;
	got = got ?: trace_prepare(pass->check->trace, "SELECT id FROM process WHERE run = ?", &stmt, NULL);
	got = got ?: trace_bind_int(stmt, 1, pass->run);
	while (got == 0 && (got = trace_step(stmt)) == 1) {
		add_id(&pass->processes, trace_column_int(stmt, 0));
		got = 0;
	}
	return got;
}

/* The kernel sends these when it likes, also while the thread that they are put down to waits for something else. */
static bool is_waited_for(const struct op_desc *desc)
{
	return desc != op_get(OP_read) && desc != op_get(OP_write) && desc != op_get(OP_release) &&
	       desc != op_get(OP_releasedir) && desc->reply != REPLY_NONE;
}

static void look_at_times(struct pass *pass, const struct trace_stmt *stmt, const struct op_desc *desc, int64_t process)
{
	int64_t seq = trace_column_int(stmt, 0), start = trace_column_int(stmt, 1), dur = trace_column_int(stmt, 2),
		fs = trace_column_int(stmt, 3);

	if (start < 0 || dur < 0 || fs < 0 || fs > dur) {
		note(pass, BAD_TIME, seq);
		return;
	}
	if (pass->whole && (dur > pass->end_ns || start > pass->end_ns - dur))
		note(pass, LATE, seq);
	if (!desc || !is_waited_for(desc) || !has_id(&pass->processes, process))
		return;
	if (start < pass->last_ns[process])
		note(pass, BACKWARDS, seq);
	pass->last_ns[process] = start;
}

static void look_at_sequence(struct pass *pass, int64_t seq)
{
	if (seq <= pass->last_seq || (pass->ended && seq > pass->requests)) {
		note(pass, BAD_SEQ, seq);
		return;
	}
	if (seq - pass->last_seq > 1) {
		if (!pass->missing)
			pass->first[GAP] = pass->last_seq + 1;
		pass->missing += seq - pass->last_seq - 1;
	}
	pass->last_seq = seq;
}

static void look_at(struct pass *pass, const struct trace_stmt *stmt)
{
	int64_t seq = trace_column_int(stmt, 0), code = trace_column_int(stmt, 4), process = trace_column_int(stmt, 5);
	const struct op_desc *desc = code > 0 && code < OP_COUNT ? op_get((unsigned int)code) : NULL;
	bool no_path = trace_column_type(stmt, 6) == TRACE_NULL, no_path2 = trace_column_type(stmt, 7) == TRACE_NULL;

	pass->count++;
	look_at_sequence(pass, seq);
	look_at_times(pass, stmt, desc, process);
	if (!desc && !trace_column_int(stmt, 8))
		note(pass, BAD_OP, seq);
	/* What an operation refers to may have found no room where others were dropped. */
	if (!has_id(&pass->processes, process) && !(process == 0 && pass->dropped))
		note(pass, NO_PROCESS, seq);
	if (no_path ? !pass->dropped : !has_id(&pass->paths, trace_column_int(stmt, 6)))
		note(pass, NO_PATH, seq);
	else if (!no_path && has_id(&pass->odd_paths, trace_column_int(stmt, 6)))
		note(pass, BAD_PATH, seq);
	if (!no_path2 && !has_id(&pass->paths, trace_column_int(stmt, 7)))
		note(pass, BAD_PATH2, seq);
	if (!trace_column_int(stmt, 9))
		note(pass, BAD_ARGS, seq);
}

static int read_operations(struct pass *pass)
{
	struct check *check = pass->check;
	struct trace_stmt auto_stmt *stmt = NULL;
	int got = trace_prepare(check->trace,
		"SELECT seq, start_ns, dur_ns, fs_ns, op, process, path, path2, op IN (SELECT code FROM op_type),"
		" args IS NULL OR json_valid(args) FROM op LEFT JOIN op_extra AS e ON e.run = op.run AND e.id = op.extra"
		" WHERE op.run = ? ORDER BY op.run, seq",
		&stmt, NULL);

	got = got ?: trace_bind_int(stmt, 1, pass->run);
	while (got == 0 && (got = trace_step(stmt)) == 1) {
		look_at(pass, stmt);
		if (++check->operations % PROGRESS_ROWS == 0)
			progress_show(&check->progress, "run %" PRId64 ": %" PRId64 " operations", pass->run, check->operations);
		got = 0;
	}
	return got;
}

/* What is missing must be what the run says is missing: requests that are counted and are not there. */
static void report(struct pass *pass)
{
	struct check *check = pass->check;
	int64_t known;

	if (pass->ended && pass->count != pass->recorded)
		check_fault(check, pass->run, "counters", 1, "%" PRId64 " operations are there, the run says %" PRId64, pass->count,
			pass->recorded);
	if (pass->ended && pass->requests > pass->last_seq) {
		if (!pass->missing)
			pass->first[GAP] = pass->last_seq + 1;
		pass->missing += pass->requests - pass->last_seq;
	}
	known = pass->ended && pass->recorded >= 0 && pass->requests >= pass->recorded ? pass->requests - pass->recorded : 0;
	if (pass->ended && pass->missing != known)
		pass->found[GAP] = pass->missing > known ? pass->missing - known : pass->missing;
	for (enum fault_kind kind = 0; kind < FAULT_KINDS; kind++)
		if (pass->found[kind])
			check_fault(check, pass->run, fault_texts[kind].name, pass->found[kind], fault_texts[kind].text,
				pass->first[kind]);
}

static int check_run(struct pass *pass)
{
	int err = read_paths(pass);

	err = err ?: read_processes(pass);
	err = err ?: read_operations(pass);
	if (err == 0)
		report(pass);
	free(pass->paths.bits);
	free(pass->odd_paths.bits);
	free(pass->processes.bits);
	free(pass->last_ns);
	return err;
}

int check_operations(struct check *check)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int got = trace_prepare(check->trace,
		"SELECT id, requests, recorded, dropped, end_ns, state IN ('done', 'recovered'), clean_end IS 1 FROM run"
		" WHERE state IS NOT 'native' ORDER BY id",
		&stmt, NULL);

	while (got == 0 && (got = trace_step(stmt)) == 1) {
		struct pass pass = {
			.check = check,
			.run = trace_column_int(stmt, 0),
			.requests = trace_column_int(stmt, 1),
			.recorded = trace_column_int(stmt, 2),
			.dropped = trace_column_int(stmt, 3),
			.end_ns = trace_column_int(stmt, 4),
			.ended = trace_column_int(stmt, 5),
			.whole = trace_column_int(stmt, 5) && trace_column_int(stmt, 6),
		};

		check->runs++;
		got = check_run(&pass);
	}
	return got;
}
