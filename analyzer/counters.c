/* SPDX-License-Identifier: MIT */
#include "counters.h"

#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base.h"

#define SECTOR  512
#define MSEC_NS 1000000LL
#define MOST    65536 /* bytes of a file of counters */

void counters_add(struct counters *counters, const char *name, int64_t value)
{
	for (size_t i = 0; i < counters->count; i++) {
		if (strcmp(counters->items[i].name, name) == 0) {
			counters->items[i].value += value;
			return;
		}
	}
	if (counters->count < COUNTERS_MAX)
		counters->items[counters->count++] = (struct counter){ name, value };
}

void counters_since(struct counters *after, const struct counters *before)
{
	for (size_t i = 0; i < after->count; i++) {
		for (size_t j = 0; j < before->count; j++) {
			if (strcmp(after->items[i].name, before->items[j].name) == 0)
				after->items[i].value -= before->items[j].value;
		}
	}
}

/* The fields of Documentation/block/stat.rst, from 0. */
static void read_device(const char *path, struct counters *counters)
{
	static const struct {
		const char *name;
		size_t field;
		int64_t unit;
	} fields[] = {
		{ "device.reads", 0, 1 },
		{ "device.read_bytes", 2, SECTOR },
		{ "device.read_ns", 3, MSEC_NS },
		{ "device.writes", 4, 1 },
		{ "device.write_bytes", 6, SECTOR },
		{ "device.write_ns", 7, MSEC_NS },
		{ "device.busy_ns", 9, MSEC_NS },
		{ "device.flushes", 15, 1 },
		{ "device.flush_ns", 16, MSEC_NS },
	};
	struct strbuf auto_strbuf text = {};
	int64_t values[17] = {};
	size_t count = 0;
	char file[64];
	struct stat st;

	if (stat(path, &st) < 0)
		return;
	snprintf(file, sizeof(file), "/sys/dev/block/%u:%u/stat", major(st.st_rdev), minor(st.st_rdev));
	if (read_file_at(AT_FDCWD, file, MOST, &text) < 0 || !text.buf)
		return;
	for (char *at = text.buf, *end; count < ARRAY_SIZE(values); at = end, count++) {
		values[count] = strtoll(at, &end, 10);
		if (end == at)
			break;
	}
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		if (fields[i].field < count)
			counters_add(counters, fields[i].name, values[fields[i].field] * fields[i].unit);
	}
}

/* The number after `key` in a file, or -1. */
static int64_t number_after(const char *file, const char *key)
{
	struct strbuf auto_strbuf text = {};
	const char *at;

	if (read_file_at(AT_FDCWD, file, MOST, &text) < 0 || !text.buf)
		return -1;
	at = strstr(text.buf, key);
	return at ? strtoll(at + strlen(key), NULL, 10) : -1;
}

static void read_ext(const char *device, struct counters *counters)
{
	const char *name = strrchr(device, '/') ? strrchr(device, '/') + 1 : device;
	char file[128];
	int64_t value;

	/* the first line is "N transactions (M requested), each up to K blocks" */
	snprintf(file, sizeof(file), "/proc/fs/jbd2/%s-8/info", name);
	value = number_after(file, "");
	if (value >= 0)
		counters_add(counters, "jbd2.transactions", value);
	snprintf(file, sizeof(file), "/sys/fs/ext4/%s/lifetime_write_kbytes", name);
	value = number_after(file, "");
	if (value >= 0)
		counters_add(counters, "ext4.written_kbytes", value);
}

/* "log WRITES BLOCKS NOICLOGS FORCES FORCES_SLEPT" */
static void read_xfs(const char *device, struct counters *counters)
{
	const char *name = strrchr(device, '/') ? strrchr(device, '/') + 1 : device;
	struct strbuf auto_strbuf text = {};
	int64_t writes, blocks, noiclogs, forces;
	char file[128];
	const char *at;

	snprintf(file, sizeof(file), "/sys/fs/xfs/%s/stats/stats", name);
	if (read_file_at(AT_FDCWD, file, MOST, &text) < 0 || !text.buf)
		return;
	at = strstr(text.buf, "\nlog ");
	if (!at || sscanf(at, "\nlog %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64, &writes, &blocks, &noiclogs, &forces) != 4)
		return;
	counters_add(counters, "xfs.log_writes", writes);
	counters_add(counters, "xfs.log_blocks", blocks);
	counters_add(counters, "xfs.log_noiclogs", noiclogs);
	counters_add(counters, "xfs.log_forces", forces);
}

/* "/sys/fs/btrfs/UUID" of the filesystem on the device into `folder`. */
static bool btrfs_folder(const char *name, char folder[static 96])
{
	char pattern[128];
	glob_t found = {};
	bool is_there;

	snprintf(pattern, sizeof(pattern), "/sys/fs/btrfs/*/devices/%s", name);
	is_there = glob(pattern, 0, NULL, &found) == 0;
	if (is_there)
		snprintf(folder, 96, "%.*s", (int)(strstr(found.gl_pathv[0], "/devices/") - found.gl_pathv[0]),
			found.gl_pathv[0]);
	globfree(&found);
	return is_there;
}

static void read_btrfs(const char *device, struct counters *counters)
{
	const char *name = strrchr(device, '/') ? strrchr(device, '/') + 1 : device;
	char folder[96], file[128];
	int64_t commits, ms;

	if (!btrfs_folder(name, folder))
		return;
	snprintf(file, sizeof(file), "%s/commit_stats", folder);
	commits = number_after(file, "commits ");
	ms = number_after(file, "total_commit_ms ");
	if (commits >= 0)
		counters_add(counters, "btrfs.commits", commits);
	if (ms >= 0)
		counters_add(counters, "btrfs.commit_ns", ms * MSEC_NS);
}

void counters_read(const struct place *place, struct counters *ret_counters)
{
	const struct target_type *type = place->target->type;
	const char *name = type ? type->below ?: type->name : "";

	*ret_counters = (struct counters){};
	for (size_t i = 0; i < PLACE_DEVICES && place->devices[i]; i++)
		read_device(place->devices[i], ret_counters);
	if (!place->devices[0])
		return;
	if (strncmp(name, "ext", 3) == 0)
		read_ext(place->devices[0], ret_counters);
	else if (strcmp(name, "xfs") == 0)
		read_xfs(place->devices[0], ret_counters);
	else if (strcmp(name, "btrfs") == 0)
		read_btrfs(place->devices[0], ret_counters);
}
