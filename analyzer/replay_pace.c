/* SPDX-License-Identifier: MIT */
/*
 * replay_pace.c - gaps between requests, and what the programs did in them.
 *
 * First pass: what a gap is made of when the program did nothing in it, from the requests that the kernel made within one
 * system call. Second pass: each gap less that. Where the processor time of the thread was read, the stretch between two
 * readings has a sum that is known, and the gaps in it only share it out.
 */
#include "replay_pace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"
#include "replay_readings.h"

#define LONG_SILENCE_NS 200000
#define FEW_PAIRS       20
#define FEW_WAYS	10
#define CARRIED_NS	1000000
#define WAYS_ABOUT	32
#define LOOKS_MAX       1000000000 /* at threads, in all: a second or two */

/* What is known of a recorded thread by now. */
struct pacer {
	int64_t end_ns;        /* of its operations so far, the last one */
	uint32_t action;       /* which had it, */
	uint32_t before;       /* and the one before that */
	double blocked_ns;     /* that was no processor time and has not been put into a gap; below 0: too much was */
	double debt_ns;	       /* taken off, but more than there was to take off from */
	int64_t sum_ns, pairs; /* of gaps between requests of one system call */
	int64_t round_trip_ns; /* the recorder's share of each gap */
	struct times read;     /* the last reading, */
	uint32_t read_at;      /* and the action that it was made with; 0: none */
	uint32_t open;	       /* the last gap since the reading; others by pacing.former */
};

/*
 * A gap in which the program did nothing, with its processor time read: sums of all up to this one. A way that was long was
 * interrupted; as few of them are read, one would make all those about it seem to be long.
 */
struct way {
	int64_t seq;
	double cpu_ns, delay_ns, rest_ns; /* rest: neither busy nor ready, so on the way */
};

struct pacing {
	struct plan *plan;
	struct pace *pace;
	const struct survey *survey;
	struct readings readings;
	struct pacer *pacers;
	uint32_t *former;  /* by action: the gap before that one of the same stretch */
	int64_t *gaps;	   /* first those to sort, then by action */
	size_t n_gaps;
	struct way *ways;  /* [1, n_ways], by seq */
	size_t n_ways;
	uint64_t looks;
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

static struct pacer *pacer_of(const struct pacing *p, const struct action *a)
{
	return &p->pacers[idmap_get(&p->survey->thread_of, a->process)];
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int64_t at_least_0(int64_t ns)
{
	return ns > 0 ? ns : 0;
}

/* Of times that are not negative. Those of a hostile recording can be so long that two of them are too many. */
static int64_t sum_of(int64_t a, int64_t b)
{
	return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/* --- what the recorder adds to a gap ----------------------------------------------------------------------------- */

/* Two requests of one system call: what the kernel asks before it makes a name; the steps of one path. */
static bool within_call(const struct action *before, const struct action *a)
{
	return before->how == ACTION_DUPLICATE || before->how == ACTION_KERNEL ||
	       (before->op == OP_lookup && before->result == 0 && a->op == OP_lookup && a->dir == before->object);
}

static void add_way(struct pacing *p, const struct reading *first, const struct reading *second, int64_t gap)
{
	const struct way *last = &p->ways[p->n_ways];
	struct way way = { .seq = first->seq };
	int64_t cpu = second->at.cpu_ns - first->at.cpu_ns, delay = second->at.delay_ns - first->at.delay_ns, rest;

	if ((p->n_ways && first->seq <= last->seq) || cpu < 0 || delay < 0) /* one that took effect after a later one */
		return;
	way.cpu_ns = last->cpu_ns + (double)cpu;
	way.delay_ns = last->delay_ns + (double)delay;
	rest = at_least_0(gap - cpu - delay);
	way.rest_ns = last->rest_ns + (double)(rest < LONG_SILENCE_NS ? rest : LONG_SILENCE_NS);
	p->ways[++p->n_ways] = way;
}

/* The mean of those about an operation: how the recorder waits for requests changes as it goes on. */
static struct way way_about(const struct pacing *p, int64_t seq)
{
	size_t low = 0, high = p->n_ways, first, last;
	const struct way *before, *at;
	double n;

	while (low < high) {
		size_t middle = (low + high + 1) / 2;

		if (p->ways[middle].seq <= seq)
			low = middle;
		else
			high = middle - 1;
	}
	last = low + WAYS_ABOUT / 2 < p->n_ways ? low + WAYS_ABOUT / 2 : p->n_ways;
	first = last > WAYS_ABOUT ? last - WAYS_ABOUT : 0;
	before = &p->ways[first];
	at = &p->ways[last];
	n = (double)(last - first);
	return (struct way){
		.cpu_ns = (at->cpu_ns - before->cpu_ns) / n,
		.delay_ns = (at->delay_ns - before->delay_ns) / n,
		.rest_ns = (at->rest_ns - before->rest_ns) / n,
	};
}

static void measure_gap(struct pacing *p, uint32_t number)
{
	const struct action *a = &p->plan->actions[number], *before;
	struct pacer *pacer = pacer_of(p, a);
	const struct reading *first, *second;
	int64_t gap = a->start_ns - pacer->end_ns;

	before = pacer->action ? &p->plan->actions[pacer->action] : NULL;
	pacer->action = number;
	pacer->end_ns = end_of(a);
	if (!before || gap < 0)
		return;
	p->gaps[p->n_gaps++] = gap;
	if (!within_call(before, a))
		return;
	pacer->sum_ns = sum_of(pacer->sum_ns, gap);
	pacer->pairs++;
	first = readings_of(&p->readings, before->seq);
	second = first ? readings_of(&p->readings, a->seq) : NULL;
	if (second)
		add_way(p, first, second, gap);
}

/*
 * Means, with the few that were interrupted for long: others were interrupted as often, and what is taken off all of
 * them together must be what was lost in all of them. For each thread, as they wait for the recorder the longer the more
 * are busy at once. Threads with few pairs get the mean of all threads; without any, it is what a quarter of all gaps
 * is below.
 */
static void measure_round_trips(struct pacing *p)
{
	const struct plan *plan = p->plan;
	int64_t sum = 0, count = 0;

	for (uint32_t i = 1; i <= plan->n_actions; i++)
		if (paced(&plan->actions[i]))
			measure_gap(p, i);
	for (uint32_t i = 0; i <= p->survey->n_threads; i++) {
		sum = sum_of(sum, p->pacers[i].sum_ns);
		count += p->pacers[i].pairs;
	}
	array_sort(p->gaps, p->n_gaps, sizeof(*p->gaps), by_value);
	p->pace->round_trip_ns = count >= FEW_PAIRS ? sum / count : p->n_gaps ? p->gaps[p->n_gaps / 4] : 0;
	for (uint32_t i = 0; i <= p->survey->n_threads; i++) {
		const struct pacer *pacer = &p->pacers[i];
		int64_t own = pacer->pairs >= FEW_PAIRS ? pacer->sum_ns / pacer->pairs : p->pace->round_trip_ns;

		p->pacers[i] = (struct pacer){ .round_trip_ns = own };
	}
	if (p->n_ways >= FEW_WAYS)
		p->pace->round_cpu_ns = (int64_t)(p->ways[p->n_ways].cpu_ns / (double)p->n_ways);
}

/* --- who waited for whom ----------------------------------------------------------------------------------------- */

static bool related(const struct recorded_thread *a, const struct recorded_thread *b)
{
	return a->pid == b->pid || a->ppid == b->pid || b->ppid == a->pid;
}

/* The last operation of a thread that had ended by then: not the one under way. */
static uint32_t ended_by(const struct pacer *pacer, int64_t now)
{
	return pacer->action && pacer->end_ns > now ? pacer->before : pacer->action;
}

/* The last operation that a related thread had finished before `a` and after `since`; 0 also after many looks. */
static uint32_t waited_for(struct pacing *p, const struct action *a, int64_t since)
{
	const struct recorded_thread *threads = p->survey->threads;
	uint32_t self = idmap_get(&p->survey->thread_of, a->process), found = 0;

	p->looks += p->survey->n_threads;
	if (p->looks > LOOKS_MAX)
		return 0;
	for (uint32_t i = 1; i <= p->survey->n_threads; i++) {
		uint32_t ended = i == self ? 0 : ended_by(&p->pacers[i], a->start_ns);
		int64_t end_ns = ended ? end_of(&p->plan->actions[ended]) : 0;

		if (ended && end_ns > since && end_ns <= a->start_ns && related(&threads[i], &threads[self])) {
			found = ended;
			since = end_ns;
		}
	}
	return found;
}

/* A pause that counts from the end of another thread's operation. */
static int64_t since_other(const struct pacing *p, uint32_t number, int64_t round_trip_ns)
{
	const struct action *actions = p->plan->actions;
	uint32_t after = p->pace->after[number];
	int64_t since = after == number ? at_least_0(p->readings.command_ns) : end_of(&actions[after]);

	return at_least_0(actions[number].start_ns - since - round_trip_ns);
}

/* --- a stretch between two readings ------------------------------------------------------------------------------ */

struct stretch {
	uint32_t gaps;
	int64_t all_ns, long_ns; /* of the gaps, and of the long ones among them, less the ways */
	double whole_ns;	 /* of the gaps by the clock */
	int64_t think_ns, blocked_ns;
	int64_t delay_ns; /* waited for a processor, beyond what the ways have of that */
};

static struct stretch sum_up(const struct pacing *p, const struct pacer *pacer)
{
	struct stretch s = {};

	for (uint32_t i = pacer->open; i; i = p->former[i]) {
		s.gaps++;
		s.whole_ns += (double)p->gaps[i];
		s.all_ns = sum_of(s.all_ns, p->pace->think_ns[i]);
		if (p->pace->think_ns[i] > LONG_SILENCE_NS)
			s.long_ns = sum_of(s.long_ns, p->pace->think_ns[i]);
	}
	return s;
}

/*
 * What is neither processor time, nor waiting for a processor, nor on the way, was waiting for something, in a gap that was
 * long. Ways are now longer, now shorter than the mean: what one stretch has too much, another has too little.
 */
static void weigh(const struct way *way, struct pacer *pacer, const struct times *used, struct stretch *s)
{
	double think = (double)used->cpu_ns - s->gaps * way->cpu_ns - pacer->debt_ns;
	double delay = (double)used->delay_ns - s->gaps * way->delay_ns;
	double rest = s->whole_ns - (double)used->cpu_ns - (double)used->delay_ns - s->gaps * way->rest_ns;
	double blocked = rest + pacer->blocked_ns, most = (double)s->long_ns;

	pacer->debt_ns = think < 0 ? -think : 0;
	s->think_ns = think > 0 ? (int64_t)think : 0;
	s->delay_ns = delay > 0 ? (int64_t)delay : 0;
	if (blocked >= LONG_SILENCE_NS / 2 && most > 0)
		s->blocked_ns = (int64_t)(blocked < most ? blocked : most);
	blocked -= (double)s->blocked_ns;
	pacer->blocked_ns = blocked > CARRIED_NS ? CARRIED_NS : blocked < -CARRIED_NS ? -CARRIED_NS : blocked;
}

static void share_out(const struct pacing *p, struct pacer *pacer, const struct stretch *s)
{
	struct pace *pace = p->pace;
	double busy = (double)(s->all_ns - s->blocked_ns);

	for (uint32_t i = pacer->open; i; i = p->former[i]) {
		int64_t gap = pace->think_ns[i], blocked = 0;

		if (gap > LONG_SILENCE_NS && s->long_ns)
			blocked = (int64_t)((double)s->blocked_ns * (double)gap / (double)s->long_ns);
		pace->think_ns[i] = busy > 0 ? (int64_t)((double)s->think_ns * (double)(gap - blocked) / busy) :
					       s->think_ns / s->gaps;
		if (pace->after[i] && blocked > LONG_SILENCE_NS / 2) {
			int64_t since = since_other(p, i, pacer->round_trip_ns) - s->delay_ns;

			if (since > pace->think_ns[i])
				pace->think_ns[i] = since;
		} else {
			pace->after[i] = 0;
		}
		pace->blocked_ns[i] = pace->after[i] ? 0 : blocked;
	}
	pacer->open = 0;
}

static void end_stretch(struct pacing *p, struct pacer *pacer, const struct times *now)
{
	const struct times used = { now->cpu_ns - pacer->read.cpu_ns, now->delay_ns - pacer->read.delay_ns };

	if (pacer->read_at && pacer->open && used.cpu_ns >= 0 && used.delay_ns >= 0) {
		struct way way = way_about(p, p->plan->actions[pacer->open].seq);
		struct stretch s = sum_up(p, pacer);

		weigh(&way, pacer, &used, &s);
		share_out(p, pacer, &s);
		p->pace->read_gaps += s.gaps;
	}
}

/* The reading that was made with an action, if one was, ends the stretch before it. */
static void take_reading(struct pacing *p, struct pacer *pacer, uint32_t number)
{
	const struct reading *reading = readings_of(&p->readings, p->plan->actions[number].seq);

	if (!reading)
		return;
	end_stretch(p, pacer, &reading->at);
	pacer->read = reading->at;
	pacer->read_at = number;
	pacer->open = 0;
}

/* --- gaps -------------------------------------------------------------------------------------------------------- */

/* By the clock alone: where nothing was read. Ways that were shorter than the mean are made up for. */
static void take_off_way(struct pacing *p, struct pacer *pacer, uint32_t number, int64_t gap)
{
	int64_t left = gap - pacer->round_trip_ns - (pacer->read_at ? 0 : (int64_t)pacer->debt_ns);

	if (!pacer->read_at)
		pacer->debt_ns = (double)(p->pace->after[number] ? 0 : at_least_0(-left));
	p->pace->think_ns[number] = at_least_0(left);
}

/* How long a thread that has just begun waited for a processor; 0 where that was not read. */
static int64_t delay_of_first(const struct pacing *p, const struct pacer *pacer, uint32_t number)
{
	const struct reading *reading = readings_of(&p->readings, p->plan->actions[number].seq);
	int64_t before = pacer->read_at ? pacer->read.delay_ns : 0;

	return reading && p->n_ways >= FEW_WAYS ? at_least_0(reading->at.delay_ns - before) : 0;
}

static void pace_action(struct pacing *p, struct pacer *pacer, uint32_t number)
{
	struct action *a = &p->plan->actions[number];
	int64_t since = pacer->action ? pacer->end_ns : 0, begin = at_least_0(p->readings.command_ns), gap;
	bool first = !pacer->action || (since < begin && a->start_ns >= begin);

	if (since < begin)
		since = begin;
	gap = p->gaps[number] = at_least_0(a->start_ns - since);
	if (gap > LONG_SILENCE_NS || first)
		p->pace->after[number] = waited_for(p, a, since);
	a->begins = first;
	if (first && !p->pace->after[number])
		p->pace->after[number] = number;
	if (p->pace->after[number] && (first || !pacer->read_at)) {
		p->pace->think_ns[number] =
			at_least_0(since_other(p, number, pacer->round_trip_ns) - delay_of_first(p, pacer, number));
		pacer->debt_ns = 0;
	} else {
		take_off_way(p, pacer, number, gap);
	}
	if (!first && pacer->read_at) {
		p->former[number] = pacer->open;
		pacer->open = number;
	}
}

static void pace_all(struct pacing *p)
{
	const struct plan *plan = p->plan;
	bool reads = p->n_ways >= FEW_WAYS;
	int64_t last = 0;

	for (uint32_t i = 1; i <= plan->n_actions; i++) {
		const struct action *a = &plan->actions[i];
		struct pacer *pacer = pacer_of(p, a);

		if (!paced(a))
			continue;
		pace_action(p, pacer, i);
		if (reads)
			take_reading(p, pacer, i);
		if (end_of(a) > pacer->end_ns) {
			pacer->end_ns = end_of(a);
			pacer->before = pacer->action;
			pacer->action = i;
		}
		p->pace->gaps++;
		last = end_of(a) > last ? end_of(a) : last;
	}
	for (uint32_t i = 1; i <= plan->n_actions; i++) {
		p->pace->idle_ns = sum_of(p->pace->idle_ns, sum_of(p->pace->think_ns[i], p->pace->blocked_ns[i]));
		p->pace->all_blocked_ns = sum_of(p->pace->all_blocked_ns, p->pace->blocked_ns[i]);
	}
	if (p->readings.command_end_ns > last && last)
		p->pace->tail_ns = p->readings.command_end_ns - last;
	p->pace->known_end = p->readings.command_end_ns >= 0;
}

int pace_compile(struct plan *plan, const struct survey *survey, struct trace *trace)
{
	size_t n = (size_t)plan->n_actions + 1;
	auto_free struct pacer *pacers = calloc((size_t)survey->n_threads + 1, sizeof(*pacers));
	auto_free int64_t *gaps = calloc(n, sizeof(*gaps));
	auto_free uint32_t *former = calloc(n, sizeof(*former));
	auto_free struct way *ways = NULL;
	struct pace *pace = &plan->pace;
	struct pacing p = {
		.plan = plan, .pace = pace, .survey = survey, .pacers = pacers, .former = former, .gaps = gaps
	};
	int err;

	pace->think_ns = calloc(n, sizeof(*pace->think_ns));
	pace->blocked_ns = calloc(n, sizeof(*pace->blocked_ns));
	pace->after = calloc(n, sizeof(*pace->after));
	if (!pacers || !gaps || !former || !pace->think_ns || !pace->blocked_ns || !pace->after)
		return -ENOMEM;
	err = readings_load(trace, plan->run, &p.readings);
	if (err < 0)
		return trace_said(trace, err);
	p.ways = ways = calloc(p.readings.count + 1, sizeof(*ways));
	if (ways) {
		measure_round_trips(&p);
		pace_all(&p);
	}
	readings_free(&p.readings);
	return ways ? 0 : -ENOMEM;
}

void pace_free(struct pace *pace)
{
	free(pace->think_ns);
	free(pace->blocked_ns);
	free(pace->after);
	*pace = (struct pace){};
}
