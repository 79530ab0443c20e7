/* SPDX-License-Identifier: MIT */
#include "compare_table.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base.h"
#include "statistics.h"

#define DEFAULT_OPS    4
#define DURATION_WIDTH 8 /* columns of the terminal, with the gap */

/*
 * What a table for people has: nothing that is the same in all rows (one way of access, a single round,
 * recordings only), and no more than fits.
 */
struct shape {
	bool native, recorded, several, intervals, claims, outliers, alone, ratios;
	bool varies[COMPARE_FACTORS];
	size_t n_ops;
};

/* How wide a table without intervals and operations is. */
static size_t least_width(const struct compare *compare, const struct shape *shape)
{
	size_t workload = strlen("workload"), target = strlen("target"), others = 0;

	for (size_t i = 0; i < compare->count; i++) {
		size_t w = strlen(compare->groups[i].workload), t = strlen(compare->groups[i].target);

		workload = w > workload ? w : workload;
		target = t > target ? t : target;
	}
	for (size_t i = BY_CACHE; i < BY_THROUGH; i++)
		others += shape->varies[i] ? strlen(compare_factor_names[i]) + 1 : 0;
	return workload + target + others + strlen("  nnn ratio") + 3 * DURATION_WIDTH +
	       (shape->native && shape->recorded ? strlen(" through") : 0) +
	       (shape->claims ? strlen(" cannot decide") : 0) + (shape->outliers ? strlen(" outliers") : 0) +
	       (shape->recorded ? strlen(" requests") + DURATION_WIDTH : 0) +
	       (shape->several ? DURATION_WIDTH : 0);
}

/* Chooses what fits; `width` 0: all does. */
static void fit(const struct compare *compare, struct shape *shape, size_t columns, size_t width)
{
	size_t used = least_width(compare, shape);

	shape->n_ops = columns ?: DEFAULT_OPS;
	shape->n_ops = shape->n_ops < compare->n_top ? shape->n_ops : compare->n_top;
	if (!width)
		return;
	shape->intervals = shape->intervals && used + 2 * DURATION_WIDTH <= width;
	used += shape->intervals ? 2 * DURATION_WIDTH : 0;
	while (!columns && shape->n_ops && used + shape->n_ops * DURATION_WIDTH > width)
		shape->n_ops--;
}

static void note_factors(const struct compare *compare, struct shape *shape)
{
	for (size_t i = 1; i < compare->count; i++) {
		for (size_t f = 0; f < COMPARE_FACTORS; f++)
			shape->varies[f] |= strcmp(compare->groups[i].factors[f], compare->groups[0].factors[f]) != 0;
	}
}

static struct shape shape_of(const struct compare *compare, size_t columns, size_t width)
{
	struct shape shape = {};

	for (size_t i = 0; i < compare->count; i++) {
		const struct compare_group *group = &compare->groups[i];

		shape.native |= group->native;
		shape.recorded |= !group->native;
		shape.several |= group->count > 1;
		shape.intervals |= group->has_interval;
		shape.claims |= group->baseline != i;
		shape.outliers |= group->outliers > 0;
		shape.alone |= group->alone;
		shape.ratios |= group->has_ratio;
	}
	note_factors(compare, &shape);
	fit(compare, &shape, columns, width);
	return shape;
}

static unsigned int text_if(bool condition)
{
	return condition ? 0 : COLUMN_DATA_ONLY;
}

/* Those by which rows are told apart. */
static void add_name_columns(struct shape shape, struct table *table)
{
	table_add_column(table, "workload", NULL, COLUMN_TEXT, 0);
	table_add_column(table, "target", NULL, COLUMN_TEXT, 0);
	table_add_column(table, "cache", NULL, COLUMN_TEXT, text_if(shape.varies[BY_CACHE]));
	table_add_column(table, "device", NULL, COLUMN_TEXT, text_if(shape.varies[BY_DEVICE]));
	table_add_column(table, "option", NULL, COLUMN_TEXT, text_if(shape.varies[BY_OPTION]));
	table_add_column(table, "through", NULL, COLUMN_TEXT, text_if(shape.native && shape.recorded));
}

static void add_way_columns(struct table *table)
{
	table_add_column(table, "way", NULL, COLUMN_TEXT, COLUMN_DATA_ONLY);
	table_add_column(table, "same_way", NULL, COLUMN_BOOL, COLUMN_DATA_ONLY);
}

static void end_row(const struct compare *compare, const struct compare_group *group, struct table *table)
{
	table_text(table, group->way);
	table_int(table, !compare->ways);
	table_end_row(table);
}

static void add_columns(const struct compare *compare, struct shape shape, struct table *table)
{
	add_name_columns(shape, table);
	table_add_column(table, "n", NULL, COLUMN_INT, 0);
	table_add_column(table, "real_ns", "real", COLUMN_DURATION, 0);
	table_add_column(table, "low_ns", "95% from", COLUMN_DURATION, text_if(shape.intervals));
	table_add_column(table, "high_ns", "to", COLUMN_DURATION, text_if(shape.intervals));
	table_add_column(table, "min_real_ns", "min", COLUMN_DURATION, text_if(shape.several));
	table_add_column(table, "outliers", NULL, COLUMN_INT, text_if(shape.outliers));
	table_add_column(table, "user_ns", "user", COLUMN_DURATION, 0);
	table_add_column(table, "sys_ns", "sys", COLUMN_DURATION, 0);
	table_add_column(table, "daemon_ns", NULL, COLUMN_DURATION, COLUMN_DATA_ONLY);
	table_add_column(table, "complete", NULL, COLUMN_BOOL, COLUMN_DATA_ONLY);
	table_add_column(table, "ratio", NULL, COLUMN_RATIO, 0);
	table_add_column(table, "ratio_low", NULL, COLUMN_RATIO, COLUMN_DATA_ONLY);
	table_add_column(table, "ratio_high", NULL, COLUMN_RATIO, COLUMN_DATA_ONLY);
	table_add_column(table, "p", NULL, COLUMN_ANY, COLUMN_DATA_ONLY);
	table_add_column(table, "p_adjusted", NULL, COLUMN_ANY, COLUMN_DATA_ONLY);
	table_add_column(table, "verdict", NULL, COLUMN_TEXT, text_if(shape.claims));
	table_add_column(table, "requests", NULL, COLUMN_INT, text_if(shape.recorded));
	table_add_column(table, "fs_ns", "in fs", COLUMN_DURATION, text_if(shape.recorded));
	for (size_t i = 0; i < shape.n_ops; i++) {
		const char *op = op_get(compare->top[i])->name;
		char name[64];

		snprintf(name, sizeof(name), "%s_median_fs_ns", op);
		table_add_column(table, name, op, COLUMN_DURATION, 0);
	}
	add_way_columns(table);
}

static void cell(struct table *table, bool known, double value)
{
	if (known)
		table_int(table, compare_round(value));
	else
		table_null(table);
}

static void add_names(const struct compare_group *group, struct table *table)
{
	static const enum compare_factor factors[] = { BY_WORKLOAD, BY_FS, BY_CACHE, BY_DEVICE, BY_OPTION, BY_THROUGH };

	for (size_t i = 0; i < ARRAY_SIZE(factors); i++) {
		const char *level = group->factors[factors[i]];

		if (*level)
			table_text(table, level);
		else
			table_null(table);
	}
}

static void add_real(struct table *table, bool known, double value)
{
	if (known)
		table_real(table, value);
	else
		table_null(table);
}

static void add_comparison(const struct compare_group *group, struct table *table)
{
	add_real(table, group->has_ratio, group->ratio);
	add_real(table, group->has_ratio_interval, group->ratio_low);
	add_real(table, group->has_ratio_interval, group->ratio_high);
	add_real(table, group->has_p, group->p);
	add_real(table, group->has_p, group->p_adjusted);
	if (group->verdict == VERDICT_BASELINE)
		table_null(table);
	else
		table_text(table, compare_verdict_text(group->verdict));
}

static bool is_complete(const struct compare_group *group)
{
	bool complete = true;

	for (size_t i = 0; i < group->count; i++)
		complete &= group->runs[i].complete;
	return complete;
}

static void add_rows(const struct compare *compare, struct shape shape, struct table *table)
{
	for (size_t i = 0; i < compare->count; i++) {
		const struct compare_group *group = &compare->groups[i];

		add_names(group, table);
		table_int(table, (int64_t)group->count);
		cell(table, compare_is_timed(group), group->real_ns);
		cell(table, group->has_interval && compare_is_timed(group), group->low_ns);
		cell(table, group->has_interval && compare_is_timed(group), group->high_ns);
		cell(table, compare_is_timed(group), group->min_real_ns);
		table_int(table, (int64_t)group->outliers);
		cell(table, compare_is_timed(group) && !group->no_cpu, group->user_ns);
		cell(table, compare_is_timed(group) && !group->no_cpu, group->sys_ns);
		cell(table, !group->native, group->daemon_ns);
		table_int(table, is_complete(group));
		add_comparison(group, table);
		cell(table, !group->native, group->requests);
		cell(table, !group->native, group->fs_ns);
		for (size_t op = 0; op < shape.n_ops; op++) {
			const struct compare_op *o = &group->ops[compare->top[op]];

			cell(table, o->count > 0, (double)o->median_ns);
		}
		end_row(compare, group, table);
	}
}

static void add_op_row(
	const struct compare *compare, const struct compare_group *group, enum op_id id, struct table *table)
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
	end_row(compare, group, table);
}

void compare_ops_table(const struct compare *compare, struct table *table)
{
	struct shape shape = shape_of(compare, 0, 0);

	add_name_columns(shape, table);
	table_add_column(table, "op", NULL, COLUMN_TEXT, 0);
	table_add_column(table, "count", "count/run", COLUMN_RATIO, 0);
	table_add_column(table, "errors", "errors/run", COLUMN_RATIO, 0);
	table_add_column(table, "fs_ns", "in fs/run", COLUMN_DURATION, 0);
	table_add_column(table, "median_fs_ns", "median in fs", COLUMN_DURATION, 0);
	add_way_columns(table);
	for (size_t i = 0; i < compare->count; i++) {
		for (size_t op = 0; op < compare->n_top; op++)
			add_op_row(compare, &compare->groups[i], compare->top[op], table);
	}
}

void compare_rounds_table(const struct compare *compare, struct table *table)
{
	struct shape shape = shape_of(compare, 0, 0);

	add_name_columns(shape, table);
	table_add_column(table, "round", NULL, COLUMN_INT, 0);
	table_add_column(table, "run", NULL, COLUMN_INT, 0);
	table_add_column(table, "real_ns", "real", COLUMN_DURATION, 0);
	table_add_column(table, "user_ns", "user", COLUMN_DURATION, 0);
	table_add_column(table, "sys_ns", "sys", COLUMN_DURATION, 0);
	table_add_column(table, "daemon_ns", "recorder", COLUMN_DURATION, text_if(shape.recorded));
	table_add_column(table, "outlier", NULL, COLUMN_BOOL, 0);
	table_add_column(table, "complete", NULL, COLUMN_BOOL, COLUMN_DATA_ONLY);
	add_way_columns(table);
	for (size_t i = 0; i < compare->count; i++) {
		const struct compare_group *group = &compare->groups[i];

		for (size_t j = 0; j < group->count; j++) {
			const struct compare_run *run = &group->runs[j];

			add_names(group, table);
			table_int(table, run->round);
			table_int(table, run->id);
			cell(table, run->real_ns > 0, run->real_ns);
			cell(table, run->real_ns > 0 && !group->no_cpu, run->user_ns);
			cell(table, run->real_ns > 0 && !group->no_cpu, run->sys_ns);
			cell(table, !group->native, run->daemon_ns);
			table_int(table, run->outlier);
			table_int(table, run->complete);
			end_row(compare, group, table);
		}
	}
}

static void print_claims(const struct compare *compare)
{
	if (compare->rounds < CLAIM_MIN_ROUNDS)
		printf("n < %d: no claim that one is faster; run more rounds for that.\n", CLAIM_MIN_ROUNDS);
	else
		puts("faster, slower: than the baseline, by the Mann-Whitney test (p < 0.05, Holm's correction over the\n"
		     "table) and by the interval of the ratio; else the rounds cannot decide it.");
}

static void print_legend(const struct compare *compare, struct shape shape, const char *baseline)
{
	putchar('\n');
	if (shape.several)
		puts("Times are medians of n rounds.");
	if (shape.ratios)
		printf("ratio: real time to that of %s%s%s.\n", baseline ?: "the first ",
			baseline	     ? "" :
			compare->by == BY_FS ? "target" :
					       compare_factor_names[compare->by],
			shape.several ? ", median over the rounds that both have" : "");
	if (shape.alone)
		puts("Rows without a ratio are not compared: they differ from each other row in more than one thing.");
	if (shape.intervals)
		puts("95% from, to: bootstrap interval of real's median.");
	if (shape.outliers)
		puts("outliers: far from the median (3.5 robust deviations); they count like all others.");
	if (shape.recorded)
		puts("in fs: time that all recorded requests spent in the filesystem itself, without FUSE.");
	if (shape.n_ops)
		printf("%s%s: the median of that for one such request.\n", op_get(compare->top[0])->name,
			shape.n_ops > 1 ? ", ..." : "");
	if (shape.claims || compare->rounds < CLAIM_MIN_ROUNDS)
		print_claims(compare);
}

/* Of the terminal that standard output is; 0 when it is none. */
static size_t terminal_width(void)
{
	struct winsize size;

	return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

int compare_print(
	const struct context *context, const struct compare *compare, size_t columns, const char *baseline)
{
	bool text = context->format == TABLE_TEXT;
	struct shape shape = shape_of(compare, columns, text ? terminal_width() : 0);
	struct table *table = context_table(context);
	int err;

	if (!table)
		return -ENOMEM;
	add_columns(compare, shape, table);
	add_rows(compare, shape, table);
	err = context_print(table);
	if (err == 0 && text && !context->common.quiet)
		print_legend(compare, shape, baseline);
	if (err == 0)
		compare_print_ways(context, compare);
	return err;
}

void compare_print_ways(const struct context *context, const struct compare *compare)
{
	if (compare->ways && context->format == TABLE_TEXT && !context->common.quiet)
		printf("\nNote: %s\n", compare->ways);
	else if (compare->ways)
		log_msg("%s", compare->ways);
}
