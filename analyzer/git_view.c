/* SPDX-License-Identifier: MIT */
#include "git_view.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base.h"

/* Buckets of a histogram: eight for each power of two. */
static int bucket_of(int64_t ns)
{
	uint64_t value = ns < 8 ? 8 : (uint64_t)ns;
	int power = 63 - __builtin_clzll(value);

	return power * 8 + (int)(value >> (power - 3) & 7);
}

/* The middle of a bucket. */
static int64_t bucket_ns(int bucket)
{
	int power = bucket / 8;

	return (int64_t)((uint64_t)(8 + bucket % 8) << (power - 3)) + ((int64_t)1 << (power - 3)) / 2;
}

int64_t git_percentile(const struct git_kind *kind, double share)
{
	int64_t wanted = (int64_t)(share * (double)git_sum(kind->good).count), seen = 0;

	for (int i = 0; kind->histogram && i < GIT_BUCKETS; i++) {
		seen += kind->histogram[i];
		if (seen > wanted)
			return bucket_ns(i);
	}
	return 0;
}

struct git_cell git_sum(const struct git_cell cells[static GIT_PLACES])
{
	struct git_cell sum = {};

	for (int i = 0; i < GIT_PLACES; i++) {
		sum.count += cells[i].count;
		sum.fs_ns += cells[i].fs_ns;
		sum.dur_ns += cells[i].dur_ns;
	}
	return sum;
}

static int prepare(struct trace *trace, int64_t run, const char *sql, struct trace_stmt **ret_stmt)
{
	int err = trace_prepare(trace, sql, ret_stmt, NULL);

	return err ?: trace_bind_int(*ret_stmt, 1, run);
}

/* Names go into sentences and SQL: of a stranger's database only what is harmless there. */
static void copy_name(char name[static GIT_NAME_LEN], const char *text)
{
	size_t len = 0;

	for (; text[len] && len < GIT_NAME_LEN - 1; len++)
		name[len] = isalnum((unsigned char)text[len]) || strchr(" ,()-", text[len]) ? text[len] : '?';
	name[len] = '\0';
}

static int load_names(struct trace *trace, struct git_view *view)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace, "SELECT id, name FROM git_phase WHERE id > 0", &stmt, NULL);

	snprintf(view->phases[0].name, sizeof(view->phases[0].name), "(not attributed)");
	while (err == 0 && (err = trace_step(stmt)) == 1) {
		int64_t id = trace_column_int(stmt, 0);
		const char *name = trace_column_text(stmt, 1);

		if (id < GIT_PHASES)
			copy_name(view->phases[id].name, name ?: "");
		err = 0;
	}
	return err;
}

static int count_commands(struct trace *trace, struct git_view *view)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = prepare(trace, view->run, "SELECT count(*) FROM git_command WHERE run = ?", &stmt);

	err = err ?: trace_step(stmt);
	if (err < 0)
		return err;
	view->commands = trace_column_int(stmt, 0);
	return 0;
}

/* The spans, read along with the operations: both come in the order of time. */
struct spans {
	struct trace_stmt *stmt;
	int64_t start_ns, end_ns; /* of the current one; at the end both are INT64_MAX */
	struct git_phase_view *phase;
	int64_t covered_ns; /* up to where it is known what was going on */
};

static int next_span(struct git_view *view, struct spans *spans)
{
	int got = trace_step(spans->stmt);
	int64_t phase;

	if (got < 0)
		return got;
	if (!got) {
		spans->start_ns = spans->end_ns = INT64_MAX;
		return 0;
	}
	phase = trace_column_int(spans->stmt, 2);
	spans->start_ns = trace_column_int(spans->stmt, 0);
	spans->end_ns = trace_column_int(spans->stmt, 1);
	spans->phase = &view->phases[phase > 0 && phase < GIT_PHASES ? phase : 0];
	spans->phase->wall_ns += spans->end_ns - spans->start_ns;
	view->wall_ns += spans->end_ns - spans->start_ns;
	view->attributed = true;
	return 0;
}

struct row {
	int64_t op, start_ns, dur_ns, fs_ns;
	bool error, missing, git_directory;
	struct git_phase_view *phase;
};

/* Where git does not say what it is doing, its requests do. */
static struct git_phase_view *phase_of_part(struct git_view *view, const struct spans *spans, const struct row *row)
{
	if (spans->phase != &view->phases[GIT_OTHER] || row->phase == &view->phases[0])
		return spans->phase;
	return row->phase;
}

static void add_part(struct git_view *view, struct spans *spans, const struct row *row, int64_t part)
{
	struct git_phase_view *phase = phase_of_part(view, spans, row);
	int64_t in_fs = (int64_t)((double)part * ((double)row->fs_ns / (double)row->dur_ns));

	phase->in_fs_ns += in_fs;
	phase->in_shim_ns += part - in_fs;
	spans->phase->wall_ns -= part;
	phase->wall_ns += part;
}

/* The part of an operation's time in which none before it was going on, to the phases of that time. */
static int cover(struct git_view *view, struct spans *spans, const struct row *row)
{
	int64_t from = row->start_ns > spans->covered_ns ? row->start_ns : spans->covered_ns;
	int64_t end = row->start_ns + row->dur_ns;
	int err = 0;

	while (from < end && err == 0 && spans->start_ns != INT64_MAX) {
		int64_t until = end < spans->end_ns ? end : spans->end_ns, part;

		if (from < spans->start_ns)
			from = spans->start_ns < end ? spans->start_ns : end;
		part = until - from;
		if (part > 0) {
			add_part(view, spans, row, part);
			from = until;
		}
		if (from < end && spans->end_ns <= from)
			err = next_span(view, spans);
	}
	if (end > spans->covered_ns)
		spans->covered_ns = end;
	return err;
}

static struct git_kind *get_kind(struct git_phase_view *phase, int64_t op)
{
	if (!phase->kinds)
		phase->kinds = calloc(OP_COUNT, sizeof(*phase->kinds));
	return phase->kinds ? &phase->kinds[op > 0 && op < OP_COUNT ? op : 0] : NULL;
}

static bool in_git_directory(const struct git_view *view, int64_t path)
{
	return path > 0 && path <= view->last_path && view->in_git[path / 8] >> path % 8 & 1;
}

/* A bit for each path. Ids are counted from 1; where they are not, as in a database of nobody's, all is worktree. */
static int load_paths(struct trace *trace, struct git_view *view)
{
	struct trace_stmt auto_stmt *count = NULL, auto_stmt *stmt = NULL;
	int err = prepare(trace, view->run, "SELECT max(id), count(*) FROM path WHERE run = ?", &count);

	err = err ?: trace_step(count);
	if (err < 0 || trace_column_int(count, 0) > 4 * trace_column_int(count, 1))
		return err < 0 ? err : 0;
	view->in_git = calloc((size_t)trace_column_int(count, 0) / 8 + 1, 1);
	if (!view->in_git)
		return -ENOMEM;
	view->last_path = trace_column_int(count, 0);
	err = prepare(trace, view->run, "SELECT id FROM path WHERE run = ? AND instr(path || '/', '.git/')", &stmt);
	while (err == 0 && (err = trace_step(stmt)) == 1) {
		int64_t id = trace_column_int(stmt, 0);

		if (id > 0)
			view->in_git[id / 8] |= (unsigned char)(1 << id % 8);
		err = 0;
	}
	return err;
}

#define LONGEST_NS (1LL << 50) /* 13 days */

static void read_row(struct git_view *view, const struct trace_stmt *stmt, struct row *row)
{
	int64_t phase = trace_column_int(stmt, 5);

	*row = (struct row){
		.op = trace_column_int(stmt, 0),
		.start_ns = trace_column_int(stmt, 1),
		.dur_ns = trace_column_int(stmt, 2),
		.fs_ns = trace_column_int(stmt, 3),
		.error = trace_column_int(stmt, 4),
		.git_directory = phase == GIT_CHECKOUT && in_git_directory(view, trace_column_int(stmt, 6)),
		.missing = trace_column_int(stmt, 7),
		.phase = &view->phases[phase > 0 && phase < GIT_PHASES ? phase : 0],
	};
	/* what no recorder writes must not upset the sums */
	if (row->start_ns < 0 || row->start_ns > INT64_MAX / 2)
		row->start_ns = 0;
	if (row->dur_ns < 0 || row->dur_ns > LONGEST_NS)
		row->dur_ns = row->dur_ns < 0 ? 0 : LONGEST_NS;
	if (row->fs_ns < 0 || row->fs_ns > row->dur_ns)
		row->fs_ns = row->fs_ns < 0 ? 0 : row->dur_ns;
}

static int add_row(struct git_view *view, const struct row *row)
{
	struct git_kind *kind = get_kind(row->phase, row->op);
	struct git_cell *cell;

	if (!kind)
		return -ENOMEM;
	cell = &(row->error ? kind->bad : kind->good)[row->git_directory ? GIT_DIRECTORY : GIT_WORKTREE];
	cell->count++;
	cell->fs_ns += row->fs_ns;
	cell->dur_ns += row->dur_ns;
	if (!row->error) {
		if (!kind->histogram && !(kind->histogram = calloc(GIT_BUCKETS, sizeof(*kind->histogram))))
			return -ENOMEM;
		kind->histogram[bucket_of(row->fs_ns)]++;
	}
	if (row->missing) {
		kind->missing.count++;
		kind->missing.fs_ns += row->fs_ns;
		kind->missing.dur_ns += row->dur_ns;
	}
	row->phase->count++, view->count++;
	row->phase->errors += row->error, view->errors += row->error;
	row->phase->fs_ns += row->fs_ns, view->fs_ns += row->fs_ns;
	view->dur_ns += row->dur_ns;
	return 0;
}

static int pass(struct trace *trace, struct git_view *view)
{
	struct trace_stmt auto_stmt *ops = NULL, auto_stmt *stmt = NULL;
	struct spans spans = { .covered_ns = INT64_MIN };
	struct row row;
	int err = prepare(trace, view->run, "SELECT start_ns, end_ns, phase FROM git_span WHERE run = ? ORDER BY start_ns", &stmt);

	err = err ?: prepare(trace, view->run,
			     "SELECT op, start_ns, dur_ns, fs_ns, result < 0, phase, path, result = -2"
			     " FROM git_op WHERE run = ? ORDER BY run, seq", &ops);
	if (err < 0)
		return err;
	spans.stmt = stmt;
	err = next_span(view, &spans);
	while (err == 0 && (err = trace_step(ops)) == 1) {
		read_row(view, ops, &row);
		err = add_row(view, &row);
		err = err ?: cover(view, &spans, &row);
	}
	while (err == 0 && spans.start_ns != INT64_MAX)
		err = next_span(view, &spans);
	return err;
}

int git_view_make(struct trace *trace, int64_t run, struct git_view **ret_view)
{
	struct git_view *view = calloc(1, sizeof(*view));
	int err;

	if (!view)
		return -ENOMEM;
	view->run = run;
	err = load_names(trace, view);
	err = err ?: count_commands(trace, view);
	err = err ?: load_paths(trace, view);
	err = err ?: pass(trace, view);
	if (err < 0)
		git_view_free(view);
	else
		*ret_view = view;
	return err;
}

void git_view_free(struct git_view *view)
{
	if (!view)
		return;
	for (int phase = 0; phase < GIT_PHASES; phase++) {
		struct git_kind *kinds = view->phases[phase].kinds;

		for (int op = 0; kinds && op < OP_COUNT; op++)
			free(kinds[op].histogram);
		free(kinds);
	}
	free(view->in_git);
	free(view);
}
