/* SPDX-License-Identifier: MIT */
/* submount.c - finds what is mounted inside the source; declared in mount.h. */
#include <fcntl.h>
#include <linux/stat.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "check.h"
#include "fdcache.h"
#include "mount.h"
#include "mountinfo.h"
#include "node.h"

/* A child of `parent` as a node that stays: what the kernel has not looked up it does not forget either. */
static struct node *step(struct fs *fs, struct node *parent, int parent_fd, const char *name)
{
	struct inode_info info;
	struct node *node;

	if (inode_info_at(parent_fd, name, &info) < 0 || !S_ISDIR(info.stat.st_mode) ||
		node_lookup(fs, parent, name, &info, 0, 0, &node, NULL) < 0)
		return NULL;
	node_ref(fs, node);
	node_forget(fs, NULL, node, 1);
	return node;
}

/* The node of the directory `path` below the source, with a reference; NULL: it is none, or is hidden. */
static struct node *walk(struct fs *fs, const char *path)
{
	auto_free char *copy = strdup(path);
	struct node *node = fs->nodes->root;
	char *rest = copy, *name;

	node_ref(fs, node);
	while (copy && node && (name = strsep(&rest, "/"))) {
		struct node *child = NULL;
		struct fdref ref;

		if (!*name)
			continue;
		if (fdref_get(fs, node, &ref) == 0) {
			child = step(fs, node, ref.fd, name);
			fdref_put(fs, &ref);
		}
		node_unref(fs, node);
		node = child;
	}
	return node;
}

/* What is at the node is that mount, and not another one on top of it; and nothing that check.h warns of. */
static bool is_to_be_mounted(struct fs *fs, struct node *node, uint64_t mount_id)
{
	struct statx x = {};
	struct fdref ref;
	bool same;

	if (fdref_get(fs, node, &ref) < 0)
		return false;
	same = statx(ref.fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &x) == 0 && (x.stx_mask & STATX_MNT_ID) &&
	       x.stx_mnt_id == mount_id && !check_is_kernel_s_own(ref.fd);
	fdref_put(fs, &ref);
	return same;
}

static void start_one(struct fs *fs, const struct mountinfo *entry, const char *below)
{
	auto_free char *mountpoint = NULL;
	struct node *root = walk(fs, below);
	struct mount *mount, **last = &fs->mounts;

	if (!root)
		return;
	if (!is_to_be_mounted(fs, root, entry->id) ||
		asprintf(&mountpoint, "%s/%s", fs->options.mountpoint, below) < 0) {
		node_unref(fs, root);
		return;
	}
	if (mount_new(fs, entry->mountpoint, mountpoint, root, &mount) == 0) {
		if (mount_start(mount) == 0) {
			while (*last)
				last = &(*last)->next;
			*last = mount;
			return; /* the reference is the mount's for good */
		}
		mount_free(mount);
	}
	log_msg("%s: is left without a device number of its own", mountpoint);
	node_unref(fs, root);
}

void submounts_start(struct fs *fs)
{
	const char *source = strcmp(fs->options.source, "/") == 0 ? "" : fs->options.source;
	size_t len = strlen(source);

	/* In the order of mounting: one inside another comes after it. */
	for (const struct mountinfo *entry = fs->source_mounts; entry; entry = entry->next)
		if (strncmp(entry->mountpoint, source, len) == 0 && entry->mountpoint[len] == '/' &&
			entry->mountpoint[len + 1])
			start_one(fs, entry, entry->mountpoint + len + 1);
}
