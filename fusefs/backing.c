/* SPDX-License-Identifier: MIT */
#include "backing.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "cred.h"
#include "fuse_abi.h"
#include "handle.h"
#include "mount.h"
#include "node.h"

/* Of an inode, shared by its handles; under fs->backing_lock. */
struct backing {
	int32_t id;
	unsigned int users;
};

static int register_file(struct mount *mount, int fd)
{
	struct fuse_backing_map map = { .fd = fd };
	int id = ioctl(fuse_session_fd(mount->se), FUSE_DEV_IOC_BACKING_OPEN, &map);

	return id > 0 ? id : id < 0 ? -errno : -EIO;
}

static void unregister(struct mount *mount, int32_t id)
{
	ioctl(fuse_session_fd(mount->se), FUSE_DEV_IOC_BACKING_CLOSE, &id);
}

int backing_probe(struct mount *mount)
{
	int auto_close fd = memfd_create("probe", MFD_CLOEXEC);
	int id = fd < 0 ? -errno : register_file(mount, fd);

	if (id > 0) {
		unregister(mount, id);
		return 0;
	}
	return log_errno(id, "data_passthrough: the kernel does not let this process pass files on; it takes Linux 6.9, and root "
			     "with CAP_SYS_ADMIN (the mount without data_passthrough needs neither)");
}

/* Looks through the inode's handles. True: `*ret_backing` is theirs, NULL: none yet. False: they go through us. */
static bool find(struct fs *fs, struct node *node, struct backing **ret_backing)
{
	bool mixed = false;

	*ret_backing = NULL;
	pthread_mutex_lock(&fs->nodes->lock);
	for (struct handle *handle = node->handles; handle; handle = handle->next) {
		if (handle->backing)
			*ret_backing = handle->backing;
		mixed |= handle->unbacked;
	}
	pthread_mutex_unlock(&fs->nodes->lock);
	return !mixed;
}

static struct backing *make(struct fs *fs, struct call *c, int fd)
{
	struct backing *backing = malloc(sizeof(*backing));
	int id;

	if (!backing)
		return NULL;
	/* The kernel will act on the file with the rights that this thread has now. */
	cred_as_self(fs, 0);
	id = register_file(c->mount, fd);
	if (id > 0) {
		*backing = (struct backing){ .id = id };
		return backing;
	}
	free(backing);
	if (!atomic_exchange(&fs->backing_refused, true))
		log_errno(id, "%s: the kernel does not pass files of this filesystem on: they go through fstapefs",
			fs->options.source);
	return NULL;
}

int32_t backing_take(struct fs *fs, struct call *c, struct handle *handle)
{
	struct backing *backing;

	pthread_mutex_lock(&fs->backing_lock);
	if (find(fs, handle->node, &backing) && !backing)
		backing = make(fs, c, handle->fd);
	if (backing)
		backing->users++;
	handle->backing = backing;
	handle->unbacked = !backing;
	pthread_mutex_unlock(&fs->backing_lock);
	return backing ? backing->id : 0;
}

/* The kernel has let go of it before it sends RELEASE. */
void backing_drop(struct fs *fs, struct call *c, struct handle *handle)
{
	struct backing *backing = handle->backing;

	if (!backing)
		return;
	pthread_mutex_lock(&fs->backing_lock);
	if (--backing->users == 0) {
		unregister(c->mount, backing->id);
		free(backing);
	}
	pthread_mutex_unlock(&fs->backing_lock);
	handle->backing = NULL;
}

void backing_free(struct handle *handle)
{
	if (handle->backing && --handle->backing->users == 0)
		free(handle->backing);
	handle->backing = NULL;
}
