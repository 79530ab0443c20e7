/* SPDX-License-Identifier: MIT */
#include "replay_run.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "replay_check.h"
#include "replay_wait.h"

#define LOOK_NS     100000000 /* between looks at the whole, for whoever waits for it */
#define FDS_RESERVE 64	      /* of the process: database, standard streams, libraries */
#define STACK_SIZE  (256u << 10)

/* --- actions ----------------------------------------------------------------------------------------------------- */

static void perform(struct worker *w, uint32_t number, uint32_t idle_ns)
{
	const struct replay *r = w->replay;
	const struct action *a = &r->plan->actions[number];
	struct outcome *o = &r->outcomes[number];
	int64_t end;

	w->fs_ns = 0;
	w->calls = 0;
	w->state = OUTCOME_NONE;
	o->start_ns = clock_ns(CLOCK_MONOTONIC) - r->start_ns;
	o->result = worker_perform(w, a);
	end = clock_ns(CLOCK_MONOTONIC) - r->start_ns;
	o->dur_ns = end - o->start_ns > UINT32_MAX ? UINT32_MAX : (uint32_t)(end - o->start_ns);
	o->fs_ns = w->fs_ns > UINT32_MAX ? UINT32_MAX : (uint32_t)w->fs_ns;
	o->idle_ns = idle_ns;
	if (r->options->pace > 0)
		pause_owe(w, a, o->result, end - o->start_ns - w->fs_ns);
	o->state = w->state != OUTCOME_NONE ? w->state : (uint8_t)check_result(a, o->result);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct replay *r = w->replay;
	const struct plan *plan = r->plan;
	const struct plan_thread *thread = &plan->threads[w->thread];
	int64_t free_ns = 0;

	prctl(PR_SET_TIMERSLACK, 1);
	atomic_fetch_sub(&r->waiting, 1);
	while (atomic_load(&r->waiting) && !replay_given_up(r))
		sched_yield();
	for (uint32_t i = 0; i < thread->count && !replay_given_up(r); i++) {
		uint32_t number = plan->turns[thread->first + i], idle = 0;

		if (!wait_for_others(w, number))
			break;
		if (plan->actions[number].how == ACTION_ISSUED) {
			if (r->options->pace > 0 && !pause_before(w, number, free_ns, &idle))
				break;
			perform(w, number, idle);
			free_ns = r->outcomes[number].start_ns + r->outcomes[number].dur_ns;
		} else if (r->options->pace > 0) {
			pause_owed(w, number);
		}
		wait_publish(r, w->thread, i + 1);
	}
	w->times.unpaid_ns = w->debt_ns > 0 ? w->debt_ns : 0;
	worker_free(w);
	return NULL;
}

/* --- the whole --------------------------------------------------------------------------------------------------- */

static void show_progress(struct replay *r)
{
	uint64_t done = 0;

	for (uint32_t t = 0; t < r->plan->n_threads; t++)
		done += atomic_load_explicit(&r->advances[t].done, memory_order_relaxed);
	r->options->progress(r->options->progress_arg, done, r->plan->n_actions);
}

/* Threads in the order of their numbers: each one's end is waited for with a look at the whole from time to time. */
static void join_all(struct replay *r, pthread_t *threads, uint32_t count)
{
	for (uint32_t t = 0; t < count; t++) {
		struct timespec limit;

		do {
			clock_gettime(CLOCK_REALTIME, &limit);
			limit.tv_nsec += LOOK_NS;
			if (limit.tv_nsec >= NSEC_PER_SEC) {
				limit.tv_sec++;
				limit.tv_nsec -= NSEC_PER_SEC;
			}
			if (r->options->progress)
				show_progress(r);
		} while (pthread_timedjoin_np(threads[t], NULL, &limit) == ETIMEDOUT);
	}
}

static void add_times(struct replay_times *sum, const struct replay_times *times)
{
	sum->think_ns += times->think_ns;
	sum->blocked_ns += times->blocked_ns;
	sum->order_ns += times->order_ns;
	sum->twice_ns += times->twice_ns;
	sum->unpaid_ns += times->unpaid_ns;
}

static int run_threads(struct replay *r, struct replay_result *result)
{
	uint32_t n = r->plan->n_threads, started = 0;
	auto_free pthread_t *threads = calloc(n + 1, sizeof(*threads));
	auto_free struct worker *workers = calloc(n + 1, sizeof(*workers));
	pthread_attr_t attr;
	int err = 0;

	if (!threads || !workers)
		return -ENOMEM;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	if (r->options->pace > 0)
		r->doubles = doubles_measure();
	atomic_store(&r->waiting, n + 1);
	for (; started < n && err == 0; started++) {
		workers[started] = (struct worker){ .replay = r, .thread = started };
		err = -pthread_create(&threads[started], &attr, work, &workers[started]);
		if (err < 0)
			break;
	}
	pthread_attr_destroy(&attr);
	if (err < 0)
		atomic_store(&r->abandoned, true);
	result->start_real_ns = clock_ns(CLOCK_REALTIME);
	result->start_mono_ns = r->start_ns = clock_ns(CLOCK_MONOTONIC);
	atomic_fetch_sub(&r->waiting, 1);
	join_all(r, threads, started);
	for (uint32_t t = 0; t < started; t++)
		add_times(&result->times, &workers[t].times);
	return err;
}

static uint32_t raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 1024;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	return getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur > 1u << 20 ? 1u << 20 : (uint32_t)limit.rlim_cur;
}

static void drop_caches(void)
{
	int fd;

	sync();
	fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "3", 1) != 1)
		log_errno(errno, "the kernel's caches are not dropped, so --cold does less than it should");
	if (fd >= 0)
		close(fd);
}

static int prepare(struct replay *r, int root_fd)
{
	const struct plan *plan = r->plan;
	uint32_t files = raise_file_limit();
	int err = dirs_new(
		plan, root_fd, files > 2 * FDS_RESERVE ? (files - FDS_RESERVE) / 2 : FDS_RESERVE / 2, &r->dirs);

	if (err < 0)
		return err;
	r->files = calloc((size_t)plan->n_handles + 1, sizeof(*r->files));
	r->advances = aligned_alloc(64, (plan->n_threads + 1) * sizeof(*r->advances));
	r->outcomes = calloc((size_t)plan->n_actions + 1, sizeof(*r->outcomes));
	if (!r->files || !r->advances || !r->outcomes)
		return -ENOMEM;
	memset(r->advances, 0, (plan->n_threads + 1) * sizeof(*r->advances));
	for (uint32_t i = 0; i <= plan->n_handles; i++)
		atomic_init(&r->files[i].fd, -1);
	return 0;
}

static void finish(struct replay *r, struct replay_result *result)
{
	for (uint32_t i = 1; i <= r->plan->n_actions; i++) {
		const struct outcome *o = &r->outcomes[i];

		if (o->state == OUTCOME_NONE)
			continue;
		result->done++;
		if (o->start_ns + o->dur_ns > result->wall_ns)
			result->wall_ns = o->start_ns + o->dur_ns;
	}
	result->doubles = r->doubles;
	result->pace = r->options->pace;
	result->stopped = r->options->stop && *r->options->stop;
}

int replay_run(
	const struct plan *plan, int root_fd, const struct replay_options *options, struct replay_result *ret_result)
{
	struct replay r = { .plan = plan, .options = options };
	struct replay_result result = {};
	int err = prepare(&r, root_fd);
	mode_t mask = umask(0); /* modes were recorded with the callers' umasks applied */

	if (err == 0 && options->cold)
		drop_caches();
	else if (err == 0 && options->pace > 0)
		dirs_open_ahead(r.dirs); /* not where that would fill caches that are to be cold */
	err = err ?: run_threads(&r, &result);
	umask(mask);
	if (err < 0)
		log_errno(err, "cannot replay");
	else
		finish(&r, &result);
	for (uint32_t i = 1; r.files && i <= plan->n_handles; i++)
		if (atomic_load(&r.files[i].fd) >= 0)
			close(atomic_load(&r.files[i].fd));
	dirs_free(r.dirs);
	free(r.files);
	free(r.advances);
	if (err < 0) {
		free(r.outcomes);
		return err;
	}
	result.outcomes = r.outcomes;
	*ret_result = result;
	return 0;
}
