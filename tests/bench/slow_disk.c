/* SPDX-License-Identifier: MIT */
/*
 * slow_disk.c - a disk whose cache takes long to flush: MOUNTPOINT/disk has the contents of a file, and fsync(2) on it
 * takes as long as one likes. For a loop device, or `fstape bench --device`.
 *
 *   slow_disk --flush-ms N FILE MOUNTPOINT
 *
 * One request at a time, as a disk that flushes does nothing else. In the foreground until SIGTERM or unmounted. A flush only takes its time: it writes nothing down.
 */
#define FUSE_USE_VERSION 314

#include <fcntl.h>
#include <fuse.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base.h"

struct disk {
	int fd;
	int64_t flush_ns;
};

static struct disk *disk(void)
{
	return fuse_get_context()->private_data;
}

static int disk_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
	(void)fi;
	if (strcmp(path, "/disk") == 0)
		return fstat(disk()->fd, st) < 0 ? -errno : 0;
	*st = (struct stat){ .st_mode = S_IFDIR | 0755, .st_nlink = 2 };
	return strcmp(path, "/") == 0 ? 0 : -ENOENT;
}

static int disk_readdir(const char *path, void *buf, fuse_fill_dir_t fill, off_t offset, struct fuse_file_info *fi,
	enum fuse_readdir_flags flags)
{
	(void)path, (void)offset, (void)fi, (void)flags;
	fill(buf, "disk", NULL, 0, 0);
	return 0;
}

static int disk_open(const char *path, struct fuse_file_info *fi)
{
	(void)fi;
	return strcmp(path, "/disk") == 0 ? 0 : -ENOENT;
}

static int disk_read(const char *path, char *buf, size_t size, off_t offset, struct fuse_file_info *fi)
{
	ssize_t got = pread(disk()->fd, buf, size, offset);

	(void)path, (void)fi;
	return got < 0 ? -errno : (int)got;
}

static int disk_write(const char *path, const char *buf, size_t size, off_t offset, struct fuse_file_info *fi)
{
	ssize_t written = pwrite(disk()->fd, buf, size, offset);

	(void)path, (void)fi;
	return written < 0 ? -errno : (int)written;
}

static int disk_fsync(const char *path, int data, struct fuse_file_info *fi)
{
	struct timespec time = { disk()->flush_ns / NSEC_PER_SEC, disk()->flush_ns % NSEC_PER_SEC };

	(void)path, (void)data, (void)fi;
	while (nanosleep(&time, &time) < 0)
		;
	return 0;
}

/* A loop device gives back what its filesystem discards. */
static int disk_fallocate(const char *path, int mode, off_t offset, off_t length, struct fuse_file_info *fi)
{
	(void)path, (void)fi;
	return fallocate(disk()->fd, mode, offset, length) < 0 ? -errno : 0;
}

static const struct fuse_operations operations = {
	.getattr = disk_getattr,
	.readdir = disk_readdir,
	.open = disk_open,
	.read = disk_read,
	.write = disk_write,
	.fsync = disk_fsync,
	.fallocate = disk_fallocate,
};

int main(int argc, char **argv)
{
	struct disk disk = { .fd = -1 };
	char *words[] = { argv[0], "-f", "-s", "-o", "fsname=slow_disk,attr_timeout=1000", NULL, NULL };
	char *end;

	log_set_program("slow_disk");
	if (argc != 5 || strcmp(argv[1], "--flush-ms") != 0) {
		fputs("usage: slow_disk --flush-ms N FILE MOUNTPOINT\n", stderr);
		return 2;
	}
	disk.flush_ns = (int64_t)(strtod(argv[2], &end) * 1e6);
	if (*end || end == argv[2] || disk.flush_ns < 0 || disk.flush_ns > 60 * NSEC_PER_SEC) {
		log_msg("--flush-ms %s: not a number of milliseconds up to 60000", argv[2]);
		return 2;
	}
	disk.fd = open(argv[3], O_RDWR | O_CLOEXEC);
	if (disk.fd < 0) {
		log_errno(errno, "%s", argv[3]);
		return 1;
	}
	words[5] = argv[4];
	return fuse_main(6, words, &operations, &disk);
}
