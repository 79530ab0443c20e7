/* SPDX-License-Identifier: MIT */
/* ops_attr.c - attributes of inodes and of the filesystem. */
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>

#include "entry.h"
#include "fdcache.h"
#include "handle.h"
#include "mount.h"
#include "node.h"
#include "worker.h"

static void set_answer(struct call *c, const struct stat *st)
{
	c->stat = *st;
	c->stat.st_ino = entry_ino(c->mount, st->st_dev, st->st_ino);
}

int64_t do_getattr(struct fs *fs, struct call *c)
{
	struct inode_info info;
	int err = c->fh ? FS_CALL(c, inode_info_at(c->fh->fd, "", &info)) : node_stat(fs, c, c->node, &info);

	if (err == 0)
		set_answer(c, &info.stat);
	return err;
}

static struct timespec time_to_set(uint32_t flags, uint32_t set, uint32_t set_now, struct timespec value)
{
	if (flags & set_now)
		return (struct timespec){ 0, UTIME_NOW };
	if (flags & set)
		return value;
	return (struct timespec){ 0, UTIME_OMIT };
}

static int set_times(struct call *c, int fd)
{
	struct timespec times[2] = {
		time_to_set(c->flags, FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW, c->attr->st_atim),
		time_to_set(c->flags, FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW, c->attr->st_mtim),
	};

	return FS_CALL(c, utimensat(fd, "", times, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW)) < 0 ? -errno : 0;
}

static int set_owner(struct call *c, int fd)
{
	uid_t uid = c->flags & FUSE_SET_ATTR_UID ? c->attr->st_uid : (uid_t)-1;
	gid_t gid = c->flags & FUSE_SET_ATTR_GID ? c->attr->st_gid : (gid_t)-1;

	return FS_CALL(c, fchownat(fd, "", uid, gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW)) < 0 ? -errno : 0;
}

static int set_size(struct call *c, const char *path)
{
	int result = c->fh ? FS_CALL(c, ftruncate(c->fh->fd, c->attr->st_size)) :
			     FS_CALL(c, truncate(path, c->attr->st_size));

	return result < 0 ? -errno : 0;
}

/*
 * What the kernel asks for so: chown(2) to nobody, and a write that is about to clear set-id bits by itself. For the
 * first a caller who may not gets no EPERM: the second must not fail, and they look the same.
 */
static void clear_setid(struct call *c, int fd)
{
	set_owner(c, fd);
}

/* In the order in which one system call could have asked for several: only size and times ever come together. */
static int set_all(struct call *c, int fd, const char *path)
{
	const uint32_t owner = FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID;
	const uint32_t times = FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_ATIME_NOW |
			       FUSE_SET_ATTR_MTIME_NOW;
	int err = 0;

	if (c->flags & owner)
		err = set_owner(c, fd);
	if (setattr_is_empty(c))
		clear_setid(c, fd);
	if (err == 0 && (c->flags & FUSE_SET_ATTR_MODE))
		err = FS_CALL(c, fchmodat(AT_FDCWD, path, c->attr->st_mode & 07777, 0)) < 0 ? -errno : 0;
	if (err == 0 && (c->flags & FUSE_SET_ATTR_SIZE))
		err = set_size(c, path);
	if (err == 0 && (c->flags & times))
		err = set_times(c, fd);
	return err;
}

int64_t do_setattr(struct fs *fs, struct call *c)
{
	struct inode_info info;
	struct proc_path path;
	struct fdref ref;
	int err = fdref_get(fs, c->node, &ref);

	if (err < 0)
		return err;
	path = fdref_path(&ref);
	err = set_all(c, ref.fd, path.text);
	err = err ?: inode_info_at(ref.fd, "", &info);
	fdref_put(fs, &ref);
	if (err == 0)
		set_answer(c, &info.stat);
	return err;
}

int64_t do_readlink(struct fs *fs, struct call *c)
{
	struct fdref ref;
	ssize_t len;
	int err = fdref_get(fs, c->node, &ref);

	if (err < 0)
		return err;
	c->buf = worker_buffer();
	len = c->buf ? FS_CALL(c, readlinkat(ref.fd, "", c->buf, PATH_MAX)) : -1;
	err = !c->buf ? -ENOMEM : len < 0 ? -errno : 0;
	fdref_put(fs, &ref);
	if (err < 0)
		return err;
	c->buf[len] = '\0';
	return len;
}

int64_t do_statfs(struct fs *fs, struct call *c)
{
	struct fdref ref;
	int err = fdref_get(fs, c->node, &ref);

	if (err < 0)
		return err;
	c->statvfs = worker_buffer();
	err = !c->statvfs ? -ENOMEM : FS_CALL(c, fstatvfs(ref.fd, c->statvfs)) < 0 ? -errno : 0;
	fdref_put(fs, &ref);
	return err;
}

/* Asked only without default_permissions: the shim is an ordinary user's then, and the answer is for that user. */
int64_t do_access(struct fs *fs, struct call *c)
{
	struct fdref ref;
	int err = fdref_get(fs, c->node, &ref);

	if (err < 0)
		return err;
	err = FS_CALL(c, faccessat(ref.fd, "", (int)c->mode, AT_EMPTY_PATH | AT_EACCESS)) < 0 ? -errno : 0;
	fdref_put(fs, &ref);
	return err;
}

/* Those that read or set attributes of an inode: what else there is belongs to one filesystem and its own structures. */
static bool is_known_ioctl(unsigned int cmd)
{
	return cmd == FS_IOC_GETFLAGS || cmd == FS_IOC_SETFLAGS || cmd == FS_IOC_FSGETXATTR ||
	       cmd == FS_IOC_FSSETXATTR || cmd == FS_IOC_GETVERSION;
}

int64_t do_ioctl(struct fs *fs, struct call *c)
{
	union {
		char bytes[256];
		struct fsxattr fsxattr; /* for its alignment */
	} arg = {};
	int result;

	(void)fs;
	if (!c->fh || !is_known_ioctl(c->flags) || c->length > sizeof(arg) || c->count > sizeof(arg))
		return -ENOTTY;
	if (c->length) /* else there is no data to point to */
		memcpy(arg.bytes, c->data, c->length);
	result = FS_CALL(c, ioctl(c->fh->fd, c->flags, &arg));
	if (result < 0)
		return -errno;
	c->buf = worker_buffer();
	if (!c->buf)
		return -ENOMEM;
	memcpy(c->buf, arg.bytes, c->count);
	c->ioctl_result = result;
	if (c->flags == FS_IOC_SETFLAGS || c->flags == FS_IOC_FSSETXATTR)
		mount_attributes_changed(c->mount, c->node); /* ctime; a FUSE ioctl is opaque to the kernel */
	return (int64_t)c->count;
}
