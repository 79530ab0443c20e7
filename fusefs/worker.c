/* SPDX-License-Identifier: MIT */
#include "worker.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "cred.h"
#include "dir.h"
#include "event_args.h"
#include "gate.h"
#include "giveway.h"
#include "guard.h"
#include "leader.h"
#include "linger.h"
#include "lone.h"
#include "mount.h"
#include "priority.h"
#include "recorder.h"
#include "ring.h"
#include "session.h"

#define REQUEST_SIZE (WORKER_BUFFER_SIZE + (64u << 10)) /* the largest write, and its header */
#define LONG_IO 32768 /* bytes that take longer than the way to another processor */

struct worker_pool {
	struct mount *mount;
	struct fuse_session *se;
	int fuse_fd;
	int stop_fd; /* readable: end */
	int over_fd; /* readable: all have ended */
	unsigned int most;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	unsigned int running;
	_Atomic unsigned int idle;
	_Atomic bool stopping;
	struct linger_limit lingering;

	/* of a lone client */
	struct leader_settings settings;
	struct leader *_Atomic leading; /* of the leading worker; NULL: all wait for requests. Kept alive by the lock */
	struct lone lone;
	struct gate parked;
	struct guard_post post;
	struct giveway *members; /* of all workers; under the lock */
};

static _Thread_local char *buffer;
static _Thread_local bool kill_suidgid;
static _Thread_local struct linger linger;
static _Thread_local struct leader *mine;
static _Thread_local bool leads; /* this thread is the leader */

void *worker_buffer(void)
{
	void *of_ring = ring_read_buffer();

	if (of_ring)
		return of_ring;
	if (!buffer)
		buffer = malloc(WORKER_BUFFER_SIZE);
	return buffer;
}

bool worker_kill_suidgid(void)
{
	return kill_suidgid;
}

void worker_before_reply(void)
{
	if (leads)
		leader_before_reply(mine);
}

void worker_at_rest(void)
{
	if (leads)
		leader_rest(mine);
	ring_at_rest();
}

void worker_thread_end(void)
{
	free(buffer);
	buffer = NULL;
	recorder_thread_end();
	event_args_thread_end();
	dir_thread_end();
}

/* The flag comes with every change of owner: there it is the filesystem below that clears bits, by who asks. */
static bool wants_setattr_kill(const struct fuse_in_header *in, const struct fuse_setattr_in *arg)
{
	const uint32_t others = FATTR_MODE | FATTR_SIZE | FATTR_ATIME | FATTR_MTIME;

	if (arg->valid & (FATTR_UID | FATTR_GID) || !(arg->valid & others))
		return in->uid != 0;
	return arg->valid & FATTR_KILL_SUIDGID;
}

/* What libfuse 3.14 does not pass on: the flags of HANDLE_KILLPRIV_V2, which session.c negotiates. */
static bool wants_kill(const void *request, size_t size)
{
	const struct fuse_in_header *in = request;
	const void *arg = in + 1;
	size_t arg_size = size - sizeof(*in);

	switch (in->opcode) {
	case FUSE_WRITE:
		return arg_size >= sizeof(struct fuse_write_in) &&
		       (((const struct fuse_write_in *)arg)->write_flags & FUSE_WRITE_KILL_SUIDGID);
	case FUSE_OPEN:
		return arg_size >= sizeof(struct fuse_open_in) &&
		       (((const struct fuse_open_in *)arg)->open_flags & FUSE_OPEN_KILL_SUIDGID);
	case FUSE_CREATE:
		return arg_size >= sizeof(struct fuse_create_in) &&
		       (((const struct fuse_create_in *)arg)->open_flags & FUSE_OPEN_KILL_SUIDGID);
	case FUSE_SETATTR:
		return arg_size >= sizeof(struct fuse_setattr_in) && wants_setattr_kill(in, arg);
	case FUSE_FALLOCATE: /* these two carry no flag */
	case FUSE_COPY_FILE_RANGE:
		return in->uid != 0;
	default:
		return false;
	}
}

bool worker_is_long(const void *request, size_t size)
{
	const struct fuse_in_header *in = request;
	const struct fuse_read_in *arg = (const void *)(in + 1);

	switch (in->opcode) {
	case FUSE_WRITE:
		return size > LONG_IO;
	case FUSE_READ:
		return size >= sizeof(*in) + sizeof(*arg) && arg->size > LONG_IO;
	case FUSE_FSYNC:
	case FUSE_FSYNCDIR:
	case FUSE_FALLOCATE:
	case FUSE_COPY_FILE_RANGE:
		return true;
	default:
		return false;
	}
}

void worker_handle(struct mount *mount, void *request, size_t size)
{
	struct fuse_buf buf = { .mem = request, .size = size };

	kill_suidgid = wants_kill(request, size);
	session_answer_for(mount);
	fuse_session_process_buf(mount->se, &buf);
	session_answer_for(NULL);
}

/* By workers: not at idle priority, as the guard takes the lock. */
static void lock_pool(struct worker_pool *pool)
{
	worker_at_rest();
	pthread_mutex_lock(&pool->lock);
}

static int start_worker(struct worker_pool *pool);

/* The last idle worker has taken a request: somebody else must wait for the next one. */
static void no_longer_idle(struct worker_pool *pool)
{
	if (atomic_fetch_sub(&pool->idle, 1) > 1)
		return;
	lock_pool(pool);
	if (atomic_load(&pool->idle) == 0 && pool->running < pool->most && !atomic_load(&pool->stopping))
		start_worker(pool);
	pthread_mutex_unlock(&pool->lock);
}

/* --- one client alone ---------------------------------------------------------------------------------------------- */

/* All wait for requests again. Under the lock. */
static void end_lead(struct worker_pool *pool)
{
	atomic_store(&pool->lone.score, 0);
	atomic_store(&pool->leading, NULL);
	gate_open(&pool->parked);
}

/* Given up, or taken away by the guard: it is not to wait for others where, and as, it waited for its client. */
static void notice_lost_lead(const struct leader *leading)
{
	if (!leads || leading == mine)
		return;
	leader_end(mine);
	leads = false;
}

/* Keeps count of who asks, and lets this worker take the lead or give it up. */
static void note_client(struct worker_pool *pool, const char *mem, size_t size)
{
	const struct fuse_in_header *in = (const void *)mem;
	pid_t tid = (pid_t)in->pid;
	unsigned int alone = lone_note(&pool->lone, tid);
	struct leader *leading = atomic_load_explicit(&pool->leading, memory_order_relaxed);

	if (tid && !leading && alone >= LONE && pool->settings.wait != WAIT_POOL &&
		atomic_compare_exchange_strong(&pool->leading, &leading, mine)) {
		leader_begin(mine);
		leads = true;
	} else if (tid && leading == mine && alone == 0) {
		lock_pool(pool);
		end_lead(pool);
		pthread_mutex_unlock(&pool->lock);
	}
	notice_lost_lead(atomic_load(&pool->leading));
	if (!leads)
		return;
	leader_received(mine, tid, in->opcode != FUSE_READ && in->opcode != FUSE_FLUSH);
	if (worker_is_long(mem, size))
		giveway_end(leader_giveway(mine)); /* until it answers */
	guard_wake(pool->mount->fs->guard);
}

static bool is_waiting(const struct worker_pool *pool)
{
	struct pollfd fd = { pool->fuse_fd, POLLIN, 0 };

	return poll(&fd, 1, 0) == 1;
}

/*
 * The guard's look (guard.h) at the one that leads, and at those that did and are held up: no other is ever busy in its
 * sense. Only who leads keeps others from serving.
 */
static bool look(void *arg, int64_t now_ns, bool last)
{
	struct worker_pool *pool = arg;
	bool busy = false, late = false, waiting = false, held_up = false;
	struct leader *leading;

	(void)last;
	pthread_mutex_lock(&pool->lock);
	leading = atomic_load(&pool->leading);
	for (struct giveway *give = pool->members; give; give = give->next) {
		busy |= giveway_is_busy(give);
		if (!giveway_is_late(give, now_ns))
			continue;
		waiting = late ? waiting : is_waiting(pool);
		late = true;
		/* One that was put aside goes on now; if that was not what held it up, it is found again. */
		if (!giveway_relieve(give, waiting))
			held_up |= leading && give == leader_giveway(leading);
	}
	if (held_up && waiting)
		end_lead(pool);
	pthread_mutex_unlock(&pool->lock);
	return busy;
}

/* Until there is no leader, or the leader is this worker. */
static void park(struct worker_pool *pool)
{
	for (;;) {
		uint32_t looked = gate_look(&pool->parked);
		struct leader *leading = atomic_load(&pool->leading);

		if (!leading || leading == mine || atomic_load(&pool->stopping))
			return;
		gate_wait(&pool->parked, looked);
	}
}

/* --- requests ------------------------------------------------------------------------------------------------------ */

/* A request into `mem`. Its size; 0 when none is there (any more); -ENODEV when the mount has ended. */
static ssize_t receive(struct worker_pool *pool, void *mem)
{
	ssize_t size = read(pool->fuse_fd, mem, REQUEST_SIZE);

	if (size >= 0)
		return size < (ssize_t)sizeof(struct fuse_in_header) ? -EIO : size;
	/* ENOENT: the request was interrupted before it was read. */
	return errno == EAGAIN || errno == EINTR || errno == ENOENT ? 0 : -errno;
}

static void handle(struct worker_pool *pool, void *mem, size_t size)
{
	note_client(pool, mem, size);
	linger_received(&linger, &pool->lingering, worker_is_long(mem, size));
	session_note_request(pool->mount->session, mem, size);
	worker_handle(pool->mount, mem, size);
}

/* Sleeps until there may be a request. False: time to end. */
static bool wait_for_request(struct worker_pool *pool, int epoll_fd)
{
	struct epoll_event event;

	while (!atomic_load(&pool->stopping)) {
		int got = epoll_wait(epoll_fd, &event, 1, -1);

		if (got == 1)
			return !atomic_load(&pool->stopping);
		if (got < 0 && errno != EINTR)
			return false;
	}
	return false;
}

/*
 * No request is there: what to do before asking again. False: time to end. Only here may a worker be parked, and not
 * between the kernel's wake-up and its look for the request: it would take the wake-up along.
 */
static bool next_round(struct worker_pool *pool, int epoll_fd)
{
	struct leader *leading = atomic_load(&pool->leading);

	notice_lost_lead(leading);
	if (leading) {
		linger_end(&linger, &pool->lingering);
		if (leading != mine) {
			park(pool);
			return !atomic_load(&pool->stopping);
		}
		if (leader_poll(mine))
			return !atomic_load(&pool->stopping);
	} else if (pool->settings.wait == WAIT_AUTO && linger_on(&linger, &pool->lingering, clock_ns(CLOCK_MONOTONIC))) {
		sched_yield();
		return !atomic_load(&pool->stopping);
	}
	return wait_for_request(pool, epoll_fd);
}

static void serve(struct worker_pool *pool, int epoll_fd, void *mem)
{
	for (;;) {
		ssize_t size = receive(pool, mem);

		if (size == 0) {
			if (!next_round(pool, epoll_fd))
				return;
			continue;
		}
		if (size < 0) {
			if (size != -ENODEV && size != -ECONNABORTED)
				log_errno((int)size, "reading from the kernel");
			worker_pool_stop(pool);
			return;
		}
		no_longer_idle(pool);
		handle(pool, mem, (size_t)size);
		atomic_fetch_add(&pool->idle, 1);
		if (atomic_load(&pool->stopping))
			return;
	}
}

static int make_epoll(struct worker_pool *pool)
{
	int auto_close fd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event request = { .events = EPOLLIN | EPOLLEXCLUSIVE }, stop = { .events = EPOLLIN };

	if (fd < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, pool->fuse_fd, &request) < 0 ||
		epoll_ctl(fd, EPOLL_CTL_ADD, pool->stop_fd, &stop) < 0)
		return -errno;
	return steal_fd(&fd);
}

static void join(struct worker_pool *pool, struct giveway *give)
{
	pthread_mutex_lock(&pool->lock);
	give->next = pool->members;
	pool->members = give;
	pthread_mutex_unlock(&pool->lock);
}

/* Under the lock. */
static void leave(struct worker_pool *pool, const struct giveway *give)
{
	struct giveway **at = &pool->members;

	while (*at && *at != give)
		at = &(*at)->next;
	if (*at)
		*at = give->next;
}

static void *worker_main(void *arg)
{
	struct worker_pool *pool = arg;
	void *mem = malloc(REQUEST_SIZE);
	int epoll_fd = make_epoll(pool), err;

	pthread_setname_np(pthread_self(), "worker");
	priority_init();
	cred_thread_init(pool->mount->fs);
	err = !mem ? -ENOMEM : epoll_fd < 0 ? epoll_fd : leader_new(&pool->settings, &mine);
	if (err == 0) {
		join(pool, leader_giveway(mine));
		serve(pool, epoll_fd, mem);
	} else {
		log_errno(err, "cannot start a worker");
	}
	if (epoll_fd >= 0)
		close(epoll_fd);
	free(mem);
	worker_thread_end();
	linger_end(&linger, &pool->lingering);
	lock_pool(pool);
	if (atomic_load(&pool->leading) == mine)
		end_lead(pool);
	if (mine)
		leave(pool, leader_giveway(mine));
	leader_free(mine);
	atomic_fetch_sub(&pool->idle, 1);
	if (--pool->running == 0) {
		eventfd_write(pool->over_fd, 1);
		pthread_cond_broadcast(&pool->ended);
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

int worker_thread_start(void *(*thread_main)(void *), void *arg, pthread_t *ret_thread)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, old;
	int err;

	worker_at_rest();
	sigfillset(&all); /* signals are for the main thread */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attr);
	if (!ret_thread)
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = pthread_create(ret_thread ?: &thread, &attr, thread_main, arg);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -err;
}

/* Under the lock. */
static int start_worker(struct worker_pool *pool)
{
	int err = worker_thread_start(worker_main, pool, NULL);

	if (err == 0) {
		pool->running++;
		atomic_fetch_add(&pool->idle, 1);
	}
	return err;
}

int worker_pool_start(struct mount *mount, struct worker_pool **ret_pool)
{
	struct worker_pool *pool = calloc(1, sizeof(*pool));
	int flags, err;

	if (!pool)
		return -ENOMEM;
	pool->mount = mount;
	pool->se = mount->se;
	pool->fuse_fd = fuse_session_fd(mount->se);
	pool->most = mount->fs->options.threads;
	pool->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pool->over_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->ended, NULL);
	flags = fcntl(pool->fuse_fd, F_GETFL);
	leader_settings_init(mount->fs->options.wait, &pool->settings);
	pool->lingering.most = (unsigned int)CPU_COUNT(&pool->settings.processors);
	if (pool->stop_fd < 0 || pool->over_fd < 0 || flags < 0 ||
		fcntl(pool->fuse_fd, F_SETFL, flags | O_NONBLOCK) < 0) {
		err = -errno;
	} else {
		pool->post = (struct guard_post){ .look = look, .arg = pool };
		guard_add(mount->fs->guard, &pool->post);
		pthread_mutex_lock(&pool->lock);
		err = start_worker(pool);
		pthread_mutex_unlock(&pool->lock);
	}
	if (err < 0) {
		worker_pool_free(pool);
		return err;
	}
	*ret_pool = pool;
	return 0;
}

int worker_pool_fd(const struct worker_pool *pool)
{
	return pool->over_fd;
}

void worker_pool_stop(struct worker_pool *pool)
{
	atomic_store(&pool->stopping, true);
	eventfd_write(pool->stop_fd, 1);
	gate_open(&pool->parked);
}

void worker_pool_free(struct worker_pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	while (pool->running > 0)
		pthread_cond_wait(&pool->ended, &pool->lock);
	pthread_mutex_unlock(&pool->lock);
	guard_remove(pool->mount->fs->guard, &pool->post);
	if (pool->stop_fd >= 0)
		close(pool->stop_fd);
	if (pool->over_fd >= 0)
		close(pool->over_fd);
	pthread_cond_destroy(&pool->ended);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}
