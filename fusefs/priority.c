/* SPDX-License-Identifier: MIT */
#include "priority.h"

#include <pthread.h>
#include <sched.h>
#include <stddef.h>

static int set_policy(pid_t thread, int policy)
{
	static const struct sched_param no_priority;

	return sched_setscheduler(thread, policy, &no_priority);
}

/* By a thread that is for nothing else: it may not get back. */
static void *probe(void *arg)
{
	bool *can = arg;

	*can = set_policy(0, SCHED_IDLE) == 0 && set_policy(0, SCHED_BATCH) == 0;
	return NULL;
}

static bool is_ordinary(void)
{
	int policy = sched_getscheduler(0);

	return policy == SCHED_OTHER || policy == SCHED_BATCH;
}

void priority_init(void)
{
	if (is_ordinary())
		set_policy(0, SCHED_BATCH);
}

bool priority_may_be_idle(void)
{
	bool can = false;
	pthread_t thread;

	if (is_ordinary() && pthread_create(&thread, NULL, probe, &can) == 0)
		pthread_join(thread, NULL);
	return can;
}

void priority_set_idle(pid_t thread, bool idle)
{
	set_policy(thread, idle ? SCHED_IDLE : SCHED_BATCH);
}
