/* SPDX-License-Identifier: MIT */
/*
 * linger.h - how a worker, when several clients ask, waits a moment for the next request before it sleeps.
 *
 * While somebody sleeps, each request wakes somebody, perhaps on another processor, even though the next worker to be done
 * would take it up a few microseconds later. One that lingers asks again and again, giving way to others in between, for as
 * long as requests come that soon. No more of them do so than there are processors.
 *
 * Each worker has one of these, for itself alone.
 */
#ifndef FSTAPE_LINGER_H
#define FSTAPE_LINGER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LINGER_NS 20000	    /* about what waking up costs */
#define LINGER_CREDIT_MOST 64
#define LINGER_MISS 8	    /* requests that have to come for each time that none did */

struct linger_limit {
	_Atomic unsigned int now;
	unsigned int most;
};

struct linger {
	unsigned int credit;
	bool on;
	bool asked; /* a request has come since it last began to wait */
	int64_t until_ns;
};

/* It sleeps, parks, or ends. */
static inline void linger_end(struct linger *linger, struct linger_limit *limit)
{
	if (linger->on)
		atomic_fetch_sub(&limit->now, 1);
	linger->on = false;
}

/* A request has come. `is_long`: its answer may take a while, for which others may linger. */
static inline void linger_received(struct linger *linger, struct linger_limit *limit, bool is_long)
{
	linger->asked = true;
	linger->credit += linger->credit < LINGER_CREDIT_MOST;
	if (is_long)
		linger_end(linger, limit);
}

static inline bool linger_may_begin(const struct linger *linger, struct linger_limit *limit)
{
	if (linger->credit < LINGER_MISS)
		return false;
	if (atomic_fetch_add(&limit->now, 1) < limit->most)
		return true;
	atomic_fetch_sub(&limit->now, 1);
	return false;
}

/* No request was there, `now` of CLOCK_MONOTONIC. True: ask again, instead of sleeping. */
static inline bool linger_on(struct linger *linger, struct linger_limit *limit, int64_t now_ns)
{
	if (linger->asked) {
		linger->asked = false;
		linger->until_ns = now_ns + LINGER_NS;
		linger->on = linger->on || linger_may_begin(linger, limit);
	}
	if (linger->on && now_ns < linger->until_ns)
		return true;
	if (linger->on)
		linger->credit -= linger->credit < LINGER_MISS ? linger->credit : LINGER_MISS;
	linger_end(linger, limit);
	return false;
}

#endif
