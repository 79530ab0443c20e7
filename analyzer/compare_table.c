/* SPDX-License-Identifier: MIT */
#include "compare_table.h"

#include <string.h>

#include "base.h"
#include "statistics.h"

/* What is the same in all rows is no column for people: one way of access, a single round, recordings only.
 */
struct shape {
	bool native, recorded, several, intervals;
};

static struct shape shape_of(const struct compare *compare)
{
	struct shape shape = {};

	for (size_t i = 0; i < compare->count; i++) {
		const struct compare_group *group = &compare->groups[i];

		shape.native |= group->native;
		shape.recorded |= !group->native;
		shape.several |= group->count > 1;
		shape.intervals |= group->has_interval;
	}
	return shape;
}

static unsigned int text_if(bool condition)
{
	return condition ? 0 : COLUMN_DATA_ONLY;
}

static void add_columns(const struct compare *compare, size_t n_ops, struct table *table)
{
	struct shape shape = shape_of(compare);

	table_add_column(table, "workload", NULL, COLUMN_TEXT, 0);
	table_add_column(table, "target", NULL, COLUMN_TEXT, 0);
	table_add_column(table, "through", NULL, COLUMN_TEXT, text_if(shape.native && shape.recorded));
	table_add_column(table, "n", NULL, COLUMN_INT, 0);
	table_add_column(table, "real_ns", "real", COLUMN_DURATION, 0);
	table_add_column(table, "low_ns", "95% from", COLUMN_DURATION, text_if(shape.intervals));
	table_add_column(table, "high_ns", "to", COLUMN_DURATION, text_if(shape.intervals));
	table_add_column(table, "min_real_ns", "min", COLUMN_DURATION, text_if(shape.several));
	table_add_column(table, "user_ns", "user", COLUMN_DURATION, 0);
	table_add_column(table, "sys_ns", "sys", COLUMN_DURATION, 0);
	table_add_column(table, "ratio", NULL, COLUMN_RATIO, 0);
	table_add_column(table, "requests", NULL, COLUMN_INT, text_if(shape.recorded));
	table_add_column(table, "fs_ns", "in fs", COLUMN_DURATION, text_if(shape.recorded));
	for (size_t i = 0; i < n_ops; i++) {
		const char *op = op_get(compare->top[i])->name;
		char name[64];

		snprintf(name, sizeof(name), "%s_median_fs_ns", op);
		table_add_column(table, name, op, COLUMN_DURATION, 0);
	}
}

static void cell(struct table *table, bool known, double value)
{
	if (known)
		table_int(table, (int64_t)(value + 0.5));
	else
		table_null(table);
}

static void add_names(const struct compare_group *group, struct table *table)
{
	table_text(table, group->workload);
	table_text(table, group->target);
	table_text(table, group->native ? "native" : "shim");
}

void compare_table(const struct compare *compare, size_t n_ops, struct table *table)
{
	n_ops = n_ops < compare->n_top ? n_ops : compare->n_top;
	add_columns(compare, n_ops, table);
	for (size_t i = 0; i < compare->count; i++) {
		const struct compare_group *group = &compare->groups[i];

		add_names(group, table);
		table_int(table, (int64_t)group->count);
		cell(table, true, group->real_ns);
		cell(table, group->has_interval, group->low_ns);
		cell(table, group->has_interval, group->high_ns);
		cell(table, true, group->min_real_ns);
		cell(table, true, group->user_ns);
		cell(table, true, group->sys_ns);
		if (group->has_ratio)
			table_real(table, group->ratio);
		else
			table_null(table);
		cell(table, !group->native, group->requests);
		cell(table, !group->native, group->fs_ns);
		for (size_t op = 0; op < n_ops; op++) {
			const struct compare_op *o = &group->ops[compare->top[op]];

			cell(table, o->count > 0, (double)o->median_ns);
		}
		table_end_row(table);
	}
}

static void add_op_row(const struct compare_group *group, enum op_id id, struct table *table)
{
	const struct compare_op *op = &group->ops[id];

	if (!op->count)
		return;
	add_names(group, table);
	table_text(table, op_get(id)->name);
	table_real(table, (double)op->count / (double)group->count);
	table_real(table, (double)op->errors / (double)group->count);
	table_int(table, op->total_ns / (int64_t)group->count);
	table_int(table, op->median_ns);
	table_end_row(table);
}

void compare_ops_table(const struct compare *compare, struct table *table)
{
	struct shape shape = shape_of(compare);

	table_add_column(table, "workload", NULL, COLUMN_TEXT, 0);
	table_add_column(table, "target", NULL, COLUMN_TEXT, 0);
	table_add_column(table, "through", NULL, COLUMN_TEXT, text_if(shape.native && shape.recorded));
	table_add_column(table, "op", NULL, COLUMN_TEXT, 0);
	table_add_column(table, "count", "count/run", COLUMN_RATIO, 0);
	table_add_column(table, "errors", "errors/run", COLUMN_RATIO, 0);
	table_add_column(table, "fs_ns", "in fs/run", COLUMN_DURATION, 0);
	table_add_column(table, "median_fs_ns", "median in fs", COLUMN_DURATION, 0);
	for (size_t i = 0; i < compare->count; i++) {
		for (size_t op = 0; op < compare->n_top; op++)
			add_op_row(&compare->groups[i], compare->top[op], table);
	}
}

void compare_legend(const struct compare *compare, size_t n_ops, const char *baseline, FILE *out)
{
	struct shape shape = shape_of(compare);

	fprintf(out, "\n%sratio: real time to that of %s%s%s.\n",
		shape.several ? "Medians of n rounds. " : "", baseline ?: "the first target",
		shape.several ? ", in the same rounds" : "",
		shape.intervals ? "; 95% bootstrap interval of real" : "");
	if (shape.recorded) {
		fprintf(out, "in fs: all time that the recorded requests spent in the filesystem itself");
		if (n_ops && compare->n_top)
			fprintf(out, "; %s, ...:\nits median for one such request",
				op_get(compare->top[0])->name);
		fprintf(out, ".\n");
	}
	if (compare->rounds < CLAIM_MIN_ROUNDS)
		fprintf(out, "n < %d: no claim that one is faster; run more rounds for that.\n",
			CLAIM_MIN_ROUNDS);
}
