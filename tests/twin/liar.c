/* SPDX-License-Identifier: MIT */
/*
 * liar.c - a planted bug, for the test of the twin test: preloaded into `twin`, it falsifies what one filesystem answers.
 *
 *   LIAR_DEVICE  st_dev of that filesystem, decimal
 *   LIAR_BUG     nlink: the link count of a file with several names stays 1; rename: one onto an existing name says EEXIST;
 *                data: the last byte of a read of more than 1,000 bytes is wrong
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base.h"

/* Takes the place of libc's, whose types these are. */
int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned int flags);

static bool is_bug(const char *name)
{
	const char *bug = getenv("LIAR_BUG");

	return bug && strcmp(bug, name) == 0;
}

static bool is_device(dev_t dev)
{
	const char *device = getenv("LIAR_DEVICE");

	return device && strtoull(device, NULL, 10) == dev;
}

__attribute__((visibility("default"))) int statx(int dir, const char *restrict path, int flags, unsigned int mask,
	struct statx *restrict x)
{
	int (*real)(int, const char *, int, unsigned int, struct statx *) = dlsym(RTLD_NEXT, "statx");
	int result = real(dir, path, flags, mask, x);

	if (result == 0 && is_bug("nlink") && !S_ISDIR(x->stx_mode) && x->stx_nlink > 1 &&
		is_device(makedev(x->stx_dev_major, x->stx_dev_minor)))
		x->stx_nlink = 1;
	return result;
}

__attribute__((visibility("default"))) int renameat2(int from_dir, const char *from, int to_dir, const char *to,
	unsigned int flags)
{
	int (*real)(int, const char *, int, const char *, unsigned int) = dlsym(RTLD_NEXT, "renameat2");
	struct stat st;

	if (is_bug("rename") && flags == 0 && fstatat(to_dir, to, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		is_device(st.st_dev)) {
		errno = EEXIST;
		return -1;
	}
	return real(from_dir, from, to_dir, to, flags);
}

__attribute__((visibility("default"))) ssize_t pread64(int fd, void *buf, size_t len, off_t offset)
{
	ssize_t (*real)(int, void *, size_t, off_t) = dlsym(RTLD_NEXT, "pread64");
	ssize_t got = real(fd, buf, len, offset);
	struct stat st;

	if (got > 1000 && is_bug("data") && fstat(fd, &st) == 0 && is_device(st.st_dev))
		((char *)buf)[got - 1] ^= 1;
	return got;
}
