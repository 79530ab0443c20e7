/* SPDX-License-Identifier: MIT */
#include "compare.h"

#include <string.h>

#include "base.h"
#include "statistics.h"

/* A run without a workload can be compared as well, when it is asked for by name: each is a target of its
 * own. */
#define RUN_COLUMNS                                                                                          \
	"SELECT id, coalesce(workload, '-'), coalesce(target, label, 'run ' || id), state = 'native',"       \
	" CASE WHEN json_valid(setup) THEN json_extract(setup, '$.order') ELSE id END, coalesce(round, 0),"  \
	" real_ns, user_ns, sys_ns, requests FROM run "

static int add_group(struct compare *compare, const char *workload, const char *target, bool native,
	int64_t order, struct compare_group **ret_group)
{
	struct compare_group *group;

	for (size_t i = 0; i < compare->count; i++) {
		group = &compare->groups[i];
		if (group->native == native && strcmp(group->workload, workload) == 0 &&
			strcmp(group->target, target) == 0) {
			*ret_group = group;
			return 0;
		}
	}
	group = reallocarray(compare->groups, compare->count + 1, sizeof(*group));
	if (!group)
		return -ENOMEM;
	compare->groups = group;
	group += compare->count++;
	*group = (struct compare_group){
		.workload = strdup(workload), .target = strdup(target), .native = native, .order = order
	};
	*ret_group = group;
	return group->workload && group->target ? 0 : -ENOMEM;
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
	op->total_ns += fs_ns;
	op->errors += failed;
	return 0;
}

/* Straight from the table, whose key begins with the run: the view would look names up for each row. */
static int read_ops(struct trace *trace, struct compare_group *group, struct compare_run *run)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace, "SELECT op, fs_ns, result < 0 FROM op WHERE run = ?", &stmt, NULL);
	uint64_t count = 0;

	err = err ?: trace_bind_int(stmt, 1, run->id);
	while (err == 0 && (err = trace_step(stmt)) == 1) {
		int64_t op = trace_column_int(stmt, 0), fs_ns = trace_column_int(stmt, 1);

		if (op < 0 || op >= OP_COUNT || !op_get((unsigned int)op))
			return -EUCLEAN;
		err = add_duration(&group->ops[op], fs_ns, trace_column_int(stmt, 2));
		run->fs_ns += (double)fs_ns;
		count++;
	}
	if (run->requests == 0)
		run->requests = (double)count; /* it has not ended yet */
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
	};
	struct compare_group *group;
	struct compare_run *runs;
	int err = add_group(compare, trace_column_text(stmt, 1) ?: "", trace_column_text(stmt, 2) ?: "",
		trace_column_int(stmt, 3), trace_column_int(stmt, 4), &group);

	if (err < 0)
		return err;
	runs = reallocarray(group->runs, group->count + 1, sizeof(*runs));
	if (!runs)
		return -ENOMEM;
	group->runs = runs;
	runs[group->count++] = run;
	return group->native ? 0 : read_ops(trace, group, &runs[group->count - 1]);
}

static int add_runs(struct trace *trace, struct compare *compare, const char *where, int64_t value)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	struct strbuf auto_strbuf sql = {};
	int err;

	strbuf_addf(&sql, RUN_COLUMNS "%s ORDER BY id", where);
	err = sql.failed ? -ENOMEM : trace_prepare(trace, sql.buf, &stmt, NULL);
	err = err ?: trace_bind_int(stmt, 1, value);
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

static int summarise(struct compare_group *group)
{
	auto_free double *scratch = calloc(group->count, sizeof(*scratch));
	int err;

	if (!scratch)
		return -ENOMEM;
	group->requests = median_of(group, offsetof(struct compare_run, requests), scratch);
	group->fs_ns = median_of(group, offsetof(struct compare_run, fs_ns), scratch);
	group->user_ns = median_of(group, offsetof(struct compare_run, user_ns), scratch);
	group->sys_ns = median_of(group, offsetof(struct compare_run, sys_ns), scratch);
	group->real_ns = median_of(group, offsetof(struct compare_run, real_ns), scratch);
	group->min_real_ns = scratch[0]; /* sorted by the median */
	err = bootstrap_median(scratch, group->count, &group->low_ns, &group->high_ns);
	group->has_interval = err == 0;
	for (size_t op = 0; op < OP_COUNT; op++) {
		struct compare_op *o = &group->ops[op];

		if (o->count)
			o->median_ns = median_int(o->fs_ns, o->count);
	}
	return err == -ENOMEM ? err : 0;
}

static const struct compare_run *run_of_round(const struct compare_group *group, int64_t round)
{
	for (size_t i = 0; i < group->count; i++) {
		if (group->runs[i].round == round)
			return &group->runs[i];
	}
	return NULL;
}

/* Runs of one round were made under like conditions: their ratio says more than the medians'. */
static int relate(struct compare_group *group, const struct compare_group *base)
{
	auto_free double *ratios = calloc(group->count, sizeof(*ratios));
	size_t n = 0;

	if (!ratios)
		return -ENOMEM;
	for (size_t i = 0; i < group->count; i++) {
		const struct compare_run *other = run_of_round(base, group->runs[i].round);

		if (other && other->real_ns > 0)
			ratios[n++] = group->runs[i].real_ns / other->real_ns;
	}
	group->has_ratio = n > 0;
	group->ratio = n ? median(ratios, n) : 0;
	return 0;
}

static int relate_all(struct compare *compare, const char *baseline)
{
	bool found = !baseline;

	for (size_t i = 0; i < compare->count; i++) {
		struct compare_group *group = &compare->groups[i];

		for (size_t j = 0; j < compare->count; j++) {
			const struct compare_group *base = &compare->groups[j];

			if (base->native != group->native || strcmp(base->workload, group->workload) != 0)
				continue;
			if (baseline && strcmp(base->target, baseline) != 0)
				continue;
			found = true;
			if (relate(group, base) < 0)
				return -ENOMEM;
			break; /* without a name the first one it is */
		}
	}
	return found ? 0 : -EINVAL;
}

/* By workload, the recordings before the native runs, targets in the order that bench was told. */
static int compare_groups(const void *a, const void *b)
{
	const struct compare_group *x = a, *y = b;

	if (x->workload_first != y->workload_first)
		return x->workload_first < y->workload_first ? -1 : 1;
	if (x->native != y->native)
		return x->native ? 1 : -1;
	if (x->order != y->order)
		return x->order < y->order ? -1 : 1;
	return (x->runs[0].id > y->runs[0].id) - (x->runs[0].id < y->runs[0].id);
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
	qsort(compare->groups, compare->count, sizeof(*compare->groups), compare_groups);
}

static int compare_totals(const void *a, const void *b, void *arg)
{
	const int64_t *totals = arg;
	int64_t x = totals[*(const enum op_id *)a], y = totals[*(const enum op_id *)b];

	return (x < y) - (x > y);
}

static void rank_ops(struct compare *compare)
{
	int64_t totals[OP_COUNT] = {};

	for (size_t i = 0; i < compare->count; i++) {
		for (size_t op = 0; op < OP_COUNT; op++)
			totals[op] += compare->groups[i].ops[op].total_ns;
	}
	for (unsigned int op = 0; op < OP_COUNT; op++) {
		if (totals[op] > 0)
			compare->top[compare->n_top++] = (enum op_id)op;
	}
	qsort_r(compare->top, compare->n_top, sizeof(compare->top[0]), compare_totals, totals);
}

int compare_load(struct trace *trace, const int64_t *runs, size_t n_runs, int64_t first, const char *baseline,
	struct compare *ret_compare)
{
	struct compare compare = {};
	int err = 0;

	if (!runs)
		err = add_runs(trace, &compare, "WHERE workload IS NOT NULL AND id >= ?", first);
	for (size_t i = 0; runs && i < n_runs && err == 0; i++)
		err = add_runs(trace, &compare, "WHERE id = ?", runs[i]);
	if (err == 0 && !compare.count)
		err = -ENOENT;
	if (err == 0)
		sort_groups(&compare);
	for (size_t i = 0; i < compare.count && err == 0; i++) {
		err = summarise(&compare.groups[i]);
		if (i == 0 || compare.groups[i].count < compare.rounds)
			compare.rounds = compare.groups[i].count;
	}
	err = err ?: relate_all(&compare, baseline);
	if (err < 0) {
		compare_free(&compare);
		return err;
	}
	rank_ops(&compare);
	*ret_compare = compare;
	return 0;
}

void compare_free(struct compare *compare)
{
	for (size_t i = 0; i < compare->count; i++) {
		struct compare_group *group = &compare->groups[i];

		free(group->workload);
		free(group->target);
		free(group->runs);
		for (size_t op = 0; op < OP_COUNT; op++)
			free(group->ops[op].fs_ns);
	}
	free(compare->groups);
	*compare = (struct compare){};
}
