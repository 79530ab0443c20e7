/* SPDX-License-Identifier: MIT */
/* mountinfo.h - the mounts that this process sees: /proc/self/mountinfo, proc(5). */
#ifndef FSTAPE_MOUNTINFO_H
#define FSTAPE_MOUNTINFO_H

#include <stdint.h>

struct mountinfo {
	struct mountinfo *next;
	uint64_t id;
	char *mountpoint, *fs_type, *device;
	char *options; /* of the mount, then of the filesystem */
};

/* All of them, in the order of mounting; NULL: none could be read. */
struct mountinfo *mountinfo_read(void);
void mountinfo_free(struct mountinfo *list);

/* The one that a descriptor is on, or NULL. */
const struct mountinfo *mountinfo_of_fd(const struct mountinfo *list, int fd);

#endif
