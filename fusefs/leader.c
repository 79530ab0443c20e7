/* SPDX-License-Identifier: MIT */
#include "leader.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base.h"
#include "priority.h"
#include "who.h"

#define SAMPLES 96	 /* requests that a way of waiting is judged by */
#define TRUSTED 40	 /* times SAMPLES until the others are tried again */
#define POLL_NS 50000
#define MISS_NS 30000	 /* a worker that was not put aside by then is not where the client is */
#define MISSES 3	 /* in a row, before the client is looked for */
#define BAN_NS 20000000	 /* after others were found to need the processor */
#define LONGEST_NS 1000000
#define CPU_FIELD 39	 /* of /proc/PID/stat, proc(5) */

enum way { WAY_SLEEP, WAY_POLL, WAY_FOLLOW, WAYS };

struct leader {
	_Atomic int64_t busy_ns;   /* since when; 0: waiting */
	_Atomic pid_t answering;   /* the leading thread while it is of idle priority, or 0 */
	_Atomic bool relieved;
	pid_t self; /* the thread */
	const struct leader_settings *settings;
	bool pinned;
	enum way way;
	uint32_t cost[WAYS];  /* ns from answer to request, a low quartile; 0: not known */
	uint32_t samples[SAMPLES];
	unsigned int count, trusted;
	pid_t client;	      /* of the request being handled */
	pid_t last_client;    /* of the last answer */
	int64_t replied_ns, banned_until_ns, poll_until_ns;
	unsigned int misses;
	bool fresh_reply;     /* nothing has been waited for since */
};

void leader_settings_init(enum wait_mode wait, struct leader_settings *ret_settings)
{
	*ret_settings = (struct leader_settings){ .wait = wait };
	ret_settings->can_follow =
		sched_getaffinity(0, sizeof(ret_settings->processors), &ret_settings->processors) == 0 &&
		CPU_COUNT(&ret_settings->processors) > 1 && priority_may_be_idle();
}

static void to_all_processors(const struct leader_settings *settings)
{
	sched_setaffinity(0, sizeof(settings->processors), &settings->processors);
}

int leader_new(const struct leader_settings *settings, struct leader **ret_leader)
{
	struct leader *leader = calloc(1, sizeof(*leader));

	if (!leader)
		return -ENOMEM;
	leader->settings = settings;
	leader->self = gettid();
	if (settings->can_follow)
		to_all_processors(settings);
	*ret_leader = leader;
	return 0;
}

void leader_free(struct leader *leader)
{
	free(leader);
}

static void unpin(struct leader *leader)
{
	if (leader->pinned)
		to_all_processors(leader->settings);
	leader->pinned = false;
	leader->misses = MISSES;
}

/* --- which way ----------------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static bool is_open(const struct leader *leader, enum way way, int64_t now)
{
	return way != WAY_FOLLOW || (leader->settings->can_follow && now >= leader->banned_until_ns);
}

/* The next that has not been tried in this trial, or the best of all. */
static enum way choose(struct leader *leader, int64_t now)
{
	enum way best = WAY_SLEEP, wanted = leader->settings->wait == WAIT_POLL ? WAY_POLL :
					    leader->settings->wait == WAIT_FOLLOW ? WAY_FOLLOW : WAY_SLEEP;

	if (leader->settings->wait != WAIT_AUTO)
		return is_open(leader, wanted, now) ? wanted : WAY_SLEEP;
	for (int way = WAY_SLEEP; way < WAYS; way++) {
		if (!is_open(leader, way, now))
			continue;
		if (!leader->cost[way])
			return way;
		if (leader->cost[way] < leader->cost[best])
			best = way;
	}
	return best;
}

static void judge(struct leader *leader, int64_t now)
{
	bool trial = !leader->cost[leader->way];

	/* A low quartile: it has what waiting costs, and little of what the client does in between. */
	array_sort(leader->samples, SAMPLES, sizeof(leader->samples[0]), compare);
	leader->cost[leader->way] = leader->samples[SAMPLES / 4] + 1;
	leader->count = 0;
	if (trial)
		leader->trusted = 0;
	else if (++leader->trusted >= TRUSTED)
		for (int way = 0; way < WAYS; way++)
			leader->cost[way] = 0;
	leader->way = choose(leader, now);
	if (leader->way != WAY_FOLLOW)
		unpin(leader);
}

void leader_begin(struct leader *leader)
{
	leader->count = 0;
	leader->misses = MISSES;
	leader->replied_ns = 0;
	leader->fresh_reply = false;
	leader->way = choose(leader, clock_ns(CLOCK_MONOTONIC));
	atomic_store(&leader->busy_ns, clock_ns(CLOCK_MONOTONIC));
}

void leader_end(struct leader *leader)
{
	unpin(leader);
	atomic_store(&leader->busy_ns, 0);
}

/* --- following ----------------------------------------------------------------------------------------------------- */

/* The processor that a thread, which waits for us, has slept down on; -1: not to be known. */
static int processor_of(pid_t tid)
{
	char path[32], text[1024];
	const char *field;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (got <= 0)
		return -1;
	text[got] = '\0';
	field = who_stat_field(text, CPU_FIELD);
	return field ? atoi(field) : -1;
}

static void follow(struct leader *leader)
{
	int processor = processor_of(leader->client);
	cpu_set_t one;

	leader->misses = 0;
	if (processor < 0 || processor >= CPU_SETSIZE || !CPU_ISSET(processor, &leader->settings->processors))
		return;
	CPU_ZERO(&one);
	CPU_SET(processor, &one);
	leader->pinned = sched_setaffinity(0, sizeof(one), &one) == 0;
}

void leader_received(struct leader *leader, pid_t tid, bool may_look)
{
	int64_t now = clock_ns(CLOCK_MONOTONIC), gap = now - leader->replied_ns;

	atomic_store(&leader->busy_ns, now); /* before the guard is looked at */
	if (leader->fresh_reply) /* it was there before we asked */
		leader->misses = 0;
	leader->fresh_reply = false;
	leader->client = tid;
	if (atomic_exchange_explicit(&leader->relieved, false, memory_order_relaxed)) {
		leader->banned_until_ns = now + BAN_NS;
		leader->cost[WAY_FOLLOW] = 0;
	}
	if (tid && tid == leader->last_client && leader->replied_ns) {
		leader->samples[leader->count++] = (uint32_t)(gap < LONGEST_NS ? gap : LONGEST_NS);
		if (leader->count == SAMPLES)
			judge(leader, now);
	}
	if (leader->way == WAY_FOLLOW && !is_open(leader, WAY_FOLLOW, now)) {
		leader->way = choose(leader, now);
		leader->count = 0;
		unpin(leader);
	}
	if (leader->way == WAY_FOLLOW && tid && may_look && leader->misses >= MISSES)
		follow(leader);
}

void leader_before_reply(struct leader *leader)
{
	if (!leader->client)
		return;
	leader->last_client = leader->client;
	leader->replied_ns = clock_ns(CLOCK_MONOTONIC);
	leader->fresh_reply = true;
	if (!leader->pinned)
		return;
	atomic_store(&leader->answering, leader->self);
	priority_set_idle(0, true);
}

/* With a client on this processor we get here only when it waits for its next answer. */
void leader_after_reply(struct leader *leader)
{
	if (!leader->client || !atomic_load_explicit(&leader->answering, memory_order_relaxed))
		return;
	atomic_store(&leader->answering, 0);
	priority_set_idle(0, false);
}

bool leader_poll(struct leader *leader)
{
	int64_t now = clock_ns(CLOCK_MONOTONIC);

	if (leader->fresh_reply) {
		leader->fresh_reply = false;
		leader->misses = now - leader->replied_ns < MISS_NS ? leader->misses + 1 : 0;
		leader->poll_until_ns = leader->way == WAY_POLL ? now + POLL_NS : 0;
	}
	if (now < leader->poll_until_ns) {
		sched_yield();
		return true;
	}
	atomic_store_explicit(&leader->busy_ns, 0, memory_order_relaxed);
	return false;
}

int64_t leader_busy_since(const struct leader *leader)
{
	return atomic_load(&leader->busy_ns);
}

/*
 * Should the leader end its answer at this very moment, it stays of ordinary priority: it sets that after it has said
 * that it is not answering any more.
 */
void leader_relieve(struct leader *leader)
{
	pid_t thread = atomic_load(&leader->answering);

	if (!thread)
		return;
	atomic_store(&leader->relieved, true);
	priority_set_idle(thread, false);
}
