/* SPDX-License-Identifier: MIT */
/*
 * compare_why.h - what the difference between a group and its baseline consists of.
 *
 * All figures are means over the runs of a group, so that parts add up. Of recordings,
 *
 *   real = time in the filesystem, by operation
 *        + time of requests outside the filesystem (the shim's work, its waiting for a processor)
 *        - time that requests overlapped
 *        + time without a request, in which the program computed: user time
 *                                  or not: kernel, wake-ups, idle
 *
 * and the difference of an operation's time is divided between its count and its latency:
 * (c1-c0)*(l1+l0)/2 + (l1-l0)*(c1+c0)/2. Of native runs there is user, sys, and the rest: waiting. Phases of git
 * divide the same difference once more, another way. Device counters say what was waited for; they overlap all that.
 * Where compare_differs() finds no difference, that is said first, and parts have no share of it.
 */
#ifndef FSTAPE_COMPARE_WHY_H
#define FSTAPE_COMPARE_WHY_H

#include "command.h"
#include "compare.h"

enum why_length { WHY_SUMMARY, WHY_ALL };

/* Whether there are two groups to explain a difference of. */
bool compare_why_has_any(const struct compare *compare);

/*
 * On standard output, in the invocation's format: for each group with a baseline, first the operations whose counts
 * differ in every round, then parts of the difference in time, largest first, then phases, then device counters.
 */
int compare_why_print(const struct context *context, const struct compare *compare, enum why_length length);

#endif
