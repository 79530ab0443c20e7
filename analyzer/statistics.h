/* SPDX-License-Identifier: MIT */
/*
 * statistics.h - what compare says about repeated measurements. Plain functions of arrays; nothing allocates
 * but the bootstrap, nothing keeps state, so the same input gives the same output everywhere.
 */
#ifndef FSTAPE_STATISTICS_H
#define FSTAPE_STATISTICS_H

#include <stddef.h>
#include <stdint.h>

/* A small generator of repeatable random numbers (splitmix64): the state is the seed. */
struct random {
	uint64_t state;
};

uint64_t random_next(struct random *random);
/* 0 <= result < bound; bound > 0. Without the bias of a plain remainder. */
uint64_t random_below(struct random *random, uint64_t bound);
/* 0 < result <= 1 */
double random_unit(struct random *random);

/* The mean of the two middle values when n is even. n > 0. Reorders `values`. */
double median(double *values, size_t n);
/* The same for integers, in linear time: for the durations of millions of operations. */
int64_t median_int(int64_t *values, size_t n);

#define INTERVAL_MIN_N   3 /* below it an interval would be the range of the data by another name */
#define CLAIM_MIN_ROUNDS 6 /* below it no difference is claimed */

/*
 * The 95 % percentile bootstrap interval of the median, from a fixed seed. -EDOM when n < INTERVAL_MIN_N,
 * -ENOMEM. With few values it is narrower than its name says: it cannot leave the range of the data.
 */
int bootstrap_median(const double *values, size_t n, double *ret_low, double *ret_high);

/*
 * The two-sided p of the Mann-Whitney U test that the two samples are of one distribution: exact without ties when one
 * of them has at most 8 values, else by the normal distribution, corrected for ties and continuity. (So does
 * scipy.stats.mannwhitneyu with method="auto".) 1 when all values are the same. n > 0; -ENOMEM.
 */
int mann_whitney(const double *x, size_t n, const double *y, size_t m, double *ret_p);

#define OUTLIER_MIN_N      5   /* below it the deviation says nothing */
#define OUTLIER_DEVIATIONS 3.5 /* robust standard deviations: Iglewicz and Hoaglin, 1993 */
#define MAD_SCALE          1.4826 /* of the median absolute deviation, to estimate a standard deviation */

#endif
