/* SPDX-License-Identifier: MIT */
/* compare_table.h - a comparison as tables. */
#ifndef FSTAPE_COMPARE_TABLE_H
#define FSTAPE_COMPARE_TABLE_H

#include <stdio.h>

#include "compare.h"
#include "table.h"

/* A row per group; the medians of the `n_ops` operations that took most time in the filesystem are columns.
 */
void compare_table(const struct compare *compare, size_t n_ops, struct table *table);

/* A row per group and operation, the most time first. */
void compare_ops_table(const struct compare *compare, struct table *table);

/* What the columns mean, and what the numbers do not say: lines for people, below compare_table(). */
void compare_legend(const struct compare *compare, size_t n_ops, const char *baseline, FILE *out);

#endif
