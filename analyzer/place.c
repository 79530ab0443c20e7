/* SPDX-License-Identifier: MIT */
#include "place.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "child.h"
#include "files.h"
#include "isolate.h"

static int make_filesystem(const struct place *place)
{
	const struct target *target = place->target;
	auto_free char *text = strdup(target->mkfs_options ?: "");
	char program[32], *words[TARGET_MAX_WORDS];
	int err = text ? target_mkfs_words(target, text, program, place->devices, target_devices(target), words) : -ENOMEM;

	if (err < 0)
		return log_errno(err, "%s", target->name);
	return child_must(target->name, words, &(struct child_options){});
}

/* mount(8) rather than mount(2): it tells options of the mount from those of the filesystem, and explains failures. */
static int mount_with(const char *what, const char *type, const char *options, const char *source, const char *mountpoint)
{
	char *words[] = { "mount", "-n", "-t", (char *)type, "-o", (char *)options, "--", (char *)source, (char *)mountpoint,
		NULL };

	return child_must(what, words, &(struct child_options){});
}

static int mount_overlay(const struct place *place)
{
	auto_free char *options = NULL;
	const char *more = place->target->mount_options;
	int err = mount_with(place->target->name, place->target->type->below, "defaults", place->devices[0], place->below);

	if (err < 0)
		return err;
	if (asprintf(&options, "lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work%s%s", place->below, place->below,
		    place->below, more ? "," : "", more ?: "") < 0)
		return log_errno(ENOMEM, "%s", place->target->name);
	for (size_t i = 0; i < 3; i++) {
		auto_free char *dir = NULL;

		if (asprintf(&dir, "%s/%s", place->below, (const char *[]){ "lower", "upper", "work" }[i]) < 0)
			return log_errno(ENOMEM, "%s", place->target->name);
		if (mkdir(dir, 0755) < 0 && errno != EEXIST)
			return log_errno(errno, "%s", dir);
	}
	return mount_with(place->target->name, "overlay", options, "overlay", place->mountpoint);
}

static int mount_place(const struct place *place, int64_t size)
{
	const struct target *target = place->target;
	auto_free char *options = NULL;
	int len;

	if (target->type->kind == TARGET_OVERLAY)
		return mount_overlay(place);
	if (target->type->kind == TARGET_MEMORY)
		len = asprintf(&options, "size=%lld%s%s", (long long)size, target->mount_options ? "," : "",
			target->mount_options ?: "");
	else if (place->devices[1]) /* without udev nobody has told btrfs of the other one */
		len = asprintf(&options, "device=%s%s%s", place->devices[1], target->mount_options ? "," : "",
			target->mount_options ?: "");
	else
		len = asprintf(&options, "%s", target->mount_options ?: "defaults");
	if (len < 0)
		return log_errno(ENOMEM, "%s", target->name);
	return mount_with(target->name, target->type->name, options, place->devices[0] ?: target->type->name,
		place->mountpoint);
}

static void unmount(const char *mountpoint)
{
	for (int i = 0; i < 50; i++) {
		if (umount2(mountpoint, UMOUNT_NOFOLLOW) == 0 || errno != EBUSY)
			return;
		usleep(20000);
	}
	umount2(mountpoint, UMOUNT_NOFOLLOW | MNT_DETACH);
}

/* The block devices: images without a name, the user's image files on loop devices, or the user's devices. */
static int make_devices(struct place *place, const struct place_options *options, size_t first)
{
	for (size_t i = 0; i < target_devices(place->target); i++) {
		const struct device *device =
			options->n_devices ? &options->devices[(first + i) % options->n_devices] : NULL;
		int err = device ? device_check(device, true) : 0;

		if (err == 0 && !device)
			err = loop_attach(options->image_dir, options->work_dir, options->size, &place->loops[i]);
		else if (err == 0 && device->image)
			err = loop_attach_file(device->path, options->work_dir, &place->loops[i]);
		if (err < 0)
			return err;
		place->user_devices = device;
		place->devices[i] = device && !device->image ? device->path : place->loops[i].device;
	}
	return 0;
}

static int make_mounted(struct place *place, const struct place_options *options, size_t first)
{
	const struct target *target = place->target;
	int err = make_devices(place, options, first);

	if (err == 0 && target_devices(target))
		err = make_filesystem(place);
	err = err ?: folder_make_temp(options->work_dir, target->type->name, &place->mountpoint);
	if (err == 0 && target->type->kind == TARGET_OVERLAY)
		err = folder_make_temp(options->work_dir, "below", &place->below);
	err = err ?: mount_place(place, options->size);
	if (err < 0)
		return err;
	if (asprintf(&place->dir, "%s/bench", place->mountpoint) < 0)
		return log_errno(ENOMEM, "%s", target->name);
	return mkdir(place->dir, 0755) == 0 ? 0 : log_errno(errno, "%s", place->dir);
}

int place_make(const struct target *target, const struct place_options *options, size_t first, struct place *ret_place)
{
	struct place place = { .loops = { LOOP_NONE, LOOP_NONE }, .target = target };
	int err = target->type ? make_mounted(&place, options, first)
			       : folder_make_temp(target->dir, "fstape-bench", &place.dir);

	if (err < 0)
		place_remove(&place);
	else
		*ret_place = place;
	return err;
}

static void remove_mountpoint(char *mountpoint)
{
	if (!mountpoint)
		return;
	unmount(mountpoint);
	rmdir(mountpoint);
	free(mountpoint);
}

#define SIGNATURES (128 << 10) /* the superblocks that blkid looks for first: btrfs has its at 64 KiB, others before it */

/* The user's device: what we leave is not to be taken for data, so that the next benchmark need not ask. */
static void wipe(const struct place *place)
{
	auto_free char *zeros = calloc(1, SIGNATURES);

	for (size_t i = 0; i < PLACE_DEVICES && place->devices[i] && zeros; i++) {
		int auto_close fd = open(place->devices[i], O_WRONLY | O_CLOEXEC | O_EXCL);

		if (fd >= 0 && (pwrite(fd, zeros, SIGNATURES, 0) < 0 || fsync(fd) < 0))
			log_errno(errno, "%s: cannot take our filesystem off it", place->devices[i]);
	}
}

void place_remove(struct place *place)
{
	if (!place->mountpoint && place->dir)
		folder_remove(place->dir);
	remove_mountpoint(place->mountpoint);
	remove_mountpoint(place->below);
	if (place->user_devices)
		wipe(place);
	for (size_t i = 0; i < PLACE_DEVICES; i++)
		loop_close(&place->loops[i]);
	free(place->dir);
	*place = (struct place){ .loops = { LOOP_NONE, LOOP_NONE } };
}

int place_sync(const struct place *place)
{
	int auto_close fd = open(place->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || syncfs(fd) < 0)
		return log_errno(errno, "%s: cannot sync", place->dir);
	for (size_t i = 0; i < PLACE_DEVICES; i++) {
		if (place->loops[i].image_fd >= 0 && fsync(place->loops[i].image_fd) < 0)
			return log_errno(errno, "%s: cannot sync the image", place->dir);
	}
	return 0;
}

static int drop_caches(void)
{
	int auto_close fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "3\n", 2) < 0)
		return log_errno(errno, "/proc/sys/vm/drop_caches: cannot drop the caches");
	return 0;
}

int place_cool(struct place *place)
{
	bool remount = place->mountpoint && place->devices[0];
	int err = place_sync(place);

	if (err == 0 && remount) {
		unmount(place->mountpoint);
		if (place->below)
			unmount(place->below);
		if (isolate_stopped())
			return -ECANCELED;
		err = mount_place(place, 0);
	}
	/* What the unmounting wrote is in the image's cache: it has to be on the disk to be dropped. */
	err = err ?: place_sync(place);
	return err ?: drop_caches();
}

void place_describe(const struct target *target, const struct place_options *options, size_t first, struct strbuf *json)
{
	size_t n = target_devices(target);

	if (n && !options->n_devices)
		strbuf_addf(json, ",\"image_bytes\":%lld", (long long)options->size);
	for (size_t i = 0; i < n && options->n_devices; i++) {
		const struct device *device = &options->devices[(first + i) % options->n_devices];

		strbuf_addf(json, i ? ",\"device2\":" : ",\"device\":");
		strbuf_add_json(json, device->path, strlen(device->path));
		strbuf_addf(json, i ? ",\"device2_bytes\":%lld" : ",\"device_bytes\":%lld", (long long)device->size);
	}
}
