/* SPDX-License-Identifier: MIT */
#include "statistics.h"

#include "base.h"

#define RESAMPLES 2000

uint64_t random_next(struct random *random)
{
	uint64_t z = random->state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

uint64_t random_below(struct random *random, uint64_t bound)
{
	uint64_t threshold = -bound % bound,
		 x; /* 2^64 mod bound: below it the low results would come too often */

	do {
		x = random_next(random);
	} while (x < threshold);
	return x % bound;
}

double random_unit(struct random *random)
{
	return (double)((random_next(random) >> 11) + 1) * 0x1p-53;
}

void random_shuffle(struct random *random, size_t *items, size_t count)
{
	for (size_t i = count; i > 1; i--) {
		size_t j = random_below(random, i), item = items[i - 1];

		items[i - 1] = items[j];
		items[j] = item;
	}
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double middle(const double *sorted, size_t n)
{
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

double median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), compare_doubles);
	return middle(values, n);
}

/* Hoare's selection: afterwards values[k] is what sorting would put there, and nothing before it is greater.
 */
static int64_t select_kth(int64_t *values, size_t n, size_t k)
{
	size_t low = 0, high = n - 1;

	while (low < high) {
		int64_t pivot = values[low + (high - low) / 2];
		size_t i = low, j = high;

		for (;;) {
			while (values[i] < pivot)
				i++;
			while (values[j] > pivot)
				j--;
			if (i >= j)
				break;
			int64_t swap = values[i];
			values[i++] = values[j];
			values[j--] = swap;
		}
		/* [low, j] <= pivot <= [j + 1, high] */
		if (k <= j)
			high = j;
		else
			low = j + 1;
	}
	return values[k];
}

int64_t median_int(int64_t *values, size_t n)
{
	int64_t upper = select_kth(values, n, n / 2), lower;

	if (n % 2)
		return upper;
	lower = values[0];
	for (size_t i = 1; i < n / 2; i++)
		lower = values[i] > lower ? values[i] : lower;
	return lower + (upper - lower) / 2;
}

int bootstrap_median(const double *values, size_t n, double *ret_low, double *ret_high)
{
	struct random random = { 20070101 };
	auto_free double *medians = NULL;
	auto_free double *sample = NULL;

	if (n < INTERVAL_MIN_N)
		return -EDOM;
	medians = calloc(RESAMPLES, sizeof(*medians));
	sample = calloc(n, sizeof(*sample));
	if (!medians || !sample)
		return -ENOMEM;
	for (size_t i = 0; i < RESAMPLES; i++) {
		for (size_t j = 0; j < n; j++)
			sample[j] = values[random_below(&random, n)];
		medians[i] = median(sample, n);
	}
	qsort(medians, RESAMPLES, sizeof(*medians), compare_doubles);
	*ret_low = medians[RESAMPLES * 25 / 1000];
	*ret_high = medians[RESAMPLES * 975 / 1000 - 1];
	return 0;
}
