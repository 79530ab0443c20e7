/* SPDX-License-Identifier: MIT */
/* profile.c, dir_tree.c, bins of chart_bins.c: sums that must not lose anything, unions against a plain count. */
#include "unit.h"

#include <math.h>
#include <string.h>

#include "profile.h"
#include "statistics.h"

static void bins_are_where_their_edges_say(void **state)
{
	(void)state;
	assert_int_equal(bin_of(0), 0);
	assert_int_equal(bin_of(-1), 0);
	assert_int_equal(bin_of(INT64_MAX), BIN_COUNT - 1);
	for (size_t bin = 0; bin < BIN_COUNT; bin++) {
		assert_int_equal(bin_of((int64_t)ceil(bin_edge_ns(bin))), bin);
		assert_int_equal(bin_of((int64_t)ceil(bin_edge_ns(bin + 1)) - 1), bin);
	}
}

static void add(struct trace *trace, int64_t run, uint64_t seq, enum op_id op, int64_t start, int64_t dur, uint32_t path)
{
	struct event event = { .seq = seq, .op = op, .start_ns = start, .dur_ns = dur, .fs_ns = dur / 2, .process = 1,
		.path = path, .result = op == OP_lookup ? -ENOENT : 0 };

	assert_int_equal(trace_add_event(trace, run, &event, ""), 0);
}

static void add_path(struct trace *trace, int64_t run, uint32_t id, uint32_t parent, const char *text)
{
	struct path_record path = { .id = id, .parent = parent, .text_len = (uint32_t)strlen(text) };

	assert_int_equal(trace_add_path(trace, run, &path, text), 0);
}

#define OPS  3000
#define LONG 2000000 /* ns */

/* Intervals at random, nearly in order, some long; `busy` gets a mark for each ns that one covers. */
static void add_random(struct trace *trace, int64_t run, char *busy)
{
	struct random random = { 1 };

	for (uint64_t i = 0; i < OPS; i++) {
		int64_t start = (int64_t)(i * 600 + random_below(&random, 5000));
		int64_t dur = (int64_t)random_below(&random, i % 100 ? 700 : 20000);

		add(trace, run, i + 1, i % 3 ? OP_create : OP_lookup, start, dur, 1 + i % 4);
		memset(busy + start, 1, (size_t)dur);
	}
}

static double sum(const double *values, size_t count)
{
	double total = 0;

	for (size_t i = 0; i < count; i++)
		total += values[i];
	return total;
}

static void nothing_is_lost(void **state)
{
	const struct scratch *scratch = *state;
	auto_free char *busy = calloc(LONG, 1);
	struct profile *profile;
	struct dir_tree tree;
	struct trace *trace;
	int64_t run, covered = 0;

	assert_int_equal(trace_open(scratch->db, TRACE_CREATE, &trace), 0);
	assert_int_equal(trace_run_create(trace, NULL, &run), 0);
	add_path(trace, run, 1, 0, "");
	add_path(trace, run, 2, 1, "a");
	add_path(trace, run, 3, 2, "a/b");
	add_path(trace, run, 4, 3, "a/b/c.txt");
	add_random(trace, run, busy);
	assert_int_equal(profile_read(trace, run, &profile), 0);
	for (size_t i = 0; i < LONG; i++)
		covered += busy[i];
	assert_int_equal(profile->count, OPS);
	assert_int_equal(profile->errors, OPS / 3);
	assert_true(fabs(profile->busy_ns - (double)covered) < 0.5);
	assert_true(sum(&profile->class_count[0][0], CLASS_COUNT * PROFILE_STEPS) == OPS);
	assert_true(sum(&profile->op_bins[0][0], OP_COUNT * BIN_COUNT) == OPS);
	assert_true(sum(&profile->time_bins[0][0], BIN_COUNT * PROFILE_STEPS) == OPS);
	assert_true(fabs(sum(&profile->class_fs_ns[0][0], CLASS_COUNT * PROFILE_STEPS) - profile->fs_ns) < 1);
	assert_int_equal(dir_tree_read(trace, run, profile, 100, &tree), 0);
	assert_int_equal(tree.count, 3); /* c.txt is no directory */
	assert_string_equal(tree.nodes[0].name, "/");
	assert_true(fabs(tree.nodes[0].value - profile->fs_ns) < 1);
	assert_string_equal(tree.nodes[2].name, "a/b");
	assert_int_equal(tree.nodes[2].parent, 1);
	dir_tree_free(&tree);
	profile_free(profile);
	trace_close(trace);
}

static void small_directories_are_left_to_their_parents(void **state)
{
	const struct scratch *scratch = *state;
	struct profile *profile;
	struct dir_tree tree;
	struct trace *trace;
	int64_t run;
	char name[16];

	assert_int_equal(trace_open(scratch->db, TRACE_CREATE, &trace), 0);
	assert_int_equal(trace_run_create(trace, NULL, &run), 0);
	add_path(trace, run, 1, 0, "");
	for (uint32_t i = 2; i < 102; i++) {
		snprintf(name, sizeof(name), "d%u", i);
		add_path(trace, run, i, 1, name);
		add(trace, run, i, OP_readdir, i * 1000, i, i);
	}
	assert_int_equal(profile_read(trace, run, &profile), 0);
	assert_int_equal(dir_tree_read(trace, run, profile, 10, &tree), 0);
	assert_in_range(tree.count, 8, 10);
	assert_true(tree.nodes[0].value == profile->fs_ns);
	for (size_t i = 1; i < tree.count; i++)
		assert_true(tree.nodes[i].value >= 45);
	dir_tree_free(&tree);
	profile_free(profile);
	trace_close(trace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bins_are_where_their_edges_say),
		scratch_test(nothing_is_lost),
		scratch_test(small_directories_are_left_to_their_parents),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
