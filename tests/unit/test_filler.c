/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "filler.h"
#include "unit.h"

#define SIZE 40000

static const struct filler half = { .seed = 7, .compressible = 50 };

static void test_parts_make_the_whole(void **state)
{
	unsigned char whole[SIZE], parts[SIZE];
	size_t at = 0, step = 1;

	(void)state;
	filler_fill(&half, 3, 1000, whole, SIZE);
	while (at < SIZE) {
		size_t len = step < SIZE - at ? step : SIZE - at;

		filler_fill(&half, 3, 1000 + at, parts + at, len);
		at += len;
		step = step * 7 % 5003;
	}
	assert_memory_equal(whole, parts, SIZE);
}

static void test_what_it_depends_on(void **state)
{
	unsigned char one[SIZE], other[SIZE];
	struct filler reseeded = half;

	(void)state;
	filler_fill(&half, 3, 0, one, SIZE);
	filler_fill(&half, 4, 0, other, SIZE);
	assert_memory_not_equal(one, other, 2048);
	filler_fill(&half, 3, 4096, other, SIZE);
	assert_memory_not_equal(one, other, 2048);
	reseeded.seed++;
	filler_fill(&reseeded, 3, 0, other, SIZE);
	assert_memory_not_equal(one, other, 2048);
}

static size_t zeros(unsigned int compressible)
{
	struct filler filler = { .seed = 1, .compressible = compressible };
	unsigned char bytes[FILLER_BLOCK * 8];
	size_t count = 0;

	filler_fill(&filler, 1, 0, bytes, sizeof(bytes));
	for (size_t i = 0; i < sizeof(bytes); i++)
		count += bytes[i] == 0;
	return count * 100 / sizeof(bytes);
}

static void test_share(void **state)
{
	(void)state;
	assert_in_range(zeros(0), 0, 1);
	assert_in_range(zeros(50), 49, 51);
	assert_in_range(zeros(90), 89, 91);
	assert_int_equal(zeros(100), 100);
	assert_int_equal(zeros(1000), 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts_make_the_whole),
		cmocka_unit_test(test_what_it_depends_on),
		cmocka_unit_test(test_share),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
