/* SPDX-License-Identifier: MIT */
/* workload.c: what the words after --workload mean. */
#include "unit.h"

#include <string.h>

#include "workload.h"

struct list {
	struct workload *workloads;
	size_t count;
};

static int parse(struct list *list, const char *text)
{
	*list = (struct list){};
	return workloads_parse(text, &list->workloads, &list->count);
}

static void names(void **state)
{
	struct list list;

	(void)state;
	assert_int_equal(parse(&list, "git-clone,find, rm-rf"), 0);
	assert_int_equal(list.count, 3);
	assert_string_equal(list.workloads[0].name, "git-clone");
	assert_string_equal(list.workloads[2].type->name, "rm-rf");
	workloads_free(list.workloads, list.count);
}

static void commands(void **state)
{
	const struct repository repo = { .url = (char *)"file:///r", .tar = (char *)"/t", .head = "abc" };
	char *words[WORKLOAD_MAX_WORDS + 1];
	struct list list;

	(void)state;
	assert_int_equal(parse(&list, "git-checkout:8,git-checkout,untar"), 0);
	workload_command(&list.workloads[0], &repo, words);
	assert_string_equal(words[2], "checkout.workers=8");
	assert_string_equal(words[7], "abc");
	assert_null(words[8]);
	workload_command(&list.workloads[1], &repo, words);
	assert_string_equal(words[2], "checkout.workers=1");
	workload_command(&list.workloads[2], &repo, words);
	assert_string_equal(words[4], "/t");
	workloads_free(list.workloads, list.count);
}

/* A command of the user's has commas and names of others. */
static void users_command(void **state)
{
	const struct repository repo = {};
	char *words[WORKLOAD_MAX_WORDS + 1];
	struct list list;

	(void)state;
	assert_int_equal(parse(&list, "find,cmd=ls a,find"), 0);
	assert_int_equal(list.count, 2);
	assert_string_equal(list.workloads[1].name, "cmd=ls a,find");
	workload_command(&list.workloads[1], &repo, words);
	assert_string_equal(words[2], "ls a,find");
	assert_null(words[3]);
	workloads_free(list.workloads, list.count);
}

static void mistakes(void **state)
{
	static const char *const wrong[] = { "", "git", "find,", "find,find", "cmd=", "find:2", "git-checkout:",
		"git-checkout:0", "git-checkout:x", "git-checkout:8x", "cmd" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct list list;

		assert_int_equal(parse(&list, wrong[i]), -EINVAL);
		workloads_free(list.workloads, list.count);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(commands),
		cmocka_unit_test(users_command),
		cmocka_unit_test(mistakes),
	};

	return cmocka_run_group_tests_name("workload", tests, NULL, NULL);
}
