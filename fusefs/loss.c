/* SPDX-License-Identifier: MIT */
#include "loss.h"

int64_t loss_note_result(struct loss *loss, int result)
{
	int64_t now = clock_ns(CLOCK_MONOTONIC), since = atomic_load(&loss->stalled_since_ns);

	atomic_store(&loss->error, -result);
	if (result == 0) {
		atomic_store(&loss->stalled_since_ns, 0);
		return 0;
	}
	if (!since)
		atomic_store(&loss->stalled_since_ns, since = now);
	return now - since;
}

void loss_set_final(struct loss *loss, int error)
{
	atomic_store(&loss->final, error);
}

bool loss_is_final(const struct loss *loss)
{
	return atomic_load_explicit(&loss->final, memory_order_relaxed) != 0;
}

bool loss_is_due(const struct loss *loss)
{
	int64_t since = atomic_load(&loss->stalled_since_ns);
	int64_t limit = atomic_load(&loss->error) == EBUSY ? LOCK_LIMIT_NS : STALL_LIMIT_NS;

	return loss_is_final(loss) || (since && clock_ns(CLOCK_MONOTONIC) - since > limit);
}

void loss_count(const struct loss *loss, struct spool_state *state, unsigned int op, int64_t now_ns)
{
	int64_t none = 0, last = atomic_load(&state->last_loss_ns);
	uint32_t error = (uint32_t)(atomic_load(&loss->final) ?: atomic_load(&loss->error)), no_reason = 0;

	if (error) /* the first reason stays, but one that is known is better than none */
		atomic_compare_exchange_strong(&state->loss_errno, &no_reason, error);
	atomic_compare_exchange_strong(&state->first_loss_ns, &none, now_ns);
	while (last < now_ns && !atomic_compare_exchange_weak(&state->last_loss_ns, &last, now_ns))
		;
	atomic_fetch_add_explicit(&state->dropped[op], 1, memory_order_relaxed);
}
