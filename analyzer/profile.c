/* SPDX-License-Identifier: MIT */
#include "profile.h"

#include <math.h>
#include <string.h>

#include "base.h"

/*
 * The length of a union of intervals that come nearly in order of their begins (requests are numbered as they arrive,
 * and stamped a little later): the latest few that are apart from each other are kept, the earliest is given up when
 * there is no more room.
 */
#define UNION_KEPT 64

struct interval {
	int64_t begin, end;
};

struct interval_union {
	struct interval kept[UNION_KEPT];
	size_t count;
	int64_t given_up; /* all before is counted */
	double length;
};

static void union_drop_first(struct interval_union *u)
{
	u->length += (double)(u->kept[0].end - u->kept[0].begin);
	u->given_up = u->kept[0].end;
	memmove(u->kept, u->kept + 1, --u->count * sizeof(u->kept[0]));
}

static void union_add(struct interval_union *u, int64_t begin, int64_t end)
{
	size_t first, last;

	begin = begin < u->given_up ? u->given_up : begin;
	if (end <= begin)
		return;
	last = u->count;
	while (last > 0 && u->kept[last - 1].begin > end)
		last--;
	first = last;
	while (first > 0 && u->kept[first - 1].end >= begin) {
		first--;
		begin = u->kept[first].begin < begin ? u->kept[first].begin : begin;
		end = u->kept[first].end > end ? u->kept[first].end : end;
	}
	if (first == last) { /* apart from all others */
		if (u->count == UNION_KEPT) {
			if (first == 0) {
				u->length += (double)(end - begin);
				u->given_up = end;
				return;
			}
			union_drop_first(u);
			first--;
		}
		memmove(u->kept + first + 1, u->kept + first, (u->count - first) * sizeof(u->kept[0]));
		u->count++;
	} else {
		memmove(u->kept + first + 1, u->kept + last, (u->count - last) * sizeof(u->kept[0]));
		u->count -= last - first - 1;
	}
	u->kept[first] = (struct interval){ begin, end };
}

static double union_length(struct interval_union *u)
{
	while (u->count)
		union_drop_first(u);
	return u->length;
}

/* --- paths ------------------------------------------------------------------------------------------------------ */

static int compare_ids(const void *key, const void *element)
{
	int64_t id = *(const int64_t *)key, other = ((const struct profile_dir *)element)->id;

	return (id > other) - (id < other);
}

/* The path's place, or -1. Ids usually have no gaps. */
static int64_t path_index(const struct profile *profile, int64_t id)
{
	const struct profile_dir *found;
	size_t guess = profile->n_paths ? (size_t)(id - profile->paths[0].id) : 0;

	if (guess < profile->n_paths && profile->paths[guess].id == id)
		return (int64_t)guess;
	found = array_find(&id, profile->paths, profile->n_paths, sizeof(*found), compare_ids);
	return found ? found - profile->paths : -1;
}

static int read_paths(struct trace *trace, int64_t run, struct profile *profile)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace, "SELECT id, parent FROM path WHERE run = ? ORDER BY id", &stmt, NULL);
	size_t size = 0;

	err = err ?: trace_bind_int(stmt, 1, run);
	while (err == 0 && (err = trace_step(stmt)) == 1) {
		if (profile->n_paths == size) {
			size_t more = size ? size * 3 / 2 : 4096;
			struct profile_dir *grown = reallocarray(profile->paths, more, sizeof(*grown));

			if (!grown)
				return -ENOMEM;
			profile->paths = grown;
			size = more;
		}
		profile->paths[profile->n_paths++] =
			(struct profile_dir){ .id = trace_column_int(stmt, 0), .parent = trace_column_int(stmt, 1) };
		err = 0;
	}
	for (size_t i = 0; err == 0 && i < profile->n_paths; i++)
		profile->paths[i].parent = path_index(profile, profile->paths[i].parent);
	return err;
}

/* --- operations ------------------------------------------------------------------------------------------------- */

/* Columns of the statement below. */
enum { AT_OP, AT_START, AT_DUR, AT_FS, AT_FAILED, AT_PATH };

static int find_extent(struct trace *trace, int64_t run, struct profile *profile)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(
		trace, "SELECT min(start_ns), max(start_ns + dur_ns) FROM op WHERE run = ?", &stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, run);
	err = err ?: trace_step(stmt);
	if (err <= 0)
		return err;
	profile->begin_ns = trace_column_int(stmt, 0);
	profile->end_ns = trace_column_int(stmt, 1);
	/* of a hostile database; and nothing below divides by zero */
	if (profile->begin_ns < 0 || profile->end_ns < profile->begin_ns)
		profile->begin_ns = 0;
	/* from the run's start on, unless nothing happened for long */
	if (profile->begin_ns < profile->end_ns / 5)
		profile->begin_ns = 0;
	if (profile->begin_ns == INT64_MAX)
		profile->begin_ns--;
	if (profile->end_ns <= profile->begin_ns)
		profile->end_ns = profile->begin_ns + 1;
	return 0;
}

static size_t step_of(const struct profile *profile, int64_t ns)
{
	double step = ((double)ns - (double)profile->begin_ns) / (double)(profile->end_ns - profile->begin_ns) *
		      PROFILE_STEPS;

	return step <= 0 ? 0 : step >= PROFILE_STEPS ? PROFILE_STEPS - 1 : (size_t)step;
}

static void spread_fs(struct profile *profile, enum op_class class, int64_t start, int64_t dur, double fs)
{
	double width = (double)(profile->end_ns - profile->begin_ns) / PROFILE_STEPS;
	double begin = (double)(start - profile->begin_ns), end = begin + (double)dur;
	size_t first = step_of(profile, start), last = step_of(profile, start + dur);

	if (first == last) {
		profile->class_fs_ns[class][first] += fs;
		return;
	}
	for (size_t i = first; i <= last; i++) {
		double from = fmax(begin, (double)i * width), to = fmin(end, (double)(i + 1) * width);

		if (to > from)
			profile->class_fs_ns[class][i] += fs * (to - from) / (double)dur;
	}
}

/* A listing belongs to the directory itself, all else to the directory that has the name. */
static void add_to_dir(struct profile *profile, enum op_class class, int64_t path, double fs)
{
	int64_t index = path_index(profile, path);

	if (index >= 0 && class != CLASS_DIR && profile->paths[index].parent >= 0)
		index = profile->paths[index].parent;
	if (index < 0)
		return;
	profile->paths[index].count++;
	profile->paths[index].fs_ns += fs;
}

static void add_op(struct profile *profile, struct interval_union *busy, const struct trace_stmt *stmt)
{
	int64_t code = trace_column_int(stmt, AT_OP), start = trace_column_int(stmt, AT_START);
	int64_t dur = trace_column_int(stmt, AT_DUR), fs = trace_column_int(stmt, AT_FS);
	const struct op_desc *op = code >= 0 && code < OP_COUNT ? op_get((unsigned int)code) : NULL;
	size_t step, bin;

	if (!op || start < 0 || dur < 0 || fs < 0 || dur > profile->end_ns - start)
		return; /* not of a recorder of ours */
	step = step_of(profile, start);
	bin = bin_of(fs);
	profile->count++;
	profile->errors += trace_column_int(stmt, AT_FAILED);
	profile->dur_ns += (double)dur;
	profile->fs_ns += (double)fs;
	profile->class_count[op->class][step]++;
	spread_fs(profile, op->class, start, dur, (double)fs);
	profile->op_bins[code][bin]++;
	profile->time_bins[bin][step]++;
	union_add(busy, start, start + dur);
	if (trace_column_type(stmt, AT_PATH) == TRACE_INTEGER)
		add_to_dir(profile, op->class, trace_column_int(stmt, AT_PATH), (double)fs);
}

static int read_ops(struct trace *trace, int64_t run, struct profile *profile)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	struct interval_union busy = {};
	int err = trace_prepare(trace,
		"SELECT op, start_ns, dur_ns, fs_ns, result < 0, path FROM op WHERE run = ? ORDER BY seq", &stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, run);
	while (err == 0 && (err = trace_step(stmt)) == 1) {
		add_op(profile, &busy, stmt);
		err = 0;
	}
	profile->busy_ns = union_length(&busy);
	return err;
}

int profile_read(struct trace *trace, int64_t run, struct profile **ret_profile)
{
	struct profile *profile = calloc(1, sizeof(*profile));
	int err = profile ? find_extent(trace, run, profile) : -ENOMEM;

	err = err ?: read_paths(trace, run, profile);
	err = err ?: read_ops(trace, run, profile);
	if (err < 0) {
		profile_free(profile);
		return err;
	}
	*ret_profile = profile;
	return 0;
}

void profile_free(struct profile *profile)
{
	if (!profile)
		return;
	free(profile->paths);
	free(profile);
}
