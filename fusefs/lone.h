/* SPDX-License-Identifier: MIT */
/* lone.h - whether all requests come from one thread. Not exact among threads, nor need it be. */
#ifndef FSTAPE_LONE_H
#define FSTAPE_LONE_H

#include <stdatomic.h>
#include <sys/types.h>

#define LONE 32u     /* requests of one thread, more than of others, until it counts as alone */
#define STRANGER 8u  /* what one request of another thread counts against that */

struct lone {
	_Atomic pid_t last;
	_Atomic unsigned int score;
};

/* A request of thread `tid`, 0: of the kernel itself, which does not count. LONE or more: it is alone; 0: it is not at all. */
static inline unsigned int lone_note(struct lone *lone, pid_t tid)
{
	unsigned int score = atomic_load_explicit(&lone->score, memory_order_relaxed);

	if (!tid)
		return score;
	if (tid == atomic_load_explicit(&lone->last, memory_order_relaxed))
		score += score < 2 * LONE;
	else
		score -= score < STRANGER ? score : STRANGER;
	atomic_store_explicit(&lone->last, tid, memory_order_relaxed);
	atomic_store_explicit(&lone->score, score, memory_order_relaxed);
	return score;
}

#endif
