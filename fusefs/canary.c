/* SPDX-License-Identifier: MIT */
#include "canary.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base.h"
#include "priority.h"
#include "worker.h"

#define STARVED_NS (3 * CANARY_NS)

/* No lock: whoever shares one with a thread of idle priority waits as long as that. */
struct canary {
	pthread_t thread;
	unsigned int processor;
	int wake_fd;
	_Atomic int64_t seen_ns;
	_Atomic bool on, ending;
	_Atomic pid_t idle; /* the thread, once it is of idle priority */
};

static void *canary_main(void *arg)
{
	struct canary *canary = arg;
	cpu_set_t processor;
	eventfd_t count;

	pthread_setname_np(pthread_self(), "canary");
	CPU_ZERO(&processor);
	CPU_SET(canary->processor, &processor);
	sched_setaffinity(0, sizeof(processor), &processor);
	priority_set_idle(0, true);
	atomic_store(&canary->idle, gettid());
	while (!atomic_load(&canary->ending)) {
		if (!atomic_load(&canary->on)) {
			eventfd_read(canary->wake_fd, &count);
			continue;
		}
		atomic_store(&canary->seen_ns, clock_ns(CLOCK_MONOTONIC));
		clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){ .tv_nsec = CANARY_NS }, NULL);
	}
	return NULL;
}

int canary_new(unsigned int processor, struct canary **ret_canary)
{
	struct canary *canary = calloc(1, sizeof(*canary));
	int err;

	if (!canary)
		return -ENOMEM;
	canary->processor = processor;
	canary->wake_fd = eventfd(0, EFD_CLOEXEC);
	err = canary->wake_fd < 0 ? -errno : worker_thread_start(canary_main, canary, &canary->thread);
	if (err == 0) {
		*ret_canary = canary;
		return 0;
	}
	if (canary->wake_fd >= 0)
		close(canary->wake_fd);
	free(canary);
	return err;
}

void canary_free(struct canary *canary)
{
	if (!canary)
		return;
	atomic_store(&canary->on, false);
	atomic_store(&canary->ending, true);
	if (atomic_load(&canary->idle))
		priority_set_idle(atomic_load(&canary->idle), false);
	eventfd_write(canary->wake_fd, 1);
	pthread_join(canary->thread, NULL);
	close(canary->wake_fd);
	free(canary);
}

void canary_watch(struct canary *canary, int64_t now_ns, bool on)
{
	if (atomic_load(&canary->on) == on)
		return;
	atomic_store(&canary->seen_ns, now_ns);
	atomic_store(&canary->on, on);
	if (on)
		eventfd_write(canary->wake_fd, 1);
}

bool canary_is_starved(const struct canary *canary, int64_t now_ns)
{
	return atomic_load(&canary->on) && now_ns - atomic_load(&canary->seen_ns) > STARVED_NS;
}
