/* SPDX-License-Identifier: MIT */
#include "leader.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base.h"
#include "giveway.h"
#include "priority.h"
#include "who.h"

#define SAMPLES 48	 /* requests that a way of waiting is judged by */
#define GLANCE 12	 /* of these, when it is tried, that show whether it may be any good */
#define TRUST 64	 /* times SAMPLES until the others are tried again; twice as many each time that nothing has changed */
#define MOST_TRUST 1024
#define POLL_NS 50000
#define MISS_NS 30000	 /* a worker that was not put aside by then is not where the client is */
#define MISSES 3	 /* in a row, before the client is looked for */
#define LONGEST_NS 1000000
#define CPU_FIELD 39	 /* of /proc/PID/stat, proc(5) */

struct leader {
	struct giveway give;
	struct leader_settings *settings;
	bool pinned;
	enum leader_way way;
	uint32_t samples[SAMPLES];
	unsigned int count;
	pid_t client;	      /* of the request being handled */
	pid_t last_client;    /* of the last answer */
	int64_t replied_ns, poll_until_ns;
	unsigned int misses;
	bool banned;	      /* from following, when last looked at */
	bool fresh_reply;     /* nothing has been waited for since */
};

void leader_settings_init(enum wait_mode wait, struct leader_settings *ret_settings)
{
	*ret_settings = (struct leader_settings){ .wait = wait, .trust = TRUST };
	ret_settings->can_follow =
		sched_getaffinity(0, sizeof(ret_settings->processors), &ret_settings->processors) == 0 &&
		CPU_COUNT(&ret_settings->processors) > 1 && priority_may_be_idle();
}

static void to_all_processors(const struct leader_settings *settings)
{
	sched_setaffinity(0, sizeof(settings->processors), &settings->processors);
}

int leader_new(struct leader_settings *settings, struct leader **ret_leader)
{
	struct leader *leader = calloc(1, sizeof(*leader));

	if (!leader)
		return -ENOMEM;
	leader->settings = settings;
	giveway_init(&leader->give);
	*ret_leader = leader;
	return 0;
}

void leader_free(struct leader *leader)
{
	free(leader);
}

void leader_rest(struct leader *leader)
{
	giveway_end(&leader->give);
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

static bool is_open(const struct leader *leader, enum leader_way way, int64_t now)
{
	return way != LEADER_FOLLOW || (leader->settings->can_follow && giveway_may(&leader->give, now));
}

static uint32_t cost_of(const struct leader *leader, enum leader_way way)
{
	return atomic_load_explicit(&leader->settings->cost[way], memory_order_relaxed);
}

/* Of those that may be used and are known; LEADER_WAYS: none. Polling takes a processor, so it has to be worth that. */
static enum leader_way best_known(const struct leader *leader, int64_t now)
{
	static const enum leader_way preferred[] = { LEADER_FOLLOW, LEADER_SLEEP, LEADER_POLL };
	enum leader_way best = LEADER_WAYS;

	for (size_t i = 0; i < ARRAY_SIZE(preferred); i++) {
		enum leader_way way = preferred[i];

		if (cost_of(leader, way) && is_open(leader, way, now) &&
			(best == LEADER_WAYS || cost_of(leader, way) < cost_of(leader, best) / 8 * 7))
			best = way;
	}
	return best;
}

/* The next that has not been tried in this trial, or the best of all. */
static enum leader_way choose(struct leader *leader, int64_t now)
{
	enum wait_mode wait = leader->settings->wait;
	enum leader_way wanted = wait == WAIT_POLL ? LEADER_POLL : wait == WAIT_FOLLOW ? LEADER_FOLLOW : LEADER_SLEEP;

	if (wait != WAIT_AUTO)
		return is_open(leader, wanted, now) ? wanted : LEADER_SLEEP;
	for (int way = LEADER_WAYS - 1; way >= LEADER_SLEEP; way--) /* the likeliest first: by it the others are measured */
		if (!cost_of(leader, way) && is_open(leader, way, now))
			return way;
	return best_known(leader, now);
}

static bool is_trial(const struct leader *leader)
{
	return !cost_of(leader, leader->way);
}

/* A low quartile of the samples: it has what waiting costs, and little of what the client does in between. */
static uint32_t measured(struct leader *leader)
{
	array_sort(leader->samples, leader->count, sizeof(leader->samples[0]), compare);
	return leader->samples[leader->count / 4] + 1;
}

/* What is tried costs so much more than what is known that there is no need to measure how much. */
static bool is_hopeless(struct leader *leader, int64_t now)
{
	enum leader_way best = best_known(leader, now);

	return best != LEADER_WAYS && measured(leader) / 2 > cost_of(leader, best);
}

/*
 * A trial costs more than it brings when it finds what is known: the oftener it has, the later the next one. But what it
 * found may have been chance, and a wrong way costs most where following is the right one: no other is trusted for long.
 */
static void note_trial(struct leader_settings *settings, enum leader_way best)
{
	unsigned int trust = settings->trust;

	if (best != settings->best || best != LEADER_FOLLOW)
		settings->trust = TRUST;
	else if (trust < MOST_TRUST)
		settings->trust = 2 * trust;
	settings->best = best;
	settings->trusted = 0;
}

static void change(struct leader *leader, int64_t now)
{
	leader->way = choose(leader, now);
	leader->count = 0;
	if (leader->way != LEADER_FOLLOW)
		leader_rest(leader);
}

/*
 * The way in use is measured on and on: what programs do between their requests changes, and a trial that was made while it
 * did may have misled.
 */
static void judge(struct leader *leader, int64_t now)
{
	struct leader_settings *settings = leader->settings;
	bool trial = is_trial(leader);

	settings->cost[leader->way] = measured(leader);
	if (!trial && ++settings->trusted >= settings->trust)
		for (int way = 0; way < LEADER_WAYS; way++)
			if (way != (int)leader->way)
				settings->cost[way] = 0;
	change(leader, now);
	if (trial && !is_trial(leader))
		note_trial(settings, leader->way);
}

void leader_begin(struct leader *leader)
{
	leader->count = 0;
	leader->misses = MISSES;
	leader->replied_ns = 0;
	leader->fresh_reply = false;
	leader->way = choose(leader, clock_ns(CLOCK_MONOTONIC));
}

void leader_end(struct leader *leader)
{
	leader_rest(leader);
	giveway_wait(&leader->give);
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
	if (sched_setaffinity(0, sizeof(one), &one) == 0)
		leader->pinned = true; /* else it may still be, to the one before */
}

void leader_received(struct leader *leader, pid_t tid, bool may_look)
{
	int64_t now = clock_ns(CLOCK_MONOTONIC), gap = now - leader->replied_ns;

	giveway_busy(&leader->give, now, tid);
	if (leader->fresh_reply) /* it was there before we asked */
		leader->misses = 0;
	leader->fresh_reply = false;
	leader->client = tid;
	if (tid && tid == leader->last_client && leader->replied_ns) {
		leader->samples[leader->count++] = (uint32_t)(gap < LONGEST_NS ? gap : LONGEST_NS);
		if (leader->count == SAMPLES ||
			(leader->count == GLANCE && is_trial(leader) && is_hopeless(leader, now)))
			judge(leader, now);
	}
	if (leader->way == LEADER_FOLLOW && !is_open(leader, LEADER_FOLLOW, now)) {
		leader->settings->cost[LEADER_FOLLOW] = 0; /* it may have been found out when nobody else was there */
		leader->banned = true;
		change(leader, now);
	} else if (leader->banned && is_open(leader, LEADER_FOLLOW, now)) {
		leader->banned = false;
		change(leader, now);
	}
	if (leader->way == LEADER_FOLLOW && tid && may_look && leader->misses >= MISSES)
		follow(leader);
}

void leader_before_reply(struct leader *leader)
{
	if (!leader->client)
		return;
	leader->last_client = leader->client;
	leader->replied_ns = clock_ns(CLOCK_MONOTONIC);
	leader->fresh_reply = true;
	if (leader->pinned)
		giveway_begin(&leader->give);
}

bool leader_poll(struct leader *leader)
{
	int64_t now = clock_ns(CLOCK_MONOTONIC);

	giveway_end(&leader->give);
	if (leader->fresh_reply) {
		leader->fresh_reply = false;
		leader->misses = now - leader->replied_ns < MISS_NS ? leader->misses + 1 : 0;
		leader->poll_until_ns = leader->way == LEADER_POLL ? now + POLL_NS : 0;
	}
	if (now < leader->poll_until_ns) {
		sched_yield();
		return true;
	}
	giveway_wait(&leader->give);
	return false;
}

struct giveway *leader_giveway(struct leader *leader)
{
	return &leader->give;
}
