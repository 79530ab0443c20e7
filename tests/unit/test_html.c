/* SPDX-License-Identifier: MIT */
/* html.c: whatever bytes come, what is written is text and nothing else. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "html.h"

static char *escape(const char *text, size_t len)
{
	char *out = NULL;
	size_t size;
	FILE *file = open_memstream(&out, &size);

	html_text(file, text, len);
	fclose(file);
	return out;
}

static void escapes(void **state)
{
	static const struct {
		const char *text, *wanted;
	} cases[] = {
		{ "plain /path.c", "plain /path.c" },
		{ "<a href=\"x\" b='y'>&amp;", "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;amp;" },
		{ "]]>", "]]&gt;" },
		{ "a\nb\tc\x7f", "a\\x0ab\\x09c\\x7f" },
		{ "\xff\xc0\x80", "\\xff\\xc0\\x80" },
		{ "\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80" },
		{ "\xe2\x82", "\\xe2\\x82" },
		{ "\xc2\x9b", "\\xc2\\x9b" },		       /* C1: CSI */
		{ "\xe2\x80\xae", "\\xe2\\x80\\xae" },	       /* U+202E: from right to left */
		{ "\xe2\x81\xa6", "\\xe2\\x81\\xa6" },	       /* U+2066: isolate */
		{ "\xd8\x9c\xef\xbb\xbf", "\\xd8\\x9c\\xef\\xbb\\xbf" }, /* U+061C, U+FEFF */
		{ "\xed\xa0\x80", "\\xed\\xa0\\x80" },	       /* a surrogate */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_free char *got = escape(cases[i].text, strlen(cases[i].text));

		assert_string_equal(got, cases[i].wanted);
	}
}

static void every_byte_stays_out_of_markup(void **state)
{
	(void)state;
	for (unsigned int first = 0; first < 256; first++) {
		for (unsigned int second = 0; second < 256; second++) {
			char bytes[2] = { (char)first, (char)second };
			auto_free char *got = escape(bytes, 2);

			assert_null(strpbrk(got, "<>\"'\n\r\t\x7f"));
			assert_true(strlen(got) >= 2);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(escapes),
		cmocka_unit_test(every_byte_stays_out_of_markup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
