/* SPDX-License-Identifier: MIT */
#include "device.h"

#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base.h"
#include "child.h"

#define LOOP_MAJOR 7

static int look_at(struct device *device, const char *given)
{
	int auto_close fd = -1;
	struct stat st;

	device->path = realpath(given, NULL);
	if (!device->path || stat(device->path, &st) < 0)
		return log_errno(errno, "--device %s", given), -EINVAL;
	device->image = S_ISREG(st.st_mode);
	device->size = st.st_size;
	if (!device->image && !S_ISBLK(st.st_mode)) {
		log_msg("--device %s: neither a block device nor an image file", given);
		return -EINVAL;
	}
	if (device->image)
		return 0;
	fd = open(device->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, BLKGETSIZE64, &device->size) < 0)
		return log_errno(errno, "--device %s: cannot be read", given), -EINVAL;
	return 0;
}

int devices_parse(const char *spec, struct device **devices, size_t *count)
{
	for (;;) {
		size_t len = strcspn(spec, ",");
		auto_free char *path = strndup(spec, len);
		struct device *grown = reallocarray(*devices, *count + 1, sizeof(*grown));
		int err;

		if (!grown || !path)
			return log_errno(ENOMEM, "--device");
		*devices = grown;
		grown[*count] = (struct device){};
		err = look_at(&grown[(*count)++], path);
		for (size_t i = 0; err == 0 && i + 1 < *count; i++) {
			if (strcmp(grown[i].path, grown[*count - 1].path) != 0)
				continue;
			log_msg("--device: %s is there twice", grown[i].path);
			err = -EINVAL;
		}
		if (err < 0 || !spec[len])
			return err;
		spec += len + 1;
	}
}

void devices_free(struct device *devices, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(devices[i].path);
	free(devices);
}

static bool is_loop_device(const struct device *device)
{
	struct stat st;

	return stat(device->path, &st) == 0 && S_ISBLK(st.st_mode) && major(st.st_rdev) == LOOP_MAJOR;
}

/* The loop device that an image file is attached to already, "" when there is none. */
static void find_loop(const char *path, char name[static 64])
{
	glob_t found = {};

	name[0] = '\0';
	if (glob("/sys/block/loop*/loop/backing_file", 0, NULL, &found) == 0) {
		for (size_t i = 0; i < found.gl_pathc && !name[0]; i++) {
			struct strbuf auto_strbuf text = {};

			if (read_file_at(AT_FDCWD, found.gl_pathv[i], PATH_MAX + 1, &text) < 0 || !text.len)
				continue;
			text.buf[strcspn(text.buf, "\n")] = '\0';
			if (strcmp(text.buf, path) == 0)
				sscanf(found.gl_pathv[i], "/sys/block/%63[^/]", name);
		}
	}
	globfree(&found);
}

static int check_unused(const struct device *device)
{
	char loop[64];
	int auto_close fd = -1;

	if (device->image) {
		find_loop(device->path, loop);
		if (!loop[0])
			return 0;
		log_msg("%s: in use by /dev/%s (losetup -d detaches it)", device->path, loop);
		return -EBUSY;
	}
	/* the kernel's own guard: fails while it is mounted, swapped to, or part of something */
	fd = open(device->path, O_RDWR | O_EXCL | O_CLOEXEC);
	if (fd < 0 && errno == EBUSY) {
		log_msg("%s: in use (mounted, swap, or part of another device): it is not touched", device->path);
		return -EBUSY;
	}
	return fd < 0 ? log_errno(errno, "%s", device->path) : 0;
}

/* What blkid(8) finds on it: "ext4", a partition table, ...; "": nothing. It exits with 2 then, with 8 when in doubt. */
static int find_contents(const struct device *device, struct strbuf *what)
{
	char *words[] = { "blkid", "-p", "-o", "value", "-s", "TYPE", "-s", "PTTYPE", "--", device->path, NULL };
	struct child_result result;
	int err = child_run(words, &(struct child_options){ .output = what }, &result);

	if (err < 0)
		return log_errno(err, "cannot run blkid, to see what is on %s", device->path);
	if (what->buf)
		what->buf[strcspn(what->buf, "\n")] = '\0';
	if (result.status == 0 || result.status == 8)
		return 1;
	return 0;
}

int device_check(const struct device *device, bool destroy)
{
	struct strbuf auto_strbuf what = {};
	int err = check_unused(device);

	if (err < 0 || destroy)
		return err;
	if (!device->image && !is_loop_device(device)) {
		log_msg("%s: everything on it would be destroyed; --destroy-data says that it may be", device->path);
		return -EEXIST;
	}
	err = find_contents(device, &what);
	if (err <= 0)
		return err;
	log_msg("%s: is not empty (%s); --destroy-data says that it may be formatted", device->path,
		what.buf && *what.buf ? what.buf : "of unknown content");
	return -EEXIST;
}
