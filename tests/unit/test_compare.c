/* SPDX-License-Identifier: MIT */
/* compare.c: groups, medians over rounds, paired ratios, operations, on a database with known numbers. */
#include "unit.h"

#include <string.h>

#include "compare.h"

/* Rounds 1..3 on two targets, recorded; slow is given first, so fast's ratio is to it. Round 3 of fast is missing. */
static const char *const recorded =
	"INSERT INTO run (id, state, clean_end, requests, recorded, dropped, workload, target, round, "
	"real_ns, user_ns,"
	" sys_ns, setup) VALUES"
	" (1, 'done', 1, 3, 3, 0, 'w', 'fast', 1, 100, 10, 1, '{\"order\":1}'),"
	" (2, 'done', 1, 2, 2, 0, 'w', 'slow', 1, 200, 20, 2, '{\"order\":0}'),"
	" (3, 'done', 1, 3, 3, 0, 'w', 'fast', 2, 110, 30, 3, '{\"order\":1}'),"
	" (4, 'done', 1, 2, 2, 0, 'w', 'slow', 2, 440, 40, 4, '{\"order\":0}'),"
	" (5, 'done', 1, 0, 0, 0, 'w', 'slow', 3, 300, 90, 9, '{\"order\":0}'),"
	" (6, 'native', NULL, NULL, NULL, NULL, 'w', 'fast', 1, 50, 5, 5, '{\"order\":1}'),"
	" (7, 'done', 1, 1, 1, 0, NULL, NULL, NULL, 7, 7, 7, NULL);"
	"INSERT INTO op (run, seq, start_ns, dur_ns, fs_ns, op, process, result) VALUES"
	" (1, 1, 0, 9, 10, 35, 1, 0), (1, 2, 0, 9, 30, 35, 1, 0), (1, 3, 0, 9, 1000, 1, 1, -2),"
	" (3, 1, 0, 9, 20, 35, 1, 0), (3, 2, 0, 9, 40, 35, 1, -17), (3, 3, 0, 9, 2000, 1, 1, -2),"
	" (2, 1, 0, 9, 70, 35, 1, 0), (2, 2, 0, 9, 500, 1, 1, 0),"
	" (4, 1, 0, 9, 80, 35, 1, 0), (4, 2, 0, 9, 600, 1, 1, 0),"
	" (7, 1, 0, 9, 123, 16, 1, 0)";

static struct trace *fill(const struct scratch *scratch, const char *sql)
{
	struct trace *trace = NULL;

	assert_int_equal(trace_open(scratch->db, TRACE_CREATE, &trace), 0);
	trace_close(trace);
	if (sql)
		db_exec(scratch->db, sql);
	assert_int_equal(trace_open(scratch->db, TRACE_READ, &trace), 0);
	return trace;
}

static void groups_and_medians(void **state)
{
	struct trace *trace = fill(*state, recorded);
	const struct compare_group *slow, *fast, *native;
	struct compare compare;

	assert_int_equal(compare_load(trace, NULL, 0, 0, NULL, &compare), 0);
	assert_int_equal(compare.count, 3);
	slow = &compare.groups[0], fast = &compare.groups[1], native = &compare.groups[2];
	assert_string_equal(slow->target, "slow");
	assert_string_equal(fast->target, "fast");
	assert_true(native->native && !fast->native);
	assert_int_equal(slow->count, 3);
	assert_int_equal(fast->count, 2);
	assert_int_equal(compare.rounds, 1);
	assert_true(
		slow->real_ns == 300 && slow->min_real_ns == 200 && slow->user_ns == 40 && slow->sys_ns == 4);
	assert_true(fast->real_ns == 105 && fast->user_ns == 20 && fast->sys_ns == 2);
	assert_true(slow->has_interval && slow->low_ns == 200 && slow->high_ns == 440);
	assert_false(fast->has_interval);
	assert_true(fast->requests == 3 && fast->fs_ns == (1040 + 2060) / 2.0);
	assert_true(native->requests == 0 && native->real_ns == 50);
	compare_free(&compare);
	trace_close(trace);
}

/* Rounds 1 and 2: 100/200 and 110/440. The medians' quotient would be 0.35. */
static void ratios_are_paired_by_round(void **state)
{
	struct trace *trace = fill(*state, recorded);
	struct compare compare;

	assert_int_equal(compare_load(trace, NULL, 0, 0, NULL, &compare), 0);
	assert_true(compare.groups[0].ratio == 1);
	assert_true(compare.groups[1].ratio == 0.375);
	assert_true(compare.groups[2].ratio == 1); /* native has fast only */
	compare_free(&compare);
	assert_int_equal(compare_load(trace, NULL, 0, 0, "fast", &compare), 0);
	assert_true(compare.groups[0].ratio == 3);
	compare_free(&compare);
	assert_int_equal(compare_load(trace, NULL, 0, 0, "none", &compare), -EINVAL);
	trace_close(trace);
}

static void operations_are_ranked(void **state)
{
	struct trace *trace = fill(*state, recorded);
	const struct compare_op *op;
	struct compare compare;

	assert_int_equal(compare_load(trace, NULL, 0, 0, NULL, &compare), 0);
	assert_int_equal(compare.n_top, 2);
	assert_int_equal(compare.top[0], OP_lookup);
	assert_int_equal(compare.top[1], OP_create);
	op = &compare.groups[1].ops[OP_create];
	assert_int_equal(op->count, 4);
	assert_int_equal(op->total_ns, 100);
	assert_int_equal(op->median_ns, 25);
	assert_int_equal(op->errors, 1);
	assert_int_equal(compare.groups[2].ops[OP_create].count, 0);
	compare_free(&compare);
	trace_close(trace);
}

static void runs_can_be_chosen(void **state)
{
	struct trace *trace = fill(*state, recorded);
	int64_t runs[] = { 7, 1 };
	struct compare compare;

	assert_int_equal(compare_load(trace, runs, 2, 0, NULL, &compare), 0);
	assert_int_equal(compare.count, 2);
	assert_string_equal(compare.groups[0].target, "fast");
	assert_string_equal(compare.groups[1].target, "run 7");
	compare_free(&compare);
	assert_int_equal(compare_load(trace, NULL, 0, 5, NULL, &compare), 0);
	assert_int_equal(compare.count, 2); /* runs 5 and 6 */
	compare_free(&compare);
	trace_close(trace);
}

static void nothing_to_compare(void **state)
{
	struct trace *trace = fill(*state, NULL);
	struct compare compare;

	assert_int_equal(compare_load(trace, NULL, 0, 0, NULL, &compare), -ENOENT);
	trace_close(trace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(groups_and_medians),
		scratch_test(ratios_are_paired_by_round),
		scratch_test(operations_are_ranked),
		scratch_test(runs_can_be_chosen),
		scratch_test(nothing_to_compare),
	};

	return cmocka_run_group_tests_name("compare", tests, NULL, NULL);
}
