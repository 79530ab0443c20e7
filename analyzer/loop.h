/* SPDX-License-Identifier: MIT */
/*
 * loop.h - an image file without a name on a loop device that detaches itself.
 *
 * The image is unlinked from the start and the device is set to clear itself, so both are gone when nothing
 * has them open or mounted any more, however the processes end.
 */
#ifndef FSTAPE_LOOP_H
#define FSTAPE_LOOP_H

#include <stdint.h>

struct loop {
	int image_fd;
	int device_fd; /* keeps the device attached until it is mounted */
	char *device;  /* its path: /dev/loopN, or a node of ours */
};

#define LOOP_NONE ((struct loop){ .image_fd = -1, .device_fd = -1 })

/*
 * Attaches a new sparse image of `size` bytes in `image_dir`. A device that has no node in /dev gets one in
 * `node_dir`. Needs root. Messages on standard error.
 */
int loop_attach(const char *image_dir, const char *node_dir, int64_t size, struct loop *ret_loop);

/* The same with an image file that the user has: nobody else may use it meanwhile. */
int loop_attach_file(const char *path, const char *node_dir, struct loop *ret_loop);

/* Lets go: the device detaches at once, or when its filesystem is unmounted. */
void loop_close(struct loop *loop);

#endif
