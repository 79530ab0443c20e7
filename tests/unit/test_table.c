/* SPDX-License-Identifier: MIT */
/* table.c, table_text.c: one result in three formats; hostile bytes; durations and times in words. */
#include "unit.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "table.h"

/* The same two rows in any format. */
static char *print(enum table_format format, bool rows)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	struct table *table = table_new(format, true, out);

	assert_non_null(table);
	table_add_column(table, "name", "Name", COLUMN_TEXT, 0);
	table_add_column(table, "count", NULL, COLUMN_INT, 0);
	table_add_column(table, "total_ns", "total", COLUMN_DURATION, 0);
	table_add_column(table, "share", NULL, COLUMN_SHARE, 0);
	table_add_column(table, "whole", NULL, COLUMN_BOOL, COLUMN_DATA_ONLY);
	table_add_column(table, "at", NULL, COLUMN_TIME, COLUMN_DATA_ONLY);
	table_add_column(table, "remark", NULL, COLUMN_TEXT, COLUMN_TEXT_ONLY);
	if (rows) {
		table_bytes(table, "n\n,\"\xff\x1b[31m", 10);
		table_int(table, 1234567);
		table_int(table, 1234567);
		table_real(table, 0.25);
		table_int(table, 1);
		table_int(table, 1000000000000000000);
		table_text(table, "seen");
		table_end_row(table);
		table_text(table, "plain");
		table_null(table);
		table_int(table, 5);
		table_real(table, 1.0 / 3);
		table_int(table, 0);
		table_null(table);
		table_text(table, NULL);
		table_end_row(table);
	}
	assert_int_equal(table_print(table), 0);
	table_free(table);
	fclose(out);
	return text;
}

static void csv_has_bytes_as_they_are(void **state)
{
	auto_free char *text = print(TABLE_CSV, true), *empty = print(TABLE_CSV, false);

	(void)state;
	assert_string_equal(text, "name,count,total_ns,share,whole,at\r\n"
				  "\"n\n,\"\"\xff\x1b[31m\",1234567,1234567,0.25,1,2001-09-09T01:46:40Z\r\n"
				  "plain,,5,0.33333333333333331,0,\r\n");
	assert_string_equal(empty, "name,count,total_ns,share,whole,at\r\n");
}

static void json_is_utf8(void **state)
{
	auto_free char *text = print(TABLE_JSON, true), *empty = print(TABLE_JSON, false);

	(void)state;
	assert_string_equal(text,
		"[\n"
		"{\"name\":\"n\\u000a,\\\"\xef\xbf\xbd\\u001b[31m\",\"count\":1234567,\"total_ns\":1234567,"
		"\"share\":0.25,\"whole\":true,\"at\":\"2001-09-09T01:46:40Z\"},\n"
		"{\"name\":\"plain\",\"count\":null,\"total_ns\":5,\"share\":0.33333333333333331,"
		"\"whole\":false,\"at\":null}\n"
		"]\n");
	assert_string_equal(empty, "[]\n");
}

static void text_is_harmless_and_aligned(void **state)
{
	auto_free char *text = print(TABLE_TEXT, true), *empty = print(TABLE_TEXT, false);

	(void)state;
	assert_string_equal(text, "Name                  count   total share remark\n"
				  "n\\x0a,\"\\xff\\x1b[31m 1234567 1.23 ms 25.0% seen\n"
				  "plain                          5 ns 33.3% \n");
	assert_non_null(strstr(empty, "Name count total share remark"));
	for (const char *c = text; *c; c++)
		assert_true(*c == '\n' || (*c >= ' ' && *c < 0x7f));
}

/* A column of anything is a column of numbers as long as there is nothing else in it. */
static void columns_of_anything(void **state)
{
	auto_free char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	struct table *table = table_new(TABLE_TEXT, false, out);

	(void)state;
	table_add_column(table, "numbers", NULL, COLUMN_ANY, 0);
	table_add_column(table, "mixed", NULL, COLUMN_ANY, 0);
	table_add_column(table, "blobs", NULL, COLUMN_ANY, 0);
	for (int i = 0; i < 2; i++) {
		table_int(table, i ? 10 : 9);
		if (i)
			table_int(table, 1);
		else
			table_text(table, "text");
		table_blob(table, "\0\xff", 2);
		table_end_row(table);
	}
	assert_int_equal(table_print(table), 0);
	table_free(table);
	fclose(out);
	assert_string_equal(text, "numbers mixed blobs\n"
				  "      9 text  00ff\n"
				  "     10 1     00ff\n");
}

static void a_wrong_row_is_an_error(void **state)
{
	auto_free char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	struct table *few = table_new(TABLE_JSON, false, out), *many = table_new(TABLE_CSV, false, out);

	(void)state;
	table_add_column(few, "a", NULL, COLUMN_INT, 0);
	table_add_column(few, "b", NULL, COLUMN_INT, 0);
	table_int(few, 1);
	table_end_row(few);
	assert_int_equal(table_print(few), -EOVERFLOW);
	table_add_column(many, "a", NULL, COLUMN_INT, 0);
	table_int(many, 1);
	table_int(many, 2);
	table_end_row(many);
	assert_int_equal(table_print(many), -EOVERFLOW);
	table_free(few);
	table_free(many);
	fclose(out);
}

static void a_full_disk_is_an_error(void **state)
{
	static const enum table_format formats[] = { TABLE_TEXT, TABLE_CSV, TABLE_JSON };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		FILE *out = fopen("/dev/full", "w");
		struct table *table = table_new(formats[i], false, out);

		setbuf(out, NULL);
		table_add_column(table, "a", NULL, COLUMN_INT, 0);
		table_int(table, 1);
		table_end_row(table);
		assert_int_equal(table_print(table), -ENOSPC);
		table_free(table);
		fclose(out);
	}
}

static void durations_in_words(void **state)
{
	static const struct {
		int64_t ns;
		const char *text;
	} cases[] = {
		{ 0, "0 ns" },
		{ 7, "7 ns" },
		{ 999, "999 ns" },
		{ 1000, "1.00 us" },
		{ 24100, "24.1 us" },
		{ 999499, "999 us" },
		{ 999600, "1.00 ms" },
		{ 1234567, "1.23 ms" },
		{ 99960000, "100 ms" },
		{ 4560000000, "4.56 s" },
		{ 599000000000, "599 s" },
		{ 600000000000, "10 min 0 s" },
		{ 3661000000000, "61 min 1 s" },
		{ -1234567, "-1.23 ms" },
		{ -5, "-5 ns" },
	};
	char buf[24];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_string_equal(format_duration(cases[i].ns, buf), cases[i].text);
	assert_true(strlen(format_duration(INT64_MAX, buf)) < sizeof(buf));
	assert_true(strlen(format_duration(INT64_MIN, buf)) < sizeof(buf));
}

static void times_in_words(void **state)
{
	char buf[40];

	(void)state;
	setenv("TZ", "XYZ-5:30", 1);
	tzset();
	assert_string_equal(format_time(1000000000999999999, false, buf), "2001-09-09T01:46:40Z");
	assert_string_equal(format_time(1000000000000000000, true, buf), "2001-09-09T07:16:40+05:30");
	assert_string_equal(format_time(-1, false, buf), "1969-12-31T23:59:59Z");
}

static void html_is_text_with_values_to_sort_by(void **state)
{
	auto_free char *text = print(TABLE_HTML, true), *empty = print(TABLE_HTML, false);

	(void)state;
	assert_string_equal(text,
		"<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr><th scope=\"col\">Name</th>"
		"<th scope=\"col\" class=\"n\">count</th><th scope=\"col\" class=\"n\">total</th>"
		"<th scope=\"col\" class=\"n\">share</th><th scope=\"col\">remark</th></tr></thead>\n<tbody>\n"
		"<tr><td>n\\x0a,&quot;\\xff\\x1b[31m</td><td class=\"n\">1234567</td>"
		"<td class=\"n\" data-v=\"1234567\">1.23 ms</td><td class=\"n\" data-v=\"0.25\">25.0%</td><td>seen</td></tr>\n"
		"<tr><td>plain</td><td></td><td class=\"n\" data-v=\"5\">5 ns</td>"
		"<td class=\"n\" data-v=\"0.333333333\">33.3%</td><td></td></tr>\n"
		"</tbody></table></div>\n");
	assert_non_null(strstr(empty, "<th scope=\"col\">count</th>"));
	assert_non_null(strstr(empty, "<tbody>\n</tbody></table></div>\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(csv_has_bytes_as_they_are),
		cmocka_unit_test(json_is_utf8),
		cmocka_unit_test(text_is_harmless_and_aligned),
		cmocka_unit_test(columns_of_anything),
		cmocka_unit_test(a_wrong_row_is_an_error),
		cmocka_unit_test(a_full_disk_is_an_error),
		cmocka_unit_test(durations_in_words),
		cmocka_unit_test(times_in_words),
		cmocka_unit_test(html_is_text_with_values_to_sort_by),
	};

	setlocale(LC_CTYPE, "C.UTF-8");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
