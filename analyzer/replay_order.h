/* SPDX-License-Identifier: MIT */
/*
 * replay_order.h - which actions wait for which: the partial order of docs/replay-order.md.
 *
 * Operations share resources: a name, an object's existence, an open file, a file's data, a directory's listing, its
 * locks. Each use of a resource has a class; uses of the same shared class may overlap in any way, a use of another
 * class waits for all those before it. So the uses of a resource form phases, and each use waits for the former phase:
 *
 *   EXCLUSIVE   a phase of its own: makes, removes, changes
 *   SHARED      uses that do not disturb one another: reads, look-ups, names within a directory that stays
 *   SHARED_ALSO the same, among themselves: changes of a directory, which disturb its listings and not each other
 *
 * A thread does its actions in order anyway, so a phase is remembered by the last action of each thread in it, and a
 * wait is left out when the thread has waited for that action or a later one of the same thread already.
 */
#ifndef FSTAPE_REPLAY_ORDER_H
#define FSTAPE_REPLAY_ORDER_H

#include "replay_plan.h"

enum use { USE_NONE, USE_SHARED, USE_SHARED_ALSO, USE_EXCLUSIVE };

struct order;

int order_new(struct plan *plan, uint32_t threads, bool no_order, struct order **ret_order);
void order_free(struct order *order);

/* The next action's thread is known and its uses follow; `action` is its number, one above that of the former call. */
void order_begin(struct order *order, uint32_t action);

/* The action of order_begin() uses a resource; *resource 0: the first use of it. 0 or -ENOMEM. */
int order_use(struct order *order, uint32_t *resource, enum use use, enum wait_rule rule);

/* Nothing overlaps with this action: it waits for all before it, all after it wait for it. */
int order_barrier(struct order *order, enum wait_rule rule);

/* After all uses of the action. 0 or -ENOMEM. */
int order_end(struct order *order);

/* "name", ... as in --explain and docs/replay-order.md; why, in words. */
const char *wait_rule_name(enum wait_rule rule);
const char *wait_rule_reason(enum wait_rule rule);

#endif
