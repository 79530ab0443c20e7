/* SPDX-License-Identifier: MIT */
/* The reports as they are built in: they prepare, take their parameters, and name their columns. */
#include "report.h"

#include <string.h>

#include "unit.h"

static struct trace *open_trace(const struct scratch *scratch)
{
	struct trace *trace;

	assert_int_equal(trace_open(scratch->db, TRACE_CREATE, &trace), 0);
	trace_close(trace);
	assert_int_equal(trace_open(scratch->db, TRACE_READ, &trace), 0);
	return trace;
}

/* Every one, on a database without any run: no rows, or rows of nothing, but no error. */
static void test_all_prepare(void **state)
{
	struct trace *trace = open_trace(*state);
	const struct report *report = reports;

	assert_non_null(report->name);
	for (; report->name; report++) {
		struct trace_stmt *stmt;

		assert_ptr_equal(report_find(report->name), report);
		assert_int_equal(report_prepare(trace, report, 1, NULL, &stmt), 0);
		assert_true(trace_step(stmt) >= 0);
		trace_finalize(stmt);
	}
	assert_null(report_find("none"));
	trace_close(trace);
}

static void test_wrong_parameters(void **state)
{
	const char *const wrong[] = { "limit", "limit=", "limit=x", "limits=1", "lim=1", "=1", "" };
	struct scratch *scratch = *state;
	struct trace *trace = open_trace(scratch);
	struct trace_stmt *stmt = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct text_list set = { (const char *[]){ wrong[i] }, 1 };
		auto_free char *text = NULL;

		capture_begin(scratch);
		assert_int_equal(
			report_prepare(trace, report_find("slowest"), 1, &set, &stmt), -EDOM);
		text = capture_end(scratch);
		assert_non_null(strstr(text, "report slowest: "));
	}
	assert_null(stmt);
	trace_close(trace);
}

static void test_kinds_of_columns(void **state)
{
	static const struct {
		const char *name, *title;
		enum column_kind kind;
	} columns[] = {
		{ "total_fs_ns", "total fs", COLUMN_DURATION },
		{ "share", "share", COLUMN_SHARE },
		{ "fs_share", "fs share", COLUMN_SHARE },
		{ "ops_per_file", "ops per file", COLUMN_RATIO },
		{ "path", "path", COLUMN_ANY },
		{ "ns", "ns", COLUMN_ANY },
	};
	char title[REPORT_TITLE_LEN];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
		assert_int_equal(report_column(columns[i].name, title), columns[i].kind);
		assert_string_equal(title, columns[i].title);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_all_prepare),
		scratch_test(test_wrong_parameters),
		cmocka_unit_test(test_kinds_of_columns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
