/* SPDX-License-Identifier: MIT */
#include "lanes.h"

#include <pthread.h>
#include <stdlib.h>

#include "ban.h"
#include "base.h"
#include "canary.h"
#include "guard.h"
#include "lone.h"

struct lane {
	struct lone lone;
	_Atomic bool busy;    /* since the last look */
	_Atomic bool wanted;  /* there has been a lone client: there is a canary, or there cannot be one */
	_Atomic bool watched; /* the canary is awake and well */
	struct canary *_Atomic canary;
	struct ban ban;
	struct giveway *members;
};

struct lanes {
	pthread_mutex_t lock; /* of the members; the rest is the guard's */
	struct guard *guard;
	struct guard_post post;
	unsigned int count;
	struct lane lane[];
};

static void relieve_all(struct lanes *lanes, struct lane *lane)
{
	pthread_mutex_lock(&lanes->lock);
	for (struct giveway *give = lane->members; give; give = give->next)
		giveway_relieve(give, false);
	pthread_mutex_unlock(&lanes->lock);
}

static bool look_at(struct lanes *lanes, struct lane *lane, int64_t now_ns, bool last)
{
	struct canary *canary = atomic_load(&lane->canary);
	bool busy = atomic_exchange(&lane->busy, false);
	bool watch = busy || !last;

	if (!canary)
		return busy;
	if (canary_is_starved(canary, now_ns))
		ban_start(&lane->ban, now_ns);
	canary_watch(canary, now_ns, watch);
	watch = watch && !ban_holds(&lane->ban, now_ns);
	atomic_store(&lane->watched, watch);
	/* At every look: who had seen that it is watched may have been kept from the processor since, and give way now. */
	if (!watch)
		relieve_all(lanes, lane);
	return busy;
}

static bool look(void *arg, int64_t now_ns, bool last)
{
	struct lanes *lanes = arg;
	bool busy = false;

	for (unsigned int i = 0; i < lanes->count; i++)
		busy |= look_at(lanes, &lanes->lane[i], now_ns, last);
	return busy;
}

int lanes_new(struct guard *guard, unsigned int count, struct lanes **ret_lanes)
{
	struct lanes *lanes = calloc(1, sizeof(*lanes) + count * sizeof(lanes->lane[0]));

	if (!lanes)
		return -ENOMEM;
	lanes->guard = guard;
	lanes->count = count;
	lanes->post = (struct guard_post){ .look = look, .arg = lanes };
	pthread_mutex_init(&lanes->lock, NULL);
	guard_add(guard, &lanes->post);
	*ret_lanes = lanes;
	return 0;
}

void lanes_free(struct lanes *lanes)
{
	if (!lanes)
		return;
	guard_remove(lanes->guard, &lanes->post);
	for (unsigned int i = 0; i < lanes->count; i++)
		canary_free(lanes->lane[i].canary);
	pthread_mutex_destroy(&lanes->lock);
	free(lanes);
}

void lanes_join(struct lanes *lanes, unsigned int lane, struct giveway *give)
{
	giveway_init(give);
	pthread_mutex_lock(&lanes->lock);
	give->next = lanes->lane[lane].members;
	lanes->lane[lane].members = give;
	pthread_mutex_unlock(&lanes->lock);
}

void lanes_leave(struct lanes *lanes, unsigned int lane, struct giveway *give)
{
	struct giveway **at = &lanes->lane[lane].members;

	giveway_end(give);
	pthread_mutex_lock(&lanes->lock);
	while (*at != give)
		at = &(*at)->next;
	*at = give->next;
	pthread_mutex_unlock(&lanes->lock);
}

/* Not by the guard: starting a thread takes locks, malloc's among them, that somebody of idle priority may hold. */
static void make_canary(struct lane *lane, unsigned int processor)
{
	struct canary *canary;

	if (!atomic_load_explicit(&lane->wanted, memory_order_relaxed) && !atomic_exchange(&lane->wanted, true) &&
		canary_new(processor, &canary) == 0)
		atomic_store(&lane->canary, canary);
}

/*
 * The guard is looked at last: it says that it sleeps before it looks who gives way, so one of the two sees the other.
 */
void lanes_answer(struct lanes *lanes, unsigned int number, struct giveway *give, pid_t tid)
{
	struct lane *lane = &lanes->lane[number];

	if (lone_note(&lane->lone, tid) < LONE) {
		giveway_end(give);
		return;
	}
	if (!atomic_load_explicit(&lane->busy, memory_order_relaxed))
		atomic_store(&lane->busy, true);
	if (atomic_load(&lane->watched)) {
		giveway_begin(give);
	} else {
		giveway_end(give);
		make_canary(lane, number);
	}
	guard_wake(lanes->guard);
}
