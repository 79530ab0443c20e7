/* SPDX-License-Identifier: MIT */
/*
 * calls - what single system calls take on a file system: calls DIR COUNT, in a new folder below DIR.
 *
 * Each kind is made COUNT times in a row and timed as a whole; each is one that the caches of FUSE do not answer. Prints
 * JSON, ns per call; null where the file system does not have the call. "nothing" is an ioctl(2) that nobody knows: through
 * FUSE it is a request that the daemon refuses without a look at anything, the bare round trip.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#include "base.h"

#define BLOCK 4096
#define MAX_COUNT 100000
#define NO_IOCTL _IO(0xf5, 0x7a)

struct calls {
	int dir, fd; /* the folder, and an open file of COUNT blocks in it */
	unsigned int count;
	char block[BLOCK];
};

static const char *name_of(char prefix, unsigned int number)
{
	static char name[32];

	snprintf(name, sizeof(name), "%c%u", prefix, number);
	return name;
}

static int nothing(struct calls *calls, unsigned int i)
{
	(void)i;
	return ioctl(calls->fd, NO_IOCTL) < 0 && errno != ENOTTY && errno != ENOSYS && errno != EINVAL ? -errno : 0;
}

static int missing(struct calls *calls, unsigned int i)
{
	struct stat st;

	return fstatat(calls->dir, name_of('m', i), &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT ? 0 : -EEXIST;
}

/* Not what is cached. */
static int attributes(struct calls *calls, unsigned int i)
{
	struct statx stx;

	(void)i;
	return statx(calls->fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &stx);
}

static int file_system(struct calls *calls, unsigned int i)
{
	struct statvfs st;

	(void)i;
	return fstatvfs(calls->fd, &st);
}

static int chmod_file(struct calls *calls, unsigned int i)
{
	return fchmod(calls->fd, i % 2 ? 0600 : 0644);
}

static int xattr(struct calls *calls, unsigned int i)
{
	char value[16];

	(void)i;
	return fgetxattr(calls->fd, "user.none", value, sizeof(value)) < 0 && errno == ENODATA ? 0 : -1;
}

static int write_block(struct calls *calls, unsigned int i)
{
	return pwrite(calls->fd, calls->block, BLOCK, (off_t)i * BLOCK) == BLOCK ? 0 : -1;
}

static int read_block(struct calls *calls, unsigned int i)
{
	return pread(calls->fd, calls->block, BLOCK, (off_t)i * BLOCK) == BLOCK ? 0 : -1;
}

static int flush(struct calls *calls, unsigned int i)
{
	int fd = dup(calls->fd);

	(void)i;
	return fd < 0 ? -1 : close(fd);
}

static int make_file(struct calls *calls, unsigned int i)
{
	int fd = openat(calls->dir, name_of('f', i), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	return fd < 0 ? -1 : close(fd);
}

static int open_file(struct calls *calls, unsigned int i)
{
	int fd = openat(calls->dir, name_of('f', i), O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -1 : close(fd);
}

static int rename_file(struct calls *calls, unsigned int i)
{
	char name[32];

	strcpy(name, name_of('f', i));
	return renameat(calls->dir, name, calls->dir, name_of('g', i));
}

static int remove_file(struct calls *calls, unsigned int i)
{
	return unlinkat(calls->dir, name_of('g', i), 0);
}

static int make_dir(struct calls *calls, unsigned int i)
{
	return mkdirat(calls->dir, name_of('d', i), 0755);
}

static int remove_dir(struct calls *calls, unsigned int i)
{
	return unlinkat(calls->dir, name_of('d', i), AT_REMOVEDIR);
}

static const struct kind {
	const char *name;
	int (*call)(struct calls *, unsigned int number);
} kinds[] = {
	{ "nothing", nothing },
	{ "lookup of no file", missing },
	{ "getattr", attributes },
	{ "statfs", file_system },
	{ "setattr (mode)", chmod_file },
	{ "getxattr", xattr },
	{ "write 4 KiB", write_block },
	{ "read 4 KiB", read_block },
	{ "flush", flush },
	{ "create and close", make_file },
	{ "open and close", open_file },
	{ "rename", rename_file },
	{ "unlink", remove_file },
	{ "mkdir", make_dir },
	{ "rmdir", remove_dir },
};

/* Every block of the file from the file system, one by one, and not from the page cache. */
static void forget_contents(struct calls *calls)
{
	fsync(calls->fd);
	posix_fadvise(calls->fd, 0, 0, POSIX_FADV_DONTNEED);
	posix_fadvise(calls->fd, 0, 0, POSIX_FADV_RANDOM);
}

/* ns per call; -1: not to be had. */
static int64_t measure(struct calls *calls, const struct kind *kind)
{
	int64_t start;

	if (kind->call == read_block)
		forget_contents(calls);
	start = clock_ns(CLOCK_MONOTONIC);
	for (unsigned int i = 0; i < calls->count; i++)
		if (kind->call(calls, i) < 0)
			return -1;
	return (clock_ns(CLOCK_MONOTONIC) - start) / calls->count;
}

static void print_all(struct calls *calls)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		int64_t ns = measure(calls, &kinds[i]);

		printf("%s\"%s\": ", i ? ", " : "{", kinds[i].name);
		if (ns < 0)
			printf("null");
		else
			printf("%" PRId64, ns);
	}
	printf("}\n");
}

int main(int argc, char **argv)
{
	struct calls calls = { .dir = -1, .fd = -1 };
	auto_free char *dir = NULL;

	log_set_program("calls");
	calls.count = argc == 3 ? (unsigned int)atoi(argv[2]) : 0;
	if (!calls.count || calls.count > MAX_COUNT) {
		fprintf(stderr, "usage: calls DIR COUNT\nPrints what single system calls take below DIR, as JSON, ns.\n");
		return 2;
	}
	if (asprintf(&dir, "%s/calls-XXXXXX", argv[1]) < 0 || !mkdtemp(dir))
		return log_errno(errno, "%s", argv[1]), 1;
	calls.dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	calls.fd = openat(calls.dir, "file", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (calls.fd < 0)
		return log_errno(errno, "%s", dir), 1;
	print_all(&calls);
	close(calls.fd);
	unlinkat(calls.dir, "file", 0);
	close(calls.dir);
	if (rmdir(dir) < 0)
		log_errno(errno, "%s", dir);
	return 0;
}
