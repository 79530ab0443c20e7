/* SPDX-License-Identifier: MIT */
/* recorder_run.c - a run's beginning and end: its database, row and spool. */
#include "recorder_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

#include "runinfo.h"

void recorder_set_text(struct recorder *recorder, const char *column, const char *value)
{
	pthread_mutex_lock(&recorder->db_lock);
	if (trace_run_set_text(recorder->trace, recorder->run, column, value) < 0)
		log_msg("%s: run %" PRId64 ": cannot store %s: %s", trace_path(recorder->trace), recorder->run, column,
			trace_error(recorder->trace));
	pthread_mutex_unlock(&recorder->db_lock);
}

/* Between the two monotonic readings lies the wall clock's: the pair converts one into the other. */
int recorder_add_anchor(struct recorder *recorder)
{
	int64_t before = recorder_now(recorder), real = clock_ns(CLOCK_REALTIME), after = recorder_now(recorder);

	recorder->last_anchor_ns = before;
	return trace_add_anchor(recorder->trace, recorder->run, before, real, after);
}

/*
 * Each worker writes a segment of its own, and only a segment that it has filled can be emptied: with fewer of them than
 * workers, some would wait for ever.
 */
static uint64_t spool_limit_for(const struct options *options)
{
	uint64_t least = (uint64_t)(options->threads + RECORDER_SPARE_SEGMENTS) * SPOOL_SEGMENT_SIZE;

	return options->spool_size < least ? least : options->spool_size;
}

/*
 * The row becomes visible together with the spool's lock, so that nobody takes a run that is just starting for one
 * whose recorder has died.
 */
static int make_run(struct fs *fs, struct recorder *recorder)
{
	auto_free char *root = trace_spool_root(fs->options.db);
	struct spool_state *state;
	int err;

	if (!root)
		return -ENOMEM;
	err = trace_begin(recorder->trace);
	err = err ?: trace_run_create(recorder->trace, fs->options.label, &recorder->run);
	if (err < 0)
		return log_errno(err, "%s: %s", fs->options.db, trace_error(recorder->trace)), err;
	err = spool_create(root, recorder->run, trace_uuid(recorder->trace), spool_limit_for(&fs->options),
		&recorder->spool);
	if (err < 0)
		return log_errno(err, "%s: cannot make the spool", root);
	recorder->state = state = spool_state(recorder->spool);
	recorder->start_mono_ns = state->start_mono_ns = clock_ns(CLOCK_MONOTONIC);
	recorder->start_coarse_ns = clock_ns(CLOCK_REALTIME_COARSE);
	state->start_real_ns = clock_ns(CLOCK_REALTIME);
	snprintf(state->label, sizeof(state->label), "%s", fs->options.label ?: "");
	snprintf(state->source, sizeof(state->source), "%s", fs->options.source);
	err = trace_run_set_int(recorder->trace, recorder->run, "start_mono_ns", state->start_mono_ns);
	err = err ?: trace_run_set_int(recorder->trace, recorder->run, "start_real_ns", state->start_real_ns);
	err = err ?: trace_run_set_int(recorder->trace, recorder->run, "start_coarse_ns", recorder->start_coarse_ns);
	err = err ?: runinfo_write(fs, recorder->trace, recorder->run);
	err = err ?: recorder_add_anchor(recorder);
	if (err < 0)
		return log_msg("%s: %s", fs->options.db, trace_error(recorder->trace)), err;
	err = spool_prepare(recorder->spool, RECORDER_SPARE_SEGMENTS); /* before the row is there for good */
	if (err < 0)
		return log_errno(err, "%s: cannot make the spool", root);
	err = trace_commit(recorder->trace);
	return err < 0 ? log_msg("%s: %s", fs->options.db, trace_error(recorder->trace)), err : 0;
}

static int rotate(struct fs *fs, struct recorder *recorder)
{
	int err = 0;

	if (fs->options.keep_runs)
		err = trace_runs_rotate(recorder->trace, fs->options.keep_runs - 1);
	if (err < 0)
		log_msg("%s: old runs cannot be deleted: %s", fs->options.db, trace_error(recorder->trace));
	return err < 0 ? err : 0;
}

int recorder_open(struct fs *fs, struct recorder **ret_recorder)
{
	struct recorder *recorder = calloc(1, sizeof(*recorder));
	pthread_condattr_t attr;
	int err;

	if (!recorder)
		return -ENOMEM;
	pthread_mutex_init(&recorder->db_lock, NULL);
	pthread_mutex_init(&recorder->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&recorder->wake, &attr);
	pthread_condattr_destroy(&attr);
	recorder->priority.guard = fs->guard;
	recorder->drop = fs->options.overflow == OVERFLOW_DROP;
	recorder->load_at_end = fs->options.load == LOAD_END;
	recorder->max_db = (int64_t)fs->options.max_db;
	recorder->sent = fs->options.data == DATA_FULL ? calloc(1, sizeof(*recorder->sent)) : NULL;
	if (fs->options.data == DATA_FULL && !recorder->sent)
		err = log_errno(ENOMEM, "%s", fs->options.db);
	else
		err = trace_open(fs->options.db, TRACE_CREATE, &recorder->trace);
	if (err == 0) {
		err = recover_all(recorder->trace, NULL, NULL);
		err = err < 0 ? err : rotate(fs, recorder);
		err = err ?: make_run(fs, recorder);
	}
	if (err < 0) {
		if (recorder->trace)
			trace_rollback(recorder->trace);
		if (recorder->spool)
			spool_remove(recorder->spool);
		recorder_free(recorder);
		return err;
	}
	recorder->loader = (struct loader){
		.trace = recorder->trace,
		.spool = recorder->spool,
		.run = recorder->run,
		.hold = spool_limit(recorder->spool) / 4,
	};
	*ret_recorder = recorder;
	return 0;
}

void recorder_free(struct recorder *recorder)
{
	if (!recorder)
		return;
	trace_close(recorder->trace);
	spool_free(recorder->spool);
	free(recorder->sent);
	pthread_cond_destroy(&recorder->wake);
	pthread_mutex_destroy(&recorder->lock);
	pthread_mutex_destroy(&recorder->db_lock);
	free(recorder);
}

/* A deleted file cannot be named again: what is in it, and in its spool, goes with us. */
static int lost_whole(struct recorder *recorder)
{
	log_msg("%s: run %" PRId64 " of %" PRIu64 " operations is lost, as the database was deleted while it was recorded into",
		trace_path(recorder->trace), recorder->run, atomic_load(&recorder->state->requests));
	spool_remove(recorder->spool);
	return -ESTALE;
}

static int write_end(struct recorder *recorder)
{
	struct trace *trace = recorder->trace;
	struct rusage usage;
	int err = recorder_add_anchor(recorder);

	getrusage(RUSAGE_SELF, &usage);
	err = err ?: trace_run_set_int(trace, recorder->run, "end_ns", recorder->last_anchor_ns);
	err = err ?: trace_run_set_int(trace, recorder->run, "daemon_user_ns", timeval_ns(usage.ru_utime));
	return err ?: trace_run_set_int(trace, recorder->run, "daemon_sys_ns", timeval_ns(usage.ru_stime));
}

int recorder_finish(struct recorder *recorder)
{
	int64_t got;
	int err;

	recorder_thread_end();
	recorder_stop_loader(recorder);
	atomic_store(&recorder->state->complete, 1);
	if (trace_is_deleted(recorder->trace))
		return lost_whole(recorder);
	trace_set_busy_timeout(recorder->trace, 60000);
	trace_run_set_text(recorder->trace, recorder->run, "state", "finishing");
	do
		got = loader_step(&recorder->loader, RECORDER_BATCH);
	while (got > 0);
	if (got == 0)
		recorder_note_result(recorder, got);
	err = got < 0 ? (int)got : write_end(recorder);
	err = err ?: loader_finish(&recorder->loader, "done");
	if (err < 0) {
		log_msg("%s: run %" PRId64 " could not be completed: %s", trace_path(recorder->trace), recorder->run,
			trace_error(recorder->trace));
		log_msg("its operations are in %s; 'fstape recover %s' finishes it", spool_dir(recorder->spool),
			trace_path(recorder->trace));
		return err;
	}
	spool_remove(recorder->spool);
	trace_settle(recorder->trace);
	return 0;
}
