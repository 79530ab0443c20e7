/* SPDX-License-Identifier: MIT */
/*
 * check.h - whether a database is whole, and what it says about itself is true.
 *
 * Faults are rows of a table: which run (none: the database), which check, how many, and what. A check that cannot be
 * made because of another fault is left out. Nothing here believes the database: it may come from a stranger.
 */
#ifndef FSTAPE_CHECK_H
#define FSTAPE_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "base.h"
#include "progress.h"
#include "table.h"
#include "trace.h"

struct check {
	struct trace *trace;
	struct table *table;
	struct progress progress;
	int64_t faults;
	int64_t runs, operations; /* looked at */
};

/* A row of the result. `run` 0: none. `found` is how often, or 1. */
void check_fault(struct check *check, int64_t run, const char *name, int64_t found, const char *fmt, ...) PRINTF(5, 6);

/* All that follow, and what is beside the database. 0, or -errno when it cannot be read for another reason than its damage. */
int check_all(struct check *check);

/* Of the following each returns 0, whatever faults it has found, or -errno when the database cannot be read. */

/* The file's structure, and its tables against those of this version. */
int check_file(struct check *check);

/* What is said about runs against what else is said: counters, states, references between tables. */
int check_rules(struct check *check);

/* Every operation of every run: sequence, times, references. */
int check_operations(struct check *check);

#endif
