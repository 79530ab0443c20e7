/* SPDX-License-Identifier: MIT */
/* place.h - one filesystem, made for one measurement of a target, and its caches. */
#ifndef FSTAPE_PLACE_H
#define FSTAPE_PLACE_H

#include "device.h"
#include "loop.h"
#include "target.h"

#define PLACE_DEVICES 2

/* Where places are made. */
struct place_options {
	const char *work_dir;  /* mountpoints and device nodes */
	const char *image_dir; /* image files */
	int64_t size;          /* of an image, bytes */
	const struct device *devices;
	size_t n_devices; /* 0: images without a name */
};

struct place {
	char *dir;        /* an empty folder on the filesystem */
	char *mountpoint; /* NULL: nothing is mounted */
	char *below;      /* overlay: where the filesystem below it is mounted; or NULL */
	struct loop loops[PLACE_DEVICES];
	const char *devices[PLACE_DEVICES]; /* block devices; NULL: fewer */
	bool user_devices;                  /* given by --device */
	const struct target *target;
};

/*
 * Makes a fresh filesystem, or folder, for it; `first` is which of options->devices it is on (others that it needs are
 * the next ones). Messages on standard error; nothing is left after a failure.
 */
int place_make(const struct target *target, const struct place_options *options, size_t first, struct place *ret_place);
void place_remove(struct place *place);

/* Writes everything down to the disk, so that what was set up is not written on the clock of what comes. */
int place_sync(const struct place *place);

/*
 * Cold caches: everything is written down, the filesystem unmounted and mounted again, and the kernel's page, dentry
 * and inode caches are dropped, those of image files too. A folder, or a filesystem in memory, is not remounted.
 * Needs root.
 */
int place_cool(struct place *place);

/* Adds members of a JSON object, each preceded by a comma: the size of images, the devices that were given. */
void place_describe(const struct target *target, const struct place_options *options, size_t first, struct strbuf *json);

#endif
