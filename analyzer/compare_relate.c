/* SPDX-License-Identifier: MIT */
#include "compare_relate.h"

#include <stdlib.h>
#include <string.h>

#include "base.h"
#include "statistics.h"

#define LEVEL 0.05

static bool same_but(const struct compare_group *a, const struct compare_group *b, enum compare_factor by)
{
	for (size_t i = 0; i < COMPARE_FACTORS; i++) {
		if (i != by && strcmp(a->factors[i], b->factors[i]) != 0)
			return false;
	}
	return true;
}

/* The first group with the baseline's level that differs in nothing else; the group itself when there is none. */
static size_t find_baseline(const struct compare *compare, size_t index, const char *baseline)
{
	const struct compare_group *group = &compare->groups[index];

	for (size_t i = 0; i < compare->count; i++) {
		const struct compare_group *other = &compare->groups[i];

		if (same_but(group, other, compare->by) &&
			(!baseline || strcmp(other->factors[compare->by], baseline) == 0))
			return i;
	}
	return index;
}

static const struct compare_run *run_of_round(const struct compare_group *group, int64_t round)
{
	for (size_t i = 0; i < group->count; i++) {
		if (group->runs[i].round == round)
			return &group->runs[i];
	}
	return NULL;
}

/*
 * Runs of one round were made under like conditions: their ratio says more than the medians'. Where no round has both
 * (two devices, of which a target has one in each round), the medians' it is.
 */
static int relate_ratio(struct compare_group *group, const struct compare_group *base)
{
	auto_free double *ratios = calloc(group->count, sizeof(*ratios));
	size_t n = 0;
	int err;

	if (!ratios)
		return -ENOMEM;
	if (!compare_is_timed(group) || !compare_is_timed(base))
		return 0;
	for (size_t i = 0; i < group->count; i++) {
		const struct compare_run *other = run_of_round(base, group->runs[i].round);

		if (other && other->real_ns > 0)
			ratios[n++] = group->runs[i].real_ns / other->real_ns;
	}
	group->has_ratio = n > 0 || base->real_ns > 0;
	group->ratio = n ? median(ratios, n) : base->real_ns > 0 ? group->real_ns / base->real_ns : 0;
	err = bootstrap_median(ratios, n, &group->ratio_low, &group->ratio_high);
	group->has_ratio_interval = err == 0;
	return err == -ENOMEM ? err : 0;
}

static int relate_p(struct compare_group *group, const struct compare_group *base)
{
	auto_free double *x = calloc(group->count, sizeof(*x)), *y = calloc(base->count, sizeof(*y));
	int err;

	if (!x || !y)
		return -ENOMEM;
	if (!compare_is_timed(group) || !compare_is_timed(base))
		return 0;
	for (size_t i = 0; i < group->count; i++)
		x[i] = group->runs[i].real_ns;
	for (size_t i = 0; i < base->count; i++)
		y[i] = base->runs[i].real_ns;
	err = mann_whitney(x, group->count, y, base->count, &group->p);
	group->has_p = err == 0;
	return err;
}

static int compare_p(const void *a, const void *b)
{
	const struct compare_group *x = *(struct compare_group *const *)a, *y = *(struct compare_group *const *)b;

	return (x->p > y->p) - (x->p < y->p);
}

/* S. Holm, "A simple sequentially rejective multiple test procedure", 1979: controls the chance of any false claim. */
static int adjust(struct compare *compare)
{
	auto_free struct compare_group **sorted = calloc(compare->count, sizeof(struct compare_group *));
	double most = 0;
	size_t n = 0;

	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < compare->count; i++) {
		if (compare->groups[i].has_p)
			sorted[n++] = &compare->groups[i];
	}
	array_sort(sorted, n, sizeof(struct compare_group *), compare_p);
	for (size_t i = 0; i < n; i++) {
		double p = sorted[i]->p * (double)(n - i);

		p = p > 1 ? 1 : p;
		most = p > most ? p : most;
		sorted[i]->p_adjusted = most;
	}
	return 0;
}

/*
 * Two different looks at the data have to agree: ranks (is the one group's time higher?) and the paired ratios (is the
 * difference more than what changes from round to round?).
 */
static enum compare_verdict judge(const struct compare_group *group, const struct compare_group *base)
{
	bool apart = !group->has_ratio_interval || group->ratio_low > 1 || group->ratio_high < 1;

	if (group == base)
		return VERDICT_BASELINE;
	if (group->count < CLAIM_MIN_ROUNDS || base->count < CLAIM_MIN_ROUNDS)
		return VERDICT_TOO_FEW;
	if (!group->has_p || group->p_adjusted >= LEVEL || !apart || group->ratio == 1)
		return VERDICT_UNDECIDED;
	return group->ratio > 1 ? VERDICT_SLOWER : VERDICT_FASTER;
}

/* A ratio to itself would look like one to the others. */
static void note_alone(struct compare *compare)
{
	for (size_t i = 0; i < compare->count; i++) {
		struct compare_group *group = &compare->groups[i];

		group->alone = compare->count > 1 && group->baseline == i;
		for (size_t j = 0; j < compare->count; j++)
			group->alone &= j == i || compare->groups[j].baseline != i;
		group->has_ratio &= !group->alone;
		group->has_ratio_interval &= !group->alone;
	}
}

int compare_relate(struct compare *compare, const char *baseline)
{
	bool found = !baseline;
	int err = 0;

	for (size_t i = 0; i < compare->count && err == 0; i++) {
		struct compare_group *group = &compare->groups[i];
		bool has_level;

		group->baseline = find_baseline(compare, i, baseline);
		has_level = !baseline || strcmp(compare->groups[group->baseline].factors[compare->by], baseline) == 0;
		found |= has_level;
		if (has_level)
			err = relate_ratio(group, &compare->groups[group->baseline]);
		if (err == 0 && group->baseline != i)
			err = relate_p(group, &compare->groups[group->baseline]);
	}
	if (err < 0 || !found)
		return err ?: -EINVAL;
	note_alone(compare);
	err = adjust(compare);
	for (size_t i = 0; i < compare->count; i++)
		compare->groups[i].verdict = judge(&compare->groups[i], &compare->groups[compare->groups[i].baseline]);
	return err;
}

static double mean_real(const struct compare_group *group)
{
	double sum = 0;

	for (size_t i = 0; i < group->count; i++)
		sum += group->runs[i].real_ns;
	return sum / (double)group->count;
}

static bool ranges_overlap(const struct compare_group *a, const struct compare_group *b)
{
	double a_most = 0, b_most = 0;

	for (size_t i = 0; i < a->count; i++)
		a_most = fmax(a_most, a->runs[i].real_ns);
	for (size_t i = 0; i < b->count; i++)
		b_most = fmax(b_most, b->runs[i].real_ns);
	return a->min_real_ns <= b_most && b->min_real_ns <= a_most;
}

bool compare_differs(const struct compare *compare, const struct compare_group *group)
{
	const struct compare_group *base = &compare->groups[group->baseline];
	double least, of_means;

	if (!compare_is_timed(group) || !compare_is_timed(base))
		return true;
	if (!group->has_ratio_interval && group->has_interval && base->has_interval)
		return group->low_ns > base->high_ns || group->high_ns < base->low_ns;
	if (!group->has_ratio_interval)
		return !ranges_overlap(group, base);
	if (group->ratio_low <= 1 && group->ratio_high >= 1)
		return false;
	/* a far-off round may have moved the mean away from the median: then parts would add up to something else */
	least = group->ratio_low > 1 ? group->ratio_low - 1 : group->ratio_high - 1;
	of_means = mean_real(group) / mean_real(base) - 1;
	return of_means * least > 0 && fabs(of_means) >= fabs(least) / 2;
}

static bool varies(const struct compare *compare, enum compare_factor factor)
{
	for (size_t i = 1; i < compare->count; i++) {
		if (strcmp(compare->groups[i].factors[factor], compare->groups[0].factors[factor]) != 0)
			return true;
	}
	return false;
}

char *compare_group_name(const struct compare *compare, const struct compare_group *group)
{
	const char *option = group->factors[BY_OPTION];
	struct strbuf name = {};

	if (strcmp(group->workload, "-") != 0)
		strbuf_addf(&name, "%s on ", group->workload);
	strbuf_addf(&name, "%s", group->target);
	if (varies(compare, BY_DEVICE))
		strbuf_addf(&name, ", %s", group->factors[BY_DEVICE]);
	if (varies(compare, BY_CACHE))
		strbuf_addf(&name, ", %s", group->factors[BY_CACHE]);
	if (varies(compare, BY_OPTION) && !group->native && strcmp(option, "off") != 0)
		strbuf_addf(&name, ", readahead %s", option);
	if (group->native)
		strbuf_addf(&name, ", not recorded");
	if (name.failed)
		strbuf_free(&name);
	return name.buf;
}

const char *compare_verdict_text(enum compare_verdict verdict)
{
	static const char *const texts[] = {
		[VERDICT_BASELINE] = "",
		[VERDICT_TOO_FEW] = "n too small",
		[VERDICT_UNDECIDED] = "cannot decide",
		[VERDICT_FASTER] = "faster",
		[VERDICT_SLOWER] = "slower",
	};

	return texts[verdict];
}
