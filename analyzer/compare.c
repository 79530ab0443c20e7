/* SPDX-License-Identifier: MIT */
#include "compare.h"

#include <math.h>
#include <string.h>

#include "base.h"
#include "compare_relate.h"
#include "run.h"
#include "statistics.h"

/* A run without a workload can be compared as well, when it is asked for by name: each is a target of its own. */
#define RUN_COLUMNS                                                                                          \
	"SELECT id, coalesce(workload, '-'), coalesce(target, label, 'run ' || id), state = 'native',"       \
	" CASE WHEN json_valid(setup) THEN json_extract(setup, '$.order') END, coalesce(round, 0),"     \
	" real_ns, user_ns, sys_ns, requests, daemon_user_ns + daemon_sys_ns, coalesce(caches, ''),"         \
	" CASE WHEN json_valid(setup) THEN coalesce(json_extract(setup, '$.device'), '') ELSE '' END,"       \
	" CASE dir_readahead WHEN 0 THEN 'off' ELSE coalesce(dir_readahead, '') END,"     \
	" " RUN_COMPLETE_SQL " FROM run "

const char *const compare_factor_names[COMPARE_FACTORS] = {
	[BY_FS] = "fs",
	[BY_WORKLOAD] = "workload",
	[BY_CACHE] = "cache",
	[BY_DEVICE] = "device",
	[BY_OPTION] = "option",
	[BY_THROUGH] = "through",
};

static bool has_factors(const struct compare_group *group, const char *const factors[COMPARE_FACTORS])
{
	for (size_t i = 0; i < COMPARE_FACTORS; i++) {
		if (strcmp(group->factors[i], factors[i]) != 0)
			return false;
	}
	return true;
}

static int add_group(struct compare *compare, const char *const factors[COMPARE_FACTORS], int64_t order,
	struct compare_group **ret_group)
{
	struct compare_group *group;

	for (size_t i = 0; i < compare->count; i++) {
		group = &compare->groups[i];
		if (has_factors(group, factors)) {
			*ret_group = group;
			return 0;
		}
	}
	group = reallocarray(compare->groups, compare->count + 1, sizeof(*group));
	if (!group)
		return -ENOMEM;
	compare->groups = group;
	group += compare->count++;
	*group = (struct compare_group){ .order = order, .native = strcmp(factors[BY_THROUGH], "native") == 0 };
	for (size_t i = 0; i < COMPARE_FACTORS; i++) {
		group->factors[i] = strdup(factors[i]);
		if (!group->factors[i])
			return -ENOMEM;
	}
	group->workload = group->factors[BY_WORKLOAD];
	group->target = group->factors[BY_FS];
	*ret_group = group;
	return 0;
}

static int add_duration(struct compare_op *op, int64_t fs_ns, bool failed)
{
	if (op->count == op->size) {
		size_t size = op->size ? op->size * 2 : 1024;
		int64_t *grown = reallocarray(op->fs_ns, size, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		op->fs_ns = grown;
		op->size = size;
	}
	op->fs_ns[op->count++] = fs_ns;
	if (__builtin_add_overflow(op->total_ns, fs_ns, &op->total_ns))
		op->total_ns = fs_ns > 0 ? INT64_MAX : INT64_MIN;
	op->errors += failed;
	return 0;
}

/*
 * Operations come in the order of arrival: what lies before the end of an earlier one is covered already. As real
 * numbers: those of a database may be anything.
 */
static void cover(struct compare_run *run, double start_ns, double dur_ns, double *end_ns)
{
	double end = start_ns + dur_ns;

	if (end > *end_ns) {
		run->covered_ns += end - (start_ns > *end_ns ? start_ns : *end_ns);
		*end_ns = end;
	}
}

static void note_counts(struct compare_group *group, const size_t counts[OP_COUNT])
{
	for (size_t op = 0; op < OP_COUNT; op++) {
		struct compare_op *o = &group->ops[op];

		if (group->count == 1 || counts[op] < o->least)
			o->least = counts[op];
		if (counts[op] > o->most)
			o->most = counts[op];
	}
}

/* Straight from the table, whose key begins with the run: the view would look names up for each row. */
static int read_ops(struct trace *trace, struct compare_group *group, struct compare_run *run)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace, "SELECT op, fs_ns, result < 0, start_ns, dur_ns FROM op WHERE run = ?", &stmt, NULL);
	size_t counts[OP_COUNT] = {};
	double end_ns = -INFINITY;
	uint64_t count = 0;

	err = err ?: trace_bind_int(stmt, 1, run->id);
	while (err == 0 && (err = trace_step(stmt)) == 1) {
		int64_t op = trace_column_int(stmt, 0), fs_ns = trace_column_int(stmt, 1);

		if (op < 0 || op >= OP_COUNT || !op_get((unsigned int)op))
			return -EUCLEAN;
		err = add_duration(&group->ops[op], fs_ns, trace_column_int(stmt, 2));
		run->fs_ns += (double)fs_ns;
		run->dur_ns += trace_column_double(stmt, 4);
		cover(run, trace_column_double(stmt, 3), trace_column_double(stmt, 4), &end_ns);
		counts[op]++;
		count++;
	}
	if (run->requests == 0)
		run->requests = (double)count; /* it has not ended yet */
	note_counts(group, counts);
	return err;
}

static int add_run(struct trace *trace, struct compare *compare, const struct trace_stmt *stmt)
{
	struct compare_run run = {
		.id = trace_column_int(stmt, 0),
		.round = trace_column_int(stmt, 5),
		.real_ns = trace_column_double(stmt, 6),
		.user_ns = trace_column_double(stmt, 7),
		.sys_ns = trace_column_double(stmt, 8),
		.requests = trace_column_double(stmt, 9),
		.daemon_ns = trace_column_double(stmt, 10),
		.complete = trace_column_int(stmt, 14),
	};
	const char *factors[COMPARE_FACTORS] = {
		[BY_WORKLOAD] = trace_column_text(stmt, 1),
		[BY_FS] = trace_column_text(stmt, 2),
		[BY_THROUGH] = trace_column_int(stmt, 3) ? "native" : "shim",
		[BY_CACHE] = trace_column_text(stmt, 11),
		[BY_DEVICE] = compare->by == BY_DEVICE ? trace_column_text(stmt, 12) : "",
		[BY_OPTION] = trace_column_text(stmt, 13),
	};
	struct compare_group *group;
	struct compare_run *runs;
	int err;

	for (size_t i = 0; i < COMPARE_FACTORS; i++)
		factors[i] = factors[i] ?: "";
	/* runs that bench has not made come in the order in which they are named */
	err = add_group(compare, factors,
		trace_column_type(stmt, 4) == TRACE_NULL ? (int64_t)compare->count : trace_column_int(stmt, 4), &group);
	if (err < 0)
		return err;
	runs = reallocarray(group->runs, group->count + 1, sizeof(*runs));
	if (!runs)
		return -ENOMEM;
	group->runs = runs;
	runs[group->count++] = run;
	group->no_cpu |= trace_column_type(stmt, 7) == TRACE_NULL || trace_column_type(stmt, 8) == TRACE_NULL;
	return group->native ? 0 : read_ops(trace, group, &runs[group->count - 1]);
}

static int add_runs(struct trace *trace, struct compare *compare, const char *where, int64_t value, int64_t value2)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	struct strbuf auto_strbuf sql = {};
	int err;

	strbuf_addf(&sql, RUN_COLUMNS "%s ORDER BY id", where);
	err = sql.failed ? -ENOMEM : trace_prepare(trace, sql.buf, &stmt, NULL);
	err = err ?: trace_bind_int(stmt, 1, value);
	if (err == 0 && strstr(where, "?2"))
		err = trace_bind_int(stmt, 2, value2);
	while (err == 0 && (err = trace_step(stmt)) == 1)
		err = add_run(trace, compare, stmt);
	return err;
}

/* Of one member of the runs, which are doubles for this. */
static double median_of(const struct compare_group *group, size_t offset, double *scratch)
{
	for (size_t i = 0; i < group->count; i++)
		memcpy(&scratch[i], (const char *)&group->runs[i] + offset, sizeof(double));
	return median(scratch, group->count);
}

/* `scratch` is overwritten. */
static void flag_outliers(struct compare_group *group, double *scratch)
{
	double deviation;

	for (size_t i = 0; i < group->count; i++)
		scratch[i] = fabs(group->runs[i].real_ns - group->real_ns);
	deviation = median(scratch, group->count);
	for (size_t i = 0; i < group->count && group->count >= OUTLIER_MIN_N; i++) {
		struct compare_run *run = &group->runs[i];

		run->outlier = fabs(run->real_ns - group->real_ns) > OUTLIER_DEVIATIONS * MAD_SCALE * deviation;
		group->outliers += run->outlier;
	}
}

static int summarise(struct compare_group *group)
{
	auto_free double *scratch = calloc(group->count, sizeof(*scratch));
	int err;

	if (!scratch)
		return -ENOMEM;
	group->daemon_ns = median_of(group, offsetof(struct compare_run, daemon_ns), scratch);
	group->requests = median_of(group, offsetof(struct compare_run, requests), scratch);
	group->fs_ns = median_of(group, offsetof(struct compare_run, fs_ns), scratch);
	group->user_ns = median_of(group, offsetof(struct compare_run, user_ns), scratch);
	group->sys_ns = median_of(group, offsetof(struct compare_run, sys_ns), scratch);
	group->real_ns = median_of(group, offsetof(struct compare_run, real_ns), scratch);
	group->min_real_ns = scratch[0]; /* sorted by the median */
	err = bootstrap_median(scratch, group->count, &group->low_ns, &group->high_ns);
	group->has_interval = err == 0;
	flag_outliers(group, scratch);
	for (size_t op = 0; op < OP_COUNT; op++) {
		struct compare_op *o = &group->ops[op];

		if (o->count)
			o->median_ns = median_int(o->fs_ns, o->count);
	}
	return err == -ENOMEM ? err : 0;
}

/* Of one factor; of readahead "off" comes first, then few threads before many. */
static int compare_levels(const struct compare_group *a, const struct compare_group *b, enum compare_factor factor)
{
	const char *x = a->factors[factor], *y = b->factors[factor];
	int m = atoi(x), n = atoi(y); /* 0 for words */

	if (factor == BY_OPTION && m != n)
		return m < n ? -1 : 1;
	return strcmp(x, y);
}

/*
 * By workload, the recordings before the native runs, then the other factors, targets in the order that bench was told;
 * what is compared changes fastest.
 */
static int compare_groups(const void *a, const void *b, void *arg)
{
	static const enum compare_factor factors[] = { BY_DEVICE, BY_CACHE, BY_OPTION };
	enum compare_factor by = *(const enum compare_factor *)arg;
	const struct compare_group *x = a, *y = b;
	int order = 0;

	if (x->workload_first != y->workload_first)
		return x->workload_first < y->workload_first ? -1 : 1;
	if (x->native != y->native && by != BY_THROUGH)
		return x->native ? 1 : -1;
	for (size_t i = 0; i < ARRAY_SIZE(factors) && by == BY_FS && order == 0; i++)
		order = compare_levels(x, y, factors[i]);
	if (order == 0 && x->order != y->order)
		return x->order < y->order ? -1 : 1;
	for (size_t i = 0; i < ARRAY_SIZE(factors) && order == 0; i++)
		order = factors[i] == by ? 0 : compare_levels(x, y, factors[i]);
	if (order == 0 && by != BY_FS && by != BY_WORKLOAD)
		order = compare_levels(x, y, by);
	return order ?: (x->runs[0].id > y->runs[0].id) - (x->runs[0].id < y->runs[0].id);
}

static void sort_groups(struct compare *compare)
{
	for (size_t i = 0; i < compare->count; i++) {
		struct compare_group *group = &compare->groups[i];

		group->workload_first = group->runs[0].id;
		for (size_t j = 0; j < compare->count; j++) {
			const struct compare_group *other = &compare->groups[j];

			if (strcmp(other->workload, group->workload) == 0 &&
				other->runs[0].id < group->workload_first)
				group->workload_first = other->runs[0].id;
		}
	}
	array_sort_r(compare->groups, compare->count, sizeof(*compare->groups), compare_groups, &compare->by);
}

static int compare_totals(const void *a, const void *b, void *arg)
{
	const double *totals = arg; /* of sums that may not fit an int64_t */
	double x = totals[*(const enum op_id *)a], y = totals[*(const enum op_id *)b];

	return (x < y) - (x > y);
}

static void rank_ops(struct compare *compare)
{
	double totals[OP_COUNT] = {};

	for (size_t i = 0; i < compare->count; i++) {
		for (size_t op = 0; op < OP_COUNT; op++)
			totals[op] += (double)compare->groups[i].ops[op].total_ns;
	}
	for (unsigned int op = 0; op < OP_COUNT; op++) {
		if (totals[op] > 0)
			compare->top[compare->n_top++] = (enum op_id)op;
	}
	array_sort_r(compare->top, compare->n_top, sizeof(compare->top[0]), compare_totals, totals);
}

int compare_load_query(struct trace *trace, const struct compare_query *query, struct compare *ret_compare)
{
	struct compare compare = { .by = query->by };
	int err = 0;

	if (!query->runs)
		err = add_runs(trace, &compare,
			"WHERE workload IS NOT NULL AND id >= ?1 AND (?2 = 0 OR bench = ?2)", query->first, query->bench);
	for (size_t i = 0; query->runs && i < query->n_runs && err == 0; i++)
		err = add_runs(trace, &compare, "WHERE id = ?1", query->runs[i], 0);
	if (err == 0 && !compare.count)
		err = -ENOENT;
	if (err == 0)
		sort_groups(&compare);
	for (size_t i = 0; i < compare.count && err == 0; i++) {
		err = summarise(&compare.groups[i]);
		if (i == 0 || compare.groups[i].count < compare.rounds)
			compare.rounds = compare.groups[i].count;
	}
	err = err ?: compare_relate(&compare, query->baseline);
	if (err < 0) {
		compare_free(&compare);
		return err;
	}
	rank_ops(&compare);
	*ret_compare = compare;
	return 0;
}

int compare_load(struct trace *trace, const int64_t *runs, size_t n_runs, int64_t first, const char *baseline,
	struct compare *ret_compare)
{
	return compare_load_query(trace,
		&(struct compare_query){ .runs = runs, .n_runs = n_runs, .first = first, .baseline = baseline }, ret_compare);
}

void compare_free(struct compare *compare)
{
	for (size_t i = 0; i < compare->count; i++) {
		struct compare_group *group = &compare->groups[i];

		for (size_t factor = 0; factor < COMPARE_FACTORS; factor++)
			free(group->factors[factor]);
		free(group->runs);
		free(group->way);
		for (size_t op = 0; op < OP_COUNT; op++)
			free(group->ops[op].fs_ns);
	}
	free(compare->groups);
	free(compare->ways);
	*compare = (struct compare){};
}
