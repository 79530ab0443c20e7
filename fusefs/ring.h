/* SPDX-License-Identifier: MIT */
/*
 * ring.h - requests through io_uring instead of /dev/fuse: one system call answers a request and waits for the next, and
 * the kernel gives a request to a thread of the processor that it was made on.
 *
 * This is not libfuse's io_uring: that is not to be had together with a look at its answers (session.h), passes no
 * interrupts on, does not tell of HANDLE_KILLPRIV_V2's flags, and has one thread for each processor, so that an operation
 * that takes long holds up all others there. It takes the kernel's part alone (Linux 6.14), so any libfuse will do.
 *
 * The kernel has a queue for each processor. Here each queue has threads, as many as are needed at once, and each thread has
 * a ring of its own with one entry: the memory for one request and its answer. FORGET, interrupts and what comes
 * before the ring is there still arrive at /dev/fuse, where worker.h waits for them. A request whose handler defers its
 * answer keeps its thread until the answer is given.
 */
#ifndef FSTAPE_RING_H
#define FSTAPE_RING_H

#include <sys/uio.h>

#include "fs.h"

struct ring;

/*
 * Everything that can fail, for a mount whose INIT has not been answered yet: once the kernel has been told of the ring it waits
 * for it. -errno with the reason in words, for people, in `*ret_why_not`.
 */
int ring_new(struct mount *mount, struct ring **ret_ring, const char **ret_why_not);

/* INIT has been answered: the threads begin. -errno: the mount cannot serve. */
int ring_start(struct ring *ring);

/* Requests taken up are still answered, others not; waits for the threads. Nothing for NULL. */
void ring_stop(struct ring *ring);
void ring_free(struct ring *ring);

/* An answer of libfuse's, by any thread. True: it was to a request of the ring, and `*ret_result` is as writev(2)'s. */
bool ring_answer(struct ring *ring, const struct iovec *iov, int count, ssize_t *ret_result);

/* For the handler of a READ in one of the ring's threads: where the answer goes, WORKER_BUFFER_SIZE bytes; else NULL. */
void *ring_read_buffer(void);

/* For worker_at_rest(): a thread of the ring is of ordinary priority from here to its next answer; nothing in others. */
void ring_at_rest(void);

#endif
