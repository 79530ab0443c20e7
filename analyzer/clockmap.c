/* SPDX-License-Identifier: MIT */
#include "clockmap.h"

#include <string.h>

#include "base.h"

/* Slewing (adjtime(3), NTP) changes the clock by 0.05% at most; what exceeds that and reading's own time is a step. */
#define SLEW_SHARE 1000
#define READING_NS 2000000

static int add_pair(struct clockmap *map, int64_t real_ns, int64_t run_ns)
{
	struct clock_pair *grown;

	/* room for powers of two */
	if ((map->count & (map->count - 1)) == 0) {
		grown = reallocarray(map->pairs, map->count ? map->count * 2 : 1, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		map->pairs = grown;
	}
	map->pairs[map->count++] = (struct clock_pair){ real_ns, run_ns };
	return 0;
}

static void find_step(struct clockmap *map)
{
	for (size_t i = 1; i < map->count; i++) {
		const struct clock_pair *a = &map->pairs[i - 1], *b = &map->pairs[i];
		int64_t run = b->run_ns - a->run_ns, step = b->real_ns - a->real_ns - run;

		if (llabs(step) > READING_NS + run / SLEW_SHARE && llabs(step) > llabs(map->step_ns))
			map->step_ns = step;
	}
}

int clockmap_load(struct trace *trace, int64_t run, struct clockmap *ret_map)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	struct clockmap map = {};
	int err = trace_prepare(trace,
		"SELECT real_ns, before_ns + (after_ns - before_ns) / 2 FROM clock_anchor WHERE run = ?1"
		" UNION ALL SELECT start_real_ns, 0 FROM run WHERE id = ?1 AND start_real_ns IS NOT NULL"
		" AND NOT EXISTS (SELECT 1 FROM clock_anchor WHERE run = ?1) ORDER BY 2",
		&stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, run);
	while (err == 0 && (err = trace_step(stmt)) == 1)
		err = add_pair(&map, trace_column_int(stmt, 0), trace_column_int(stmt, 1));
	if (err == 0 && !map.count)
		err = -ENOENT;
	if (err < 0) {
		clockmap_free(&map);
		return err;
	}
	find_step(&map);
	*ret_map = map;
	return 0;
}

void clockmap_free(struct clockmap *map)
{
	free(map->pairs);
	*map = (struct clockmap){};
}

int64_t clockmap_run_ns(const struct clockmap *map, int64_t real_ns)
{
	const struct clock_pair *first = &map->pairs[0];

	for (size_t i = 1; i < map->count; i++) {
		const struct clock_pair *a = &map->pairs[i - 1], *b = &map->pairs[i];
		int64_t real = b->real_ns - a->real_ns, run = b->run_ns - a->run_ns;

		if (real_ns < a->real_ns || real_ns >= b->real_ns)
			continue;
		/* across a step nothing is even: as if the step were the last thing to happen */
		if (llabs(real - run) > READING_NS + run / SLEW_SHARE)
			return a->run_ns + (real_ns - a->real_ns < run ? real_ns - a->real_ns : run);
		return a->run_ns + (int64_t)((double)(real_ns - a->real_ns) * ((double)run / (double)real));
	}
	if (real_ns >= map->pairs[map->count - 1].real_ns)
		first = &map->pairs[map->count - 1];
	return first->run_ns + (real_ns - first->real_ns);
}
