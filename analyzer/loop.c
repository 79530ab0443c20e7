/* SPDX-License-Identifier: MIT */
#include "loop.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base.h"

#define LOOP_MAJOR 7
#define ATTEMPTS   64 /* others may take the free device between our asking and our attaching */

/* Some filesystems cannot make files without a name: there it has one for a moment. */
static int make_image(const char *dir, int64_t size, int *ret_fd)
{
	int auto_close fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
		auto_free char *path = NULL;

		if (asprintf(&path, "%s/fstape-image-XXXXXX", dir) < 0)
			return -ENOMEM;
		fd = mkostemp(path, O_CLOEXEC);
		if (fd >= 0)
			unlink(path);
	}
	if (fd < 0)
		return log_errno(errno, "cannot make an image file in %s", dir);
	if (ftruncate(fd, size) < 0)
		return log_errno(
			errno, "cannot make an image of %lld bytes in %s (see --size)", (long long)size, dir);
	*ret_fd = steal_fd(&fd);
	return 0;
}

/* Opens device `number`, whose node may be missing where /dev is not the kernel's own. */
static int open_device(long number, const char *node_dir, char **ret_path)
{
	char *path;
	int fd;

	if (asprintf(&path, "/dev/loop%ld", number) < 0)
		return -ENOMEM;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) {
		free(path);
		if (asprintf(&path, "%s/loop%ld", node_dir, number) < 0)
			return -ENOMEM;
		mknod(path, S_IFBLK | 0600,
			makedev(LOOP_MAJOR, (unsigned int)number)); /* EEXIST: ours of before */
		fd = open(path, O_RDWR | O_CLOEXEC);
	}
	if (fd < 0) {
		fd = log_errno(errno, "cannot open loop device %ld (%s)", number, path);
		free(path);
		return fd;
	}
	*ret_path = path;
	return fd;
}

static int attach(struct loop *loop, int control, const char *node_dir)
{
	struct loop_config config = {
		.fd = (unsigned int)loop->image_fd,
		.info = { .lo_flags = LO_FLAGS_AUTOCLEAR },
	};

	snprintf((char *)config.info.lo_file_name, sizeof(config.info.lo_file_name), "fstape bench");
	for (int i = 0; i < ATTEMPTS; i++) {
		long number = ioctl(control, LOOP_CTL_GET_FREE);

		if (number < 0)
			return log_errno(errno, "no free loop device");
		loop->device_fd = open_device(number, node_dir, &loop->device);
		if (loop->device_fd < 0)
			return loop->device_fd;
		if (ioctl(loop->device_fd, LOOP_CONFIGURE, &config) == 0)
			return 0;
		if (errno != EBUSY)
			return log_errno(errno, "%s: cannot attach an image", loop->device);
		close(steal_fd(&loop->device_fd));
		free(steal_ptr(&loop->device));
	}
	log_msg("no free loop device: others take them all");
	return -EBUSY;
}

/* Takes over `image_fd`, also when it fails. */
static int attach_image(int image_fd, const char *node_dir, struct loop *ret_loop)
{
	int auto_close control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	struct loop loop = { .image_fd = image_fd, .device_fd = -1 };
	int err = control >= 0 ? attach(&loop, control, node_dir)
			       : log_errno(errno,
					 "/dev/loop-control: cannot make loop devices (is the module 'loop' loaded, and "
					 "are you root?); --fs dir=PATH works without");

	if (err < 0)
		loop_close(&loop);
	else
		*ret_loop = loop;
	return err;
}

int loop_attach(const char *image_dir, const char *node_dir, int64_t size, struct loop *ret_loop)
{
	int fd = -1, err = make_image(image_dir, size, &fd);

	return err ?: attach_image(fd, node_dir, ret_loop);
}

int loop_attach_file(const char *path, const char *node_dir, struct loop *ret_loop)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	return fd < 0 ? log_errno(errno, "%s", path) : attach_image(fd, node_dir, ret_loop);
}

void loop_close(struct loop *loop)
{
	if (loop->device_fd >= 0)
		close(loop->device_fd);
	if (loop->image_fd >= 0)
		close(loop->image_fd);
	free(loop->device);
	*loop = LOOP_NONE;
}
