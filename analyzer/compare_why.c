/* SPDX-License-Identifier: MIT */
#include "compare_why.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base.h"
#include "compare_table.h"

#define SUMMARY_PARTS 5 /* of each kind */
#define MOST_PARTS    (OP_COUNT + 64)
#define NEGLIGIBLE    0.01 /* of the difference: not worth a line in a summary */

enum why_kind { WHY_NONE, WHY_COUNT, WHY_TIME, WHY_PHASE, WHY_DEVICE, WHY_KINDS };

static const char *const kind_names[WHY_KINDS] = { "none", "count", "time", "phase", "device" };

struct part {
	enum why_kind kind;
	char name[64];
	bool has_counts, has_times, is_op;
	double base_count, count;
	double base_ns, ns;
	double by_count_ns, by_latency_ns; /* is_op */
};

struct why {
	const struct compare_group *group, *base;
	bool same_way, differs; /* of compare.h */
	struct part parts[MOST_PARTS];
	size_t count;
};

static struct part *add_part(struct why *why, enum why_kind kind, const char *name)
{
	struct part *part = &why->parts[why->count < MOST_PARTS - 1 ? why->count++ : MOST_PARTS - 1];

	*part = (struct part){ .kind = kind };
	snprintf(part->name, sizeof(part->name), "%s", name);
	return part;
}

static double mean_of(const struct compare_group *group, size_t offset)
{
	double sum = 0, value;

	for (size_t i = 0; i < group->count; i++) {
		memcpy(&value, (const char *)&group->runs[i] + offset, sizeof(value));
		sum += value;
	}
	return sum / (double)group->count;
}

#define MEAN(group, member) mean_of((group), offsetof(struct compare_run, member))

static void add_times(struct why *why, enum why_kind kind, const char *name, double base_ns, double ns)
{
	struct part *part = add_part(why, kind, name);

	part->has_times = true;
	part->base_ns = base_ns;
	part->ns = ns;
}

static void add_time(struct why *why, const char *name, double base_ns, double ns)
{
	add_times(why, WHY_TIME, name, base_ns, ns);
}

/* Counts of operations that do not overlap from run to run: this is no chance. */
static void add_counts(struct why *why, const struct compare_op *base, const struct compare_op *op, double base_count,
	double count, const char *name)
{
	struct part *part;

	if (!(base->most < op->least || op->most < base->least))
		return;
	part = add_part(why, WHY_COUNT, name);
	part->has_counts = true;
	part->base_count = base_count;
	part->count = count;
}

static void add_op(struct why *why, enum op_id id)
{
	const struct compare_op *base = &why->base->ops[id], *op = &why->group->ops[id];
	double c0 = (double)base->count / (double)why->base->count, c1 = (double)op->count / (double)why->group->count;
	double t0 = (double)base->total_ns / (double)why->base->count, t1 = (double)op->total_ns / (double)why->group->count;
	/* an operation that one side does not have is all count */
	double l0 = c0 > 0 ? t0 / c0 : t1 / c1, l1 = c1 > 0 ? t1 / c1 : l0;
	const char *name = op_get(id)->name;
	struct part *part;

	add_counts(why, base, op, c0, c1, name);
	part = add_part(why, WHY_TIME, name);
	part->has_counts = part->has_times = part->is_op = true;
	part->base_count = c0;
	part->count = c1;
	part->base_ns = t0;
	part->ns = t1;
	part->by_count_ns = (c1 - c0) * (l1 + l0) / 2;
	part->by_latency_ns = (l1 - l0) * (c1 + c0) / 2;
}

static double outside(const struct compare_group *group)
{
	return MEAN(group, real_ns) - MEAN(group, covered_ns) - MEAN(group, user_ns);
}

static void add_recorded(struct why *why)
{
	const struct compare_group *g = why->group, *b = why->base;

	for (unsigned int op = 0; op < OP_COUNT; op++) {
		if (g->ops[op].count || b->ops[op].count)
			add_op(why, (enum op_id)op);
	}
	add_time(why, "requests outside the filesystem", MEAN(b, dur_ns) - MEAN(b, fs_ns), MEAN(g, dur_ns) - MEAN(g, fs_ns));
	add_time(why, "overlap of requests", MEAN(b, covered_ns) - MEAN(b, dur_ns), MEAN(g, covered_ns) - MEAN(g, dur_ns));
	if (!compare_is_timed(g) || !compare_is_timed(b) || g->no_cpu || b->no_cpu)
		return;
	add_time(why, "user time of the programs", MEAN(b, user_ns), MEAN(g, user_ns));
	add_time(why, "kernel, wake-ups and idle", outside(b), outside(g));
}

static void add_native(struct why *why)
{
	const struct compare_group *g = why->group, *b = why->base;

	add_time(why, "user time", MEAN(b, user_ns), MEAN(g, user_ns));
	add_time(why, "sys time", MEAN(b, sys_ns), MEAN(g, sys_ns));
	add_time(why, "waiting", MEAN(b, real_ns) - MEAN(b, user_ns) - MEAN(b, sys_ns),
		MEAN(g, real_ns) - MEAN(g, user_ns) - MEAN(g, sys_ns));
}

static struct part *find_part(struct why *why, enum why_kind kind, const char *name)
{
	for (size_t i = 0; i < why->count; i++) {
		if (why->parts[i].kind == kind && strcmp(why->parts[i].name, name) == 0)
			return &why->parts[i];
	}
	return add_part(why, kind, name);
}

/* The rows (name, value) that `sql` has for each run of a group, as means. */
static int add_rows(struct trace *trace, struct why *why, bool base, enum why_kind kind, const char *sql)
{
	const struct compare_group *group = base ? why->base : why->group;
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = 0;

	for (size_t i = 0; i < group->count && err == 0; i++) {
		trace_finalize(steal_ptr(&stmt));
		err = trace_prepare(trace, sql, &stmt, NULL);
		err = err ?: trace_bind_int(stmt, 1, group->runs[i].id);
		while (err == 0 && (err = trace_step(stmt)) == 1) {
			const char *name = trace_column_text(stmt, 0) ?: "";
			struct part *part = find_part(why, kind, name);
			bool is_time = kind == WHY_PHASE || (strlen(name) > 3 && strcmp(name + strlen(name) - 3, "_ns") == 0);
			double *value = is_time ? base ? &part->base_ns : &part->ns : base ? &part->base_count : &part->count;

			*value += trace_column_double(stmt, 1) / (double)group->count;
			part->has_times = is_time;
			part->has_counts = !is_time;
			err = 0;
		}
	}
	return err;
}

static int add_stored(struct trace *trace, struct why *why)
{
	static const struct {
		enum why_kind kind;
		const char *sql;
	} sources[] = {
		{ WHY_PHASE, "SELECT p.name, sum(s.end_ns - s.start_ns) FROM git_span AS s JOIN git_phase AS p ON p.id = s.phase"
			     " WHERE s.run = ? GROUP BY p.name" },
		{ WHY_DEVICE, "SELECT name, value FROM run_counter WHERE run = ?" },
	};
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(sources) && err == 0; i++) {
		err = add_rows(trace, why, true, sources[i].kind, sources[i].sql);
		err = err ?: add_rows(trace, why, false, sources[i].kind, sources[i].sql);
	}
	return err;
}

static double size_of(const struct part *part)
{
	if (part->has_times)
		return fabs(part->ns - part->base_ns);
	return fabs(part->count - part->base_count) / (1 + part->count + part->base_count);
}

/* By kind; times by how much they differ, counts by how many times. */
static int compare_parts(const void *a, const void *b)
{
	const struct part *x = a, *y = b;
	double sx = size_of(x), sy = size_of(y);

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->has_times != y->has_times)
		return x->has_times ? -1 : 1;
	return (sx < sy) - (sx > sy);
}

static bool is_worth_it(const struct why *why, const struct part *part, const size_t shown[WHY_KINDS])
{
	double all = fabs(MEAN(why->group, real_ns) - MEAN(why->base, real_ns));

	if (shown[part->kind] >= SUMMARY_PARTS)
		return false;
	if (!why->differs)
		return part->kind == WHY_NONE || part->kind == WHY_COUNT;
	if (part->kind == WHY_DEVICE)
		return part->has_counts && (strcmp(part->name, "device.flushes") == 0 || strcmp(part->name, "device.reads") == 0 ||
					    strcmp(part->name, "device.write_bytes") == 0);
	return part->kind == WHY_COUNT || size_of(part) > NEGLIGIBLE * all;
}

static void add_value(struct table *table, bool known, double value)
{
	if (known)
		table_int(table, compare_round(value));
	else
		table_null(table);
}

static void add_part_row(const struct why *why, const struct part *part, struct table *table)
{
	double all = why->differs && compare_is_timed(why->group) && compare_is_timed(why->base) ?
			     MEAN(why->group, real_ns) - MEAN(why->base, real_ns) :
			     0;

	table_text(table, why->group->workload);
	for (size_t i = 0; i < COMPARE_FACTORS; i++) {
		if (i != BY_WORKLOAD && *why->group->factors[i])
			table_text(table, why->group->factors[i]);
		else if (i != BY_WORKLOAD)
			table_null(table);
	}
	table_text(table, kind_names[part->kind]);
	table_text(table, part->name);
	if (part->has_counts) {
		table_real(table, part->base_count);
		table_real(table, part->count);
	} else {
		table_null(table);
		table_null(table);
	}
	add_value(table, part->has_times, part->base_ns);
	add_value(table, part->has_times, part->ns);
	add_value(table, part->has_times, part->ns - part->base_ns);
	add_value(table, part->is_op, part->by_count_ns);
	add_value(table, part->is_op, part->by_latency_ns);
	if (part->has_times && part->kind != WHY_DEVICE && all != 0)
		table_real(table, (part->ns - part->base_ns) / all);
	else
		table_null(table);
	table_int(table, why->differs);
	table_int(table, why->same_way);
	table_end_row(table);
}

static void add_why(const struct why *why, enum why_length length, struct table *table)
{
	size_t shown[WHY_KINDS] = {};

	for (size_t i = 0; i < why->count; i++) {
		const struct part *part = &why->parts[i];

		if (length == WHY_SUMMARY && !is_worth_it(why, part, shown))
			continue;
		shown[part->kind]++;
		add_part_row(why, part, table);
	}
}

static bool varies(const struct compare *compare, enum compare_factor factor)
{
	for (size_t i = 1; i < compare->count; i++) {
		if (strcmp(compare->groups[i].factors[factor], compare->groups[0].factors[factor]) != 0)
			return true;
	}
	return false;
}

static void add_columns(const struct compare *compare, struct table *table)
{
	table_add_column(table, "workload", NULL, COLUMN_TEXT, 0);
	for (size_t i = 0; i < COMPARE_FACTORS; i++) {
		if (i != BY_WORKLOAD)
			table_add_column(table, i == BY_FS ? "target" : compare_factor_names[i], NULL, COLUMN_TEXT,
				i == BY_FS || varies(compare, (enum compare_factor)i) ? 0 : COLUMN_DATA_ONLY);
	}
	table_add_column(table, "kind", "of", COLUMN_TEXT, 0);
	table_add_column(table, "part", NULL, COLUMN_TEXT, 0);
	table_add_column(table, "base_count", "baseline", COLUMN_RATIO, 0);
	table_add_column(table, "count", NULL, COLUMN_RATIO, 0);
	table_add_column(table, "base_ns", "baseline", COLUMN_DURATION, 0);
	table_add_column(table, "ns", "time", COLUMN_DURATION, 0);
	table_add_column(table, "delta_ns", "difference", COLUMN_DURATION, 0);
	table_add_column(table, "by_count_ns", "by count", COLUMN_DURATION, COLUMN_DATA_ONLY);
	table_add_column(table, "by_latency_ns", "by latency", COLUMN_DURATION, COLUMN_DATA_ONLY);
	table_add_column(table, "share", NULL, COLUMN_SHARE, 0);
	table_add_column(table, "differs", NULL, COLUMN_BOOL, COLUMN_DATA_ONLY);
	table_add_column(table, "same_way", NULL, COLUMN_BOOL, COLUMN_DATA_ONLY);
}

static int explain(struct trace *trace, const struct compare *compare, size_t index, struct why *ret_why)
{
	const struct compare_group *group = &compare->groups[index], *base = &compare->groups[group->baseline];
	int err;

	*ret_why = (struct why){ .group = group, .base = base, .same_way = !compare->ways,
		.differs = compare_differs(compare, group) };
	if (!ret_why->differs)
		add_times(ret_why, WHY_NONE, "no difference to be explained", MEAN(base, real_ns), MEAN(group, real_ns));
	if (group->native || base->native)
		add_native(ret_why);
	else
		add_recorded(ret_why);
	err = add_stored(trace, ret_why);
	array_sort(ret_why->parts, ret_why->count, sizeof(ret_why->parts[0]), compare_parts);
	return err;
}

bool compare_why_has_any(const struct compare *compare)
{
	for (size_t i = 0; i < compare->count; i++) {
		if (compare->groups[i].baseline != i)
			return true;
	}
	return false;
}

int compare_why_print(const struct context *context, const struct compare *compare, enum why_length length)
{
	struct table *table = context_table(context);
	auto_free struct why *why = malloc(sizeof(*why));
	int err = 0;

	if (!table || !why) {
		if (table)
			table_free(table);
		return log_errno(ENOMEM, "compare");
	}
	add_columns(compare, table);
	for (size_t i = 0; i < compare->count && err == 0; i++) {
		if (compare->groups[i].baseline == i)
			continue;
		err = explain(context->trace, compare, i, why);
		if (err == 0)
			add_why(why, length, table);
	}
	if (err < 0) {
		table_free(table);
		return context_trace_error(context, err, "cannot read the runs");
	}
	err = context_print(table);
	if (err == 0 && length == WHY_ALL) /* the summary stands under a table that has said it */
		compare_print_ways(context, compare);
	return err;
}
