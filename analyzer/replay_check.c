/* SPDX-License-Identifier: MIT */
#include "replay_check.h"

#include <errno.h>
#include <stdlib.h>

#include "base.h"

/* Answers that are counts and mean something on another filesystem too; those of listings are compared otherwise. */
static bool counts_compare(const struct action *a)
{
	enum op_reply reply = op_get(a->op)->reply;

	return reply == REPLY_COUNT || reply == REPLY_XATTR || reply == REPLY_LINK || reply == REPLY_LSEEK ||
	       (reply == REPLY_BUF && a->op == OP_read);
}

enum outcome_state check_result(const struct action *a, int64_t result)
{
	bool same = a->result < 0 || result < 0 ? a->result == result : !counts_compare(a) || a->result == result;

	return same ? OUTCOME_MATCH : OUTCOME_RESULT;
}

static void count_op(struct op_fidelity *f, const struct action *a, const struct outcome *o)
{
	f->recorded++;
	if (o->state == OUTCOME_NONE)
		return;
	f->issued++;
	f->matched += o->state == OUTCOME_MATCH;
	f->mismatched += o->state != OUTCOME_MATCH;
	f->original_fs_ns += a->fs_ns;
	f->fs_ns += o->fs_ns;
	f->original_dur_ns += a->dur_ns;
	f->dur_ns += o->dur_ns;
}

static void check_order(const struct plan *plan, const struct outcome *outcomes, struct fidelity *f)
{
	for (uint32_t i = 1; i <= plan->n_actions; i++)
		for (uint32_t w = plan->actions[i].first_wait; w < plan->actions[i + 1].first_wait; w++) {
			const struct outcome *before = &outcomes[plan->waits[w]], *o = &outcomes[i];

			f->waits++;
			if (o->state != OUTCOME_NONE && before->state != OUTCOME_NONE &&
				o->start_ns < before->start_ns + before->dur_ns)
				f->violations++;
		}
}

static int by_time(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int own_median(const struct plan *plan, const struct outcome *outcomes, int64_t *ret_median)
{
	auto_free int64_t *own = calloc((size_t)plan->n_actions + 1, sizeof(*own));
	size_t n = 0;

	if (!own)
		return -ENOMEM;
	for (uint32_t i = 1; i <= plan->n_actions; i++)
		if (outcomes[i].state != OUTCOME_NONE)
			own[n++] = (int64_t)outcomes[i].dur_ns - outcomes[i].fs_ns;
	array_sort(own, n, sizeof(*own), by_time);
	*ret_median = n ? own[n / 2] : 0;
	return 0;
}

/* Starts and ends on one line of time: an end at the time of a start comes first. */
static int most_at_once(const struct plan *plan, const struct outcome *outcomes, uint32_t *ret_most)
{
	auto_free int64_t *times = calloc((size_t)plan->n_actions * 2 + 1, sizeof(*times));
	uint32_t now = 0, most = 0;
	size_t n = 0;

	if (!times)
		return -ENOMEM;
	for (uint32_t i = 1; i <= plan->n_actions; i++)
		if (outcomes[i].state != OUTCOME_NONE) {
			times[n++] = outcomes[i].start_ns * 2 + 1;
			times[n++] = (outcomes[i].start_ns + outcomes[i].dur_ns) * 2 + (outcomes[i].dur_ns == 0) * 2;
		}
	array_sort(times, n, sizeof(*times), by_time);
	for (size_t i = 0; i < n; i++) {
		now = times[i] & 1 ? now + 1 : now ? now - 1 : 0;
		most = now > most ? now : most;
	}
	*ret_most = most;
	return 0;
}

int fidelity_of(const struct plan *plan, const struct replay_result *result, struct fidelity *ret_fidelity)
{
	struct fidelity f = {};
	int64_t first = INT64_MAX, last = 0;

	for (uint32_t i = 1; i <= plan->n_actions; i++) {
		const struct action *a = &plan->actions[i];
		const struct outcome *o = &result->outcomes[i];

		count_op(&f.ops[a->op], a, o);
		count_op(&f.all, a, o);
		if (o->state == OUTCOME_NONE)
			continue;
		f.idle_ns += o->idle_ns;
		if (a->start_ns < first)
			first = a->start_ns;
		if (a->start_ns + a->dur_ns > last)
			last = a->start_ns + a->dur_ns;
	}
	check_order(plan, result->outcomes, &f);
	f.original_span_ns = last > first ? last - first : 0;
	if (f.original_span_ns)
		f.original_concurrency = (double)f.all.original_dur_ns / (double)f.original_span_ns;
	if (result->wall_ns)
		f.concurrency = (double)f.all.dur_ns / (double)result->wall_ns;
	*ret_fidelity = f;
	return own_median(plan, result->outcomes, &ret_fidelity->own_p50_ns)
		?: most_at_once(plan, result->outcomes, &ret_fidelity->most_at_once);
}
