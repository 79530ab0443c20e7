/* SPDX-License-Identifier: MIT */
/* recorder_loader.c - the thread that moves records from the spool into the database. */
#include "recorder_internal.h"

#include <malloc.h>
#include <signal.h>

#include "priority.h"

#define PERIOD_BUSY_NS (50 * 1000000LL)
#define PERIOD_IDLE_NS (500 * 1000000LL)
#define ANCHOR_PERIOD_NS (5 * NSEC_PER_SEC)
#define PAUSE_NS (200 * 1000000LL)
#define LAZY_NS (2 * NSEC_PER_SEC) /* what programs do is in the database that much later at most, when it keeps up */
#define STARVED_NS (3 * GUARD_NS)
#define ORDINARY_NS NSEC_PER_SEC /* after the loader was found to be kept from the processors */
#define BUSY_WORTH_SAYING_NS (3 * NSEC_PER_SEC)

/* The part of the spool that is in use: in quarters of its limit. */
static uint64_t quarters_used(struct recorder *recorder)
{
	return 4 * spool_used(recorder->spool) / spool_limit(recorder->spool);
}

/*
 * While programs are at work the processors are theirs, as far as the spool has room: what they do can as well be stored
 * in the pauses that they make.
 */
static bool may_wait(struct recorder *recorder)
{
	uint64_t requests = atomic_load_explicit(&recorder->state->requests, memory_order_relaxed);
	int64_t now = recorder_now(recorder);

	if (requests != recorder->seen_requests)
		recorder->at_work_ns = now;
	recorder->seen_requests = requests;
	return now - recorder->at_work_ns < PAUSE_NS && now - recorder->loaded_ns < LAZY_NS && quarters_used(recorder) < 2;
}

/*
 * Idle priority while there is room, the ordinary one when the spool fills up faster than it is emptied, or somebody
 * keeps the loader from the processors. Always the ordinary one where there is no way back to it: an idle loader may get
 * nowhere, and workers wait for it. And where the guard does not look, as nothing is to be loaded.
 */
static void set_priority(struct loader_priority *priority, bool idle)
{
	if (idle && priority->may_be_idle && atomic_load(&priority->at_work) &&
		clock_ns(CLOCK_MONOTONIC) >= atomic_load(&priority->ordinary_until_ns))
		giveway_begin(&priority->give);
	else
		giveway_end(&priority->give);
}

/*
 * At work and given no processor: others may be waiting for a lock that it holds, the spool's or the kernel's of our memory.
 * One that waits for the disk looks the same, and does not mind.
 */
static bool look(void *arg, int64_t now_ns, bool last)
{
	struct loader_priority *priority = arg;
	int64_t cpu_ns, wakes_ns = atomic_load(&priority->wakes_ns);

	(void)last;
	if (!atomic_load(&priority->at_work)) {
		priority->seen_ns = now_ns;
		if (wakes_ns && now_ns - wakes_ns > STARVED_NS) /* it cannot even say that it is up */
			giveway_relieve(&priority->give, false);
		return false;
	}
	cpu_ns = clock_ns(priority->clock);
	if (cpu_ns != priority->seen_cpu_ns) {
		priority->seen_cpu_ns = cpu_ns;
		priority->seen_ns = now_ns;
	} else if (now_ns - priority->seen_ns > STARVED_NS) {
		int64_t until = atomic_load(&priority->ordinary_until_ns);

		if (until < now_ns) /* and never sooner than recorder_stop_loader() says */
			atomic_compare_exchange_strong(&priority->ordinary_until_ns, &until, now_ns + ORDINARY_NS);
		giveway_relieve(&priority->give, false);
	}
	return true;
}

static void set_at_work(struct loader_priority *priority, bool at_work)
{
	atomic_store(&priority->at_work, at_work);
	if (at_work)
		guard_wake(priority->guard);
}

void recorder_press_loader(struct recorder *recorder)
{
	giveway_relieve(&recorder->priority.give, false);
	pthread_cond_signal(&recorder->wake);
}

/* What keeps coming and going, as a lock does, is said once; a new trouble, and the end of a real one, are news. */
void recorder_note_result(struct recorder *recorder, int64_t result)
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
 * Whether there is a reason to record no more: the database has gone, or is as big as it may be. The records in
 * the spool are counted with about half their size, which is what they take as rows.
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
		   size + (int64_t)spool_unloaded(recorder->spool) / 2 >= recorder->max_db) {
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
		set_priority(&recorder->priority, quarters_used(recorder) < 3);
		/* Loading may take seconds, and frees none until its end. No space: the workers find out, and wait or drop. */
		spool_prepare(recorder->spool, RECORDER_SPARE_SEGMENTS);
		pthread_mutex_lock(&recorder->db_lock);
		got = loader_step(&recorder->loader, RECORDER_BATCH);
		if (got >= 0 && recorder_now(recorder) - recorder->last_anchor_ns > ANCHOR_PERIOD_NS)
			recorder_add_anchor(recorder);
		recorder_note_result(recorder, got);
		check_end(recorder);
		pthread_mutex_unlock(&recorder->db_lock);
		if (got > 0)
			total += got;
	} while (got >= RECORDER_BATCH);
	recorder->loaded_ns = recorder_now(recorder);
	return got < 0 ? got : total;
}

static bool wait_for_work(struct recorder *recorder, int64_t period_ns)
{
	int64_t until = clock_ns(CLOCK_MONOTONIC) + period_ns;
	struct timespec ts = { until / NSEC_PER_SEC, until % NSEC_PER_SEC };
	bool stop;

	pthread_mutex_lock(&recorder->lock);
	set_at_work(&recorder->priority, false);
	atomic_store(&recorder->priority.wakes_ns, until);
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
	uint64_t requests = 0, before = 0;
	bool rested = false;

	pthread_setname_np(pthread_self(), "loader");
	trace_memory_keep();
	giveway_init(&recorder->priority.give);
	pthread_getcpuclockid(pthread_self(), &recorder->priority.clock);
	guard_add(recorder->priority.guard, &recorder->priority.post);
	set_at_work(&recorder->priority, true);
	set_priority(&recorder->priority, true);
	for (; wait_for_work(recorder, period); before = requests) {
		bool lazy = !recorder->load_at_end && may_wait(recorder);
		bool at_work = lazy;

		requests = atomic_load_explicit(&recorder->state->requests, memory_order_relaxed);
		set_at_work(&recorder->priority, period == PERIOD_BUSY_NS || requests != before);
		atomic_store(&recorder->priority.wakes_ns, 0);
		if (lazy || (recorder->load_at_end && quarters_used(recorder) < 2)) {
			spool_prepare(recorder->spool, RECORDER_SPARE_SEGMENTS);
			check_end_alone(recorder);
		} else {
			at_work = load(recorder) != 0;
		}
		if (at_work)
			rested = false;
		else if (period == PERIOD_IDLE_NS && !rested)
			rest(recorder), rested = true;
		period = at_work ? PERIOD_BUSY_NS : PERIOD_IDLE_NS;
		if (period == PERIOD_IDLE_NS)
			set_priority(&recorder->priority, false); /* when it wakes up the guard sleeps */
	}
	set_at_work(&recorder->priority, false); /* its number and its clock will be nobody's, or another thread's */
	giveway_end(&recorder->priority.give);
	guard_remove(recorder->priority.guard, &recorder->priority.post);
	trace_memory_end();
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
	recorder->priority.may_be_idle = priority_may_be_idle();
	recorder->priority.post = (struct guard_post){ .look = look, .arg = &recorder->priority };
	err = pthread_create(&recorder->thread, NULL, loader_main, recorder);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		return log_errno(err, "cannot start the loader thread");
	recorder->started = true;
	return 0;
}

void recorder_stop_loader(struct recorder *recorder)
{
	if (!recorder->started)
		return;
	atomic_store(&recorder->priority.ordinary_until_ns, INT64_MAX); /* whoever ends the mount waits for it */
	giveway_relieve(&recorder->priority.give, false);
	pthread_mutex_lock(&recorder->lock);
	recorder->stop = true;
	pthread_cond_signal(&recorder->wake);
	pthread_mutex_unlock(&recorder->lock);
	pthread_join(recorder->thread, NULL);
	recorder->started = false;
}
