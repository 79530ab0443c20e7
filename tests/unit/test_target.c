/* SPDX-License-Identifier: MIT */
/* target.c: what the words after --fs mean. */
#include "unit.h"

#include <string.h>

#include "target.h"

struct list {
	struct target *targets;
	size_t count;
};

static int parse(struct list *list, const char *spec)
{
	*list = (struct list){};
	return targets_parse(spec, &list->targets, &list->count);
}

static void plain_names(void **state)
{
	struct list list;

	(void)state;
	assert_int_equal(parse(&list, "ext3,ext4,xfs,btrfs"), 0);
	assert_int_equal(list.count, 4);
	assert_string_equal(list.targets[0].name, "ext3");
	assert_string_equal(list.targets[3].type->name, "btrfs");
	assert_string_equal(list.targets[2].type->package, "xfsprogs");
	assert_null(list.targets[2].mkfs_options);
	assert_null(list.targets[2].dir);
	targets_free(list.targets, list.count);
}

/* Options have commas too: only before a target's name one separates. */
static void options_with_commas(void **state)
{
	struct list list;

	(void)state;
	assert_int_equal(
		parse(&list, "ext4:mkfs=-O "
			     "^has_journal,sparse_super:mount=noatime,data=writeback,xfs:mount=noatime,"
			     "dir=/tmp,ext4"),
		0);
	assert_int_equal(list.count, 4);
	assert_string_equal(list.targets[0].mkfs_options, "-O ^has_journal,sparse_super");
	assert_string_equal(list.targets[0].mount_options, "noatime,data=writeback");
	assert_string_equal(
		list.targets[0].name, "ext4:mkfs=-O ^has_journal,sparse_super:mount=noatime,data=writeback");
	assert_string_equal(list.targets[1].mount_options, "noatime");
	assert_null(list.targets[2].type);
	assert_string_equal(list.targets[2].dir, "/tmp");
	assert_string_equal(list.targets[3].name, "ext4");
	targets_free(list.targets, list.count);
}

/* The same filesystem twice, or on two devices, under names of its own. */
static void labels_and_raid(void **state)
{
	struct list list;

	(void)state;
	assert_int_equal(parse(&list, "ext4:label=a,ext4:label=b,btrfs:raid1:mount=noatime,tmpfs"), 0);
	assert_string_equal(list.targets[0].name, "a");
	assert_string_equal(list.targets[1].name, "b");
	assert_string_equal(list.targets[1].type->name, "ext4");
	assert_int_equal(target_devices(&list.targets[1]), 1);
	assert_true(list.targets[2].raid1);
	assert_string_equal(list.targets[2].name, "btrfs:raid1:mount=noatime");
	assert_int_equal(target_devices(&list.targets[2]), 2);
	assert_int_equal(target_devices(&list.targets[3]), 0);
	targets_free(list.targets, list.count);
}

static void mistakes(void **state)
{
	static const char *const wrong[] = { "", "ext5", "ext4,", ",ext4", "ext4,zfs", "ext4:", "ext4:foo=1",
		"ext4:mkfs", "ext4:mkfs=-q:mkfs=-q", "ext4,xfs,ext4", "dir=/no/such/directory", "ext44",
		"ext", "ext4:raid1", "btrfs:raid1:raid1", "tmpfs:mkfs=-q", "ext4:label=", "ext4:label=a,xfs:label=a" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct list list;

		assert_int_equal(parse(&list, wrong[i]), -EINVAL);
		targets_free(list.targets, list.count);
	}
}

static void description_is_json(void **state)
{
	struct strbuf auto_strbuf json = {};
	struct list list;

	(void)state;
	assert_int_equal(parse(&list, "xfs:mkfs=-L \"a  b\":mount=noatime"), 0);
	target_describe(&list.targets[0], &json);
	assert_string_equal(json.buf, ",\"mkfs\":\"mkfs.xfs -q -f -L \\\"a b\\\"\",\"mount\":\"noatime\"");
	targets_free(list.targets, list.count);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_names),
		cmocka_unit_test(options_with_commas),
		cmocka_unit_test(labels_and_raid),
		cmocka_unit_test(mistakes),
		cmocka_unit_test(description_is_json),
	};

	return cmocka_run_group_tests_name("target", tests, NULL, NULL);
}
