/* SPDX-License-Identifier: MIT */
/*
 * mount.h - one FUSE mount: the one that was asked for, or one of those that take the place of filesystems mounted
 * inside the source.
 *
 * A FUSE mount has one device number. What is mounted inside the source must have its own, as it has there: programs
 * tell files apart by device and inode number, and do not expect to link or rename across. So each such filesystem gets
 * a mount of its own on top of ours, at the same place, with a connection and workers of its own; nodes, descriptors,
 * paths and the recording are shared. Like the originals they have to be unmounted before the tree that they are in can
 * be (umount -R).
 */
#ifndef FSTAPE_MOUNT_H
#define FSTAPE_MOUNT_H

#include "fs.h"

struct ring;
struct session;
struct worker_pool;

struct mount {
	struct fs *fs;
	struct node *root; /* what the kernel calls inode 1 of this mount */
	char *mountpoint;
	struct fuse_session *se;
	struct session *session;
	struct worker_pool *pool; /* NULL: not started */
	struct ring *ring;	  /* NULL: all requests come through /dev/fuse */
	bool mounted;
	struct mount *next;
};

/*
 * Prepares the mount of `source` on `mountpoint`: this is where options that nobody knows come out. `root` is
 * borrowed, and set later for the main mount (NULL). Says what fails; -errno.
 */
int mount_new(struct fs *fs, const char *source, const char *mountpoint, struct node *root, struct mount **ret_mount);

/* Mounts and serves, once the kernel has taken it up. Says what fails. */
int mount_start(struct mount *mount);

/* The workers end, without waiting for the mount's users. What they have deferred can be answered until mount_free(). */
void mount_stop(struct mount *mount);

/* The mount ends, if it has not yet. */
void mount_free(struct mount *mount);

/* Mounts for what is mounted inside the source; one that can't be made is left out, which is said. */
void submounts_start(struct fs *fs);

/* Has the kernel ask for the node's attributes anew: they have changed in a way that it does not know of. */
void mount_attributes_changed(struct mount *mount, const struct node *node);

/* The kernel's name for a node in this mount, and back. */
static inline fuse_ino_t mount_ino(const struct mount *mount, const struct node *node)
{
	return node == mount->root ? FUSE_ROOT_ID : (fuse_ino_t)(uintptr_t)node;
}

static inline struct node *mount_node(const struct mount *mount, fuse_ino_t ino)
{
	return ino == FUSE_ROOT_ID ? mount->root : (struct node *)(uintptr_t)ino;
}

#endif
