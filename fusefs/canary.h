/* SPDX-License-Identifier: MIT */
/*
 * canary.h - whether threads of idle priority get a processor at all: one more of them, on that processor, that does nothing
 * but look at the clock every CANARY_NS. Threads that wait at that priority (ring.h) cannot tell it themselves.
 */
#ifndef FSTAPE_CANARY_H
#define FSTAPE_CANARY_H

#include <stdbool.h>
#include <stdint.h>

#define CANARY_NS 1000000

struct canary;

/* 0 or -errno. It sleeps. */
int canary_new(unsigned int processor, struct canary **ret_canary);

/* Waits for it, at ordinary priority. Nothing for NULL. */
void canary_free(struct canary *canary);

/* By one thread: it looks at the clock from now on (CLOCK_MONOTONIC), or sleeps. Nothing for what it does already. */
void canary_watch(struct canary *canary, int64_t now_ns, bool on);

/* It is on, and has not been given the processor for several times as long as it sleeps. */
bool canary_is_starved(const struct canary *canary, int64_t now_ns);

#endif
