/* SPDX-License-Identifier: MIT */
/* mode.c: names of modes as the run's row has them, and what they mean, also of modes of other versions. */
#include "unit.h"

#include <string.h>

#include "mode.h"

static void each_mode_has_a_name_and_a_meaning(void **state)
{
	(void)state;
	assert_null(mode_names(0));
	for (unsigned int mode = 0; mode < MODE_COUNT; mode++) {
		auto_free char *name = mode_names(MODE_BIT(mode));
		struct strbuf auto_strbuf text = {};

		assert_non_null(name);
		assert_null(strchr(name, ' '));
		mode_explain(name, &text);
		assert_true(text.len > strlen(name) + strlen(" ()"));
		assert_memory_equal(text.buf, name, strlen(name));
	}
}

static void names_are_joined_and_explained_in_turn(void **state)
{
	struct strbuf auto_strbuf text = {};

	(void)state;
	mode_explain("  noflush  of_tomorrow ", &text);
	assert_non_null(strstr(text.buf, "noflush ("));
	assert_non_null(strstr(text.buf, "), of_tomorrow"));
	assert_int_equal(text.buf[text.len - 1], 'w');
}

static void nothing_is_made_of_nothing(void **state)
{
	struct strbuf auto_strbuf text = {};

	(void)state;
	mode_explain("", &text);
	mode_explain("   ", &text);
	assert_int_equal(text.len, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_mode_has_a_name_and_a_meaning),
		cmocka_unit_test(names_are_joined_and_explained_in_turn),
		cmocka_unit_test(nothing_is_made_of_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
