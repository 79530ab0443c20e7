/* SPDX-License-Identifier: MIT */
/*
 * ban.h - for how long something is not tried again after it went wrong: the longer, the sooner it went wrong again. What
 * went wrong once may have been chance, and costs little; what does each time is left alone for most of the time.
 */
#ifndef FSTAPE_BAN_H
#define FSTAPE_BAN_H

#include <stdbool.h>
#include <stdint.h>

#define BAN_LEAST_NS 1000000
#define BAN_MOST_NS 16000000
#define BAN_MEMORY 4 /* times its length, after its end, until a ban is forgotten */

/* All zero: none. One thread's. What is still going wrong while a ban holds, as a guard finds at each look, is no news. */
struct ban {
	int64_t until_ns, length_ns;
};

static inline bool ban_holds(const struct ban *ban, int64_t now_ns)
{
	return now_ns < ban->until_ns;
}

static inline void ban_start(struct ban *ban, int64_t now_ns)
{
	if (ban_holds(ban, now_ns))
		return;
	if (!ban->length_ns || now_ns - ban->until_ns > BAN_MEMORY * ban->length_ns)
		ban->length_ns = BAN_LEAST_NS;
	else if (ban->length_ns < BAN_MOST_NS)
		ban->length_ns *= 2;
	ban->until_ns = now_ns + ban->length_ns;
}

#endif
