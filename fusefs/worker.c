/* SPDX-License-Identifier: MIT */
#include "worker.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "cred.h"
#include "dir.h"
#include "event_args.h"
#include "mount.h"
#include "recorder.h"
#include "session.h"

#define REQUEST_SIZE (WORKER_BUFFER_SIZE + (64u << 10)) /* the largest write, and its header */

struct worker_pool {
	struct mount *mount;
	struct fuse_session *se;
	int fuse_fd;
	int stop_fd; /* readable: end */
	int over_fd; /* readable: all have ended */
	unsigned int most;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	unsigned int running, idle;
	_Atomic bool stopping;
};

static _Thread_local char *buffer;
static _Thread_local bool kill_suidgid;

void *worker_buffer(void)
{
	if (!buffer)
		buffer = malloc(WORKER_BUFFER_SIZE);
	return buffer;
}

bool worker_kill_suidgid(void)
{
	return kill_suidgid;
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

static int start_worker(struct worker_pool *pool);

/* The last idle worker has taken a request: somebody else must wait for the next one. */
static void no_longer_idle(struct worker_pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	if (--pool->idle == 0 && pool->running < pool->most && !atomic_load(&pool->stopping))
		start_worker(pool);
	pthread_mutex_unlock(&pool->lock);
}

static void idle_again(struct worker_pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	pool->idle++;
	pthread_mutex_unlock(&pool->lock);
}

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
	struct fuse_buf buf = { .mem = mem, .size = size };

	session_note_request(pool->mount->session, mem, size);
	kill_suidgid = wants_kill(mem, size);
	fuse_session_process_buf(pool->se, &buf);
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

static void serve(struct worker_pool *pool, int epoll_fd, void *mem)
{
	for (;;) {
		ssize_t size = receive(pool, mem);

		if (size == 0) {
			if (!wait_for_request(pool, epoll_fd))
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
		idle_again(pool);
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

static void *worker_main(void *arg)
{
	struct worker_pool *pool = arg;
	void *mem = malloc(REQUEST_SIZE);
	int epoll_fd = make_epoll(pool);

	pthread_setname_np(pthread_self(), "worker");
	cred_thread_init(pool->mount->fs);
	if (mem && epoll_fd >= 0)
		serve(pool, epoll_fd, mem);
	else
		log_errno(mem ? epoll_fd : ENOMEM, "cannot start a worker");
	if (epoll_fd >= 0)
		close(epoll_fd);
	free(mem);
	worker_thread_end();
	pthread_mutex_lock(&pool->lock);
	pool->idle--;
	if (--pool->running == 0) {
		eventfd_write(pool->over_fd, 1);
		pthread_cond_broadcast(&pool->ended);
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

/* Under the lock. */
static int start_worker(struct worker_pool *pool)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, old;
	int err;

	sigfillset(&all); /* signals are for the main thread */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&thread, &attr, worker_main, pool);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err == 0) {
		pool->running++;
		pool->idle++;
	}
	return -err;
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
	if (pool->stop_fd < 0 || pool->over_fd < 0 || flags < 0 ||
		fcntl(pool->fuse_fd, F_SETFL, flags | O_NONBLOCK) < 0) {
		err = -errno;
	} else {
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
}

void worker_pool_free(struct worker_pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	while (pool->running > 0)
		pthread_cond_wait(&pool->ended, &pool->lock);
	pthread_mutex_unlock(&pool->lock);
	if (pool->stop_fd >= 0)
		close(pool->stop_fd);
	if (pool->over_fd >= 0)
		close(pool->over_fd);
	pthread_cond_destroy(&pool->ended);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}
