/* SPDX-License-Identifier: MIT */
/* holders.c - who keeps a mount busy; declared in shim.h. Reads /proc only, nothing in the mount itself. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "shim.h"

#define MOST_NAMED 8

static bool link_inside(int dir, const char *name, const char *mountpoint)
{
	size_t len = strlen(mountpoint);
	char target[PATH_MAX];
	ssize_t got = readlinkat(dir, name, target, sizeof(target) - 1);

	if (got < (ssize_t)len)
		return false;
	target[got] = '\0';
	return strncmp(target, mountpoint, len) == 0 &&
	       (target[len] == '/' || target[len] == '\0' || target[len] == ' ');
}

static bool file_open_inside(int process, const char *mountpoint)
{
	int fd = openat(process, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	bool found = false;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	for (struct dirent *entry; !found && (entry = readdir(dir));)
		found = entry->d_name[0] != '.' && link_inside(fd, entry->d_name, mountpoint);
	closedir(dir);
	return found;
}

/*
 * Whether the process's working directory is on the mount, and not in what it covers. Asks the kernel only for
 * what it knows: a request to the mount would be recorded.
 */
static bool cwd_on(int process, const char *mountpoint)
{
	const int flags = AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT;
	struct statx its, mount;

	return statx(process, "cwd", flags, 0, &its) == 0 && statx(AT_FDCWD, mountpoint, flags, 0, &mount) == 0 &&
	       its.stx_dev_major == mount.stx_dev_major && its.stx_dev_minor == mount.stx_dev_minor;
}

bool shim_is_held_by(const struct shim *shim, int process)
{
	struct stat own, its;

	if (shim->namespace.mount >= 0 &&
		(fstat(shim->namespace.mount, &own) < 0 || fstatat(process, "ns/mnt", &its, 0) < 0 ||
			own.st_ino != its.st_ino || own.st_dev != its.st_dev))
		return false;
	/* in its own namespace everybody came after the mount */
	if (link_inside(process, "cwd", shim->mountpoint) &&
		(shim->namespace.mount >= 0 || cwd_on(process, shim->mountpoint)))
		return true;
	return link_inside(process, "root", shim->mountpoint) ||
	       link_inside(process, "exe", shim->mountpoint) || file_open_inside(process, shim->mountpoint);
}

/* Calls `found` for every process on the mount. */
static void each_holder(const struct shim *shim, void (*found)(pid_t pid, int process, void *arg), void *arg)
{
	DIR *proc = opendir("/proc");

	if (!proc)
		return;
	for (struct dirent *entry; (entry = readdir(proc));) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
		int auto_close process = -1;

		if (pid <= 0 || pid == shim->pid || pid == shim->keeper.pid || pid == getpid())
			continue;
		process = openat(dirfd(proc), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (process >= 0 && shim_is_held_by(shim, process))
			found(pid, process, arg);
	}
	closedir(proc);
}

struct names {
	struct strbuf *who;
	int count;
};

static void add_name(pid_t pid, int process, void *arg)
{
	struct names *names = arg;
	struct strbuf auto_strbuf comm = {};

	if (read_file_at(process, "comm", 64, &comm) < 0)
		return;
	for (char *c = comm.buf; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = c[1] ? '?'
				  : '\0'; /* the newline at its end; a process may call itself anything */
	if (names->count++ < MOST_NAMED)
		strbuf_addf(names->who, "%s%d (%s)", names->count > 1 ? ", " : "", (int)pid, comm.buf);
}

int shim_holders(const struct shim *shim, struct strbuf *who)
{
	struct names names = { .who = who };

	each_holder(shim, add_name, &names);
	if (names.count > MOST_NAMED)
		strbuf_addf(who, " and %d more", names.count - MOST_NAMED);
	return names.count;
}
