/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "twin.h"

struct shrinker {
	struct twin *twin;
	struct difference *difference;
	struct step *scratch;
	int64_t deadline;
};

/* Whether these steps still make a difference; if so, what follows the first one is cut off. */
static bool fails(struct shrinker *s, struct step *steps, size_t *count)
{
	struct difference d;

	if (clock_ns(CLOCK_MONOTONIC) > s->deadline || episode_run(s->twin, steps, *count, &d) <= 0)
		return false;
	*s->difference = d;
	*count = d.step + 1;
	return true;
}

/* What makes the difference is mostly near it: the last steps alone first, then twice as many, ... */
static size_t cut_front(struct shrinker *s, struct step *steps, size_t count)
{
	for (size_t len = 8; len < count; len *= 2) {
		size_t left = len;

		memcpy(s->scratch, steps + count - len, len * sizeof(*steps));
		if (fails(s, s->scratch, &left)) {
			memcpy(steps, s->scratch, left * sizeof(*steps));
			return left;
		}
	}
	return count;
}

/* Without [at, at + len). */
static bool drop(struct shrinker *s, struct step *steps, size_t *count, size_t at, size_t len)
{
	size_t left = *count - len;

	memcpy(s->scratch, steps, at * sizeof(*steps));
	memcpy(s->scratch + at, steps + at + len, (*count - at - len) * sizeof(*steps));
	if (!left || !fails(s, s->scratch, &left))
		return false;
	memcpy(steps, s->scratch, left * sizeof(*steps));
	*count = left;
	return true;
}

/* Delta debugging: pieces of falling size are left out, from the end, until no single step can be. */
static size_t drop_pieces(struct shrinker *s, struct step *steps, size_t count)
{
	size_t len = count / 2 ?: 1;

	for (;;) {
		bool any = false;

		for (size_t end = count; end > 0;) {
			size_t piece = len < end ? len : end;

			any |= drop(s, steps, &count, end - piece, piece);
			end -= piece;
			if (end > count)
				end = count;
		}
		if (len == 1 && !any)
			return count;
		if (len > 1)
			len /= 2;
	}
}

/* The same by root, with the usual umask, where it makes no odds: shorter to read. */
static void simplify(struct shrinker *s, struct step *steps, size_t *count)
{
	for (size_t i = 0; i < *count; i++) {
		size_t left = *count;

		if (!steps[i].actor && steps[i].umask == 022)
			continue;
		memcpy(s->scratch, steps, *count * sizeof(*steps));
		s->scratch[i].actor = 0;
		s->scratch[i].umask = 022;
		if (fails(s, s->scratch, &left)) {
			memcpy(steps, s->scratch, left * sizeof(*steps));
			*count = left;
		}
	}
}

size_t shrink(struct twin *twin, struct step *steps, size_t count, unsigned int seconds,
	struct difference *ret_difference)
{
	struct shrinker s = {
		.twin = twin,
		.difference = ret_difference,
		.scratch = malloc(count * sizeof(*steps)),
		.deadline = clock_ns(CLOCK_MONOTONIC) + seconds * NSEC_PER_SEC,
	};

	if (!s.scratch)
		return count;
	if (!fails(&s, steps, &count)) {
		count = 0;
	} else {
		count = cut_front(&s, steps, count);
		count = drop_pieces(&s, steps, count);
		simplify(&s, steps, &count);
	}
	free(s.scratch);
	return count;
}
