/* SPDX-License-Identifier: MIT */
#include "bind.h"

#include "dispatch.h"
#include "handle.h"
#include "mount.h"

static struct node *node_at(fuse_req_t r, fuse_ino_t ino)
{
	return mount_node(fuse_req_userdata(r), ino);
}

#define CALL(...) (&(struct call){ __VA_ARGS__ })

static void on_lookup(fuse_req_t r, fuse_ino_t parent, const char *name)
{
	dispatch(r, OP_lookup, CALL(.parent = node_at(r, parent), .name = name));
}

static void on_forget(fuse_req_t r, fuse_ino_t ino, uint64_t count)
{
	dispatch(r, OP_forget, CALL(.node = node_at(r, ino), .length = count));
}

static void on_forget_multi(fuse_req_t r, size_t count, struct fuse_forget_data *forgets)
{
	dispatch(r, OP_forget_multi,
		CALL(.node = node_at(r, forgets[0].ino), .length = count, .count = count, .forgets = forgets));
}

static void on_getattr(fuse_req_t r, fuse_ino_t ino, struct fuse_file_info *fi)
{
	dispatch(r, OP_getattr, CALL(.node = node_at(r, ino), .fh = handle_of(fi), .fi = fi));
}

static void on_setattr(fuse_req_t r, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi)
{
	dispatch(r, OP_setattr,
		CALL(.node = node_at(r, ino), .attr = attr, .flags = (uint32_t)to_set, .fh = handle_of(fi), .fi = fi));
}

static void on_readlink(fuse_req_t r, fuse_ino_t ino)
{
	dispatch(r, OP_readlink, CALL(.node = node_at(r, ino)));
}

static void on_symlink(fuse_req_t r, const char *target, fuse_ino_t parent, const char *name)
{
	dispatch(r, OP_symlink, CALL(.parent = node_at(r, parent), .name = name, .name2 = target));
}

static void on_mknod(fuse_req_t r, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	dispatch(r, OP_mknod, CALL(.parent = node_at(r, parent), .name = name, .mode = mode, .rdev = rdev));
}

static void on_mkdir(fuse_req_t r, fuse_ino_t parent, const char *name, mode_t mode)
{
	dispatch(r, OP_mkdir, CALL(.parent = node_at(r, parent), .name = name, .mode = mode));
}

static void on_unlink(fuse_req_t r, fuse_ino_t parent, const char *name)
{
	dispatch(r, OP_unlink, CALL(.parent = node_at(r, parent), .name = name));
}

static void on_rmdir(fuse_req_t r, fuse_ino_t parent, const char *name)
{
	dispatch(r, OP_rmdir, CALL(.parent = node_at(r, parent), .name = name));
}

static void on_rename(fuse_req_t r, fuse_ino_t parent, const char *name, fuse_ino_t parent2, const char *name2,
	unsigned int flags)
{
	dispatch(r, OP_rename,
		CALL(.parent = node_at(r, parent), .name = name, .parent2 = node_at(r, parent2), .name2 = name2,
			.flags = flags));
}

static void on_link(fuse_req_t r, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
	dispatch(r, OP_link, CALL(.node = node_at(r, ino), .parent = node_at(r, parent), .name = name));
}

static void on_open(fuse_req_t r, fuse_ino_t ino, struct fuse_file_info *fi)
{
	dispatch(r, OP_open, CALL(.node = node_at(r, ino), .fi = fi, .flags = (uint32_t)fi->flags));
}

static void on_create(fuse_req_t r, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi)
{
	dispatch(r, OP_create,
		CALL(.parent = node_at(r, parent), .name = name, .mode = mode, .fi = fi, .flags = (uint32_t)fi->flags));
}

static void on_read(fuse_req_t r, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	dispatch(r, OP_read,
		CALL(.node = node_at(r, ino), .fh = handle_of(fi), .fi = fi, .length = size, .offset = offset));
}

static void on_write(fuse_req_t r, fuse_ino_t ino, const char *data, size_t size, off_t offset,
	struct fuse_file_info *fi)
{
	dispatch(r, OP_write,
		CALL(.node = node_at(r, ino), .fh = handle_of(fi), .fi = fi, .data = data, .length = size,
			.offset = offset, .flags = (uint32_t)fi->flags));
}

static void on_flush(fuse_req_t r, fuse_ino_t ino, struct fuse_file_info *fi)
{
	dispatch(r, OP_flush,
		CALL(.node = node_at(r, ino), .fh = handle_of(fi), .fi = fi, .lock_owner = fi->lock_owner));
}

static void on_release(fuse_req_t r, fuse_ino_t ino, struct fuse_file_info *fi)
{
	dispatch(r, OP_release,
		CALL(.node = node_at(r, ino), .fh = handle_of(fi), .fi = fi, .lock_owner = fi->lock_owner));
}

static void on_fsync(fuse_req_t r, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	dispatch(r, OP_fsync,
		CALL(.node = node_at(r, ino), .fh = handle_of(fi), .fi = fi, .flags = (uint32_t)datasync));
}

static void on_opendir(fuse_req_t r, fuse_ino_t ino, struct fuse_file_info *fi)
{
	dispatch(r, OP_opendir, CALL(.node = node_at(r, ino), .fi = fi, .flags = (uint32_t)fi->flags));
}

static void on_readdir(fuse_req_t r, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	dispatch(r, OP_readdir,
		CALL(.node = node_at(r, ino), .fh = handle_of(fi), .fi = fi, .length = size, .offset = offset));
}

static void on_readdirplus(fuse_req_t r, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	dispatch(r, OP_readdirplus,
		CALL(.node = node_at(r, ino), .fh = handle_of(fi), .fi = fi, .length = size, .offset = offset));
}

static void on_releasedir(fuse_req_t r, fuse_ino_t ino, struct fuse_file_info *fi)
{
	dispatch(r, OP_releasedir, CALL(.node = node_at(r, ino), .fh = handle_of(fi), .fi = fi));
}

static void on_fsyncdir(fuse_req_t r, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	dispatch(r, OP_fsyncdir,
		CALL(.node = node_at(r, ino), .fh = handle_of(fi), .fi = fi, .flags = (uint32_t)datasync));
}

static void on_statfs(fuse_req_t r, fuse_ino_t ino)
{
	dispatch(r, OP_statfs, CALL(.node = node_at(r, ino ?: FUSE_ROOT_ID)));
}

static void on_setxattr(fuse_req_t r, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags)
{
	dispatch(r, OP_setxattr,
		CALL(.node = node_at(r, ino), .name = name, .data = value, .length = size, .flags = (uint32_t)flags));
}

static void on_getxattr(fuse_req_t r, fuse_ino_t ino, const char *name, size_t size)
{
	dispatch(r, OP_getxattr, CALL(.node = node_at(r, ino), .name = name, .length = size));
}

static void on_listxattr(fuse_req_t r, fuse_ino_t ino, size_t size)
{
	dispatch(r, OP_listxattr, CALL(.node = node_at(r, ino), .length = size));
}

static void on_removexattr(fuse_req_t r, fuse_ino_t ino, const char *name)
{
	dispatch(r, OP_removexattr, CALL(.node = node_at(r, ino), .name = name));
}

static void on_access(fuse_req_t r, fuse_ino_t ino, int mask)
{
	dispatch(r, OP_access, CALL(.node = node_at(r, ino), .mode = (mode_t)mask));
}

static void on_getlk(fuse_req_t r, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *lock)
{
	dispatch(r, OP_getlk,
		CALL(.node = node_at(r, ino), .fh = handle_of(fi), .fi = fi, .lock = lock,
			.lock_owner = fi->lock_owner, .offset = lock->l_start, .length = (uint64_t)lock->l_len));
}

static void on_setlk(fuse_req_t r, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *lock, int sleep)
{
	dispatch(r, OP_setlk,
		CALL(.node = node_at(r, ino), .fh = handle_of(fi), .fi = fi, .lock = lock,
			.lock_owner = fi->lock_owner, .sleep = sleep, .flags = (uint32_t)sleep,
			.offset = lock->l_start, .length = (uint64_t)lock->l_len));
}

static void on_flock(fuse_req_t r, fuse_ino_t ino, struct fuse_file_info *fi, int op)
{
	dispatch(r, OP_flock, CALL(.node = node_at(r, ino), .fh = handle_of(fi), .fi = fi, .flags = (uint32_t)op));
}

static void on_ioctl(fuse_req_t r, fuse_ino_t ino, unsigned int cmd, void *arg, struct fuse_file_info *fi,
	unsigned int flags, const void *in, size_t in_size, size_t out_size)
{
	(void)arg, (void)flags;
	dispatch(r, OP_ioctl,
		CALL(.node = node_at(r, ino), .fh = handle_of(fi), .fi = fi, .flags = cmd, .data = in,
			.length = in_size, .count = out_size));
}

static void on_fallocate(fuse_req_t r, fuse_ino_t ino, int mode, off_t offset, off_t length, struct fuse_file_info *fi)
{
	dispatch(r, OP_fallocate,
		CALL(.node = node_at(r, ino), .fh = handle_of(fi), .fi = fi, .mode = (mode_t)mode, .offset = offset,
			.length = (uint64_t)length));
}

static void on_lseek(fuse_req_t r, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *fi)
{
	dispatch(r, OP_lseek,
		CALL(.node = node_at(r, ino), .fh = handle_of(fi), .fi = fi, .offset = offset,
			.flags = (uint32_t)whence));
}

static void on_copy_file_range(fuse_req_t r, fuse_ino_t ino_in, off_t off_in, struct fuse_file_info *fi_in,
	fuse_ino_t ino_out, off_t off_out, struct fuse_file_info *fi_out, size_t length, int flags)
{
	(void)ino_out;
	dispatch(r, OP_copy_file_range,
		CALL(.node = node_at(r, ino_in), .fh = handle_of(fi_in), .fi = fi_in, .offset = off_in,
			.fh2 = handle_of(fi_out), .offset2 = off_out, .length = length, .flags = (uint32_t)flags));
}

const struct fuse_lowlevel_ops bind_ops = {
#define OP(code, name, class, reply, cols, replay) .name = on_##name,
#include "ops.def"
#undef OP
};
