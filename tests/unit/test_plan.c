/* SPDX-License-Identifier: MIT */
/* plan.c: every round a block; balanced positions and neighbours over a cycle. */
#include "unit.h"

#include <string.h>

#include "plan.h"

#define MOST 9

static void check_block(const size_t *order, size_t n)
{
	bool seen[MOST] = {};

	for (size_t i = 0; i < n; i++) {
		assert_true(order[i] < n);
		assert_false(seen[order[i]]);
		seen[order[i]] = true;
	}
}

static void cycles_are_balanced(void **state)
{
	(void)state;
	for (size_t n = 1; n <= MOST; n++) {
		size_t length = n % 2 ? 2 * n : n;
		size_t position[MOST][MOST] = {}, after[MOST][MOST] = {};

		for (size_t round = 3 * length; round < 4 * length; round++) { /* any cycle */
			size_t order[MOST];

			plan_round(7, round, n, order);
			check_block(order, n);
			for (size_t i = 0; i < n; i++)
				position[order[i]][i]++;
			for (size_t i = 1; i < n; i++)
				after[order[i - 1]][order[i]]++;
		}
		for (size_t a = 0; a < n; a++) {
			for (size_t b = 0; b < n; b++) {
				assert_int_equal(position[a][b], length / n);
				assert_int_equal(after[a][b], a == b ? 0 : length / n);
			}
		}
	}
}

static void seeds_and_cycles_differ(void **state)
{
	size_t first[8], order[8], other_seed = 0, other_cycle = 0;

	(void)state;
	plan_round(1, 0, 8, first);
	plan_round(1, 0, 8, order);
	assert_memory_equal(first, order, sizeof(order));
	for (uint64_t i = 1; i <= 10; i++) {
		plan_round(1 + i, 0, 8, order);
		other_seed += memcmp(first, order, sizeof(order)) != 0;
		plan_round(1, 8 * i, 8, order);
		other_cycle += memcmp(first, order, sizeof(order)) != 0;
	}
	assert_in_range(other_seed, 9, 10);
	assert_in_range(other_cycle, 9, 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cycles_are_balanced),
		cmocka_unit_test(seeds_and_cycles_differ),
	};

	return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
