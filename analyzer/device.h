/* SPDX-License-Identifier: MIT */
/*
 * device.h - what --device names: block devices and image files that filesystems are made on.
 *
 * Formatting destroys what is there. Without the user's explicit word only this is accepted: a loop device, or an
 * image file, that nobody uses and that holds no data that libblkid recognises. What is mounted or otherwise in use
 * is never accepted.
 */
#ifndef FSTAPE_DEVICE_H
#define FSTAPE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device {
	char *path; /* absolute */
	bool image; /* a regular file: it is attached to a loop device */
	int64_t size;
};

/* "PATH,PATH": adds to the array, freed with devices_free(). -EINVAL after a message; relative paths are made absolute. */
int devices_parse(const char *spec, struct device **devices, size_t *count);
void devices_free(struct device *devices, size_t count);

/*
 * Whether it may be formatted: exists, is not in use, and is empty unless `destroy`. -EBUSY, -EEXIST, ... after a
 * message. Call it again before each mkfs: others may have mounted it meanwhile.
 */
int device_check(const struct device *device, bool destroy);

#endif
