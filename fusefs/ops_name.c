/* SPDX-License-Identifier: MIT */
/* ops_name.c - names looked up, made, moved and removed. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "entry.h"
#include "fdcache.h"
#include "handle.h"
#include "mount.h"
#include "node.h"
#include "path.h"

int64_t do_lookup(struct fs *fs, struct call *c)
{
	struct fdref dir;
	int err = fdref_get(fs, c->parent, &dir);

	if (err < 0)
		return err;
	err = entry_find(fs, c, dir.fd, true);
	fdref_put(fs, &dir);
	if (err == 0)
		c->mode = c->entry.attr.st_mode;
	return err;
}

int64_t do_forget(struct fs *fs, struct call *c)
{
	node_forget(fs, c, c->node, c->length);
	return 0;
}

int64_t do_forget_multi(struct fs *fs, struct call *c)
{
	for (size_t i = 0; i < c->count; i++)
		node_forget(fs, c, mount_node(c->mount, c->forgets[i].ino), c->forgets[i].nlookup);
	return 0;
}

/* What was made by name and has no descriptor: found again by that name. */
static int64_t made(struct fs *fs, struct call *c, const struct fdref *dir, int result)
{
	int err = result < 0 ? -errno : entry_find(fs, c, dir->fd, false);

	fdref_put(fs, dir);
	return err;
}

int64_t do_mkdir(struct fs *fs, struct call *c)
{
	struct fdref dir;
	int err = fdref_get(fs, c->parent, &dir);

	return err ?: made(fs, c, &dir, FS_CALL(c, mkdirat(dir.fd, c->name, c->mode)));
}

int64_t do_mknod(struct fs *fs, struct call *c)
{
	struct fdref dir;
	int err = fdref_get(fs, c->parent, &dir);

	return err ?: made(fs, c, &dir, FS_CALL(c, mknodat(dir.fd, c->name, c->mode, c->rdev)));
}

int64_t do_symlink(struct fs *fs, struct call *c)
{
	struct fdref dir;
	int err = fdref_get(fs, c->parent, &dir);

	return err ?: made(fs, c, &dir, FS_CALL(c, symlinkat(c->name2, dir.fd, c->name)));
}

int64_t do_link(struct fs *fs, struct call *c)
{
	struct fdref dir, node;
	struct proc_path path;
	int result, err = fdref_get(fs, c->node, &node);

	if (err < 0)
		return err;
	err = fdref_get(fs, c->parent, &dir);
	if (err < 0) {
		fdref_put(fs, &node);
		return err;
	}
	/* By the magic link: AT_EMPTY_PATH would need CAP_DAC_READ_SEARCH. */
	path = fdref_path(&node);
	result = FS_CALL(c, linkat(AT_FDCWD, path.text, dir.fd, c->name, AT_SYMLINK_FOLLOW));
	err = result < 0 ? -errno : 0;
	fdref_put(fs, &node);
	errno = -err;
	return made(fs, c, &dir, result);
}

/* The kernel creates what it believes not to exist; when something else is there by now, it must not block the shim. */
static int create_file(struct fs *fs, struct call *c, int dir_fd)
{
	int flags = (handle_flags(fs, (int)c->flags) & ~(O_APPEND | O_DIRECT)) | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
	int fd;

	do
		fd = FS_CALL(c, openat(dir_fd, c->name, flags, c->mode));
	while (fd < 0 && errno == EMFILE && fdcache_relieve(fs));
	return fd < 0 ? -errno : fd;
}

int64_t do_create(struct fs *fs, struct call *c)
{
	struct inode_info info;
	struct fdref dir;
	int fd, err = fdcache_full(fs) ? -EMFILE : fdref_get(fs, c->parent, &dir);

	if (err < 0)
		return err;
	fd = create_file(fs, c, dir.fd);
	fdref_put(fs, &dir);
	if (fd < 0)
		return fd;
	err = inode_info_at(fd, "", &info);
	err = err ?: entry_fill(fs, c, &info, NULL);
	if (err < 0) {
		close(fd);
		return err;
	}
	c->fh = handle_new(fs, c->node, fd, c->process);
	if (!c->fh) {
		node_forget(fs, NULL, c->node, 1);
		return -ENOMEM;
	}
	c->fh_id = c->fh->id;
	handle_answer(fs, c);
	return 0;
}

/* --- what loses its name: by unlink, rmdir, or as the target of a rename ------------------------------------------- */

struct victim {
	struct node *node; /* NULL: the kernel does not know it */
	struct ghost *ghost;
	bool gone; /* it is the last name */
	bool pinned;
};

/*
 * Before the name goes. An inode that lives on under other names, a directory that somebody may be in, and a fifo, whose
 * openers the kernel does not tell us of, keep a descriptor. For a file with its last name nobody needs one but those who
 * have it open: a descriptor of ours would only put off the moment at which the filesystem frees it, out of the operation
 * that frees it. Its attributes are kept for those who hold it without having it open (O_PATH). But where another thread
 * has just looked the file up, its request is on the way and is to find it.
 */
static void victim_prepare(struct fs *fs, struct call *c, int dir_fd, struct node *parent, const char *name,
	struct victim *v)
{
	struct inode_info info;

	*v = (struct victim){ .node = node_by_name(fs, parent, name) };
	if (!v->node)
		return;
	c->victim_id = v->node->id;
	if (inode_info_at(dir_fd, name, &info) < 0 || !node_is(v->node, &info))
		return;
	v->gone = S_ISDIR(info.stat.st_mode) || info.stat.st_nlink <= 1;
	if (S_ISDIR(info.stat.st_mode))
		path_remember(fs, v->node);
	if (!(S_ISREG(info.stat.st_mode) || S_ISLNK(info.stat.st_mode)) || info.stat.st_nlink > 1 ||
		node_is_wanted(v->node, c->tid)) {
		v->pinned = fdcache_pin(fs, v->node) == 0;
		return;
	}
	v->ghost = malloc(sizeof(*v->ghost));
	if (v->ghost)
		v->ghost->stat = info.stat;
	fdcache_drop(fs, v->node);
}

static void victim_finish(struct fs *fs, struct victim *v, struct node *parent, const char *name, uint32_t path,
	bool removed)
{
	if (!v->node)
		return;
	pthread_mutex_lock(&fs->nodes->lock);
	if (removed && v->ghost && !v->node->ghost) {
		v->ghost->stat.st_nlink = 0;
		clock_gettime(CLOCK_REALTIME_COARSE, &v->ghost->stat.st_ctim);
		v->node->ghost = steal_ptr(&v->ghost);
	}
	if (!removed && v->pinned)
		v->node->pinned = false;
	pthread_mutex_unlock(&fs->nodes->lock);
	free(v->ghost);
	if (removed)
		node_unname(fs, parent, name, path, v->gone);
	node_unref(fs, v->node);
}

static int64_t remove_name(struct fs *fs, struct call *c, int flags)
{
	struct victim victim;
	struct fdref dir;
	int err = fdref_get(fs, c->parent, &dir);

	if (err < 0)
		return err;
	victim_prepare(fs, c, dir.fd, c->parent, c->name, &victim);
	c->node_id = c->victim_id;
	err = FS_CALL(c, unlinkat(dir.fd, c->name, flags)) < 0 ? -errno : 0;
	victim_finish(fs, &victim, c->parent, c->name, c->path, err == 0);
	fdref_put(fs, &dir);
	return err;
}

int64_t do_unlink(struct fs *fs, struct call *c)
{
	return remove_name(fs, c, 0);
}

int64_t do_rmdir(struct fs *fs, struct call *c)
{
	return remove_name(fs, c, AT_REMOVEDIR);
}

/* --- rename -------------------------------------------------------------------------------------------------------- */

static void rename_nodes(struct fs *fs, struct call *c)
{
	bool dir = true;

	if (c->flags & RENAME_EXCHANGE)
		node_exchanged(fs, c->parent, c->name, c->parent2, c->name2);
	else
		dir = node_renamed(fs, c->parent, c->name, c->parent2, c->name2, c->path2);
	if (dir)
		path_bump_epoch(fs);
}

static int64_t rename_between(struct fs *fs, struct call *c, int from_fd, int to_fd)
{
	struct victim victim = {};
	struct node *node = node_by_name(fs, c->parent, c->name);
	int err;

	if (node) {
		c->node_id = node->id;
		node_unref(fs, node);
	}
	if (!(c->flags & RENAME_EXCHANGE))
		victim_prepare(fs, c, to_fd, c->parent2, c->name2, &victim);
	atomic_fetch_add(&fs->nodes->renaming, 1);
	err = FS_CALL(c, renameat2(from_fd, c->name, to_fd, c->name2, c->flags)) < 0 ? -errno : 0;
	victim_finish(fs, &victim, c->parent2, c->name2, c->path2, err == 0);
	if (err == 0)
		rename_nodes(fs, c);
	else if (c->flags & RENAME_WHITEOUT) /* ext4 has changed the directory already, and takes back the entry only */
		mount_attributes_changed(c->mount, c->parent);
	atomic_fetch_add(&fs->nodes->renames, 1);
	atomic_fetch_sub(&fs->nodes->renaming, 1);
	return err;
}

int64_t do_rename(struct fs *fs, struct call *c)
{
	struct fdref from, to;
	int64_t err = fdref_get(fs, c->parent, &from);

	if (err < 0)
		return err;
	err = fdref_get(fs, c->parent2, &to);
	if (err == 0) {
		err = rename_between(fs, c, from.fd, to.fd);
		fdref_put(fs, &to);
	}
	fdref_put(fs, &from);
	return err;
}
