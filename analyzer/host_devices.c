/* SPDX-License-Identifier: MIT */
/*
 * host_devices.c - which block devices and filesystem counters belong to a directory. From the mount's device down: a loop
 * device to the filesystem of its backing file, dm and md to their slaves, btrfs to all devices of the filesystem.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "host_internal.h"
#include "mountinfo.h"

#define DEEPEST 8
#define MOST_DEVICES 32

/* /sys/dev/block/MAJ:MIN/stat, Documentation/block/stat.rst of the kernel */
static const struct host_field disk_fields[] = {
	{ " ", NULL, 0, "reads", "counter", "count", 1 },
	{ " ", NULL, 2, "read", "counter", "bytes", 512 },
	{ " ", NULL, 3, "read_time", "counter", "ns", 1000000 },
	{ " ", NULL, 4, "writes", "counter", "count", 1 },
	{ " ", NULL, 6, "written", "counter", "bytes", 512 },
	{ " ", NULL, 7, "write_time", "counter", "ns", 1000000 },
	{ " ", NULL, 8, "in_flight", "gauge", "count", 1 },
	{ " ", NULL, 9, "busy_time", "counter", "ns", 1000000 },
	{ " ", NULL, 11, "discards", "counter", "count", 1 },
	{ " ", NULL, 15, "flushes", "counter", "count", 1 },
	{ " ", NULL, 16, "flush_time", "counter", "ns", 1000000 },
};

/* /proc/fs/jbd2/DEV-INODE/info: averages are over all of the mount's life */
static const struct host_field jbd2_fields[] = {
	{ " transactions (", NULL, 0, "transactions", "counter", "count", 1 },
	{ " transactions (", NULL, 1, "requested", "counter", "count", 1 },
	{ "running transaction", NULL, 0, "mean_running", "gauge", "ns", 1000000 },
	{ "flushing data", NULL, 0, "mean_flushing", "gauge", "ns", 1000000 },
	{ "logging transaction", NULL, 0, "mean_logging", "gauge", "ns", 1000000 },
	{ "average transaction commit time", NULL, 0, "mean_commit", "gauge", "ns", 1000 },
	{ "handles per transaction", NULL, 0, "mean_handles", "gauge", "count", 1 },
	{ "logged blocks per transaction", NULL, 0, "mean_logged_blocks", "gauge", "count", 1 },
};

static const struct host_field ext4_written_fields[] = {
	{ "", NULL, 0, "written", "counter", "bytes", 1024 },
};

static const struct host_field ext4_delayed_fields[] = {
	{ "", NULL, 0, "delayed_allocation_blocks", "gauge", "count", 1 },
};

/* /sys/fs/xfs/DEV/stats/stats; names as in the kernel's fs/xfs/xfs_stats.h */
static const struct host_field xfs_fields[] = {
	{ "trans ", NULL, 0, "trans_sync", "counter", "count", 1 },
	{ "trans ", NULL, 1, "trans_async", "counter", "count", 1 },
	{ "log ", NULL, 0, "log_writes", "counter", "count", 1 },
	{ "log ", NULL, 1, "log_blocks", "counter", "count", 1 },
	{ "log ", NULL, 2, "log_noiclogs", "counter", "count", 1 },
	{ "log ", NULL, 3, "log_force", "counter", "count", 1 },
	{ "log ", NULL, 4, "log_force_sleep", "counter", "count", 1 },
	{ "push_ail ", NULL, 1, "sleep_logspace", "counter", "count", 1 },
	{ "push_ail ", NULL, 2, "push_ail", "counter", "count", 1 },
	{ "extent_alloc ", NULL, 0, "extents_allocated", "counter", "count", 1 },
};

static const struct host_field btrfs_fields[] = {
	{ "commits", NULL, 0, "commits", "counter", "count", 1 },
	{ "last_commit_ms", NULL, 0, "last_commit", "gauge", "ns", 1000000 },
	{ "max_commit_ms", NULL, 0, "max_commit", "gauge", "ns", 1000000 },
	{ "total_commit_ms", NULL, 0, "commit_time", "counter", "ns", 1000000 },
};

struct search {
	struct host *host;
	dev_t seen[MOST_DEVICES];
	size_t n_seen;
};

static int add_directory(struct search *search, const char *path, int depth);
static int add_device(struct search *search, dev_t dev, int depth);

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int add_source(struct search *search, const char *path, const char *kind, const char *name,
	const struct host_field *fields, size_t n_fields)
{
	char source[PATH_MAX];

	if ((size_t)snprintf(source, sizeof(source), "%s:%s", kind, name) >= sizeof(source))
		return 0;
	return host_add_file(search->host, path, source, fields, n_fields);
}

/* "MAJ:MIN\n" */
static bool read_dev(const char *path, dev_t *ret_dev)
{
	struct strbuf auto_strbuf text = {};
	unsigned int maj, min;

	if (read_file_at(AT_FDCWD, path, 64, &text) < 0 || sscanf(text.buf, "%u:%u", &maj, &min) != 2)
		return false;
	*ret_dev = makedev(maj, min);
	return true;
}

/* Every entry of a folder of links to block devices in /sys. */
static int add_members(struct search *search, const char *folder, int depth)
{
	DIR *dir = opendir(folder);
	int err = 0;

	for (struct dirent *entry; dir && err == 0 && (entry = readdir(dir));) {
		char path[PATH_MAX];
		dev_t dev;

		snprintf(path, sizeof(path), "%s/%s/dev", folder, entry->d_name);
		if (entry->d_name[0] != '.' && read_dev(path, &dev))
			err = add_device(search, dev, depth);
	}
	if (dir)
		closedir(dir);
	return err;
}

static int add_backing_file(struct search *search, const char *sys, int depth)
{
	struct strbuf auto_strbuf file = {};
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/loop/backing_file", sys);
	if (read_file_at(AT_FDCWD, path, PATH_MAX, &file) < 0 || !file.len)
		return 0;
	file.buf[strcspn(file.buf, "\n")] = '\0';
	return add_directory(search, file.buf, depth);
}

static int add_device(struct search *search, dev_t dev, int depth)
{
	char sys[64], path[128], link[PATH_MAX];
	ssize_t len;
	int err;

	if (depth > DEEPEST || search->n_seen == MOST_DEVICES)
		return 0;
	for (size_t i = 0; i < search->n_seen; i++)
		if (search->seen[i] == dev)
			return 0;
	search->seen[search->n_seen++] = dev;
	snprintf(sys, sizeof(sys), "/sys/dev/block/%u:%u", major(dev), minor(dev));
	len = readlink(sys, link, sizeof(link) - 1);
	if (len < 0)
		return 0; /* no block device: tmpfs, nfs, ... */
	link[len] = '\0';
	snprintf(path, sizeof(path), "%s/stat", sys);
	err = add_source(search, path, "disk", base_name(link), disk_fields, ARRAY_SIZE(disk_fields));
	err = err ?: add_backing_file(search, sys, depth + 1);
	snprintf(path, sizeof(path), "%s/slaves", sys);
	return err ?: add_members(search, path, depth + 1);
}

/* The journal's name is the device's, with '-' and the journal's inode. */
static int add_jbd2(struct search *search, const char *device)
{
	DIR *dir = opendir("/proc/fs/jbd2");
	size_t len = strlen(device);
	int err = 0;

	for (struct dirent *entry; dir && err == 0 && (entry = readdir(dir));) {
		char path[PATH_MAX];

		if (strncmp(entry->d_name, device, len) != 0 || entry->d_name[len] != '-')
			continue;
		snprintf(path, sizeof(path), "/proc/fs/jbd2/%s/info", entry->d_name);
		err = add_source(search, path, "jbd2", entry->d_name, jbd2_fields, ARRAY_SIZE(jbd2_fields));
	}
	if (dir)
		closedir(dir);
	return err;
}

static int add_ext4(struct search *search, const char *device)
{
	char path[PATH_MAX];
	int err;

	snprintf(path, sizeof(path), "/sys/fs/ext4/%s/session_write_kbytes", device);
	err = add_source(search, path, "ext4", device, ext4_written_fields, ARRAY_SIZE(ext4_written_fields));
	snprintf(path, sizeof(path), "/sys/fs/ext4/%s/delayed_allocation_blocks", device);
	return err ?: add_source(search, path, "ext4", device, ext4_delayed_fields, ARRAY_SIZE(ext4_delayed_fields));
}

/* The filesystem that has the device; all its devices are asked. */
static int add_btrfs(struct search *search, const char *device)
{
	DIR *dir = opendir("/sys/fs/btrfs");
	int err = 0;

	for (struct dirent *entry; dir && err == 0 && (entry = readdir(dir));) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "/sys/fs/btrfs/%s/devices/%s", entry->d_name, device);
		if (entry->d_name[0] == '.' || access(path, F_OK) < 0)
			continue;
		snprintf(path, sizeof(path), "/sys/fs/btrfs/%s/commit_stats", entry->d_name);
		err = add_source(search, path, "btrfs", device, btrfs_fields, ARRAY_SIZE(btrfs_fields));
		snprintf(path, sizeof(path), "/sys/fs/btrfs/%s/devices", entry->d_name);
		err = err ?: add_members(search, path, 1);
	}
	if (dir)
		closedir(dir);
	return err;
}

static int add_filesystem(struct search *search, const char *fs_type, const char *device)
{
	char path[PATH_MAX];
	int err = 0;

	if (strncmp(fs_type, "ext", 3) == 0) {
		err = add_jbd2(search, device);
		err = err ?: add_ext4(search, device);
	} else if (strcmp(fs_type, "xfs") == 0) {
		snprintf(path, sizeof(path), "/sys/fs/xfs/%s/stats/stats", device);
		err = add_source(search, path, "xfs", device, xfs_fields, ARRAY_SIZE(xfs_fields));
	} else if (strcmp(fs_type, "btrfs") == 0) {
		err = add_btrfs(search, device);
	}
	return err;
}

/* The mount that a path is on: st_dev alone does not lead to a device, as btrfs has numbers of its own. */
static int add_directory(struct search *search, const char *path, int depth)
{
	int auto_close fd = open(path, O_PATH | O_CLOEXEC);
	struct mountinfo *list = fd < 0 ? NULL : mountinfo_read();
	const struct mountinfo *mount = list ? mountinfo_of_fd(list, fd) : NULL;
	auto_free char *device = NULL;
	struct stat st;
	int err = 0;

	if (mount && mount->device && (device = realpath(mount->device, NULL)) && stat(device, &st) == 0 &&
		S_ISBLK(st.st_mode)) {
		err = add_filesystem(search, mount->fs_type, base_name(device));
		err = err ?: add_device(search, st.st_rdev, depth);
	} else if (fd >= 0 && fstat(fd, &st) == 0) {
		err = add_device(search, st.st_dev, depth);
	}
	mountinfo_free(list);
	return err;
}

int host_find_devices(struct host *host, const char *source)
{
	struct search search = { .host = host };

	return add_directory(&search, source, 0);
}
