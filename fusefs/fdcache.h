/* SPDX-License-Identifier: MIT */
/*
 * fdcache.h - a bounded number of O_PATH descriptors for an unbounded number of nodes.
 *
 * A node has a descriptor for as long as there is room. Which nodes have one is an LRU list; a node that has lost its
 * descriptor gets a new one by its file handle (open_by_handle_at(2), as root and where the filesystem has handles;
 * the handle is taken when the descriptor is given up) or by its name in its parent. What is opened by name is
 * compared with what the node is, so a name that means something else by now is never taken for it.
 *
 * Two kinds of node can't be opened again and are not evicted: a directory that was removed while somebody may be in
 * it, and a file whose last known name is gone but that has others ("pinned").
 *
 * The limit is what RLIMIT_NOFILE leaves after open files and the daemon's own descriptors.
 */
#ifndef FSTAPE_FDCACHE_H
#define FSTAPE_FDCACHE_H

#include "node.h"

struct fdcache;

int fdcache_new(struct fs *fs, struct fdcache **ret_cache);
void fdcache_free(struct fs *fs);

/* A descriptor of a node for the time between get and put. */
struct fdref {
	int fd;
	struct node *node;     /* it is the node's own, or */
	struct handle *handle; /* it is that of an open file of the node's */
};

/*
 * Any descriptor of the node: good for fstat, /proc/self/fd/N, and *at() below a directory. Opens one when there is none;
 * -ESTALE when the inode can't be reached any more, -EMFILE when every descriptor is in use.
 */
int fdref_get(struct fs *fs, struct node *node, struct fdref *ret_ref);
void fdref_put(struct fs *fs, const struct fdref *ref);

/* "/proc/self/fd/N": the way to an object that no name is needed for. */
struct proc_path {
	char text[32];
};
struct proc_path fdref_path(const struct fdref *ref);

/* Attributes by whatever costs least: a descriptor that is there, the name, or a new descriptor. */
int node_stat(struct fs *fs, struct call *c, struct node *node, struct inode_info *ret_info);

/* statx(2) of `name` below `fd`, or of `fd` itself when `name` is "". Links are not followed. 0 or -errno. */
int inode_info_at(int fd, const char *name, struct inode_info *ret_info);

/* Whether `info` is of the inode that `node` is. */
bool node_is(const struct node *node, const struct inode_info *info);

/* Sees to it that the node's descriptor stays until the kernel forgets it, or `pinned` is cleared under the table's lock. */
int fdcache_pin(struct fs *fs, struct node *node);

/* Gives up the node's descriptor, when nobody uses it, so that it does not keep a removed inode alive. */
void fdcache_drop(struct fs *fs, struct node *node);

/* Under the table's lock: the node leaves the list, its descriptor is the caller's. */
void fdcache_detach(struct fs *fs, struct node *node);

/* An open file has come (+1) or gone (-1): the cache has so much less, or more, room. */
void fdcache_handles(struct fs *fs, int change);

/* Whether only the descriptors are left that the daemon needs itself: files that clients open get -EMFILE then. */
bool fdcache_full(struct fs *fs);

/* After -EMFILE from an open: closes some descriptors. False when there is none to close. */
bool fdcache_relieve(struct fs *fs);

#endif
