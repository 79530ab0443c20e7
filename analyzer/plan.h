/* SPDX-License-Identifier: MIT */
/*
 * plan.h - in which order things that are compared get their turn.
 *
 * Every round is a block: each item once. Over `n` rounds (2n when n is odd) each item stands equally often
 * at each position and equally often after each other one, as in E. J. Williams' designs of 1949; which item
 * plays which part is drawn anew for each such cycle. So neither drift nor what the predecessor leaves behind
 * favours anybody.
 */
#ifndef FSTAPE_PLAN_H
#define FSTAPE_PLAN_H

#include <stddef.h>
#include <stdint.h>

/* The order of the `n` items in round 0, 1, ...: the same for the same seed. */
void plan_round(uint64_t seed, size_t round, size_t n, size_t *ret_order);

#endif
