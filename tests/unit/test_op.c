/* SPDX-License-Identifier: MIT */
/* The operation table: what a row of ops.def promises, and looking rows up. */
#include "unit.h"

#include <linux/fuse.h>
#include <string.h>

struct row {
	unsigned int code;
	const char *name;
	enum op_class class;
	enum op_reply reply;
	uint32_t cols;
	bool replay;
};

/* The rows once more, in order and with doubles: the array in op.c would hide a code that is used twice. */
static const struct row rows[] = {
#define OP(code, name, class, reply, cols, replay) { code, #name, CLASS_##class, REPLY_##reply, cols, replay },
#include "ops.def"
#undef OP
};

static void codes_and_names_are_unique(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_in_range(rows[i].code, 1, OP_COUNT - 1);
		for (size_t j = 0; j < i; j++) {
			assert_int_not_equal(rows[i].code, rows[j].code);
			assert_string_not_equal(rows[i].name, rows[j].name);
		}
	}
}

static void every_row_is_found(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct op_desc *desc = op_get(rows[i].code);

		assert_non_null(desc);
		assert_string_equal(desc->name, rows[i].name);
		assert_int_equal(desc->class, rows[i].class);
		assert_int_equal(desc->reply, rows[i].reply);
		assert_int_equal(desc->cols, rows[i].cols);
		assert_int_equal(desc->replay, rows[i].replay);
	}
}

static void nothing_else_is_found(void **state)
{
	unsigned int found = 0;

	(void)state;
	for (unsigned int code = 0; code < 2 * OP_COUNT; code++)
		found += op_get(code) != NULL;
	assert_int_equal(found, ARRAY_SIZE(rows));
	assert_null(op_get(0));
	assert_null(op_get(UINT32_MAX));
}

/* Codes below 100 are promised to be the protocol's: compared with the kernel's own header. */
static void codes_are_those_of_the_protocol(void **state)
{
	static const struct { unsigned int ours, kernel; } pairs[] = {
		{ OP_lookup, FUSE_LOOKUP }, { OP_forget, FUSE_FORGET }, { OP_getattr, FUSE_GETATTR },
		{ OP_setattr, FUSE_SETATTR }, { OP_readlink, FUSE_READLINK }, { OP_symlink, FUSE_SYMLINK },
		{ OP_mknod, FUSE_MKNOD }, { OP_mkdir, FUSE_MKDIR }, { OP_unlink, FUSE_UNLINK },
		{ OP_rmdir, FUSE_RMDIR }, { OP_rename, FUSE_RENAME }, { OP_link, FUSE_LINK },
		{ OP_open, FUSE_OPEN }, { OP_read, FUSE_READ }, { OP_write, FUSE_WRITE },
		{ OP_statfs, FUSE_STATFS }, { OP_release, FUSE_RELEASE }, { OP_fsync, FUSE_FSYNC },
		{ OP_setxattr, FUSE_SETXATTR }, { OP_getxattr, FUSE_GETXATTR },
		{ OP_listxattr, FUSE_LISTXATTR }, { OP_removexattr, FUSE_REMOVEXATTR },
		{ OP_flush, FUSE_FLUSH }, { OP_opendir, FUSE_OPENDIR }, { OP_readdir, FUSE_READDIR },
		{ OP_releasedir, FUSE_RELEASEDIR }, { OP_fsyncdir, FUSE_FSYNCDIR }, { OP_getlk, FUSE_GETLK },
		{ OP_setlk, FUSE_SETLK }, { OP_access, FUSE_ACCESS }, { OP_create, FUSE_CREATE },
		{ OP_ioctl, FUSE_IOCTL }, { OP_forget_multi, FUSE_BATCH_FORGET },
		{ OP_fallocate, FUSE_FALLOCATE }, { OP_readdirplus, FUSE_READDIRPLUS },
		{ OP_lseek, FUSE_LSEEK }, { OP_copy_file_range, FUSE_COPY_FILE_RANGE },
	};
	size_t below_100 = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++)
		assert_int_equal(pairs[i].ours, pairs[i].kernel);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		below_100 += rows[i].code < 100;
	assert_int_equal(below_100, ARRAY_SIZE(pairs)); /* a new row belongs in the list above */
}

static void columns_make_sense(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint32_t cols = rows[i].cols;

		assert_true(cols & COL_NODE);
		if (cols & (COL_NAME | COL_PARENT)) /* a name without its directory could not be replayed */
			assert_int_equal(cols & (COL_NAME | COL_PARENT), COL_NAME | COL_PARENT);
		assert_true(rows[i].replay || rows[i].class == CLASS_FORGET);
	}
}

static void classes_have_names(void **state)
{
	(void)state;
	for (int class = 0; class < CLASS_COUNT; class++) {
		const char *name = op_class_name((enum op_class)class);

		assert_non_null(name);
		assert_true(name[0] >= 'a' && name[0] <= 'z');
	}
	assert_string_equal(op_class_name(CLASS_FORGET), "forget");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(codes_and_names_are_unique),
		cmocka_unit_test(every_row_is_found),
		cmocka_unit_test(nothing_else_is_found),
		cmocka_unit_test(codes_are_those_of_the_protocol),
		cmocka_unit_test(columns_make_sense),
		cmocka_unit_test(classes_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
