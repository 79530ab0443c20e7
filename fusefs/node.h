/* SPDX-License-Identifier: MIT */
/*
 * node.h - the inodes that the kernel knows of.
 *
 * Four kinds of number meet here:
 *   ino, dev   the real filesystem's; what users see (st_ino), but for subvolumes: entry_ino()
 *   nodeid     what the kernel calls the inode in requests: the address of its struct node, 1 for a mount's root
 *   id         ours: counts up, never used twice in a run; recorded, and given to the kernel as the generation, so
 *              that an address that is used again is not taken for the old inode
 *   path id    of path.h, as the node was called last
 *
 * A node lives while the kernel counts look-ups of it (`lookups`, paid back by FORGET) or something here refers to it
 * (`refs`: its children, its open handles, work under way). It is found by (dev, ino), so that all hard links are one
 * node, and by (parent, name), the name it was last seen under: names are how descriptors are opened again, and how
 * unlink and rename find the inode that they act on. The kernel holds the directories' locks while it waits for us, so
 * name changes through the mount arrive in the order in which they happen below.
 *
 * One mutex guards the table, the names and the descriptor cache. It is held for memory work alone: never over a
 * system call or a reply.
 */
#ifndef FSTAPE_NODE_H
#define FSTAPE_NODE_H

#include <pthread.h>

#include "fs.h"

struct file_handle; /* linux: of name_to_handle_at(2) */

/* Keep it small: a tree of a million files has a million of them (256 bytes each is the limit, name included). */
struct node {
	struct node *hash_next;
	struct node *name_next;
	struct node *parent; /* NULL: the root, or no name is known any more */
	char *name;
	struct node *lru_prev, *lru_next;
	struct file_handle *file_handle; /* NULL: not asked for yet, or not to be had */
	struct handle *handles;		 /* open ones */
	struct ghost *ghost;		 /* attributes of an inode whose last name is gone and that nobody had open */
	struct dir_text *dir_text;	 /* path.c's, of directories */
	uint64_t id;
	uint64_t ino;
	dev_t dev;
	int64_t btime_ns; /* tells an inode from the next one of the same number; 0: the filesystem has none */
	uint64_t lookups;
	uint32_t refs;
	int fd;		   /* O_PATH, or -1 */
	uint32_t fd_users; /* the descriptor is in use: not to be closed */
	uint32_t path, path_epoch;
	uint32_t process; /* who asked for it last: FORGET has no caller */
	/* whose look-up was answered last and when, and when last another's was too: see node_is_wanted() */
	_Atomic uint32_t looker, looked_ms, contested_ms;
	uint16_t type;	  /* st_mode & S_IFMT */
	bool pinned;	  /* its descriptor is the only way to it: not to be closed */
	bool unnamed;	  /* its last known name is gone; path stays what it was */
	bool gone;	  /* and the inode with it: the next one of this number is another */
	bool older;	  /* it was there before the run */
};

struct ghost {
	struct stat stat;
};

struct node_table {
	pthread_mutex_t lock;
	struct node *root;
	struct node **by_inode, **by_name; /* 2^bits buckets each */
	unsigned int bits;
	size_t count;
	uint64_t last_id;
	_Atomic uint32_t renaming; /* renames between their system call and the change of the table */
	_Atomic uint32_t renames;  /* ended ones: who looked for a name meanwhile looks again */
};

/* What identifies an inode, and what its attributes are. */
struct inode_info {
	struct stat stat;
	int64_t btime_ns;
};

int node_table_new(struct node_table **ret_table);
void node_table_free(struct fs *fs);

/* The node of the mount's root; made once, never forgotten. */
int node_make_root(struct fs *fs, const struct inode_info *info);

/*
 * Finds or makes the node of an inode that was met as `name` in `parent`, and counts one look-up of the kernel.
 * `path` is its path id, 0 when that is not known yet. *ret_fresh (may be NULL): it was not known by this name.
 * -ENOMEM.
 */
int node_lookup(struct fs *fs, struct node *parent, const char *name, const struct inode_info *info, uint32_t path,
	uint32_t process, struct node **ret_node, bool *ret_fresh);

/*
 * Takes back `count` look-ups. Returns true when the node is gone with it. Closing its descriptor may free a removed
 * inode: that time is `c`'s (which may be NULL).
 */
bool node_forget(struct fs *fs, struct call *c, struct node *node, uint64_t count);

/*
 * Between the answer to a look-up and the request that it was made for (OPEN, SETATTR, ...) the kernel lets others remove
 * the name; below us the one who looked would hold the inode by then. node_looked_up() notes the look-up of thread
 * `tid`; node_is_wanted() tells whether another thread than `tid` had one within the last second.
 */
void node_looked_up(struct node *node, pid_t tid);
bool node_is_wanted(const struct node *node, pid_t tid);

void node_ref(struct fs *fs, struct node *node);
void node_unref(struct fs *fs, struct node *node);

/* The node last seen as `name` in `parent`, with a reference, or NULL. */
struct node *node_by_name(struct fs *fs, struct node *parent, const char *name);

/*
 * The node's parent, with a reference, and its name. -ESTALE when it has none.
 */
int node_where(struct fs *fs, struct node *node, struct node **ret_parent, char name[static 256]);

/*
 * The name, whose path id is `path`, is gone. `gone`: and with it the inode; a later one of the same number is another.
 */
void node_unname(struct fs *fs, struct node *parent, const char *name, uint32_t path, bool gone);

/*
 * `name` in `parent` is now `name2` in `parent2`; what was called that has been unnamed before. `path2` is the new path's
 * id. True when a directory has moved, or may have: paths below it have changed.
 */
bool node_renamed(struct fs *fs, struct node *parent, const char *name, struct node *parent2, const char *name2,
	uint32_t path2);

/* The two have changed places. */
void node_exchanged(struct fs *fs, struct node *parent, const char *name, struct node *parent2, const char *name2);

#endif
