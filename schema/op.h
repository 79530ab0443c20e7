/* SPDX-License-Identifier: MIT */
/* op.h - the operation table of ops.def as C: ids, descriptions. Constant, so thread-safe. */
#ifndef FSTAPE_OP_H
#define FSTAPE_OP_H

#include <stdbool.h>
#include <stdint.h>

enum op_id {
#define OP(code, name, class, reply, cols, replay) OP_##name = (code),
#include "ops.def"
#undef OP
	OP_COUNT = 128, /* one above the highest code that a spool or a table indexed by code has room for */
};

enum op_class {
	CLASS_LOOKUP, /* a name looked up */
	CLASS_ATTR,   /* attributes read or changed */
	CLASS_NAME,   /* a name made, moved or removed */
	CLASS_OPEN,   /* an open file's life */
	CLASS_DATA,   /* contents */
	CLASS_DIR,    /* listings */
	CLASS_SYNC,   /* forced to the device */
	CLASS_XATTR,  /* extended attributes */
	CLASS_LOCK,   /* file locks */
	CLASS_FORGET, /* the kernel dropping inodes from its cache */
	CLASS_COUNT,
};

/* What a successful call is answered with; a failed one always with its errno. */
enum op_reply {
	REPLY_NONE,
	REPLY_ERR, /* success has nothing to say */
	REPLY_ENTRY,
	REPLY_ATTR,
	REPLY_LINK,
	REPLY_OPEN,
	REPLY_CREATE,
	REPLY_BUF,
	REPLY_COUNT,
	REPLY_STATFS,
	REPLY_XATTR,
	REPLY_LOCK,
	REPLY_LSEEK,
	REPLY_IOCTL,
};

enum op_cols {
	COL_NODE = 1 << 0,   /* node, and path of that node unless COL_NAME says otherwise */
	COL_PARENT = 1 << 1, /* parent: the directory that holds `path` */
	COL_NAME = 1 << 2,   /* path is a name in parent */
	COL_NAME2 = 1 << 3,  /* path2: the new name of rename, the old one of link, a symlink's or copy's target */
	COL_FH = 1 << 4,
	COL_OFFSET = 1 << 5,
	COL_LENGTH = 1 << 6,
	COL_FLAGS = 1 << 7,
	COL_MODE = 1 << 8,   /* of new objects with the caller's umask applied */
	COL_ARGS = 1 << 9, /* further arguments, a JSON object */
};

struct op_desc {
	const char *name; /* NULL: no such operation */
	enum op_class class;
	enum op_reply reply;
	uint32_t cols;
	bool replay;
};

/* The description of an operation, or NULL when `code` names none. */
const struct op_desc *op_get(unsigned int code);

/* "lookup", "name", ...: as in the column `class`. */
const char *op_class_name(enum op_class class);

#endif
