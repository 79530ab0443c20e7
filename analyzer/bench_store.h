/* SPDX-License-Identifier: MIT */
/*
 * bench_store.h - what bench keeps in the database: itself, as a row that --resume goes on from, and each measurement
 * as a run. All functions open the database for themselves, and say on standard error what went wrong.
 */
#ifndef FSTAPE_BENCH_STORE_H
#define FSTAPE_BENCH_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base.h"
#include "bench.h"
#include "counters.h"

struct measurement {
	const struct workload *workload;
	const struct target *target;
	const struct variant *variant;
	int64_t round;
	const char *setup; /* JSON */
	const char *label;
	const char *source;   /* the directory */
	char **words;         /* the command */
	int status;
	int64_t run; /* shim: the recording's, which has times and command already */
	int64_t start_real_ns, real_ns, user_ns, sys_ns; /* native */
	struct counters counters;
};

/* A benchmark as it was begun. */
struct bench_row {
	int64_t id;
	int64_t first_round; /* numbered on from what is in the database */
	char *words;         /* JSON array: its options, as words of the command line */
};

/* A new one; makes the database, before hours of work. */
int bench_begin(const char *db, const char *words, int64_t rounds, struct bench_row *ret_row);

/*
 * The last one, to go on with; `*ret_options` gets the words, NULL-terminated, to be freed with bench_words_free().
 * -ENOENT: there is none, -EALREADY: all of it has been measured.
 */
int bench_find(const char *db, struct bench_row *ret_row, char ***ret_options);
void bench_words_free(char **words);

/* All rounds have been measured. */
int bench_finish(const char *db, int64_t bench);

/* Completes the recording's row, or adds one of state 'native'. */
int measurement_store(const char *db, int64_t bench, const struct measurement *measurement);

/* 1 or 0: whether the bench has measured it already. */
int measurement_exists(const char *db, int64_t bench, const struct measurement *measurement);
int measurement_count(const char *db, int64_t bench, int64_t *ret_count);

#endif
