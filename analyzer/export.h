/* SPDX-License-Identifier: MIT */
/*
 * export.h - recordings for other programs. An exporter writes one run after another to a stream
 * and keeps nothing of them but what is said here: any number of operations needs the same memory.
 */
#ifndef FSTAPE_EXPORT_H
#define FSTAPE_EXPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "progress.h"
#include "trace.h"

struct export
{
	struct trace *trace;
	FILE *out;
	const int64_t *runs;
	size_t n_runs;
	const char *weight; /* 'fs', 'dur', 'count': of folded stacks */
	struct progress *progress;
	int64_t total, done; /* operations, for progress */
	int64_t left_out;    /* what the format cannot say, counted by the exporter */
};

/* Each returns 0, or -errno without a message: of trace.h, or why `out` has failed (ferror()). */

/* The columns of the view git_ops, a row per operation. */
int export_csv(struct export *export);
int export_json(struct export *export);
int export_ndjson(struct export *export);

/*
 * Chrome's trace event format, which Perfetto reads: a track per thread, and further ones for
 * requests that overlap others of their thread; git's commands and regions on tracks of their own;
 * counters of the machine. Slices of a track are disjoint or nested. Memory: some 64 bytes per
 * thread.
 */
int export_perfetto(struct export *export);

/* phase;command;operation;directory WEIGHT: for flame graphs. */
int export_folded(struct export *export);

/* fio's iolog, version 3: opens, reads, writes, syncs, closes of files. `left_out` counts names
 * longer than fio reads. */
int export_fio(struct export *export);

/* For exporters: after each row. The reason when the stream has failed, so that nobody goes on for nothing. */
int export_step(struct export *export);

/* The rows of a statement about :run, and :weight when it has that, for each run: `row` gets the statement at a row. */
int export_each_run(struct export *export, const char *sql,
	int (*row)(struct export *, struct trace_stmt *, void *), void *arg);

#endif
