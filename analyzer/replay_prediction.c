/* SPDX-License-Identifier: MIT */
#include "replay_prediction.h"

#include <inttypes.h>
#include <stdio.h>

#include "base.h"

void replay_row(struct table *table, const char *name, const char *words, int64_t value)
{
	table_text(table, name);
	table_text(table, words);
	table_int(table, value);
	table_end_row(table);
}

static bool predicts(const struct plan *plan, const struct replay_result *result)
{
	return plan->pace.known_end && result->pace > 0.999999 && result->pace < 1.000001 && !result->stopped;
}

static int64_t predicted_ns(const struct plan *plan, const struct replay_result *result)
{
	return result->wall_ns + plan->pace.tail_ns;
}

/* In hundredths; gaps of which only the clock was read are told from the others. */
static int64_t read_percent(const struct pace *pace)
{
	return pace->gaps ? (int64_t)(100.0 * (double)pace->read_gaps / (double)pace->gaps) : 0;
}

void replay_pace_rows(struct table *table, const struct plan *plan)
{
	const struct pace *pace = &plan->pace;

	replay_row(table, "idle_ns", "pauses of all threads, ns", pace->idle_ns);
	replay_row(table, "plan_blocked_ns", "... of these, waiting for something, ns", pace->all_blocked_ns);
	replay_row(table, "read_percent", "pauses by the threads' processor time, %", read_percent(pace));
	replay_row(table, "round_cpu_ns", "... what is taken off each for the recorder, ns", pace->round_cpu_ns);
	replay_row(table, "round_trip_ns", "what is taken off each of the others, ns", pace->round_trip_ns);
	replay_row(table, "tail_ns", "from the last operation to the command's end, ns", pace->tail_ns);
}

void replay_time_rows(struct table *table, const struct plan *plan, const struct replay_result *result)
{
	const struct replay_times *times = &result->times;

	if (predicts(plan, result))
		replay_row(table, "predicted_ns", "the command would take there, ns", predicted_ns(plan, result));
	replay_row(table, "think_ns", "programs kept a processor busy, ns", times->think_ns);
	replay_row(table, "blocked_ns", "programs waited for something else, ns", times->blocked_ns);
	replay_row(table, "order_ns", "threads waited for operations of others, ns", times->order_ns);
	replay_row(table, "twice_ns", "taken off: in pauses and in system calls of the replay, ns", times->twice_ns);
	replay_row(table, "twice_call_ns", "... for a way into the kernel, ns", result->doubles.call_ns);
	replay_row(table, "twice_name_ns", "... for a look-up that found something, ns", result->doubles.name_ns);
	replay_row(table, "twice_write_page_ns", "... for 4 KiB written, ns", result->doubles.write_page_ns);
	replay_row(table, "twice_read_page_ns", "... for 4 KiB read, ns", result->doubles.read_page_ns);
	replay_row(table, "unpaid_ns", "the replayer's own time that could not be taken off, ns", times->unpaid_ns);
	replay_pace_rows(table, plan);
}

void replay_time_print(const struct plan *plan, const struct replay_result *result, const struct fidelity *f)
{
	const struct replay_times *times = &result->times;
	char predicted[24], fs[24], think[24], blocked[24], tail[24], order[24], off[24];

	if (predicts(plan, result))
		printf("The command would take %s there.\n", format_duration(predicted_ns(plan, result), predicted));
	printf("All threads: %s in the filesystem, %s busy, %s waiting, %s after the last operation; less %s there twice\n",
		format_duration(f->all.fs_ns, fs), format_duration(times->think_ns, think),
		format_duration(times->blocked_ns, blocked), format_duration(plan->pace.tail_ns, tail),
		format_duration(times->twice_ns, off));
	printf("They waited %s for one another; %" PRId64 "%% of pauses are by the threads' processor time\n",
		format_duration(times->order_ns, order), read_percent(&plan->pace));
}
