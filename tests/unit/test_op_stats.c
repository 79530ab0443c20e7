/* SPDX-License-Identifier: MIT */
/* op_stats.c: counts, nearest-rank percentiles, shares and order, on times that can be computed by head. */
#include "unit.h"

#include <string.h>

#include "op_stats.h"

static void add(struct trace *trace, int64_t run, uint64_t seq, enum op_id op, int64_t dur, int64_t fs,
	int64_t result)
{
	struct event event = {
		.seq = seq, .op = op, .dur_ns = dur, .fs_ns = fs, .result = result, .process = 1
	};

	assert_int_equal(trace_add_event(trace, run, &event, ""), 0);
}

static const struct op_stats *find(const struct run_stats *stats, const char *name)
{
	for (size_t i = 0; i < stats->n_ops; i++)
		if (strcmp(stats->ops[i].name, name) == 0)
			return &stats->ops[i];
	fail_msg("no %s", name);
	return NULL;
}

/* Reads of 1..200 ns in an order that is not sorted, of which 10 ns less each in the filesystem, and one slow fsync. */
static struct trace *make(const struct scratch *scratch, int64_t *ret_run)
{
	struct trace *trace;

	assert_int_equal(trace_open(scratch->db, TRACE_CREATE, &trace), 0);
	assert_int_equal(trace_run_create(trace, NULL, ret_run), 0);
	for (uint64_t i = 0; i < 200; i++) {
		int64_t dur = (int64_t)(i * 77 % 200) + 1;

		add(trace, *ret_run, i + 1, OP_read, dur, dur > 10 ? dur - 10 : 0, i % 10 ? 4096 : -5);
	}
	add(trace, *ret_run, 201, OP_fsync, 21000, 20000, 0);
	add(trace, *ret_run + 1, 1, OP_write, 1, 1, 0); /* of another run */
	return trace;
}

static void percentiles_by_nearest_rank(void **state)
{
	const struct scratch *scratch = *state;
	auto_free struct run_stats *stats = calloc(1, sizeof(*stats));
	int64_t run;
	struct trace *trace = make(scratch, &run);
	const struct op_stats *op;

	assert_int_equal(run_stats_read(trace, run, CLOCK_DUR, stats), 0);
	assert_int_equal(stats->n_ops, 2);
	assert_int_equal(stats->count, 201);
	assert_int_equal(stats->errors, 20);
	assert_int_equal(stats->total_ns[CLOCK_DUR], 20100 + 21000);
	op = find(stats, "read");
	assert_int_equal(op->count, 200);
	assert_int_equal(op->errors, 20);
	assert_int_equal(op->time[CLOCK_DUR].total_ns, 20100);
	assert_int_equal(op->time[CLOCK_DUR].p50_ns, 100);
	assert_int_equal(op->time[CLOCK_DUR].p95_ns, 190);
	assert_int_equal(op->time[CLOCK_DUR].p99_ns, 198);
	assert_int_equal(op->time[CLOCK_DUR].max_ns, 200);
	assert_true(op->time[CLOCK_DUR].mean_ns == 100.5);
	assert_int_equal(op->time[CLOCK_FS].p50_ns, 90);
	assert_int_equal(op->time[CLOCK_FS].total_ns, 190 * 191 / 2);
	op = find(stats, "fsync");
	assert_int_equal(op->time[CLOCK_FS].p50_ns, 20000);
	assert_int_equal(op->time[CLOCK_FS].p99_ns, 20000);
	assert_true(op->time[CLOCK_DUR].share == 21000.0 / 41100);
	trace_close(trace);
}

static void the_longest_total_comes_first(void **state)
{
	const struct scratch *scratch = *state;
	auto_free struct run_stats *stats = calloc(1, sizeof(*stats));
	int64_t run;
	struct trace *trace = make(scratch, &run);

	for (uint64_t i = 0; i < 3; i++)
		add(trace, run, 300 + i, OP_write, 10000, 1, 0);
	assert_int_equal(run_stats_read(trace, run, CLOCK_DUR, stats), 0);
	assert_string_equal(stats->ops[0].name, "write");
	assert_int_equal(run_stats_read(trace, run, CLOCK_FS, stats), 0);
	assert_string_equal(stats->ops[0].name, "fsync");
	assert_string_equal(stats->ops[2].name, "write");
	assert_int_equal(run_stats_read(trace, run + 7, CLOCK_FS, stats), 0);
	assert_int_equal(stats->n_ops, 0);
	trace_close(trace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(percentiles_by_nearest_rank),
		scratch_test(the_longest_total_comes_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
