/* SPDX-License-Identifier: MIT */
/*
 * replay_compile.c - a run's operations in an order that explains their results.
 *
 * They are recorded in the order of arrival. Where they overlapped in time, one that arrived first may have taken
 * effect last: a look-up that found a file which a create, arrived after it, made. So an operation whose result does
 * not fit the namespace as it is by then is put off, for as long as it overlapped with those that follow; when nothing that did
 * explains it, it takes its place of arrival and is counted. Waits for locks are put off until they had the lock.
 */
#include "replay_compile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "base.h"
#include "replay_pace.h"

#define PENDING_MAX    256
#define PROGRESS_EVERY 4096

static uint32_t saturated(int64_t ns)
{
	return ns < 0 ? 0 : ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns;
}

/* --- threads ----------------------------------------------------------------------------------------------------- */

/* A recorded thread gets a thread of the replay at its first operation and gives it back after its last one. */
static uint16_t take_thread(struct compile *c, uint32_t recorded)
{
	struct recorded_thread *thread = &c->survey.threads[recorded];

	if (thread->slot < 0 && c->options->threads == 0 && c->n_free_threads > 0)
		thread->slot = (int)c->free_threads[--c->n_free_threads];
	else if (thread->slot < 0 && c->plan->n_threads < c->max_threads)
		thread->slot = (int)c->plan->n_threads++;
	else if (thread->slot < 0)
		thread->slot = (int)(recorded % c->max_threads);
	return (uint16_t)thread->slot;
}

/* With as many threads as were recorded, the next one may have this one's place; with a given number all share them. */
static void leave_thread(struct compile *c, uint32_t recorded)
{
	struct recorded_thread *thread = &c->survey.threads[recorded];

	if (--thread->left == 0 && c->options->threads == 0 && c->survey.n_threads <= c->max_threads)
		c->free_threads[c->n_free_threads++] = (uint32_t)thread->slot;
}

static int init_threads(struct compile *c)
{
	uint32_t recorded = c->survey.n_threads + 1;

	c->max_threads = c->options->threads ? c->options->threads : recorded;
	if (c->max_threads > PLAN_THREADS_MAX)
		c->max_threads = PLAN_THREADS_MAX;
	c->free_threads = calloc(recorded, sizeof(*c->free_threads));
	c->plan->threads = calloc(c->max_threads, sizeof(*c->plan->threads));
	c->plan->recorded_threads = c->survey.n_threads;
	return c->free_threads && c->plan->threads ? 0 : -ENOMEM;
}

/* --- one operation after the other ------------------------------------------------------------------------------- */

static int apply(struct compile *c, const struct row *row)
{
	struct plan *plan = c->plan;
	uint32_t recorded = idmap_get(&c->survey.thread_of, row->process), number = plan->n_actions + 1;
	struct action *a;
	int err = plan_grow(&plan->actions, &plan->actions_room, number + 1, sizeof(*plan->actions));

	if (err < 0)
		return err;
	a = &plan->actions[number];
	*a = (struct action){
		.start_ns = row->start_ns,
		.dur_ns = saturated(row->dur_ns),
		.fs_ns = saturated(row->fs_ns),
		.seq = (uint32_t)row->seq,
		.op = row->op,
		.process = row->process,
		.result = row->result,
		.offset = row->offset,
		.length = row->length,
		.flags = row->flags,
		.mode = row->mode,
		.args = row->args,
		.path = row->path,
		.path2 = row->path2,
		.thread = take_thread(c, recorded),
	};
	a->index = plan->threads[a->thread].count++;
	plan->n_actions = number;
	order_begin(c->order, number);
	err = compile_action(c, row, a);
	err = err ?: order_end(c->order);
	if (err < 0)
		return err;
	compile_fold(c, row, a);
	if (op_get(row->op)->class != CLASS_FORGET && row->op != OP_release && row->op != OP_releasedir)
		c->survey.threads[recorded].last = number;
	leave_thread(c, recorded);
	return 0;
}

/* Not those that give one up: what others waited for begins with them. */
static bool waits_for_lock(const struct plan *plan, const struct row *row)
{
	const struct action args = { .args = row->args };

	if (row->op == OP_flock)
		return !(row->flags & (LOCK_NB | LOCK_UN));
	return row->op == OP_setlk && row->flags &&
	       strcmp(plan_text(plan, (uint32_t)plan_arg(plan, &args, ARG_TYPE, NULL)), "unlock") != 0;
}

static void drop_pending(struct compile *c, uint32_t i)
{
	memmove(&c->pending[i], &c->pending[i + 1], (c->n_pending - i - 1) * sizeof(*c->pending));
	c->n_pending--;
}

/* Those put off that had ended by `now` are done, explained or not; then all that has become possible. */
static int settle(struct compile *c, int64_t now)
{
	int err = 0;

	for (uint32_t i = 0; i < c->n_pending && err >= 0;) {
		struct row row = c->pending[i];
		bool ended = row.start_ns + row.dur_ns < now;
		int fits = compile_fits(c, &row);

		if (fits < 0)
			return fits;
		if (!ended && (!fits || waits_for_lock(c->plan, &row))) {
			i++;
			continue;
		}
		c->plan->counts.ambiguous += !fits;
		c->plan->counts.reordered++;
		drop_pending(c, i);
		err = apply(c, &row);
		i = 0; /* it may be what an earlier one waits for */
	}
	return err;
}

static int take(struct compile *c, const struct row *row)
{
	int fits, err = c->n_pending ? settle(c, row->start_ns) : 0;

	if (err < 0)
		return err;
	fits = compile_fits(c, row);
	if (fits < 0)
		return fits;
	if ((!fits || waits_for_lock(c->plan, row)) && c->n_pending < PENDING_MAX) {
		c->pending[c->n_pending++] = *row;
		return 0;
	}
	c->plan->counts.ambiguous += !fits;
	err = apply(c, row);
	return err < 0 || !c->n_pending ? err : settle(c, row->start_ns);
}

static int pause_to_look(struct compile *c, uint64_t done)
{
	if (c->options->progress)
		c->options->progress(c->options->progress_arg, done, c->survey.operations);
	return c->options->stop && *c->options->stop ? -EINTR : 0;
}

static int take_all(struct compile *c, struct trace *trace)
{
	struct rows *rows;
	struct row row;
	uint64_t done = 0;
	int err = rows_open(trace, c->plan, &rows);

	if (err < 0)
		return err;
	while ((err = rows_next(rows, &row)) == 1 && (err = take(c, &row)) == 0)
		if (++done % PROGRESS_EVERY == 0 && (err = pause_to_look(c, done)) < 0)
			break;
	rows_close(rows);
	return err < 0 ? err : settle(c, INT64_MAX);
}

/* --- all of it --------------------------------------------------------------------------------------------------- */

/* Each thread's actions side by side. */
static int deal_out(struct plan *plan)
{
	uint32_t first = 0;

	plan->turns = calloc((size_t)plan->n_actions + 1, sizeof(*plan->turns));
	if (!plan->turns)
		return -ENOMEM;
	for (uint32_t t = 0; t < plan->n_threads; t++) {
		plan->threads[t].first = first;
		first += plan->threads[t].count;
	}
	for (uint32_t i = 1; i <= plan->n_actions; i++) {
		struct action *a = &plan->actions[i];

		plan->turns[plan->threads[a->thread].first + a->index] = i;
		plan->counts.how[a->how]++;
	}
	return 0;
}

static int compile(struct compile *c, struct trace *trace, int64_t run)
{
	struct plan *plan = c->plan;
	int err = plan_grow(&plan->actions, &plan->actions_room, 0, sizeof(*plan->actions));

	err = err ?: survey_run(trace, run, &c->survey);
	err = err ?: paths_load(trace, run, plan, &c->paths);
	err = err ?: names_init(&c->names, plan, trace, &c->paths, &c->survey);
	err = err ?: init_threads(c);
	err = err ?: order_new(plan, c->max_threads, c->options->no_order, &c->order);
	c->pending = calloc(PENDING_MAX, sizeof(*c->pending));
	if (err == 0 && !c->pending)
		err = -ENOMEM;
	err = err ?: take_all(c, trace);
	if (err < 0)
		return err;
	plan->actions[plan->n_actions + 1] = (struct action){ .first_wait = plan->n_waits };
	err = deal_out(plan);
	if (err == 0 && c->options->pace)
		err = pace_compile(plan, &c->survey, trace);
	return err;
}

int plan_compile(struct trace *trace, int64_t run, const struct plan_options *options, struct plan *ret_plan)
{
	struct plan plan = { .run = run };
	struct compile c = { .plan = &plan, .options = options };
	int err = compile(&c, trace, run);

	if (err == -ENOMEM)
		log_errno(err, "run %" PRId64, run);
	names_free(&c.names);
	order_free(c.order);
	paths_free(&c.paths);
	survey_free(&c.survey);
	idmap_free(&c.handle_of_fh);
	idmap_free(&c.lock_handles);
	free(c.handles);
	free(c.free_threads);
	free(c.pending);
	if (err < 0) {
		plan_free(&plan);
		return err;
	}
	*ret_plan = plan;
	return 0;
}
