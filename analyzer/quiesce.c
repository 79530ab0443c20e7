/* SPDX-License-Identifier: MIT */
#include "quiesce.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base.h"

#define CONNECTIONS "/sys/fs/fuse/connections"
#define PAUSE_NS    500000
#define UNKNOWN_NS  20000000 /* many times what a request takes */
#define LONGEST_NS  NSEC_PER_SEC

/* fusectl where it is not mounted, without mounting it anywhere. */
static int open_fusectl(void)
{
	int auto_close context = fsopen("fusectl", FSOPEN_CLOEXEC);

	if (context < 0 || fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	return fsmount(context, FSMOUNT_CLOEXEC, 0);
}

/* The file that counts the requests of the mount. The kernel numbers connections by the mount's device. */
static int open_counter(const char *mountpoint)
{
	int auto_close fusectl = -1;
	char name[sizeof(CONNECTIONS) + 32];
	struct statx sx;
	int fd;

	/* of what the kernel knows: no request of ours is to be recorded */
	if (statx(AT_FDCWD, mountpoint, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, 0, &sx) < 0)
		return -errno;
	snprintf(name, sizeof(name), CONNECTIONS "/%u/waiting", sx.stx_dev_minor);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 || (fusectl = open_fusectl()) < 0)
		return fd;
	return openat(fusectl, name + sizeof(CONNECTIONS), O_RDONLY | O_CLOEXEC);
}

static void pause_ns(int64_t ns)
{
	nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

void quiesce(const char *mountpoint)
{
	int auto_close fd = open_counter(mountpoint);
	int64_t end = clock_ns(CLOCK_MONOTONIC) + LONGEST_NS;
	char count[16] = "";

	if (fd < 0) {
		pause_ns(UNKNOWN_NS);
		return;
	}
	while (pread(fd, count, sizeof(count) - 1, 0) > 0 && atoi(count) > 0 &&
		clock_ns(CLOCK_MONOTONIC) < end)
		pause_ns(PAUSE_NS);
}
