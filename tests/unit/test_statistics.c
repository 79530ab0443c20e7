/* SPDX-License-Identifier: MIT */
/* statistics.c: random numbers, medians, the bootstrap interval. */
#include "unit.h"

#include <math.h>
#include <string.h>

#include "statistics.h"

#define LONGEST 200

static void medians_of_few(void **state)
{
	double one[] = { 7 }, two[] = { 9, 1 }, odd[] = { 5, 1, 3 }, even[] = { 4, 1, 8, 2 };

	(void)state;
	assert_true(median(one, 1) == 7);
	assert_true(median(two, 2) == 5);
	assert_true(median(odd, 3) == 3);
	assert_true(median(even, 4) == 3);
}

static int compare_ints(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Against sorting, for every length and for ranges in which values recur. */
static void selection_agrees_with_sorting(void **state)
{
	struct random random = { 1 };

	(void)state;
	for (size_t n = 1; n < LONGEST; n++) {
		for (int range = 1; range < 1000; range *= 5) {
			int64_t values[LONGEST], sorted[LONGEST], expected;

			for (size_t i = 0; i < n; i++)
				values[i] = (int64_t)random_below(&random, (uint64_t)range) - range / 2;
			memcpy(sorted, values, sizeof(sorted[0]) * n);
			qsort(sorted, n, sizeof(sorted[0]), compare_ints);
			expected = n % 2 ? sorted[n / 2]
					 : sorted[n / 2 - 1] + (sorted[n / 2] - sorted[n / 2 - 1]) / 2;
			assert_int_equal(median_int(values, n), expected);
		}
	}
}

static void selection_takes_extremes(void **state)
{
	int64_t values[] = { INT64_MAX, 0, INT64_MIN + 1 };

	(void)state;
	assert_int_equal(median_int(values, 3), 0);
}

static void random_numbers_keep_their_bounds(void **state)
{
	struct random random = { 42 }, again = { 42 };
	size_t seen[7] = {};

	(void)state;
	for (int i = 0; i < 70000; i++) {
		uint64_t x = random_below(&random, 7);
		double unit;

		assert_true(x < 7);
		seen[x]++;
		unit = random_unit(&random);
		assert_true(unit > 0 && unit <= 1);
		assert_int_equal(random_below(&again, 7), x);
		random_unit(&again);
	}
	for (size_t i = 0; i < 7; i++)
		assert_in_range(seen[i], 9500, 10500); /* 5 standard deviations */
}

static void bootstrap_wants_three(void **state)
{
	double values[] = { 1, 2, 3 }, low = -1, high = -1;

	(void)state;
	assert_int_equal(bootstrap_median(values, 2, &low, &high), -EDOM);
	assert_true(low == -1 && high == -1);
	assert_int_equal(bootstrap_median(values, 3, &low, &high), 0);
	assert_true(low == 1 && high == 3);
}

static double gaussian(struct random *random)
{
	return sqrt(-2 * log(random_unit(random))) * cos(2 * M_PI * random_unit(random));
}

/* The interval holds the true median about as often as it says, and gets narrower with more values. */
static void bootstrap_covers(void **state)
{
	struct random random = { 11 };
	double width[2] = {};
	int covered = 0;

	(void)state;
	for (int sample = 0; sample < 400; sample++) {
		size_t n = sample % 2 ? 60 : 15;
		double values[60], low, high;

		for (size_t i = 0; i < n; i++)
			values[i] = 100 + gaussian(&random);
		assert_int_equal(bootstrap_median(values, n, &low, &high), 0);
		assert_true(low <= high);
		covered += low <= 100 && high >= 100;
		width[sample % 2] += high - low;
	}
	assert_in_range(covered, 360, 396); /* 90 to 99 % */
	assert_true(width[1] < 0.7 * width[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(medians_of_few),
		cmocka_unit_test(selection_agrees_with_sorting),
		cmocka_unit_test(selection_takes_extremes),
		cmocka_unit_test(random_numbers_keep_their_bounds),
		cmocka_unit_test(bootstrap_wants_three),
		cmocka_unit_test(bootstrap_covers),
	};

	return cmocka_run_group_tests_name("statistics", tests, NULL, NULL);
}
