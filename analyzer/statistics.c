/* SPDX-License-Identifier: MIT */
#include "statistics.h"

#include <math.h>

#include "base.h"

#define RESAMPLES 2000
#define EXACT_MAX 8 /* values in the smaller sample */
#define EXACT_MAX_OTHER 1000

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
	array_sort(values, n, sizeof(*values), compare_doubles);
	return middle(values, n);
}

/* Hoare's selection: afterwards values[k] is what sorting would put there, and nothing before it is greater. */
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
	/* the difference may be larger than an int64_t: numbers of a database may be anything */
	return lower + (int64_t)(((uint64_t)upper - (uint64_t)lower) / 2);
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
	array_sort(medians, RESAMPLES, sizeof(*medians), compare_doubles);
	*ret_low = medians[RESAMPLES * 25 / 1000];
	*ret_high = medians[RESAMPLES * 975 / 1000 - 1];
	return 0;
}

/* A value and whether it is of the first sample. */
struct ranked {
	double value;
	bool first;
};

static int compare_ranked(const void *a, const void *b)
{
	return compare_doubles(&((const struct ranked *)a)->value, &((const struct ranked *)b)->value);
}

/* U of the first sample, with mid-ranks for ties; `*ret_ties` is the sum of t^3 - t over groups of t equal values. */
static double rank_sum_u(struct ranked *all, size_t total, size_t n, double *ret_ties)
{
	double ranks = 0;

	*ret_ties = 0;
	array_sort(all, total, sizeof(*all), compare_ranked);
	for (size_t i = 0, j; i < total; i = j) {
		double t;

		for (j = i; j < total && !(all[j].value > all[i].value); j++)
			;
		t = (double)(j - i);
		for (size_t k = i; k < j; k++)
			ranks += all[k].first ? (double)(i + 1 + j) / 2 : 0;
		*ret_ties += t * t * t - t;
	}
	return ranks - (double)n * (double)(n + 1) / 2;
}

/*
 * P(U <= u) when all orders are equally likely. counts[i][s] is the number of ways to choose i of the values seen so
 * far with a U of s: the next value, of which `seen` came before, adds seen - i to U when it is chosen.
 */
static int exact_cdf(size_t n, size_t m, size_t u, double *ret_p)
{
	size_t width = n * m + 1;
	auto_free double *counts = calloc((n + 1) * width, sizeof(*counts));
	double below = 0, all = 0;

	if (!counts)
		return -ENOMEM;
	counts[0] = 1;
	for (size_t seen = 0; seen < n + m; seen++) {
		for (size_t i = n < seen + 1 ? n : seen + 1; i > 0; i--) {
			size_t add = seen - (i - 1); /* values of the other sample below it */

			for (size_t s = width; add <= m && s-- > add;)
				counts[i * width + s] += counts[(i - 1) * width + s - add];
		}
	}
	for (size_t s = 0; s < width; s++) {
		below += s <= u ? counts[n * width + s] : 0;
		all += counts[n * width + s];
	}
	*ret_p = below / all;
	return 0;
}

int mann_whitney(const double *x, size_t n, const double *y, size_t m, double *ret_p)
{
	size_t total = n + m, least = n < m ? n : m, most = n < m ? m : n;
	auto_free struct ranked *all = calloc(total, sizeof(*all));
	double u, ties, mean = (double)n * (double)m / 2, variance, p;

	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < total; i++)
		all[i] = i < n ? (struct ranked){ x[i], true } : (struct ranked){ y[i - n], false };
	u = rank_sum_u(all, total, n, &ties);
	u = u < 2 * mean - u ? u : 2 * mean - u;
	if (ties == 0 && least <= EXACT_MAX && most <= EXACT_MAX_OTHER) {
		int err = exact_cdf(least, most, (size_t)(u + 0.5), &p);

		if (err < 0)
			return err;
		p *= 2;
	} else {
		variance = (double)n * (double)m / 12 *
			   ((double)(total + 1) - ties / ((double)total * (double)(total - 1)));
		p = variance > 0 ? erfc((mean - u - 0.5) / sqrt(2 * variance)) : 1;
	}
	*ret_p = p > 1 ? 1 : p;
	return 0;
}
