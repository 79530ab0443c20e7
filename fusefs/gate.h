/* SPDX-License-Identifier: MIT */
/*
 * gate.h - where threads wait until all may go on.
 *
 * Not a condition variable: to broadcast on one waits, in glibc before 2.41, until those of the last time but one have been
 * given a processor. Whoever opens this has a client's request in hand, and waits for nobody.
 *
 * To wait: gate_look(), then see whether there is still something to wait for, then gate_wait() with what the look returned.
 * To open: first change what they see, then gate_open().
 */
#ifndef FSTAPE_GATE_H
#define FSTAPE_GATE_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* All zero: nobody waits. */
struct gate {
	_Atomic uint32_t openings;
};

static inline uint32_t gate_look(const struct gate *gate)
{
	return atomic_load(&gate->openings);
}

/* Until it has been opened since that look; may return sooner. */
static inline void gate_wait(struct gate *gate, uint32_t looked)
{
	syscall(SYS_futex, &gate->openings, FUTEX_WAIT_PRIVATE, looked, NULL, NULL, 0);
}

static inline void gate_open(struct gate *gate)
{
	atomic_fetch_add(&gate->openings, 1);
	syscall(SYS_futex, &gate->openings, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

#endif
