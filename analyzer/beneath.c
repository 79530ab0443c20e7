/* SPDX-License-Identifier: MIT */
#include "beneath.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "base.h"

static int open_at(int dir_fd, const char *path, int flags, mode_t mode)
{
	struct open_how how = {
		.flags = (unsigned int)flags | O_CLOEXEC,
		.mode = flags & O_CREAT ? mode & 07777 : 0,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
	};
	int tries = 0;
	long fd;

	do /* EAGAIN: something was renamed meanwhile, and the kernel could not be sure */
		fd = syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
	while (fd < 0 && (errno == EINTR || (errno == EAGAIN && tries++ < 100)));
	return fd < 0 ? -errno : (int)fd;
}

static int check_empty(int fd)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	int err = 0;

	if (!dir) {
		err = -errno;
		if (copy >= 0)
			close(copy);
		return err;
	}
	for (struct dirent *entry; err == 0 && (entry = readdir(dir));)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
			strcmp(entry->d_name, "lost+found") != 0)
			err = -ENOTEMPTY;
	closedir(dir);
	return err;
}

int beneath_root(const char *target, bool empty, int *ret_fd)
{
	int auto_close fd = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int err = fd < 0 ? -errno : empty ? check_empty(fd) : 0;

	if (err < 0)
		return err;
	*ret_fd = steal_fd(&fd);
	return 0;
}

static int check_component(const char *name, size_t len)
{
	if (len == 0 || (len == 1 && name[0] == '.') || (len == 2 && name[0] == '.' && name[1] == '.'))
		return -EXDEV;
	return len > BENEATH_NAME_MAX ? -ENAMETOOLONG : 0;
}

int beneath_check(const char *path, size_t len)
{
	const char *end = path + len, *slash;
	int err = 0;

	if (len == 0)
		return 0;
	if (memchr(path, '\0', len))
		return -EINVAL;
	for (int depth = 0; err == 0; depth++) {
		slash = memchr(path, '/', (size_t)(end - path)) ?: end;
		err = check_component(path, (size_t)(slash - path));
		if (err == 0 && (depth == BENEATH_DEPTH_MAX || len > BENEATH_PATH_MAX))
			err = -ENAMETOOLONG;
		if (slash == end)
			break;
		path = slash + 1;
	}
	return err;
}

bool beneath_name_ok(const char *name)
{
	return check_component(name, strlen(name)) == 0 && !strchr(name, '/');
}

/* A part of a path that one system call takes: whole components, fewer than PATH_MAX bytes. */
static size_t piece(const char *path, size_t len)
{
	if (len < PATH_MAX)
		return len;
	len = PATH_MAX - 1;
	while (path[len] != '/') /* there is one: components have BENEATH_NAME_MAX bytes at most */
		len--;
	return len;
}

int beneath_dir(int root_fd, const char *path, size_t len, int *ret_fd)
{
	int auto_close fd = -1;
	int err = beneath_check(path, len);

	if (err < 0)
		return err;
	do {
		char part[PATH_MAX];
		size_t size = piece(path, len);
		int next;

		memcpy(part, path, size);
		part[size] = '\0';
		next = open_at(fd < 0 ? root_fd : fd, size ? part : ".", O_PATH | O_DIRECTORY, 0);
		if (next < 0)
			return next;
		if (fd >= 0)
			close(fd);
		fd = next;
		path += size;
		len -= size;
		if (len)
			path++, len--;
	} while (len);
	*ret_fd = steal_fd(&fd);
	return 0;
}

int beneath_parent(int root_fd, const char *path, size_t len, int *ret_fd, char name[static BENEATH_NAME_MAX + 1])
{
	const char *slash, *last;
	int err = beneath_check(path, len);

	if (err < 0 || len == 0)
		return err ?: -EINVAL;
	slash = memrchr(path, '/', len);
	last = slash ? slash + 1 : path;
	err = beneath_dir(root_fd, path, slash ? (size_t)(slash - path) : 0, ret_fd);
	if (err < 0)
		return err;
	snprintf(name, BENEATH_NAME_MAX + 1, "%.*s", (int)(path + len - last), last);
	return 0;
}

int beneath_open(int dir_fd, const char *name, int flags, mode_t mode, int *ret_fd)
{
	/* What else may stand in a recording openat2(2) would refuse, such as the kernel's own mark of an execve(2). */
	const int known = O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_APPEND | O_DSYNC | O_SYNC | O_DIRECT | O_DIRECTORY |
			  O_NOATIME | O_PATH;
	int fd;

	if (!beneath_name_ok(name))
		return -EXDEV;
	flags &= flags & O_PATH ? O_PATH | O_DIRECTORY : known;
	fd = open_at(dir_fd, name, flags | O_NOFOLLOW | (flags & O_PATH ? 0 : O_NOCTTY | O_NONBLOCK), mode);
	if (fd < 0)
		return fd;
	*ret_fd = fd;
	return 0;
}

struct beneath_at beneath_at(int dir_fd, const char *name)
{
	struct beneath_at at;

	snprintf(at.text, sizeof(at.text), "/proc/self/fd/%d/%.*s", dir_fd, BENEATH_NAME_MAX, name);
	return at;
}
