/* SPDX-License-Identifier: MIT */
/*
 * worker.h - the threads that read requests from the kernel, handle them, and answer.
 *
 * There are as many as are needed at once, up to a limit: one that takes a request and leaves nobody waiting starts the
 * next. They wait by epoll with EPOLLEXCLUSIVE, so that a request wakes one of them, and all can be woken to stop.
 *
 * While all requests come from one thread, one worker serves them, the leader (leader.h); the others are parked, so that
 * no request wakes two. When one has been left waiting for long, because the leader is held up or not given a processor, a
 * guard (guard.h) has all workers wait for requests again.
 */
#ifndef FSTAPE_WORKER_H
#define FSTAPE_WORKER_H

#include <pthread.h>

#include "fs.h"

#define WORKER_BUFFER_SIZE (1u << 20) /* bytes: the largest answer */

struct worker_pool;

/* Of a mount that has been made. */
int worker_pool_start(struct mount *mount, struct worker_pool **ret_pool);

/* Readable once the last worker has ended: the mount is gone, or worker_pool_stop() was called. */
int worker_pool_fd(const struct worker_pool *pool);

/* Has libfuse handle a request, however it came; by any thread that cred_thread_init() has been called in. */
void worker_handle(struct mount *mount, void *request, size_t size);

/*
 * Whether a request takes long enough that it is not to be handled at idle priority: meanwhile the scheduler takes the
 * processor for a free one, and gives it to others, though there may be one that is.
 */
bool worker_is_long(const void *request, size_t size);

/* Requests taken up are still answered; then the workers end. Does not wait for them. */
void worker_pool_stop(struct worker_pool *pool);

/* Waits for the last worker. */
void worker_pool_free(struct worker_pool *pool);

/* --- for handlers, about the thread they run in -------------------------------------------------------------------- */

/* WORKER_BUFFER_SIZE bytes that are this thread's; NULL: no memory. */
void *worker_buffer(void);

/* The request asks that set-id bits be cleared, as its caller lacks CAP_FSETID. */
bool worker_kill_suidgid(void);

/* Before each answer to the kernel, by whichever thread gives it. */
void worker_before_reply(void);

/* Before a thread is started, which is not to inherit where, and how urgently, this one waits (leader.h). */
void worker_at_rest(void);

/* Starts a thread without signals; detached if `ret_thread` is NULL. 0 or -errno. */
int worker_thread_start(void *(*thread_main)(void *), void *arg, pthread_t *ret_thread);

/* Frees what a thread keeps for itself. */
void worker_thread_end(void);

#endif
