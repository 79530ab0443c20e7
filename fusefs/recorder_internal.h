/* SPDX-License-Identifier: MIT */
/* recorder_internal.h - what recorder.c (workers), recorder_loader.c and recorder_run.c share. */
#ifndef FSTAPE_RECORDER_INTERNAL_H
#define FSTAPE_RECORDER_INTERNAL_H

#include <pthread.h>

#include "giveway.h"
#include "guard.h"
#include "loader.h"
#include "loss.h"
#include "recorder.h"
#include "spool.h"
#include "trace.h"

#define RECORDER_BATCH 20000
#define RECORDER_SPARE_SEGMENTS 3

/* The loader's, which is idle for as long as the processors have time for it. */
struct loader_priority {
	struct giveway give;
	bool may_be_idle;
	_Atomic bool at_work; /* and perhaps in possession of what others need */
	_Atomic int64_t wakes_ns; /* CLOCK_MONOTONIC: until when it sleeps; 0: it does not */
	clockid_t clock; /* its processor time */
	struct guard *guard;
	struct guard_post post;
	int64_t seen_cpu_ns, seen_ns; /* by the guard */
	_Atomic int64_t ordinary_until_ns; /* CLOCK_MONOTONIC */
};

struct recorder {
	struct trace *trace;
	struct spool *spool;
	struct loader loader;
	struct spool_state *state;
	int64_t run;
	int64_t start_mono_ns, start_coarse_ns;
	bool drop; /* overflow=drop */
	bool load_at_end;
	_Atomic int64_t hurry_until_ns; /* CLOCK_MONOTONIC; 0: no hurry */
	pthread_t thread;
	bool started;
	pthread_mutex_t db_lock; /* of trace and loader */
	pthread_mutex_t lock;	 /* of stop */
	pthread_cond_t wake;
	bool stop;
	struct loader_priority priority;
	uint64_t seen_requests; /* at the loader's last look */
	int64_t at_work_ns;	/* the run's time when there were new ones */
	int64_t loaded_ns;	/* the run's time when it had loaded all there was */
	int said; /* the loader's trouble that people have been told of */
	struct loss loss;
	int64_t max_db; /* bytes; 0: no limit */
	int64_t last_anchor_ns;
	struct sent *sent; /* data=full */
};

#define SENT_BITS 16

/* Hashes of contents that have been recorded, each in the place that its bits say: the last one there. */
struct sent {
	_Atomic uint64_t hashes[1 << SENT_BITS];
};

/* Reads the clocks once more into the database. Under db_lock. */
int recorder_add_anchor(struct recorder *recorder);

/* What came of storing: says new trouble, and the end of it. Under db_lock. */
void recorder_note_result(struct recorder *recorder, int64_t result);

/* There is no room: the loader is to hurry, at ordinary priority. Any thread. */
void recorder_press_loader(struct recorder *recorder);

/* Ends the loader's thread, if it was started. What it has not loaded stays in the spool. */
void recorder_stop_loader(struct recorder *recorder);

#endif
