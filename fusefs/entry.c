/* SPDX-License-Identifier: MIT */
#include "entry.h"

#include <limits.h>
#include <sys/sysmacros.h>

#include "mount.h"
#include "node.h"
#include "path.h"
#include "recorder.h"

uint64_t entry_ino(const struct mount *mount, dev_t dev, uint64_t ino)
{
	uint64_t number;

	if (dev == mount->root->dev)
		return ino;
	/* devices without a disk, as those of subvolumes, have major 0 and up to 2^20 minors */
	number = (minor(dev) ^ major(dev) << 8) & 0xfffff;
	return ino ^ (UINT64_C(1) << 62 | number << 42);
}

struct fuse_entry_param entry_param(const struct mount *mount, struct node *node, const struct inode_info *info)
{
	const struct options *options = &mount->fs->options;
	struct fuse_entry_param param = {
		.ino = mount_ino(mount, node),
		.generation = node->id,
		.attr = info->stat,
		.attr_timeout = options->attr_timeout,
		.entry_timeout = options->entry_timeout,
	};

	param.attr.st_ino = entry_ino(mount, info->stat.st_dev, info->stat.st_ino);
	return param;
}

int entry_fill(struct fs *fs, struct call *c, const struct inode_info *info, bool *ret_fresh)
{
	int err = node_lookup(fs, c->parent, c->name, info, c->path, c->process, &c->node, ret_fresh);

	if (err < 0)
		return err;
	c->node_id = c->node->id;
	c->entry = entry_param(c->mount, c->node, info);
	return 0;
}

void entry_initial(struct fs *fs, struct call *c, const struct inode_info *info, int dir_fd, const char *name,
	uint32_t path, const struct node *parent, struct node *node)
{
	const struct stat *st = &info->stat;
	struct initial_record initial = initial_of_stat(st);
	char target[PATH_MAX];
	ssize_t len = 0;

	if (!path || !recorder_is_older(fs->recorder, info->btime_ns, timespec_ns(st->st_ctim)))
		return;
	__atomic_store_n(&node->older, true, __ATOMIC_RELAXED);
	initial.seq = c->seq;
	initial.node = node->id;
	initial.parent = parent->id;
	initial.path = path;
	if (S_ISLNK(st->st_mode))
		len = readlinkat(dir_fd, name, target, sizeof(target));
	recorder_initial(fs->recorder, &initial, target, len > 0 ? (size_t)len : 0);
}

void entry_initial_root(struct fs *fs)
{
	struct node *root = fs->nodes->root;
	struct initial_record initial;
	struct inode_info info;

	if (inode_info_at(fs->source_fd, "", &info) < 0)
		return;
	initial = initial_of_stat(&info.stat);
	initial.node = root->id;
	initial.path = path_of_node(fs, root);
	root->older = true;
	if (initial.path)
		recorder_initial(fs->recorder, &initial, NULL, 0);
	recorder_thread_end();
}

int entry_find(struct fs *fs, struct call *c, int dir_fd, bool is_lookup)
{
	struct inode_info info;
	bool fresh = false;
	int err = is_lookup ? FS_CALL(c, inode_info_at(dir_fd, c->name, &info)) :
			      inode_info_at(dir_fd, c->name, &info);

	err = err ?: entry_fill(fs, c, &info, &fresh);
	if (err == 0 && is_lookup)
		node_looked_up(c->node, c->tid);
	if (err == 0 && is_lookup && fresh && fs->recorder)
		entry_initial(fs, c, &info, dir_fd, c->name, c->path, c->parent, c->node);
	return err;
}
