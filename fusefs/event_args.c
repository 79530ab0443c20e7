/* SPDX-License-Identifier: MIT */
#include "event_args.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <string.h>

#include "handle.h"

static _Thread_local struct strbuf text;

static void add_int(const char *key, int64_t value)
{
	strbuf_addf(&text, "%s\"%s\":%" PRId64, text.len ? "," : "{", key, value);
}

static void add_text(const char *key, const char *value)
{
	strbuf_addf(&text, "%s\"%s\":", text.len ? "," : "{", key);
	strbuf_add_json(&text, value, strlen(value));
}

static int64_t ns_of(struct timespec ts)
{
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
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
		add_int("atime", ns_of(c->attr->st_atim));
	if (c->flags & FUSE_SET_ATTR_MTIME_NOW)
		add_text("mtime", "now");
	else if (c->flags & FUSE_SET_ATTR_MTIME)
		add_int("mtime", ns_of(c->attr->st_mtim));
}

static void add_lock(const struct call *c)
{
	static const char *const types[] = { [F_RDLCK] = "read", [F_WRLCK] = "write", [F_UNLCK] = "unlock" };

	add_text("type", (unsigned int)c->lock->l_type < ARRAY_SIZE(types) ? types[c->lock->l_type] : "?");
	add_int("owner", (int64_t)c->lock_owner);
}

const char *event_args(enum op_id op, const struct call *c, uint16_t *ret_len)
{
	text.len = 0;
	if (op == OP_setattr)
		add_setattr(c);
	else if (op == OP_mknod && (S_ISCHR(c->mode) || S_ISBLK(c->mode)))
		add_int("rdev", (int64_t)c->rdev);
	else if (op == OP_setxattr || op == OP_getxattr || op == OP_removexattr)
		add_text("name", c->name);
	else if (op == OP_setlk || op == OP_getlk)
		add_lock(c);
	else if (op == OP_copy_file_range) {
		add_int("fh_out", (int64_t)c->fh2->id);
		add_int("offset_out", c->offset2);
	} else if (op == OP_ioctl && c->flags == FS_IOC_SETFLAGS && c->length >= sizeof(uint32_t)) {
		add_int("value", *(const uint32_t *)c->data);
	}
	if (c->other_ids) {
		add_int("fsuid", c->uid);
		add_int("fsgid", c->gid);
	}
	if (!text.len)
		return NULL;
	strbuf_addf(&text, "}");
	*ret_len = text.failed || text.len > UINT16_MAX ? 0 : (uint16_t)text.len;
	return text.buf;
}

void event_args_thread_end(void)
{
	strbuf_free(&text);
}
