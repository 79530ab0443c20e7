/* SPDX-License-Identifier: MIT */
#include "check.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "base.h"

#define MISC_MAJOR 10 /* linux/major.h, linux/miscdevice.h: part of the kernel's ABI */
#define FUSE_MINOR 229
#define FUSECTL_MAGIC 0x65735543 /* not in linux/magic.h */

bool check_is_kernel_s_own(int fd)
{
	static const unsigned long types[] = { PROC_SUPER_MAGIC, SYSFS_MAGIC, DEBUGFS_MAGIC, TRACEFS_MAGIC,
		SECURITYFS_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, DEVPTS_SUPER_MAGIC, FUSECTL_MAGIC };
	struct statfs fs;

	for (size_t i = 0; fstatfs(fd, &fs) == 0 && i < ARRAY_SIZE(types); i++)
		if ((unsigned long)fs.f_type == types[i])
			return true;
	return false;
}

int check_source(const char *source)
{
	int auto_close fd = open(source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return log_errno(errno, "source %s", source);
	if (check_is_kernel_s_own(fd)) {
		log_msg("source %s: a filesystem of the kernel's own, such as proc; there is nothing to record", source);
		return -EINVAL;
	}
	return steal_fd(&fd);
}

int check_mountpoint(struct options *options, int source_fd)
{
	struct stat source, mountpoint;

	if (stat(options->mountpoint, &mountpoint) < 0) {
		if (errno == ENOTCONN)
			return log_errno(errno, "mountpoint %s: a FUSE mount whose daemon is gone; 'umount %s' removes it",
				options->mountpoint, options->mountpoint);
		return log_errno(errno, "mountpoint %s", options->mountpoint);
	}
	if (!S_ISDIR(mountpoint.st_mode))
		return log_errno(ENOTDIR, "mountpoint %s", options->mountpoint);
	if (fstat(source_fd, &source) < 0)
		return log_errno(errno, "source %s", options->source);
	options->in_place = source.st_dev == mountpoint.st_dev && source.st_ino == mountpoint.st_ino;
	return 0;
}

/* Whether `dir` is `top` or below it, by identity and not by name: links and bind mounts do not hide it. */
static int is_below(const char *dir, const char *top)
{
	struct stat want, here, above;
	int auto_close fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || stat(top, &want) < 0 || fstat(fd, &here) < 0)
		return -errno;
	for (;;) {
		int up;

		if (here.st_dev == want.st_dev && here.st_ino == want.st_ino)
			return 1;
		up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (up < 0 || fstat(up, &above) < 0)
			return -errno;
		close(fd);
		fd = up;
		if (above.st_dev == here.st_dev && above.st_ino == here.st_ino)
			return 0;
		here = above;
	}
}

int check_database(const struct options *options)
{
	auto_free char *dir = strdup(options->db);
	const char *const tops[] = { options->source, options->mountpoint };
	struct stat st;
	char *slash;

	if (!dir)
		return log_errno(ENOMEM, "%s", options->db);
	slash = strrchr(dir, '/');
	if (slash)
		slash[slash == dir] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(tops); i++) {
		int below = is_below(dir, tops[i]);

		if (below < 0)
			return log_errno(below, "database %s: directory %s", options->db, dir);
		if (below) {
			log_msg("database %s: lies inside %s, which is to be recorded; choose a place outside it",
				options->db, tops[i]);
			return -EINVAL;
		}
	}
	if (stat(options->db, &st) == 0 && !S_ISREG(st.st_mode)) {
		log_msg("database %s: not a regular file", options->db);
		return -EINVAL;
	}
	return 0;
}

int check_fuse(void)
{
	int auto_close fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(MISC_MAJOR, FUSE_MINOR))
		return 0;
	if (fd >= 0) {
		log_msg("/dev/fuse: not the FUSE device; 'rm /dev/fuse; mknod -m 666 /dev/fuse c %d %d' makes it",
			MISC_MAJOR, FUSE_MINOR);
		return -ENODEV;
	}
	if (errno == EACCES || errno == EPERM)
		return log_errno(errno, "/dev/fuse: this user may not use FUSE; run as root, or 'chmod 666 /dev/fuse'");
	return log_errno(errno, "/dev/fuse: the kernel has no FUSE here; 'modprobe fuse' may help");
}
