/* SPDX-License-Identifier: MIT */
#include "plan.h"

#include "statistics.h"

/* 0, 1, n-1, 2, n-2, ...: the differences of neighbours are all different. */
static size_t zigzag(size_t position, size_t n)
{
	return position % 2 ? (position + 1) / 2 : (n - position / 2) % n;
}

/* The items as cycle number `cycle` draws them. */
static size_t drawn(uint64_t seed, size_t cycle, size_t n, size_t index)
{
	struct random random = { seed ^ (cycle * 0x9e3779b97f4a7c15ULL) };
	size_t item = index;

	/* Follows one index through a shuffle from the back, so that no table is needed: n is small. */
	for (size_t i = n; i > 1; i--) {
		size_t j = random_below(&random, i);

		if (item == i - 1)
			item = j;
		else if (item == j)
			item = i - 1;
	}
	return item;
}

void plan_round(uint64_t seed, size_t round, size_t n, size_t *ret_order)
{
	size_t length = n % 2 ? 2 * n : n, in_cycle = round % length;

	for (size_t i = 0; i < n; i++) {
		size_t position = in_cycle < n ? i : n - 1 - i; /* an odd number needs the mirror image too */

		ret_order[i] = drawn(seed, round / length, n, (zigzag(position, n) + in_cycle) % n);
	}
}
