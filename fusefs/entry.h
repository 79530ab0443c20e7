/* SPDX-License-Identifier: MIT */
/* entry.h - answers that hand an inode to the kernel: the node, what is recorded of it, the reply's fields. */
#ifndef FSTAPE_ENTRY_H
#define FSTAPE_ENTRY_H

#include "fdcache.h"

/*
 * Fills c->entry, c->node and c->node_id for the inode found as c->name in c->parent, and counts one look-up.
 * *ret_fresh (may be NULL): it was not known by this name. 0 or -errno.
 */
int entry_fill(struct fs *fs, struct call *c, const struct inode_info *info, bool *ret_fresh);

/*
 * The same by the name below `dir_fd`. `is_lookup`: finding it is the operation itself, counted as time in the
 * filesystem, and what is met for the first time may have been there before the run.
 */
int entry_find(struct fs *fs, struct call *c, int dir_fd, bool is_lookup);

/*
 * Records a name of `node` in `parent`, if the inode was there before the run. `name` below `dir_fd` is for a symlink's
 * target.
 */
void entry_initial(struct fs *fs, struct call *c, const struct inode_info *info, int dir_fd, const char *name,
	uint32_t path, const struct node *parent, struct node *node);

/* The same of the root, which nobody looks up. Once, before the first request. */
void entry_initial_root(struct fs *fs);

/*
 * The inode number that users of the mount see. A mount has one device number, and programs take files with the same
 * device and inode number for one file: cp and mv refuse, find and ls -R see loops, diff finds no difference. Subvolumes
 * of btrfs have device numbers of their own, and numbers of inodes that begin anew. So those of another device than the
 * mount's root get a high part that says which; the low 42 bits stay, and with them the 32 that git's index keeps.
 */
uint64_t entry_ino(const struct mount *mount, dev_t dev, uint64_t ino);

/* The fields of an answer about `node`. */
struct fuse_entry_param entry_param(const struct mount *mount, struct node *node, const struct inode_info *info);

#endif
