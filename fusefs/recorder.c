/* SPDX-License-Identifier: MIT */
#include "recorder.h"

#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "busguard.h"
#include "content.h"
#include "loader.h"
#include "loss.h"
#include "runinfo.h"
#include "spool.h"
#include "trace.h"

#define BATCH 20000
#define SPARE_SEGMENTS 3
#define PERIOD_BUSY_NS (50 * 1000000LL)
#define PERIOD_IDLE_NS (500 * 1000000LL)
#define ANCHOR_PERIOD_NS (5 * NSEC_PER_SEC)
#define BUSY_WORTH_SAYING_NS (3 * NSEC_PER_SEC)
#define HURRY_NS (3 * NSEC_PER_SEC) /* less than what main.c grants a mount to end by itself */
#define WAIT_STEP_NS (50 * 1000000LL)

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
	bool idle_priority;
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

static _Thread_local struct spool_writer *thread_writer;
static _Thread_local bool thread_guarded;

int64_t recorder_run(const struct recorder *recorder)
{
	return recorder->run;
}

int64_t recorder_now(const struct recorder *recorder)
{
	return clock_ns(CLOCK_MONOTONIC) - recorder->start_mono_ns;
}

bool recorder_is_older(const struct recorder *recorder, int64_t btime_ns, int64_t ctime_ns)
{
	/* Filesystems stamp with the coarse clock, so that is what the start is compared on. */
	return (btime_ns ?: ctime_ns) < recorder->start_coarse_ns;
}

/* --- workers' side ------------------------------------------------------------------------------------------------- */

uint64_t recorder_request(struct recorder *recorder)
{
	if (!thread_guarded) {
		busguard_unblock(); /* threads start with all signals blocked */
		thread_guarded = true;
	}
	return atomic_fetch_add_explicit(&recorder->state->requests, 1, memory_order_relaxed) + 1;
}

static void *reserve(struct recorder *recorder, size_t size)
{
	void *room;

	if (loss_is_final(&recorder->loss))
		return NULL;
	if (!thread_writer) {
		thread_writer = spool_writer_new(recorder->spool);
		if (!thread_writer)
			return NULL;
	}
	while (!(room = spool_reserve(thread_writer, size))) {
		if (recorder->drop || size > SPOOL_RECORD_MAX / 2 || loss_is_due(&recorder->loss))
			return NULL;
		if (atomic_load(&recorder->hurry_until_ns)) {
			spool_raise_limit(recorder->spool, SPOOL_SEGMENT_SIZE);
			room = spool_reserve(thread_writer, size);
			if (room || clock_ns(CLOCK_MONOTONIC) > atomic_load(&recorder->hurry_until_ns))
				return room;
		}
		pthread_cond_signal(&recorder->wake);
		spool_wait_free(recorder->spool, WAIT_STEP_NS);
	}
	return room;
}

void recorder_event(struct recorder *recorder, const struct event *event, const char *args)
{
	size_t size = sizeof(*event) + event->args_len;
	char *room = reserve(recorder, size);

	if (!room) {
		loss_count(&recorder->loss, recorder->state, event->op, recorder_now(recorder));
		return;
	}
	memcpy(room, event, sizeof(*event));
	if (event->args_len)
		memcpy(room + sizeof(*event), args, event->args_len);
	spool_publish(thread_writer, RECORD_EVENT, size);
}

uint32_t recorder_path(struct recorder *recorder, uint32_t parent, const char *text, size_t len)
{
	struct path_record path = { .parent = parent, .text_len = (uint32_t)len };
	char *room = reserve(recorder, sizeof(path) + len);

	if (!room)
		return 0;
	path.id = atomic_fetch_add_explicit(&recorder->state->paths, 1, memory_order_relaxed) + 1;
	memcpy(room, &path, sizeof(path));
	memcpy(room + sizeof(path), text, len);
	spool_publish(thread_writer, RECORD_PATH, sizeof(path) + len);
	return path.id;
}

uint32_t recorder_process(struct recorder *recorder, struct process_record *process, const char *comm, const char *exe,
	size_t exe_len, const char *cmdline, size_t cmdline_len)
{
	size_t comm_len = strlen(comm), size = sizeof(*process) + comm_len + exe_len + cmdline_len;
	char *room = reserve(recorder, size);

	if (!room)
		return 0;
	process->id = atomic_fetch_add_explicit(&recorder->state->processes, 1, memory_order_relaxed) + 1;
	process->first_ns = recorder_now(recorder);
	process->comm_len = (uint16_t)comm_len;
	process->exe_len = (uint16_t)exe_len;
	process->cmdline_len = (uint32_t)cmdline_len;
	memcpy(room, process, sizeof(*process));
	memcpy(room + sizeof(*process), comm, comm_len);
	memcpy(room + sizeof(*process) + comm_len, exe, exe_len);
	if (cmdline_len)
		memcpy(room + sizeof(*process) + comm_len + exe_len, cmdline, cmdline_len);
	spool_publish(thread_writer, RECORD_PROCESS, size);
	return process->id;
}

void recorder_initial(struct recorder *recorder, struct initial_record *initial, const char *target, size_t len)
{
	char *room = reserve(recorder, sizeof(*initial) + len);

	if (!room)
		return;
	initial->target_len = (uint32_t)len;
	memcpy(room, initial, sizeof(*initial));
	if (len)
		memcpy(room + sizeof(*initial), target, len);
	spool_publish(thread_writer, RECORD_INITIAL, sizeof(*initial) + len);
}

/* --- contents ------------------------------------------------------------------------------------------------------ */

static bool put_content(struct recorder *recorder, const struct content_hash *hash, const void *bytes, size_t len)
{
	struct content_record record = { .hash = *hash, .length = (uint32_t)len };
	char *room = reserve(recorder, sizeof(record) + len);

	if (!room)
		return false;
	memcpy(room, &record, sizeof(record));
	memcpy(room + sizeof(record), bytes, len);
	spool_publish(thread_writer, RECORD_CONTENT, sizeof(record) + len);
	return true;
}

static bool put_piece(struct recorder *recorder, uint64_t seq, int64_t offset, const void *bytes, size_t len)
{
	struct data_record data = { .seq = seq, .offset = offset, .length = (uint32_t)len };
	_Atomic uint64_t *place;
	uint64_t low;
	void *room;

	content_hash(bytes, len, &data.hash);
	memcpy(&low, data.hash.bytes, sizeof(low));
	place = &recorder->sent->hashes[low & ((1u << SENT_BITS) - 1)];
	if (atomic_load_explicit(place, memory_order_relaxed) != low) {
		if (!put_content(recorder, &data.hash, bytes, len))
			return false;
		atomic_store_explicit(place, low, memory_order_relaxed);
	}
	room = reserve(recorder, sizeof(data));
	if (!room)
		return false;
	memcpy(room, &data, sizeof(data));
	spool_publish(thread_writer, RECORD_DATA, sizeof(data));
	return true;
}

void recorder_data(struct recorder *recorder, uint64_t seq, int64_t offset, const void *bytes, size_t len)
{
	const char *at = bytes;

	while (len) {
		size_t take = len < CONTENT_PIECE ? len : CONTENT_PIECE;

		if (!put_piece(recorder, seq, offset, at, take))
			atomic_fetch_add_explicit(&recorder->state->data_lost, 1, memory_order_relaxed);
		at += take;
		offset += (int64_t)take;
		len -= take;
	}
}

void recorder_thread_end(void)
{
	spool_writer_free(thread_writer);
	thread_writer = NULL;
}

/* --- the run's row ------------------------------------------------------------------------------------------------- */

void recorder_set_text(struct recorder *recorder, const char *column, const char *value)
{
	pthread_mutex_lock(&recorder->db_lock);
	if (trace_run_set_text(recorder->trace, recorder->run, column, value) < 0)
		log_msg("%s: run %" PRId64 ": cannot store %s: %s", trace_path(recorder->trace), recorder->run, column,
			trace_error(recorder->trace));
	pthread_mutex_unlock(&recorder->db_lock);
}

/* Between the two monotonic readings lies the wall clock's: the pair converts one into the other. */
static int add_anchor(struct recorder *recorder)
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
	uint64_t least = (uint64_t)(options->threads + SPARE_SEGMENTS) * SPOOL_SEGMENT_SIZE;

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
	err = err ?: add_anchor(recorder);
	if (err < 0)
		return log_msg("%s: %s", fs->options.db, trace_error(recorder->trace)), err;
	err = spool_prepare(recorder->spool, SPARE_SEGMENTS); /* before the row is there for good */
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
	recorder->drop = fs->options.overflow == OVERFLOW_DROP;
	recorder->load_at_end = fs->options.load == LOAD_END;
	recorder->max_db = (int64_t)fs->options.max_db;
	recorder->sent = fs->options.data == DATA_FULL ? calloc(1, sizeof(*recorder->sent)) : NULL;
	if (fs->options.data == DATA_FULL && !recorder->sent)
		err = log_errno(ENOMEM, "%s", fs->options.db);
	else
		err = trace_open(fs->options.db, TRACE_CREATE, &recorder->trace);
	if (err == 0) {
		err = recover_all(recorder->trace, NULL);
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

/* --- the loader ---------------------------------------------------------------------------------------------------- */

/* Idle priority while there is room, the ordinary one when the spool fills up faster than it is emptied. */
static void set_priority(struct recorder *recorder, bool idle)
{
	static const struct sched_param none;

	if (recorder->idle_priority == idle)
		return;
	recorder->idle_priority = idle;
	pthread_setschedparam(pthread_self(), idle ? SCHED_IDLE : SCHED_OTHER, &none);
}

/* What keeps coming and going, as a lock does, is said once; a new trouble, and the end of a real one, are news. */
static void note_result(struct recorder *recorder, int64_t result)
{
	int64_t stalled_ns = loss_note_result(&recorder->loss, (int)(result < 0 ? result : 0));

	if (result >= 0) {
		if (recorder->said)
			log_msg("%s: storing operations goes on", trace_path(recorder->trace));
		recorder->said = 0;
	} else if (recorder->said != result && (result != -EBUSY || stalled_ns > BUSY_WORTH_SAYING_NS)) {
		log_msg("%s: cannot store operations: %s; they are kept in %s for now", trace_path(recorder->trace),
			trace_error(recorder->trace), spool_dir(recorder->spool));
		recorder->said = (int)result;
	}
}

/*
 * Whether there is a reason to record no more: the database has gone, or is as big as it may be. What is in the spool is
 * counted with about half its size, which is what it takes as rows.
 */
static void check_end(struct recorder *recorder)
{
	int64_t size = 0;

	if (loss_is_final(&recorder->loss))
		return;
	if (trace_is_deleted(recorder->trace)) {
		loss_set_final(&recorder->loss, ESTALE);
		log_msg("%s: has been deleted: this run is lost; %s goes on working unrecorded", trace_path(recorder->trace),
			recorder->state->source);
	} else if (recorder->max_db && trace_size(recorder->trace, &size) == 0 &&
		   size + (int64_t)spool_used(recorder->spool) / 2 >= recorder->max_db) {
		loss_set_final(&recorder->loss, EFBIG);
		log_msg("%s: has reached max_db: from here on operations are counted, but not recorded",
			trace_path(recorder->trace));
	}
}

/* Loads all there is. Returns the number of records, or -errno. */
static int64_t load(struct recorder *recorder)
{
	int64_t total = 0, got;

	do {
		pthread_mutex_lock(&recorder->db_lock);
		got = loader_step(&recorder->loader, BATCH);
		if (got >= 0 && recorder_now(recorder) - recorder->last_anchor_ns > ANCHOR_PERIOD_NS)
			add_anchor(recorder);
		note_result(recorder, got);
		check_end(recorder);
		pthread_mutex_unlock(&recorder->db_lock);
		set_priority(recorder, spool_used(recorder->spool) < spool_limit(recorder->spool) / 4);
		if (got > 0)
			total += got;
	} while (got >= BATCH);
	return got < 0 ? got : total;
}

static bool wait_for_work(struct recorder *recorder, int64_t period_ns)
{
	int64_t until = clock_ns(CLOCK_MONOTONIC) + period_ns;
	struct timespec ts = { until / NSEC_PER_SEC, until % NSEC_PER_SEC };
	bool stop;

	pthread_mutex_lock(&recorder->lock);
	if (!recorder->stop)
		pthread_cond_timedwait(&recorder->wake, &recorder->lock, &ts);
	stop = recorder->stop;
	pthread_mutex_unlock(&recorder->lock);
	return !stop;
}

/* After a burst, once: what it took goes back to the system. */
static void rest(struct recorder *recorder)
{
	spool_idle(recorder->spool);
	pthread_mutex_lock(&recorder->db_lock);
	trace_release_memory(recorder->trace);
	pthread_mutex_unlock(&recorder->db_lock);
	malloc_trim(0);
}

static void check_end_alone(struct recorder *recorder)
{
	pthread_mutex_lock(&recorder->db_lock);
	check_end(recorder);
	pthread_mutex_unlock(&recorder->db_lock);
}

static void *loader_main(void *arg)
{
	struct recorder *recorder = arg;
	int64_t period = PERIOD_BUSY_NS;
	bool rested = false;

	pthread_setname_np(pthread_self(), "loader");
	set_priority(recorder, true);
	while (wait_for_work(recorder, period)) {
		bool full = spool_used(recorder->spool) > spool_limit(recorder->spool) / 2;
		int64_t got = 0;

		spool_prepare(recorder->spool, SPARE_SEGMENTS); /* no space: the workers find out, and wait or drop */
		if (!recorder->load_at_end || full)
			got = load(recorder);
		else
			check_end_alone(recorder);
		if (got != 0)
			rested = false;
		else if (period == PERIOD_IDLE_NS && !rested)
			rest(recorder), rested = true;
		period = got == 0 ? PERIOD_IDLE_NS : PERIOD_BUSY_NS;
	}
	return NULL;
}

int recorder_start(struct recorder *recorder)
{
	sigset_t all, old;
	int err;

	/* Signals are for the main thread. */
	sigfillset(&all);
	sigdelset(&all, SIGBUS); /* busguard.h */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	trace_set_busy_timeout(recorder->trace, 200);
	err = pthread_create(&recorder->thread, NULL, loader_main, recorder);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		return log_errno(err, "cannot start the loader thread");
	recorder->started = true;
	return 0;
}

static void stop_loader(struct recorder *recorder)
{
	if (!recorder->started)
		return;
	pthread_mutex_lock(&recorder->lock);
	recorder->stop = true;
	pthread_cond_signal(&recorder->wake);
	pthread_mutex_unlock(&recorder->lock);
	pthread_join(recorder->thread, NULL);
	recorder->started = false;
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
	int err = add_anchor(recorder);

	getrusage(RUSAGE_SELF, &usage);
	err = err ?: trace_run_set_int(trace, recorder->run, "end_ns", recorder->last_anchor_ns);
	err = err ?: trace_run_set_int(trace, recorder->run, "daemon_user_ns",
			     usage.ru_utime.tv_sec * NSEC_PER_SEC + usage.ru_utime.tv_usec * 1000);
	return err ?: trace_run_set_int(trace, recorder->run, "daemon_sys_ns",
			      usage.ru_stime.tv_sec * NSEC_PER_SEC + usage.ru_stime.tv_usec * 1000);
}

void recorder_hurry(struct recorder *recorder)
{
	atomic_store(&recorder->hurry_until_ns, clock_ns(CLOCK_MONOTONIC) + HURRY_NS);
}

int recorder_finish(struct recorder *recorder)
{
	int64_t got;
	int err;

	recorder_thread_end();
	stop_loader(recorder);
	atomic_store(&recorder->state->complete, 1);
	if (trace_is_deleted(recorder->trace))
		return lost_whole(recorder);
	trace_set_busy_timeout(recorder->trace, 60000);
	trace_run_set_text(recorder->trace, recorder->run, "state", "finishing");
	do
		got = loader_step(&recorder->loader, BATCH);
	while (got > 0);
	if (got == 0)
		note_result(recorder, got);
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
