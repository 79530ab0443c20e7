/* SPDX-License-Identifier: MIT */
#include "replay_wait.h"

#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>

#define SPINS          200       /* looks at another thread's progress before sleeping: a few microseconds */
#define SLEEP_CHECK_NS 100000000 /* how long a sleeper may not notice that the replay is given up */
#define SPIN_NS        100000    /* the end of a pause, for which waking up would be too imprecise */
#define SHORT_NS       3000      /* pauses that are not worth asking for the thread's processor time */
#define NEAR_NS        500
#define OWN_MAX_NS     20000     /* of our own between two system calls; more is an interruption */

/* --- other threads ----------------------------------------------------------------------------------------------- */

bool replay_given_up(const struct replay *r)
{
	return atomic_load_explicit(&r->abandoned, memory_order_relaxed) || (r->options->stop && *r->options->stop);
}

static void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#endif
}

/* The futex word is the number done itself: when it has changed meanwhile, the kernel returns at once. */
static void sleep_on(struct advance *advance, uint32_t seen)
{
	const struct timespec limit = { .tv_nsec = SLEEP_CHECK_NS };

	atomic_fetch_add(&advance->sleepers, 1);
	syscall(SYS_futex, &advance->done, FUTEX_WAIT_PRIVATE, seen, &limit, NULL, 0);
	atomic_fetch_sub(&advance->sleepers, 1);
}

/* Until a thread has done more than `index` of its actions. False: the replay is given up. */
static bool wait_until_done(struct worker *w, uint32_t thread, uint32_t index)
{
	struct advance *advance = &w->replay->advances[thread];
	uint32_t done = atomic_load_explicit(&advance->done, memory_order_acquire);
	int64_t since;

	if (done > index)
		return true;
	since = clock_ns(CLOCK_MONOTONIC);
	for (int spin = 0; done <= index; spin++) {
		if (spin < SPINS) {
			pause_cpu();
		} else {
			if (replay_given_up(w->replay))
				return false;
			sleep_on(advance, done);
		}
		done = atomic_load_explicit(&advance->done, memory_order_acquire);
	}
	w->waited_ns += clock_ns(CLOCK_MONOTONIC) - since;
	return true;
}

bool wait_for_others(struct worker *w, uint32_t number)
{
	const struct plan *plan = w->replay->plan;

	for (uint32_t i = plan->actions[number].first_wait; i < plan->actions[number + 1].first_wait; i++) {
		const struct action *other = &plan->actions[plan->waits[i]];

		if (!wait_until_done(w, other->thread, other->index))
			return false;
	}
	return true;
}

/* The store and the look at the sleepers must not change places: a sleeper registers first and looks then. */
void wait_publish(struct replay *r, uint32_t thread, uint32_t done)
{
	struct advance *advance = &r->advances[thread];

	atomic_store(&advance->done, done);
	if (atomic_load(&advance->sleepers))
		syscall(SYS_futex, &advance->done, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* --- pauses at a recorded speed ---------------------------------------------------------------------------------- */

static void sleep_until(const struct replay *r, int64_t until)
{
	for (;;) {
		int64_t left = until - clock_ns(CLOCK_MONOTONIC);
		struct timespec ts = {};

		if (left <= 0 || replay_given_up(r))
			return;
		if (left <= SPIN_NS) {
			pause_cpu();
			continue;
		}
		left = left - SPIN_NS < SLEEP_CHECK_NS ? left - SPIN_NS : SLEEP_CHECK_NS;
		ts.tv_nsec = left;
		nanosleep(&ts, NULL);
	}
}

static void spin_until(const struct replay *r, int64_t until)
{
	while (clock_ns(CLOCK_MONOTONIC) < until && !replay_given_up(r))
		pause_cpu();
}

/*
 * Keeps a processor busy as the program did, which is not the same as letting time go by: threads that want to be busy
 * at once get in each other's way, and the kernel's own in theirs. Returns how much more it was than it should be.
 */
static int64_t burn(const struct replay *r, int64_t ns)
{
	int64_t now = clock_ns(CLOCK_MONOTONIC), until = now + ns, begin, left;

	if (ns <= SHORT_NS) {
		spin_until(r, until);
		return clock_ns(CLOCK_MONOTONIC) - until;
	}
	begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	for (;;) {
		spin_until(r, until);
		left = ns - (clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin);
		if (left < NEAR_NS || replay_given_up(r))
			return -left;
		until = clock_ns(CLOCK_MONOTONIC) + left;
	}
}

/* A pause that began when another thread's action had ended, or with the replay. */
static bool pause_after(struct worker *w, uint32_t number, int64_t free_ns, int64_t think_ns)
{
	const struct replay *r = w->replay;
	uint32_t after = r->plan->pace.after[number];
	const struct action *other = &r->plan->actions[after];
	const struct outcome *o = &r->outcomes[after];

	if (r->plan->actions[number].begins)
		free_ns = 0; /* what we did before was for another thread */
	if (after != number && other->thread != w->thread &&
		!wait_until_done(w, other->thread, other->index))
		return false;
	if (after != number && o->start_ns + o->dur_ns > free_ns)
		free_ns = o->start_ns + o->dur_ns;
	sleep_until(r, r->start_ns + free_ns + think_ns);
	w->debt_ns = 0;
	return true;
}

bool pause_before(struct worker *w, uint32_t number, int64_t free_ns, uint32_t *ret_idle_ns)
{
	const struct replay *r = w->replay;
	const struct pace *pace = &r->plan->pace;
	int64_t think_ns = (int64_t)((double)pace->think_ns[number] / r->options->pace);
	int64_t blocked_ns = (int64_t)((double)pace->blocked_ns[number] / r->options->pace);
	int64_t own_ns = clock_ns(CLOCK_MONOTONIC) - r->start_ns - free_ns - w->waited_ns;

	w->times.think_ns += think_ns;
	w->times.blocked_ns += blocked_ns;
	w->times.order_ns += w->waited_ns;
	w->waited_ns = 0;
	*ret_idle_ns = think_ns + blocked_ns > UINT32_MAX ? UINT32_MAX : (uint32_t)(think_ns + blocked_ns);
	if (pace->after[number])
		return pause_after(w, number, free_ns, think_ns);
	if (blocked_ns)
		sleep_until(r, r->start_ns + free_ns + blocked_ns);
	w->debt_ns += (blocked_ns || own_ns < 0 || own_ns > OWN_MAX_NS ? 0 : own_ns) - think_ns;
	if (w->debt_ns < 0)
		w->debt_ns = burn(r, -w->debt_ns);
	return true;
}

/*
 * Our own time is taken off the next pause, and so is what the program's pauses have in them already. A long time is none
 * of ours: the thread was interrupted, as the program would have been.
 */
void pause_owe(struct worker *w, const struct action *a, int64_t result, int64_t own_ns)
{
	int64_t twice_ns = doubles_of(&w->replay->doubles, a, w->calls, result);

	own_ns -= w->making_ns;
	w->debt_ns += twice_ns + w->making_ns + (own_ns > OWN_MAX_NS ? 0 : own_ns);
	w->times.twice_ns += twice_ns;
	w->making_ns = 0;
}

void pause_owed(struct worker *w, uint32_t number)
{
	const struct pace *pace = &w->replay->plan->pace;
	int64_t ns = (int64_t)((double)(pace->think_ns[number] + pace->blocked_ns[number]) / w->replay->options->pace);

	w->debt_ns -= ns;
	w->times.think_ns += ns;
}
