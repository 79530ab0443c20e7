/* SPDX-License-Identifier: MIT */
#include "event_args.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <string.h>

#include "handle.h"
#include "node.h"

#define XATTR_KEPT 16384u /* bytes of a value; a longer one is recorded by its length */

static _Thread_local struct strbuf text;

/* No printf here: these are written while a client waits. */
static void add_key(const char *key)
{
	strbuf_add(&text, text.len ? ",\"" : "{\"", 2);
	strbuf_add(&text, key, strlen(key));
	strbuf_add(&text, "\":", 2);
}

static void add_int(const char *key, int64_t value)
{
	uint64_t left = value < 0 ? -(uint64_t)value : (uint64_t)value;
	char digits[24], *at = digits + sizeof(digits);

	do
		*--at = (char)('0' + left % 10);
	while (left /= 10);
	if (value < 0)
		*--at = '-';
	add_key(key);
	strbuf_add(&text, at, (size_t)(digits + sizeof(digits) - at));
}

static void add_text(const char *key, const char *value)
{
	add_key(key);
	strbuf_add_json(&text, value, strlen(value));
}

/* Bytes of any kind; JSON has no other way to carry them. */
static void add_hex(const char *key, const void *data, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *bytes = data;

	add_key(key);
	strbuf_add(&text, "\"", 1);
	for (size_t i = 0; i < len; i++)
		strbuf_add(&text, (char[]){ digits[bytes[i] >> 4], digits[bytes[i] & 15] }, 2);
	strbuf_add(&text, "\"", 1);
}

static void add_setattr(const struct call *c)
{
	if (c->flags & FUSE_SET_ATTR_MODE)
		add_int("mode", c->attr->st_mode & 07777);
	if (c->flags & FUSE_SET_ATTR_UID)
		add_int("uid", c->attr->st_uid);
	if (c->flags & FUSE_SET_ATTR_GID)
		add_int("gid", c->attr->st_gid);
	if (c->flags & FUSE_SET_ATTR_SIZE)
		add_int("size", c->attr->st_size);
	if (c->flags & FUSE_SET_ATTR_ATIME_NOW)
		add_text("atime", "now");
	else if (c->flags & FUSE_SET_ATTR_ATIME)
		add_int("atime", timespec_ns(c->attr->st_atim));
	if (c->flags & FUSE_SET_ATTR_MTIME_NOW)
		add_text("mtime", "now");
	else if (c->flags & FUSE_SET_ATTR_MTIME)
		add_int("mtime", timespec_ns(c->attr->st_mtim));
}

static void add_lock(const struct call *c)
{
	static const char *const types[] = { [F_RDLCK] = "read", [F_WRLCK] = "write", [F_UNLCK] = "unlock" };

	add_text("type", (unsigned int)c->lock->l_type < ARRAY_SIZE(types) ? types[c->lock->l_type] : "?");
	add_int("owner", (int64_t)c->lock_owner);
}

/* Only where mode and umask alone do not make it what it is: default ACLs, set-gid directories. */
static void add_made_mode(const struct call *c)
{
	mode_t made = c->entry.attr.st_mode & 07777;

	if (!c->entry.ino || made == (c->mode & ~c->umask & 07777))
		return;
	add_int("umask", c->umask);
	add_int("made", made);
}

static void add_mknod(const struct call *c)
{
	if (S_ISCHR(c->mode) || S_ISBLK(c->mode))
		add_int("rdev", (int64_t)c->rdev);
	add_made_mode(c);
}

static void add_rename(const struct call *c)
{
	if (c->parent2 != c->parent)
		add_int("parent2", (int64_t)c->parent2->id);
	if (c->victim_id)
		add_int("victim", (int64_t)c->victim_id);
}

static void add_xattr(enum op_id op, const struct call *c)
{
	add_text("name", c->name);
	if (op == OP_setxattr && c->length <= XATTR_KEPT)
		add_hex("value", c->data, c->length);
}

static void add_ioctl(const struct call *c)
{
	if (c->flags == FS_IOC_SETFLAGS && c->length >= sizeof(uint32_t))
		add_int("value", *(const uint32_t *)c->data);
	else if (c->length && c->length <= sizeof(struct fsxattr))
		add_hex("in", c->data, c->length);
}

static void add_copy(const struct call *c)
{
	add_int("fh_out", (int64_t)c->fh2->id);
	add_int("node_out", (int64_t)c->fh2->node->id);
	add_int("offset_out", c->offset2);
}

static void add_listing(const struct call *c)
{
	add_int("entries", c->listed);
	strbuf_addf(&text, ",\"names\":\"%016" PRIx64 "\"", c->listed_names);
}

static void add_own(enum op_id op, const struct call *c)
{
	if (op == OP_setattr)
		add_setattr(c);
	else if (op == OP_create || op == OP_mkdir)
		add_made_mode(c);
	else if (op == OP_mknod)
		add_mknod(c);
	else if (op == OP_rename)
		add_rename(c);
	else if (op == OP_setxattr || op == OP_getxattr || op == OP_removexattr)
		add_xattr(op, c);
	else if (op == OP_setlk || op == OP_getlk)
		add_lock(c);
	else if (op == OP_copy_file_range)
		add_copy(c);
	else if (op == OP_ioctl)
		add_ioctl(c);
	else if (op == OP_write && c->fi->writepage)
		add_int("writepage", 1);
	else if (op == OP_flush && c->had_locks)
		add_int("owner", (int64_t)c->lock_owner);
	else if (op == OP_readdir || op == OP_readdirplus)
		add_listing(c);
}

const char *event_args(enum op_id op, const struct call *c, uint16_t *ret_len)
{
	text.len = 0;
	add_own(op, c);
	if (c->other_ids) {
		add_int("fsuid", c->uid);
		add_int("fsgid", c->gid);
	}
	if (!text.len)
		return NULL;
	strbuf_add(&text, "}", 1);
	*ret_len = text.failed || text.len > UINT16_MAX ? 0 : (uint16_t)text.len;
	return text.buf;
}

void event_args_thread_end(void)
{
	strbuf_free(&text);
}
