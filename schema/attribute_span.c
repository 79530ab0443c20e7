/* SPDX-License-Identifier: MIT */
/*
 * attribute_span.c - what was in the foreground when: a sweep over the beginnings and ends of commands, regions and hooks.
 * Of all that are going on at a time the one that began last is what the run waits for, as what starts something waits
 * for it; only the serving side of a transfer, which works beside the receiving one, gives way.
 */
#include <stdlib.h>
#include <string.h>

#include "attribute_internal.h"
#include "base.h"

struct interval {
	int64_t start_ns, end_ns;
	int64_t command, region; /* 0: none */
	int phase;
	int rank; /* among those that began at the same time */
	bool serving;
};

/* A heap with the foreground on top; what has ended is taken away when it comes to the top. */
struct heap {
	const struct interval **items;
	size_t count;
};

static bool before(const struct interval *a, const struct interval *b)
{
	if (a->serving != b->serving)
		return b->serving;
	return a->start_ns != b->start_ns ? a->start_ns > b->start_ns : a->rank > b->rank;
}

static void heap_push(struct heap *heap, const struct interval *item)
{
	size_t i = heap->count++;

	for (; i && before(item, heap->items[(i - 1) / 2]); i = (i - 1) / 2)
		heap->items[i] = heap->items[(i - 1) / 2];
	heap->items[i] = item;
}

static void heap_pop(struct heap *heap)
{
	const struct interval *item = heap->items[--heap->count];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < heap->count) {
		if (child + 1 < heap->count && before(heap->items[child + 1], heap->items[child]))
			child++;
		if (!before(heap->items[child], item))
			break;
		heap->items[i] = heap->items[child];
		i = child;
	}
	heap->items[i] = item;
}

static int compare_start(const void *a, const void *b)
{
	const struct interval *x = a, *y = b;

	return x->start_ns != y->start_ns ? (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns) :
					    (x->rank > y->rank) - (x->rank < y->rank);
}

/* Ranks follow the ways down: a command, the regions in it by id, so that an inner one is above what is around it. */
static size_t collect(const struct git_story *story, struct interval *intervals)
{
	size_t count = 0;

	for (size_t i = 0; i < story->n_commands; i++) {
		const struct git_command *command = &story->commands[i];

		intervals[count] = (struct interval){ command->start_ns, command->end_ns, command->id,
			command->inherited ? command->inherited->id : 0, git_phase_of(command, NULL) ?: PHASE_GIT,
			(int)count, command->serving };
		count++;
		for (size_t k = 0; k < command->n_regions; k++) {
			const struct git_region *region = command->regions[k];

			intervals[count] = (struct interval){ region->start_ns, region->end_ns, command->id, region->id,
				git_phase_of(command, region) ?: PHASE_GIT, (int)count, command->serving };
			count++;
		}
	}
	for (size_t i = 0; i < story->n_hooks; i++) {
		const struct git_hook *hook = &story->hooks[i];

		intervals[count] = (struct interval){ hook->start_ns, hook->end_ns,
			hook->command ? hook->command->id : 0, 0, PHASE_HOOKS, (int)count, false };
		count++;
	}
	array_sort(intervals, count, sizeof(*intervals), compare_start);
	return count;
}

/* The time of the run's command; without one the whole run. */
static int read_window(struct trace *trace, int64_t run, int64_t *ret_start, int64_t *ret_end)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = prepare_for_run(trace, run,
		"SELECT coalesce(command_ns, 0), coalesce(command_ns + real_ns, end_ns,"
		" (SELECT max(start_ns + dur_ns) FROM op WHERE op.run = run.id), 0) FROM run WHERE id = ?", &stmt);

	err = err ?: trace_step(stmt);
	if (err < 0)
		return err;
	*ret_start = err ? trace_column_int(stmt, 0) : 0;
	*ret_end = err ? trace_column_int(stmt, 1) : 0;
	return 0;
}

struct span {
	int64_t start_ns, end_ns, command, region;
	int phase;
};

static int store(struct trace_stmt *insert, int64_t run, const struct span *span)
{
	int err;

	if (span->end_ns <= span->start_ns)
		return 0;
	trace_reset(insert);
	err = trace_bind_int(insert, 1, run);
	err = err ?: trace_bind_int(insert, 2, span->start_ns);
	err = err ?: trace_bind_int(insert, 3, span->end_ns);
	if (span->command)
		err = err ?: trace_bind_int(insert, 4, span->command);
	if (span->region)
		err = err ?: trace_bind_int(insert, 5, span->region);
	err = err ?: trace_bind_int(insert, 6, span->phase);
	return err ?: trace_step(insert);
}

/* Neighbours with the same story are one span. */
static int emit(struct trace_stmt *insert, int64_t run, struct span *last, const struct interval *top, int64_t start,
	int64_t end)
{
	struct span span = { start, end, top ? top->command : 0, top ? top->region : 0,
		top ? top->phase : PHASE_OTHER_PROGRAMS };
	int err = 0;

	if (last->command == span.command && last->region == span.region && last->phase == span.phase) {
		last->end_ns = end;
		return 0;
	}
	err = store(insert, run, last);
	*last = span;
	return err;
}

static int sweep(struct trace_stmt *insert, int64_t run, const struct interval *intervals, size_t count,
	struct heap *heap, int64_t start, int64_t end)
{
	struct span last = { .start_ns = start, .end_ns = start };
	size_t next = 0;
	int err = 0;

	for (int64_t now = start, until; now < end && err == 0; now = until) {
		while (next < count && intervals[next].start_ns <= now)
			heap_push(heap, &intervals[next++]);
		while (heap->count && heap->items[0]->end_ns <= now)
			heap_pop(heap);
		until = end;
		if (next < count && intervals[next].start_ns < until)
			until = intervals[next].start_ns;
		if (heap->count && heap->items[0]->end_ns < until)
			until = heap->items[0]->end_ns;
		err = emit(insert, run, &last, heap->count ? heap->items[0] : NULL, now, until);
	}
	return err ?: store(insert, run, &last);
}

int git_span_make(struct trace *trace, int64_t run, const struct git_story *story)
{
	size_t room = story->n_commands + story->n_regions + story->n_hooks + 1;
	auto_free struct interval *intervals = calloc(room, sizeof(*intervals));
	auto_free const struct interval **items = calloc(room, sizeof(struct interval *));
	struct heap heap = { .items = items };
	struct trace_stmt auto_stmt *insert = NULL;
	int64_t start = 0, end = 0;
	int err = intervals && items ? read_window(trace, run, &start, &end) : -ENOMEM;

	err = err ?: trace_prepare(trace,
			     "INSERT INTO git_span (run, start_ns, end_ns, command, region, phase) VALUES (?, ?, ?, ?, ?, ?)",
			     &insert, NULL);
	return err ?: sweep(insert, run, intervals, collect(story, intervals), &heap, start, end);
}
