/* SPDX-License-Identifier: MIT */
#include "dispatch.h"

#include <linux/capability.h>
#include <stdio.h>
#include <string.h>

#include "cred.h"
#include "dir.h"
#include "event_args.h"
#include "fdcache.h"
#include "handle.h"
#include "mount.h"
#include "node.h"
#include "path.h"
#include "recorder.h"
#include "session.h"
#include "who.h"
#include "worker.h"

static int64_t (*const handlers[OP_COUNT])(struct fs *, struct call *) = {
#define OP(code, name, class, reply, cols, replay) [OP_##name] = do_##name,
#include "ops.def"
#undef OP
};

static _Thread_local fuse_req_t current_request;

fuse_req_t dispatch_request(void)
{
	return current_request;
}

/* Whoever opened the file answers for what the kernel does with it later; FORGET is put down to the last who asked. */
static void note_process(struct fs *fs, enum op_id op, struct call *c)
{
	bool limited = op == OP_read || op == OP_write || op == OP_flush; /* who.h says why */
	uid_t uid = c->uid;
	gid_t gid = c->gid;

	if (c->tid == 0 && c->fh)
		c->process = c->fh->process;
	else if (c->tid == 0 && c->node)
		c->process = c->node->process;
	if (!c->process)
		c->process = who_is(fs, c->tid, c->uid, c->gid, limited, c->start_ns, &uid, &gid, &c->cpu_is_due);
	c->other_ids = c->tid && (uid != c->uid || gid != c->gid);
}

/* Ids and paths as they are now: the handler may rename or free what they belong to. */
static void note_objects(struct fs *fs, const struct op_desc *desc, struct call *c)
{
	c->node_id = c->node ? c->node->id : 0;
	c->parent_id = c->parent ? c->parent->id : 0;
	c->fh_id = c->fh ? c->fh->id : 0;
	if (desc->cols & COL_NAME)
		c->path = path_of_name(fs, c->parent, c->name);
	else if (c->node)
		c->path = path_of_node(fs, c->node);
	if (!(desc->cols & COL_NAME2))
		return;
	if (c->parent2)
		c->path2 = path_of_name(fs, c->parent2, c->name2);
	else if (c->name2)
		c->path2 = path_of_text(fs, c->name2);
	else if (c->node)
		c->path2 = path_of_node(fs, c->fh2 ? c->fh2->node : c->node);
}

/* What was copied, read again from where it came: with data=full, so before what comes of it. */
static void record_copied(struct fs *fs, const struct call *c, int64_t count)
{
	char *buf = worker_buffer();
	int64_t offset = c->offset, end = c->offset + count;

	while (buf && offset < end) {
		int64_t left = end - offset;
		ssize_t got = pread(c->fh->fd, buf, left < WORKER_BUFFER_SIZE ? (size_t)left : WORKER_BUFFER_SIZE, offset);

		if (got <= 0)
			return;
		recorder_data(fs->recorder, c->seq, offset, buf, (size_t)got);
		offset += got;
	}
}

/*
 * What a replay needs: all that is written, and of what was there before the run what is read or copied. What was not
 * touched is still there at the end, where `fstape record` reads it.
 */
static void record_data(struct fs *fs, enum op_id op, const struct call *c, int64_t result)
{
	if (result <= 0 || fs->options.data != DATA_FULL)
		return;
	if (op == OP_write)
		recorder_data(fs->recorder, c->seq, c->offset, c->data, (size_t)result);
	else if (op == OP_read && __atomic_load_n(&c->node->older, __ATOMIC_RELAXED))
		recorder_data(fs->recorder, c->seq, c->offset, c->buf, (size_t)result);
	else if (op == OP_copy_file_range)
		record_copied(fs, c, result);
}

static void record(struct fs *fs, enum op_id op, const struct op_desc *desc, struct call *c, int64_t result)
{
	struct event event = {
		.seq = c->seq,
		.start_ns = c->start_ns,
		.fs_ns = c->fs_ns,
		.node = c->node_id,
		.parent = c->parent_id,
		.fh = c->fh_id,
		.offset = c->offset,
		.length = (int64_t)c->length,
		.result = result,
		.process = c->process,
		.path = c->path,
		.path2 = c->path2,
		.flags = c->flags,
		.mode = c->mode,
		.op = (uint16_t)op,
	};
	const char *args = event_args(op, c, &event.args_len);

	record_data(fs, op, c, result);
	if (c->cpu_is_due)
		who_read_cpu(fs, c->tid, c->seq, c->start_ns);
	event.dur_ns = recorder_now(fs->recorder) - c->start_ns;
	if (desc->cols & COL_PARENT && op != OP_lookup)
		event.mode &= ~c->umask;
	recorder_event(fs->recorder, &event, args);
}

static int reply_error(struct fs *fs, fuse_req_t req, enum op_id op, struct call *c, int64_t result)
{
	/* A name that is not there is remembered by the kernel only when it is told so by a success without a node. */
	if (op == OP_lookup && result == -ENOENT && fs->options.cache == CACHE_ALWAYS) {
		c->entry = (struct fuse_entry_param){ .entry_timeout = fs->options.entry_timeout };
		fuse_reply_entry(req, &c->entry);
		return 0;
	}
	fuse_reply_err(req, (int)-result);
	return 0;
}

/*
 * Told ENOSYS, the kernel answers by itself from now on: close(2) succeeds; lseek(2) finds data anywhere in a file. Of what
 * it has not written yet it finds none, otherwise, as it asks us without writing it first, and who copies would lose it.
 */
static bool is_left_to_kernel(const struct fs *fs, enum op_id op, int64_t result)
{
	return (op == OP_flush && fs->options.noflush && result >= 0) || (op == OP_lseek && fs->options.writeback);
}

static int reply(struct fs *fs, fuse_req_t req, enum op_id op, const struct op_desc *desc, struct call *c, int64_t result)
{
	if (is_left_to_kernel(fs, op, result))
		return fuse_reply_err(req, ENOSYS);
	if (result < 0 && desc->reply != REPLY_NONE)
		return reply_error(fs, req, op, c, result);
	switch (desc->reply) {
	case REPLY_NONE:
		fuse_reply_none(req);
		return 0;
	case REPLY_ERR:
		return fuse_reply_err(req, 0);
	case REPLY_ENTRY:
		return fuse_reply_entry(req, &c->entry);
	case REPLY_ATTR:
		return fuse_reply_attr(req, &c->stat, fs->options.attr_timeout);
	case REPLY_LINK:
		return fuse_reply_readlink(req, c->buf);
	case REPLY_OPEN:
		session_answer_backing(c->backing_id);
		return fuse_reply_open(req, c->fi);
	case REPLY_CREATE:
		session_answer_backing(c->backing_id);
		return fuse_reply_create(req, &c->entry, c->fi);
	case REPLY_BUF:
		return fuse_reply_buf(req, c->buf, (size_t)result);
	case REPLY_COUNT:
		return fuse_reply_write(req, (size_t)result);
	case REPLY_STATFS:
		return fuse_reply_statfs(req, c->statvfs);
	case REPLY_XATTR:
		return c->length ? fuse_reply_buf(req, c->buf, (size_t)result) :
				   fuse_reply_xattr(req, (size_t)result);
	case REPLY_LOCK:
		return fuse_reply_lock(req, c->lock);
	case REPLY_LSEEK:
		return fuse_reply_lseek(req, result);
	case REPLY_IOCTL:
		return fuse_reply_ioctl(req, c->ioctl_result, c->buf, (size_t)result);
	}
	return fuse_reply_err(req, ENOSYS);
}

/* The caller is gone, so the kernel will not give back what the reply handed out. */
static void undo(struct fs *fs, enum op_id op, struct call *c)
{
	enum op_reply kind = op_get(op)->reply;

	if (kind == REPLY_OPEN || kind == REPLY_CREATE)
		handle_release(fs, c, handle_of(c->fi));
	if (kind == REPLY_ENTRY || kind == REPLY_CREATE)
		node_forget(fs, NULL, c->node, 1);
	if (op == OP_readdirplus)
		dir_undo_lookups(fs);
}

static void finish(struct fs *fs, fuse_req_t req, enum op_id op, struct call *c, int64_t result)
{
	const struct op_desc *desc = op_get(op);

	if (fs->recorder)
		record(fs, op, desc, c, result);
	if (reply(fs, req, op, desc, c, result) < 0 && result >= 0)
		undo(fs, op, c);
}

void dispatch_complete(fuse_req_t req, enum op_id op, struct call *c, int64_t result)
{
	struct mount *before = session_answer_for(c->mount);

	finish(c->mount->fs, req, op, c, result);
	session_answer_for(before);
}

/* The set-gid bit of a file that its group may not execute. */
static bool has_idle_setgid(struct fs *fs, struct node *node)
{
	struct call aside = {}; /* our look at it is not the operation's time */
	struct inode_info info;

	return node_stat(fs, &aside, node, &info) == 0 && (info.stat.st_mode & (S_ISGID | S_IXGRP)) == S_ISGID;
}

/*
 * Whether a caller without CAP_FSETID may keep the set-gid bit by being in the file's group: where the group may not
 * execute, and where a new access control list is about to change the mode.
 */
static bool is_groups_affair(struct fs *fs, enum op_id op, const struct call *c)
{
	if (op == OP_setxattr)
		return c->uid != 0 && strcmp(c->name, "system.posix_acl_access") == 0;
	return c->kill_suidgid && has_idle_setgid(fs, op == OP_copy_file_range ? c->fh2->node : c->node);
}

/* The caller's supplementary groups. Not fuse_req_getgroups(): that of libfuse 3.14 reads beyond its buffer. */
static int caller_groups(pid_t tid, gid_t *groups, int room)
{
	struct strbuf auto_strbuf status = {};
	char path[32];
	char *at, *end;
	int count = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	if (read_file_at(-1, path, 1 << 20, &status) < 0 || !(at = strstr(status.buf, "\nGroups:")))
		return 0;
	at += strlen("\nGroups:");
	end = strchrnul(at, '\n');
	*end = '\0';
	for (; count < room; count++) {
		groups[count] = (gid_t)strtoul(at, &end, 10);
		if (end == at)
			break;
		at = end;
	}
	return count;
}

static void as_member(struct fs *fs, const struct call *c, uid_t uid, gid_t gid, uint32_t without)
{
	gid_t groups[256];

	cred_as_member(fs, uid, gid, groups, caller_groups(c->tid, groups, ARRAY_SIZE(groups)), without);
}

/* Whether the caller may do that is for the filesystem to say: the kernel has not asked. */
static bool is_bare_setattr(enum op_id op, const struct call *c)
{
	return op == OP_setattr && c->uid != 0 && setattr_is_empty(c);
}

static void take_identity(struct fs *fs, enum op_id op, const struct call *c)
{
	const uint32_t no_fsetid = CRED_WITHOUT(CAP_FSETID);

	if (op == OP_create || op == OP_mkdir || op == OP_mknod || op == OP_symlink ||
		(op == OP_rename && c->flags & RENAME_WHITEOUT)) /* which leaves a device behind */
		cred_as_caller(fs, c);
	else if (fs->privileged && is_bare_setattr(op, c))
		as_member(fs, c, c->uid, c->gid, no_fsetid | CRED_WITHOUT(CAP_FOWNER) | CRED_WITHOUT(CAP_CHOWN));
	else if (fs->privileged && is_groups_affair(fs, op, c))
		as_member(fs, c, 0, c->gid, no_fsetid);
	else if (c->kill_suidgid)
		cred_as_self(fs, no_fsetid);
	else
		cred_as_self(fs, op == OP_listxattr && c->uid != 0 ? CRED_WITHOUT(CAP_SYS_ADMIN) : 0);
}

void dispatch(fuse_req_t req, enum op_id op, struct call *c)
{
	struct mount *mount = fuse_req_userdata(req);
	struct fs *fs = mount->fs;
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	int64_t result;

	c->mount = mount;
	c->uid = ctx->uid;
	c->gid = ctx->gid;
	c->tid = ctx->pid;
	c->umask = ctx->umask;
	c->kill_suidgid = worker_kill_suidgid();
	if (fs->recorder) {
		c->start_ns = recorder_now(fs->recorder);
		c->seq = recorder_request(fs->recorder);
		note_process(fs, op, c);
		note_objects(fs, op_get(op), c);
	}
	take_identity(fs, op, c);
	current_request = req;
	result = handlers[op](fs, c);
	if (result != CALL_DEFERRED)
		finish(fs, req, op, c, result);
}
