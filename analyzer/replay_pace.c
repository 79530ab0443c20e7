/* SPDX-License-Identifier: MIT */
#include "replay_pace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"

#define LONG_SILENCE_NS 200000
#define FEW_PAIRS       20
#define LOOKS_MAX       1000000000 /* at threads, in all: a second or two */

/* What is known of a recorded thread by now. */
struct pacer {
	int64_t end_ns;        /* of its operations so far, the last one */
	uint32_t action;       /* which had it */
	int64_t debt_ns;       /* round trips taken off that were shorter than what was there to take off from */
	int64_t sum_ns, pairs; /* of gaps between requests of one system call */
	int64_t round_trip_ns; /* the recorder's share of each gap */
};

static int64_t end_of(const struct action *a)
{
	return a->start_ns + a->dur_ns;
}

/* A RELEASE comes by itself, while its thread goes on; so does the kernel's forgetting. */
static bool paced(const struct action *a)
{
	return a->how != ACTION_FORGET && a->op != OP_release && a->op != OP_releasedir;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Two requests of one system call: what the kernel asks before it makes a name; the steps of one path. */
static bool within_call(const struct action *before, const struct action *a)
{
	return before->how == ACTION_DUPLICATE || before->how == ACTION_KERNEL ||
	       (before->op == OP_lookup && before->result == 0 && a->op == OP_lookup && a->dir == before->object);
}

/* The gap between an action and the one before it of the same recorded thread; -1: there is none, or they overlap. */
static int64_t gap_before(const struct plan *plan, struct pacer *p, uint32_t number, bool *ret_within_call)
{
	const struct action *a = &plan->actions[number];
	const struct action *before = p->action ? &plan->actions[p->action] : NULL;
	int64_t gap = before && a->start_ns >= p->end_ns ? a->start_ns - p->end_ns : -1;

	*ret_within_call = before && within_call(before, a);
	p->action = number;
	p->end_ns = end_of(a);
	return gap;
}

/*
 * The mean way to and fro between two requests of one system call, for each thread: the more are busy at once, the
 * longer they wait for the recorder. A mean, with the few that were interrupted for long: others were interrupted as
 * often, and what is taken off all of them together must be what was lost in all of them. Threads with few such pairs
 * get the mean of all threads; without any pairs, it is what a quarter of all gaps is below.
 */
static void measure_round_trips(struct plan *plan, const struct survey *survey, struct pacer *pacers, int64_t *gaps)
{
	int64_t sum = 0, count = 0;
	size_t n = 0;

	for (uint32_t i = 1; i <= plan->n_actions; i++) {
		struct pacer *p = &pacers[idmap_get(&survey->thread_of, plan->actions[i].process)];
		bool in_call;
		int64_t gap = paced(&plan->actions[i]) ? gap_before(plan, p, i, &in_call) : -1;

		if (gap < 0)
			continue;
		gaps[n++] = gap;
		if (in_call) {
			p->sum_ns += gap;
			p->pairs++;
			sum += gap;
			count++;
		}
	}
	array_sort(gaps, n, sizeof(*gaps), by_value);
	plan->round_trip_ns = count >= FEW_PAIRS ? sum / count : n ? gaps[n / 4] : 0;
	for (uint32_t i = 0; i <= survey->n_threads; i++)
		pacers[i] = (struct pacer){
			.round_trip_ns = pacers[i].pairs >= FEW_PAIRS ? pacers[i].sum_ns / pacers[i].pairs :
									plan->round_trip_ns,
		};
}

static bool related(const struct recorded_thread *a, const struct recorded_thread *b)
{
	return a->pid == b->pid || a->ppid == b->pid || b->ppid == a->pid;
}

/* The last operation that a related thread had finished before `now` and after `since`; 0 also after many looks. */
static uint32_t waited_for(const struct survey *survey, const struct pacer *pacers, uint32_t self, int64_t since,
	int64_t now, uint64_t *looks)
{
	uint32_t found = 0;

	*looks += survey->n_threads;
	if (*looks > LOOKS_MAX)
		return 0;
	for (uint32_t i = 1; i <= survey->n_threads; i++)
		if (i != self && pacers[i].action && pacers[i].end_ns > since && pacers[i].end_ns <= now &&
			related(&survey->threads[i], &survey->threads[self])) {
			found = pacers[i].action;
			since = pacers[i].end_ns;
		}
	return found;
}

static int64_t think(const struct plan *plan, const struct survey *survey, struct pacer *pacers, uint32_t thread,
	const struct action *a, uint64_t *looks, uint32_t *ret_after)
{
	struct pacer *p = &pacers[thread];
	int64_t since = p->action ? p->end_ns : 0, gap = a->start_ns - since;

	*ret_after = 0;
	if (gap > LONG_SILENCE_NS || !p->action)
		*ret_after = waited_for(survey, pacers, thread, since, a->start_ns, looks);
	if (*ret_after)
		gap = a->start_ns - end_of(&plan->actions[*ret_after]);
	gap -= p->round_trip_ns + p->debt_ns;
	p->debt_ns = gap < 0 && !*ret_after ? -gap : 0;
	return gap < 0 ? 0 : gap;
}

int pace_compile(struct plan *plan, const struct survey *survey)
{
	auto_free struct pacer *pacers = calloc((size_t)survey->n_threads + 1, sizeof(*pacers));
	auto_free int64_t *gaps = calloc((size_t)plan->n_actions + 1, sizeof(*gaps));
	uint64_t looks = 0;

	plan->think_ns = calloc((size_t)plan->n_actions + 1, sizeof(*plan->think_ns));
	plan->after = calloc((size_t)plan->n_actions + 1, sizeof(*plan->after));
	if (!pacers || !gaps || !plan->think_ns || !plan->after)
		return -ENOMEM;
	measure_round_trips(plan, survey, pacers, gaps);
	for (uint32_t i = 1; i <= plan->n_actions; i++) {
		const struct action *a = &plan->actions[i];
		uint32_t thread = idmap_get(&survey->thread_of, a->process);
		struct pacer *p = &pacers[thread];

		if (!paced(a))
			continue;
		plan->think_ns[i] = think(plan, survey, pacers, thread, a, &looks, &plan->after[i]);
		plan->idle_ns += plan->think_ns[i];
		if (end_of(a) > p->end_ns) {
			p->end_ns = end_of(a);
			p->action = i;
		}
	}
	return 0;
}
