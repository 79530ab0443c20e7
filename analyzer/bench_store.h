/* SPDX-License-Identifier: MIT */
/* bench_store.h - one measurement, as a run's row in the database. */
#ifndef FSTAPE_BENCH_STORE_H
#define FSTAPE_BENCH_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "target.h"
#include "workload.h"

struct measurement {
	const struct workload *workload;
	const struct target *target;
	bool shim;
	int64_t round;
	const char *setup; /* JSON */
	const char *label;
	const char *source; /* the directory */
	char *const *words; /* the command */
	int status;
	int64_t run; /* shim: the recording's, which has times and command already */
	int64_t start_real_ns, real_ns, user_ns, sys_ns; /* native */
};

/* Completes the recording's row, or adds one of state 'native'. Messages on standard error. */
int measurement_store(const char *db, const struct measurement *measurement);

#endif
