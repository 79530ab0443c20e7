/* SPDX-License-Identifier: MIT */
#include "guard.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

#include "base.h"
#include "worker.h"

#define IDLE_LOOKS 50 /* that found nobody busy, before the guard sleeps */

/* Those of idle priority wake it, so that there is nothing to be locked for that. */
struct guard {
	pthread_t thread;
	pthread_mutex_t lock; /* of the posts */
	struct guard_post *posts;
	int wake_fd;
	_Atomic bool sleeps, stopping;
};

static bool look(struct guard *guard, bool last)
{
	int64_t now = clock_ns(CLOCK_MONOTONIC);
	bool busy = false;

	pthread_mutex_lock(&guard->lock);
	for (struct guard_post *post = guard->posts; post; post = post->next)
		busy |= post->look(post->arg, now, last);
	pthread_mutex_unlock(&guard->lock);
	return busy;
}

/* Who has not seen in time that the guard sleeps, is seen by it. */
static void sleep_if_all_do(struct guard *guard)
{
	eventfd_t count;

	atomic_store(&guard->sleeps, true);
	if (look(guard, true))
		atomic_store(&guard->sleeps, false);
	while (atomic_load(&guard->sleeps) && !atomic_load(&guard->stopping))
		eventfd_read(guard->wake_fd, &count);
}

static void *guard_main(void *arg)
{
	struct guard *guard = arg;
	int idle = 0;

	pthread_setname_np(pthread_self(), "guard");
	while (!atomic_load(&guard->stopping)) {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){ .tv_nsec = GUARD_NS }, NULL);
		idle = look(guard, false) ? 0 : idle + 1;
		if (idle < IDLE_LOOKS)
			continue;
		sleep_if_all_do(guard);
		idle = 0;
	}
	return NULL;
}

static void destroy(struct guard *guard)
{
	if (guard->wake_fd >= 0)
		close(guard->wake_fd);
	pthread_mutex_destroy(&guard->lock);
	free(guard);
}

int guard_new(struct guard **ret_guard)
{
	struct guard *guard = calloc(1, sizeof(*guard));
	int err;

	if (!guard)
		return -ENOMEM;
	pthread_mutex_init(&guard->lock, NULL);
	guard->wake_fd = eventfd(0, EFD_CLOEXEC);
	err = guard->wake_fd < 0 ? -errno : worker_thread_start(guard_main, guard, &guard->thread);
	if (err < 0)
		destroy(guard);
	else
		*ret_guard = guard;
	return err;
}

void guard_free(struct guard *guard)
{
	if (!guard)
		return;
	atomic_store(&guard->stopping, true);
	eventfd_write(guard->wake_fd, 1);
	pthread_join(guard->thread, NULL);
	destroy(guard);
}

void guard_add(struct guard *guard, struct guard_post *post)
{
	if (!guard)
		return;
	pthread_mutex_lock(&guard->lock);
	post->next = guard->posts;
	guard->posts = post;
	pthread_mutex_unlock(&guard->lock);
}

void guard_remove(struct guard *guard, struct guard_post *post)
{
	if (!guard)
		return;
	pthread_mutex_lock(&guard->lock);
	for (struct guard_post **at = &guard->posts; *at; at = &(*at)->next)
		if (*at == post) {
			*at = post->next;
			break;
		}
	pthread_mutex_unlock(&guard->lock);
}

void guard_wake(struct guard *guard)
{
	if (guard && atomic_load(&guard->sleeps) && atomic_exchange(&guard->sleeps, false))
		eventfd_write(guard->wake_fd, 1);
}
