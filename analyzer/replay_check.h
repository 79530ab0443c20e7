/* SPDX-License-Identifier: MIT */
/* replay_check.h - a replay against its recording: results, order, times. */
#ifndef FSTAPE_REPLAY_CHECK_H
#define FSTAPE_REPLAY_CHECK_H

#include "replay_plan.h"
#include "replay_run.h"

/* OUTCOME_MATCH or OUTCOME_RESULT: errors by number; counts where the operation's answer is one. */
enum outcome_state check_result(const struct action *action, int64_t result);

/* One operation type. */
struct op_fidelity {
	uint64_t recorded, issued, matched, mismatched;
	int64_t original_fs_ns, fs_ns; /* of those issued */
	int64_t original_dur_ns, dur_ns;
};

struct fidelity {
	struct op_fidelity ops[OP_COUNT];
	struct op_fidelity all;
	uint64_t waits;		   /* compiled */
	uint64_t violations;	   /* of these: the action began before what it waits for had ended */
	int64_t own_p50_ns;	   /* the replayer's own part of an operation, median */
	uint64_t idle_ns;	   /* kept between operations */
	int64_t original_span_ns;  /* first start to last end */
	double original_concurrency, concurrency; /* operations under way at once, on average over the span */
	uint32_t most_at_once;	   /* replayed */
};

/* `waits` of the plan are judged by the times in the result. 0 or -ENOMEM. */
int fidelity_of(const struct plan *plan, const struct replay_result *result, struct fidelity *ret_fidelity);

#endif
