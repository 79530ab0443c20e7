/* SPDX-License-Identifier: MIT */
/* compare_table.h - a comparison as tables. */
#ifndef FSTAPE_COMPARE_TABLE_H
#define FSTAPE_COMPARE_TABLE_H

#include "command.h"
#include "compare.h"

/*
 * On standard output, in the format that the invocation asks for: a row per group, with the medians of the
 * `columns` operations that took most time in the filesystem; 0: four, or as many as fit the terminal. Below
 * it, for people, what the columns mean and what they do not say. 0, or -errno after a message.
 */
int compare_print(
	const struct context *context, const struct compare *compare, size_t columns, const char *baseline);

/*
 * When the runs did not get their requests in the same way: which did how. A note under the table for people; on standard
 * error with --quiet and in other formats, where rows have it as `way`. compare_print() does it by itself.
 */
void compare_print_ways(const struct context *context, const struct compare *compare);

/* A row per group and operation, the most time first. */
void compare_ops_table(const struct compare *compare, struct table *table);

/* A row per run: every round, none left out. */
void compare_rounds_table(const struct compare *compare, struct table *table);

#endif
