/* SPDX-License-Identifier: MIT */
#include "replay_load.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/falloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base.h"
#include "beneath.h"
#include "replay_args.h"

#define PATHS_MAX (1u << 27)

struct rows {
	struct plan *plan;
	struct trace *trace;
	struct trace_stmt *stmt;
	struct args_reader *args;
	int64_t last_seq;
};

int refuse(const struct row *row, const char *fmt, ...)
{
	const struct op_desc *desc = op_get(row->op);
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	log_msg("operation %" PRId64
		" (%s) cannot be replayed: %s; no recorder writes that, so the recording is damaged or "
		"made up",
		row->seq, desc ? desc->name : "?", text);
	return -EBADMSG;
}

int trace_said(struct trace *trace, int err)
{
	if (err < 0)
		log_msg("%s: cannot read the run: %s", trace_path(trace),
			err == -ENOMEM || !trace_error(trace)[0] ? strerror(-err) : trace_error(trace));
	return err;
}

/* --- the survey -------------------------------------------------------------------------------------------------- */

static bool makes_node(int64_t op)
{
	return op == OP_create || op == OP_mkdir || op == OP_mknod || op == OP_symlink;
}

/* The thread that a row of `process` is, which another row may have been before an exec. */
static int add_process(struct survey *survey, struct idmap *by_key, const struct trace_stmt *stmt)
{
	struct recorded_thread thread = {
		.tid = trace_column_int(stmt, 1),
		.start_ticks = trace_column_int(stmt, 2),
		.pid = trace_column_int(stmt, 3),
		.ppid = trace_column_int(stmt, 4),
		.slot = -1,
	};
	uint64_t key = (uint64_t)thread.tid << 40 ^ (uint64_t)thread.start_ticks;
	uint32_t index = idmap_get(by_key, key);
	int err = 0;

	if (!index) {
		err = plan_grow(&survey->threads, &survey->threads_room, survey->n_threads + 1, sizeof(thread));
		if (err < 0)
			return err;
		index = ++survey->n_threads;
		survey->threads[index] = thread;
		err = idmap_set(by_key, key, index);
	}
	return err ?: idmap_set(&survey->thread_of, (uint64_t)trace_column_int(stmt, 0), index);
}

static int survey_processes(struct trace *trace, int64_t run, struct survey *survey)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	struct idmap by_key = {};
	/* A thread's time of start is 0 when it could not be read: then each row is a thread of its own. */
	int err = trace_prepare(trace,
		"SELECT id, tid, CASE start_ticks WHEN 0 THEN -id ELSE start_ticks END, pid, ppid FROM process"
		" WHERE run = ? ORDER BY id",
		&stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, run);
	while (err == 0 && (err = trace_step(stmt)) == 1)
		err = add_process(survey, &by_key, stmt);
	idmap_free(&by_key);
	return err;
}

static int survey_ops(struct trace *trace, int64_t run, struct survey *survey)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace, "SELECT op, result, node, process FROM op WHERE run = ?", &stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, run);
	while (err == 0 && (err = trace_step(stmt)) == 1) {
		uint32_t thread = idmap_get(&survey->thread_of, (uint64_t)trace_column_int(stmt, 3));

		err = 0;
		survey->operations++;
		survey->threads[thread].left++;
		if (makes_node(trace_column_int(stmt, 0)) && trace_column_int(stmt, 1) >= 0 &&
			trace_column_int(stmt, 2))
			err = idmap_set(&survey->made, (uint64_t)trace_column_int(stmt, 2), 1);
	}
	return err;
}

int survey_run(struct trace *trace, int64_t run, struct survey *ret_survey)
{
	struct survey survey = {};
	/* Place 0 is for operations whose process has no row. */
	int err = plan_grow(&survey.threads, &survey.threads_room, 0, sizeof(*survey.threads));

	if (err == 0)
		survey.threads[0] = (struct recorded_thread){ .slot = -1 };
	err = err ?: survey_processes(trace, run, &survey);
	err = err ?: survey_ops(trace, run, &survey);
	if (err == 0 && survey.operations >= PLAN_ACTIONS_MAX) {
		log_msg("run %" PRId64 " has %" PRIu64 " operations; a replay takes up to %u", run, survey.operations,
			PLAN_ACTIONS_MAX);
		survey_free(&survey);
		return -E2BIG;
	}
	if (err < 0) {
		survey_free(&survey);
		return trace_said(trace, err);
	}
	*ret_survey = survey;
	return 0;
}

void survey_free(struct survey *survey)
{
	idmap_free(&survey->made);
	idmap_free(&survey->thread_of);
	free(survey->threads);
	*survey = (struct survey){};
}

/* --- paths ------------------------------------------------------------------------------------------------------- */

static int load_path(struct plan *plan, struct paths *paths, const struct trace_stmt *stmt)
{
	int64_t id = trace_column_int(stmt, 0), parent = trace_column_int(stmt, 1);
	const char *text = trace_column_text(stmt, 2) ?: "", *slash;
	size_t len = strlen(text);

	if (id <= 0 || id >= paths->count || parent < 0 || parent >= paths->count)
		return -EUCLEAN;
	paths->parent[id] = (uint32_t)parent;
	slash = strrchr(text, '/');
	text = slash ? slash + 1 : text;
	len = strlen(text);
	if (!beneath_name_ok(text))
		return 0;
	return plan_intern(plan, text, len, &paths->name[id]);
}

static int paths_room(struct trace *trace, int64_t run, struct paths *paths)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace, "SELECT max(id) FROM path WHERE run = ?", &stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, run);
	err = err ?: trace_step(stmt);
	if (err < 0)
		return err;
	if (trace_column_int(stmt, 0) < 0 || trace_column_int(stmt, 0) >= PATHS_MAX)
		return -EUCLEAN;
	paths->count = (uint32_t)trace_column_int(stmt, 0) + 1;
	paths->parent = calloc(paths->count, sizeof(*paths->parent));
	paths->name = malloc(paths->count * sizeof(*paths->name));
	if (!paths->parent || !paths->name)
		return -ENOMEM;
	memset(paths->name, 0xff, paths->count * sizeof(*paths->name)); /* NO_NAME */
	return 0;
}

int paths_load(struct trace *trace, int64_t run, struct plan *plan, struct paths *ret_paths)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	struct paths paths = {};
	int err = paths_room(trace, run, &paths);

	err = err ?: trace_prepare(trace, "SELECT id, parent, path FROM path WHERE run = ?", &stmt, NULL);
	err = err ?: trace_bind_int(stmt, 1, run);
	while (err == 0 && (err = trace_step(stmt)) == 1)
		err = load_path(plan, &paths, stmt);
	if (err < 0) {
		paths_free(&paths);
		return trace_said(trace, err);
	}
	*ret_paths = paths;
	return 0;
}

void paths_free(struct paths *paths)
{
	free(paths->parent);
	free(paths->name);
	*paths = (struct paths){};
}

int path_text(struct trace *trace, int64_t run, uint32_t path, char **ret_text)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace, "SELECT path FROM path WHERE run = ? AND id = ?", &stmt, NULL);
	char *text;

	err = err ?: trace_bind_int(stmt, 1, run);
	err = err ?: trace_bind_int(stmt, 2, path);
	err = err ?: trace_step(stmt);
	if (err < 0)
		return err;
	if (!err || !trace_column_text(stmt, 0))
		return -ENOENT;
	text = strdup(trace_column_text(stmt, 0));
	if (!text)
		return -ENOMEM;
	*ret_text = text;
	return 0;
}

/* --- operations -------------------------------------------------------------------------------------------------- */

static bool out_of_range(int64_t offset, int64_t length)
{
	return offset < 0 || length < 0 || offset > PLAN_OFFSET_MAX || length > PLAN_OFFSET_MAX - offset;
}

/* Sizes that would fill a disk or our memory. What failed when it was recorded does not get less harmful by that. */
static int check_sizes(const struct plan *plan, const struct row *row)
{
	const struct action args = { .args = row->args };
	bool buffer = row->op == OP_read || row->op == OP_write || row->op == OP_readdir ||
		      row->op == OP_readdirplus || row->op == OP_getxattr || row->op == OP_listxattr ||
		      row->op == OP_setxattr;

	if (buffer && (row->length < 0 || row->length > PLAN_LENGTH_MAX))
		return refuse(row, "it asks for %" PRId64 " bytes at once", row->length);
	if ((row->op == OP_write || row->op == OP_fallocate) && out_of_range(row->offset, row->length))
		return refuse(row, "offset %" PRId64 ", length %" PRId64, row->offset, row->length);
	if (row->op == OP_setattr && out_of_range(plan_arg(plan, &args, ARG_SIZE, NULL), 0))
		return refuse(row, "size %" PRId64, plan_arg(plan, &args, ARG_SIZE, NULL));
	if (row->op == OP_copy_file_range &&
		out_of_range(plan_arg(plan, &args, ARG_OFFSET_OUT, NULL), row->result > 0 ? row->result : 0))
		return refuse(row, "offset %" PRId64 " of the copy", plan_arg(plan, &args, ARG_OFFSET_OUT, NULL));
	if (row->result < -4095 || row->result > row->length + PLAN_OFFSET_MAX)
		return refuse(row, "result %" PRId64, row->result);
	return 0;
}

static int check(const struct rows *rows, const struct row *row)
{
	if (row->seq <= rows->last_seq || row->seq > UINT32_MAX)
		return refuse(row, "its number");
	if (!op_get(row->op))
		return refuse(row, "there is no such operation");
	if (row->start_ns < 0 || row->dur_ns < 0 || row->fs_ns < 0 || row->start_ns > INT64_MAX / 4 ||
		row->dur_ns > INT64_MAX / 4)
		return refuse(row, "its times");
	return check_sizes(rows->plan, row);
}

int rows_open(struct trace *trace, struct plan *plan, struct rows **ret_rows)
{
	static const char sql[] =
		"SELECT seq, start_ns, dur_ns, fs_ns, op, process, path, path2, node, parent, fh, offset, length,"
		" result, flags, mode, args FROM op"
		" LEFT JOIN op_extra AS e ON e.run = op.run AND e.id = op.extra WHERE op.run = ? ORDER BY op.run, seq";
	struct rows *rows = calloc(1, sizeof(*rows));
	int err = rows ? args_reader_new(trace, &rows->args) : -ENOMEM;

	err = err ?: trace_prepare(trace, sql, &rows->stmt, NULL);
	err = err ?: trace_bind_int(rows->stmt, 1, plan->run);
	if (err < 0) {
		rows_close(rows);
		return trace_said(trace, err);
	}
	rows->plan = plan;
	rows->trace = trace;
	*ret_rows = rows;
	return 0;
}

int rows_next(struct rows *rows, struct row *ret_row)
{
	const struct trace_stmt *stmt = rows->stmt;
	int64_t op;
	int err = trace_step(rows->stmt);

	if (err <= 0)
		return trace_said(rows->trace, err);
	op = trace_column_int(stmt, 4);
	*ret_row = (struct row){
		.seq = trace_column_int(stmt, 0),
		.start_ns = trace_column_int(stmt, 1),
		.dur_ns = trace_column_int(stmt, 2),
		.fs_ns = trace_column_int(stmt, 3),
		.op = op > 0 && op < OP_COUNT ? (uint8_t)op : 0,
		.process = (uint32_t)trace_column_int(stmt, 5),
		.path = (uint32_t)trace_column_int(stmt, 6),
		.path2 = (uint32_t)trace_column_int(stmt, 7),
		.node = (uint64_t)trace_column_int(stmt, 8),
		.parent = (uint64_t)trace_column_int(stmt, 9),
		.fh = (uint64_t)trace_column_int(stmt, 10),
		.offset = trace_column_int(stmt, 11),
		.length = trace_column_int(stmt, 12),
		.result = trace_column_int(stmt, 13),
		.flags = (uint32_t)trace_column_int(stmt, 14),
		.mode = (uint32_t)trace_column_int(stmt, 15),
	};
	if (trace_column_type(stmt, 16) != TRACE_NULL)
		err = args_read(rows->args, rows->plan, trace_column_text(stmt, 16), trace_column_bytes(stmt, 16),
			&ret_row->args);
	if (err == -EBADMSG)
		return refuse(ret_row, "its args are not a JSON object");
	if (err < 0)
		return trace_said(rows->trace, err);
	err = check(rows, ret_row);
	rows->last_seq = ret_row->seq;
	return err < 0 ? err : 1;
}

void rows_close(struct rows *rows)
{
	if (!rows)
		return;
	trace_finalize(rows->stmt);
	args_reader_free(rows->args);
	free(rows);
}
