/* SPDX-License-Identifier: MIT */
/*
 * export_perfetto.c - Chrome's trace event format, as JSON: "X" slices (complete events), "C"
 * counters, "M" names.
 *
 * A track is a thread id. Slices of one track must be disjoint or nested, or viewers drop them. A
 * thread waits for its requests, so they are disjoint, but for those that the kernel makes in its
 * name (release, read-ahead, writing back): what overlaps goes to another lane, a track with a
 * made-up thread id. Git's regions come with times of their own, and a broken trace2 may say
 * anything: a child ends with its parent at the latest.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base.h"
#include "export.h"

#define FIRST_MADE_UP_TID (1 << 23) /* Linux's own end at 1 << 22 */
#define PIDS_PER_RUN      (1 << 24) /* so that processes of several runs are different ones */
#define GAP_NS            4 /* viewers take microseconds as doubles, and may be off by a nanosecond or two */
#define MAX_NESTING       64

struct lane {
	int64_t tid, busy_until;
};

/* A thread, by all the process rows that it has had: exec makes another row. */
struct thread {
	int64_t pid, tid;
	struct lane *lanes;
	size_t n_lanes;
};

struct process_row {
	int64_t id;
	size_t thread;
};

struct tracks {
	struct export *export;
	int64_t pid_offset;
	int64_t next_tid;
	struct thread *threads;
	size_t n_threads;
	struct process_row *rows; /* by id */
	size_t n_rows;
	bool begun; /* an event has been written */
};

/* Adds one event, `{...}`, whose text is in `line`. */
static int write_event(struct tracks *tracks, struct strbuf *line)
{
	FILE *out = tracks->export->out;

	if (line->failed)
		return -ENOMEM;
	fputs(tracks->begun ? ",\n" : "\n", out);
	tracks->begun = true;
	fwrite(line->buf, 1, line->len, out);
	line->len = 0;
	return ferror(out) ? (errno ? -errno : -EIO) : 0;
}

static void add_us(struct strbuf *line, const char *key, int64_t ns)
{
	strbuf_addf(line, ",\"%s\":%" PRId64 ".%03d", key, ns / 1000, (int)(ns % 1000));
}

static void add_text(struct strbuf *line, const char *key, const char *text)
{
	strbuf_addf(line, "\"%s\":", key);
	strbuf_add_json(line, text ?: "", text ? strlen(text) : 0);
}

/* "M": what a process or thread is called, and where it stands among the others. */
static int name_track(
	struct tracks *tracks, int64_t pid, int64_t tid, const char *what, const char *name)
{
	struct strbuf auto_strbuf line = {};

	strbuf_addf(&line,
		"{\"ph\":\"M\",\"pid\":%" PRId64 ",\"tid\":%" PRId64 ",\"name\":\"%s\",\"args\":{",
		pid + tracks->pid_offset, tid, what);
	add_text(&line, "name", name);
	strbuf_addf(&line, "}}");
	return write_event(tracks, &line);
}

static void begin_slice(struct tracks *tracks, struct strbuf *line, int64_t pid, int64_t tid,
	int64_t start_ns, int64_t end_ns)
{
	strbuf_addf(line, "{\"ph\":\"X\",\"pid\":%" PRId64 ",\"tid\":%" PRId64,
		pid + tracks->pid_offset, tid);
	add_us(line, "ts", start_ns);
	add_us(line, "dur", end_ns - start_ns);
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

static int add_lane(struct thread *thread, int64_t tid)
{
	struct lane *lanes = reallocarray(thread->lanes, thread->n_lanes + 1, sizeof(*lanes));

	if (!lanes)
		return -ENOMEM;
	thread->lanes = lanes;
	lanes[thread->n_lanes++] = (struct lane){ .tid = tid, .busy_until = INT64_MIN };
	return 0;
}

static int add_thread(struct tracks *tracks, int64_t pid, int64_t tid)
{
	struct thread *threads =
		reallocarray(tracks->threads, tracks->n_threads + 1, sizeof(*threads));

	if (!threads)
		return -ENOMEM;
	tracks->threads = threads;
	threads[tracks->n_threads++] = (struct thread){ .pid = pid, .tid = tid };
	return add_lane(&threads[tracks->n_threads - 1], tid);
}

static int add_process_row(struct tracks *tracks, int64_t id)
{
	struct process_row *rows = reallocarray(tracks->rows, tracks->n_rows + 1, sizeof(*rows));

	if (!rows)
		return -ENOMEM;
	tracks->rows = rows;
	rows[tracks->n_rows++] = (struct process_row){ .id = id, .thread = tracks->n_threads - 1 };
	return 0;
}

static int by_id(const void *a, const void *b)
{
	const struct process_row *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

/* A thread is called after what it was last; a process after its own thread, or the first seen. */
static const char threads_sql[] =
	"SELECT id, pid, tid, last_value(comm) OVER w, coalesce(last_value(cmdline) OVER w, comm),"
	"       row_number() OVER (PARTITION BY pid ORDER BY tid = pid DESC, tid, id)"
	"  FROM process WHERE run = ?"
	" WINDOW w AS (PARTITION BY pid, tid ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND "
	"UNBOUNDED FOLLOWING)"
	" ORDER BY pid, tid, id";

static int load_thread(struct tracks *tracks, const struct trace_stmt *stmt)
{
	int64_t pid = trace_column_int(stmt, 1), tid = trace_column_int(stmt, 2);
	const struct thread *last =
		tracks->n_threads ? &tracks->threads[tracks->n_threads - 1] : NULL;
	int err = 0;

	if (trace_column_int(stmt, 5) == 1)
		err = name_track(tracks, pid, tid, "process_name", trace_column_text(stmt, 4));
	if (!last || last->pid != pid || last->tid != tid) {
		err = err ?: add_thread(tracks, pid, tid);
		err = err ?: name_track(tracks, pid, tid, "thread_name", trace_column_text(stmt, 3));
	}
	return err ?: add_process_row(tracks, trace_column_int(stmt, 0));
}

static int load_threads(struct tracks *tracks, int64_t run)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(tracks->export->trace, threads_sql, &stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, run);
	while (err == 0 && (err = trace_step(stmt)) == 1)
		err = load_thread(tracks, stmt);
	if (tracks->n_rows)
		array_sort(tracks->rows, tracks->n_rows, sizeof(tracks->rows[0]), by_id);
	return err;
}

static void free_tracks(struct tracks *tracks)
{
	for (size_t i = 0; i < tracks->n_threads; i++)
		free(tracks->threads[i].lanes);
	free(tracks->threads);
	free(tracks->rows);
	tracks->threads = NULL;
	tracks->rows = NULL;
	tracks->n_threads = tracks->n_rows = 0;
}

/* --- operations --------------------------------------------------------------------------------------------------- */

/* The first lane of the thread in which nothing is under way any more; a new one when there is none. */
static int find_lane(
	struct tracks *tracks, struct thread *thread, int64_t start_ns, struct lane **ret_lane)
{
	char name[64];
	int err;

	for (size_t i = 0; i < thread->n_lanes; i++)
		if (start_ns >= thread->lanes[i].busy_until) {
			*ret_lane = &thread->lanes[i];
			return 0;
		}
	err = add_lane(thread, tracks->next_tid++);
	if (err < 0)
		return err;
	*ret_lane = &thread->lanes[thread->n_lanes - 1];
	snprintf(name, sizeof(name), "%" PRId64 ", overlapping (%zu)", thread->tid,
		thread->n_lanes - 1);
	return name_track(tracks, thread->pid, (*ret_lane)->tid, "thread_name", name);
}

static const char ops_sql[] = "SELECT process, start_ns, dur_ns, fs_ns, op, class, path, path2, "
			      "error, offset, length, result, phase"
			      "  FROM git_ops WHERE run = ? ORDER BY start_ns, seq";

enum {
	OP_PROCESS,
	OP_START,
	OP_DUR,
	OP_FS,
	OP_NAME,
	OP_CLASS,
	OP_PATH,
	OP_PATH2,
	OP_ERROR,
	OP_OFFSET,
	OP_LENGTH,
	OP_RESULT,
	OP_PHASE
};

static void add_op_args(struct strbuf *line, const struct trace_stmt *stmt)
{
	static const struct {
		int column;
		const char *key;
	} texts[] = { { OP_PATH2, "path2" }, { OP_ERROR, "error" }, { OP_PHASE, "phase" } };
	static const struct {
		int column;
		const char *key;
	} numbers[] = { { OP_OFFSET, "offset" }, { OP_LENGTH, "length" }, { OP_RESULT, "result" } };

	strbuf_addf(line, ",\"args\":{");
	add_text(line, "path", trace_column_text(stmt, OP_PATH));
	strbuf_addf(line, ",\"fs_ns\":%" PRId64, trace_column_int(stmt, OP_FS));
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		if (trace_column_type(stmt, texts[i].column) == TRACE_NULL)
			continue;
		strbuf_addf(line, ",");
		add_text(line, texts[i].key, trace_column_text(stmt, texts[i].column));
	}
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		if (trace_column_type(stmt, numbers[i].column) != TRACE_NULL)
			strbuf_addf(line, ",\"%s\":%" PRId64, numbers[i].key,
				trace_column_int(stmt, numbers[i].column));
	strbuf_addf(line, "}}");
}

static int write_op(struct tracks *tracks, const struct trace_stmt *stmt)
{
	const struct process_row key = { .id = trace_column_int(stmt, OP_PROCESS) };
	const struct process_row *row =
		tracks->n_rows ? array_find(&key, tracks->rows, tracks->n_rows, sizeof(key), by_id)
			       : NULL;
	int64_t start = trace_column_int(stmt, OP_START), dur = trace_column_int(stmt, OP_DUR);
	struct strbuf auto_strbuf line = {};
	struct thread *thread;
	struct lane *lane;
	int err;

	if (!row || start < 0 || dur < 0 || dur > INT64_MAX - GAP_NS - start)
		return 0; /* no recorder of ours wrote that */
	thread = &tracks->threads[row->thread];
	err = find_lane(tracks, thread, start, &lane);
	if (err < 0)
		return err;
	lane->busy_until = start + dur + GAP_NS;
	begin_slice(tracks, &line, thread->pid, lane->tid, start, start + dur);
	strbuf_addf(&line, ",");
	add_text(&line, "name", trace_column_text(stmt, OP_NAME));
	strbuf_addf(&line, ",");
	add_text(&line, "cat", trace_column_text(stmt, OP_CLASS));
	add_op_args(&line, stmt);
	err = write_event(tracks, &line);
	return err ?: export_step(tracks->export);
}

/* --- git's commands and regions ----------------------------------------------------------------------------------- */

/* What is open on the track that is being written, outermost first. */
struct nest {
	int64_t command, tid;
	char thread[256];
	int64_t ends[MAX_NESTING];
	size_t depth;
};

/* By track, and there parents before children. A command is the outermost slice of its main thread. */
static const char regions_sql[] =
	"WITH commands AS (SELECT id, pid, start_ns, end_ns, coalesce(argv, name, sid) AS name, "
	"exit_code"
	"                    FROM git_command WHERE run = :run)"
	"SELECT * FROM ("
	"SELECT id AS command, pid, name AS command_name, 'main' AS thread, start_ns, end_ns, 0 AS "
	"id, name, NULL AS message,"
	"       'command' AS cat, exit_code FROM commands"
	" UNION ALL"
	" SELECT r.command, c.pid, c.name, r.thread, max(r.start_ns, c.start_ns), min(r.end_ns, "
	"c.end_ns), r.id,"
	"        r.category || '/' || r.label, r.message, 'region', NULL"
	"  FROM git_region AS r JOIN commands AS c ON c.id = r.command WHERE r.run = :run)"
	" ORDER BY command, thread, start_ns, end_ns DESC, id";

enum {
	REGION_COMMAND,
	REGION_PID,
	REGION_COMMAND_NAME,
	REGION_THREAD,
	REGION_START,
	REGION_END,
	REGION_ID,
	REGION_NAME,
	REGION_MESSAGE,
	REGION_CAT,
	REGION_EXIT
};

/* Git that made no request, such as the serving side of a transfer, has no row among the processes. */
static bool is_known(const struct tracks *tracks, int64_t pid)
{
	size_t low = 0, high = tracks->n_threads;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (tracks->threads[middle].pid < pid)
			low = middle + 1;
		else
			high = middle;
	}
	return low < tracks->n_threads && tracks->threads[low].pid == pid;
}

static int enter_track(struct tracks *tracks, struct nest *nest, const struct trace_stmt *stmt)
{
	int64_t pid = trace_column_int(stmt, REGION_PID);
	const char *thread = trace_column_text(stmt, REGION_THREAD) ?: "";
	int64_t command = trace_column_int(stmt, REGION_COMMAND);
	char name[300];
	int err = 0;

	if (nest->tid && nest->command == command &&
		strncmp(nest->thread, thread, sizeof(nest->thread) - 1) == 0)
		return 0;
	nest->command = command;
	nest->tid = tracks->next_tid++;
	nest->depth = 0;
	snprintf(nest->thread, sizeof(nest->thread), "%s", thread);
	if (!is_known(tracks, pid))
		err = name_track(tracks, pid, nest->tid, "process_name",
			trace_column_text(stmt, REGION_COMMAND_NAME));
	snprintf(name, sizeof(name), "git's story: %s", nest->thread);
	return err ?: name_track(tracks, pid, nest->tid, "thread_name", name);
}

/* Where the slice may lie: within the innermost one that is still open when it begins. False: nowhere. */
static bool nest_slice(struct nest *nest, int64_t *start, int64_t *end)
{
	*start = *start < 0 ? 0 : *start;
	while (nest->depth && nest->ends[nest->depth - 1] <= *start)
		nest->depth--;
	if (nest->depth && *end > nest->ends[nest->depth - 1] - GAP_NS)
		*end = nest->ends[nest->depth - 1] - GAP_NS;
	else
		*end -= GAP_NS;
	if (*end < *start || nest->depth == MAX_NESTING)
		return false;
	nest->ends[nest->depth++] = *end;
	return true;
}

static int write_region(struct tracks *tracks, struct nest *nest, const struct trace_stmt *stmt)
{
	int64_t start = trace_column_int(stmt, REGION_START),
		end = trace_column_int(stmt, REGION_END);
	struct strbuf auto_strbuf line = {};
	int err = enter_track(tracks, nest, stmt);

	if (err < 0 || !nest_slice(nest, &start, &end))
		return err;
	begin_slice(tracks, &line, trace_column_int(stmt, REGION_PID), nest->tid, start, end);
	strbuf_addf(&line, ",");
	add_text(&line, "name", trace_column_text(stmt, REGION_NAME));
	strbuf_addf(&line, ",");
	add_text(&line, "cat", trace_column_text(stmt, REGION_CAT));
	strbuf_addf(&line, ",\"args\":{");
	if (trace_column_type(stmt, REGION_MESSAGE) != TRACE_NULL)
		add_text(&line, "message", trace_column_text(stmt, REGION_MESSAGE));
	else if (trace_column_type(stmt, REGION_EXIT) != TRACE_NULL)
		strbuf_addf(&line, "\"exit_code\":%" PRId64, trace_column_int(stmt, REGION_EXIT));
	strbuf_addf(&line, "}}");
	return write_event(tracks, &line);
}

/* --- the machine -------------------------------------------------------------------------------------------------- */

/* What was added since the sample before, for what only grows; levels as they are. */
static const char counters_sql[] =
	"SELECT time_ns, source || ' ' || name || CASE kind WHEN 'counter' THEN ' (added)' ELSE '' "
	"END,"
	"       CASE kind WHEN 'counter' THEN value - lag(value) OVER (PARTITION BY counter ORDER "
	"BY time_ns) ELSE value END AS value"
	"  FROM host_sample WHERE run = ? AND time_ns >= 0 ORDER BY time_ns";

static int write_counter(struct tracks *tracks, const struct trace_stmt *stmt)
{
	struct strbuf auto_strbuf line = {};

	if (trace_column_type(stmt, 2) == TRACE_NULL)
		return 0;
	strbuf_addf(&line, "{\"ph\":\"C\",\"pid\":%" PRId64, tracks->pid_offset);
	add_us(&line, "ts", trace_column_int(stmt, 0));
	strbuf_addf(&line, ",");
	add_text(&line, "name", trace_column_text(stmt, 1));
	strbuf_addf(&line, ",\"args\":{\"value\":%" PRId64 "}}", trace_column_int(stmt, 2));
	return write_event(tracks, &line);
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

enum stage { STAGE_REGIONS, STAGE_OPS, STAGE_COUNTERS, STAGES };

static int write_stage(struct tracks *tracks, int64_t run, enum stage stage)
{
	static const char *const sql[STAGES] = { regions_sql, ops_sql, counters_sql };
	struct trace_stmt auto_stmt *stmt = NULL;
	struct nest nest = {};
	int err = trace_prepare(tracks->export->trace, sql[stage], &stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, run);
	while (err == 0 && (err = trace_step(stmt)) == 1)
		err = stage == STAGE_REGIONS ? write_region(tracks, &nest, stmt)
		      : stage == STAGE_OPS   ? write_op(tracks, stmt)
					     : write_counter(tracks, stmt);
	return err;
}

int export_perfetto(struct export *export)
{
	struct tracks tracks = { .export = export, .next_tid = FIRST_MADE_UP_TID };
	int err = 0;

	fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", export->out);
	for (size_t i = 0; i < export->n_runs && err == 0; i++) {
		tracks.pid_offset = (int64_t)i * PIDS_PER_RUN;
		err = load_threads(&tracks, export->runs[i]);
		for (enum stage stage = 0; stage < STAGES && err == 0; stage++)
			err = write_stage(&tracks, export->runs[i], stage);
		free_tracks(&tracks);
	}
	fputs("\n]}\n", export->out);
	return err;
}
