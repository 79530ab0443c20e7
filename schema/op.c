/* SPDX-License-Identifier: MIT */
#include "op.h"

#include <stddef.h>

static const struct op_desc op_table[OP_COUNT] = {
#define OP(code, name, class, reply, cols, replay)                                                 \
	[OP_##name] = { #name, CLASS_##class, REPLY_##reply, cols, replay },
#include "ops.def"
#undef OP
};

static const char *const class_names[CLASS_COUNT] = {
	[CLASS_LOOKUP] = "lookup", [CLASS_ATTR] = "attr",     [CLASS_NAME] = "name",
	[CLASS_OPEN] = "open",     [CLASS_DATA] = "data",     [CLASS_DIR] = "dir",
	[CLASS_SYNC] = "sync",     [CLASS_XATTR] = "xattr",   [CLASS_LOCK] = "lock",
	[CLASS_FORGET] = "forget",
};

const struct op_desc *op_get(unsigned int code)
{
	return code < OP_COUNT && op_table[code].name ? &op_table[code] : NULL;
}

const char *op_class_name(enum op_class class)
{
	return class_names[class];
}
