/* SPDX-License-Identifier: MIT */
#include "node.h"

#include <fcntl.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "fdcache.h"
#include "handle.h"
#include "path.h"

#define MIN_BITS 10
#define WANTED_MS 1000u

static size_t bucket_of_inode(const struct node_table *table, dev_t dev, uint64_t ino)
{
	uint64_t key = (ino ^ (uint64_t)dev << 32) * 0x9e3779b97f4a7c15ull; /* Fibonacci hashing */

	return key >> (64 - table->bits);
}

static size_t bucket_of_name(const struct node_table *table, const struct node *parent, const char *name)
{
	return XXH3_64bits_withSeed(name, strlen(name), parent->id) >> (64 - table->bits);
}

int node_table_new(struct node_table **ret_table)
{
	struct node_table *table = calloc(1, sizeof(*table));

	if (!table)
		return -ENOMEM;
	table->bits = MIN_BITS;
	table->by_inode = calloc((size_t)1 << MIN_BITS, sizeof(struct node *));
	table->by_name = calloc((size_t)1 << MIN_BITS, sizeof(struct node *));
	if (!table->by_inode || !table->by_name) {
		free(table->by_inode);
		free(table->by_name);
		free(table);
		return -ENOMEM;
	}
	pthread_mutex_init(&table->lock, NULL);
	*ret_table = table;
	return 0;
}

static void hash_inode(struct node_table *table, struct node *node)
{
	struct node **head = &table->by_inode[bucket_of_inode(table, node->dev, node->ino)];

	node->hash_next = *head;
	*head = node;
}

static void hash_name(struct node_table *table, struct node *node)
{
	struct node **head = &table->by_name[bucket_of_name(table, node->parent, node->name)];

	node->name_next = *head;
	*head = node;
}

static void unhash_inode(struct node_table *table, struct node *node)
{
	struct node **link = &table->by_inode[bucket_of_inode(table, node->dev, node->ino)];

	while (*link && *link != node)
		link = &(*link)->hash_next;
	if (*link)
		*link = node->hash_next;
}

static void unhash_name(struct node_table *table, struct node *node)
{
	struct node **link = &table->by_name[bucket_of_name(table, node->parent, node->name)];

	while (*link && *link != node)
		link = &(*link)->name_next;
	if (*link)
		*link = node->name_next;
}

/* Buckets follow the number of nodes, both ways: after a big tree is gone its memory is given back. */
static void resize(struct node_table *table, unsigned int bits)
{
	size_t old = (size_t)1 << table->bits;
	struct node **old_inode = table->by_inode, **old_name = table->by_name;
	struct node **by_inode = calloc((size_t)1 << bits, sizeof(struct node *));
	struct node **by_name = calloc((size_t)1 << bits, sizeof(struct node *));

	if (!by_inode || !by_name) { /* longer chains then */
		free(by_inode);
		free(by_name);
		return;
	}
	table->by_inode = by_inode;
	table->by_name = by_name;
	table->bits = bits;
	for (size_t i = 0; i < old; i++) {
		for (struct node *node = old_inode[i], *next; node; node = next) {
			next = node->hash_next;
			hash_inode(table, node);
		}
		for (struct node *node = old_name[i], *next; node; node = next) {
			next = node->name_next;
			hash_name(table, node);
		}
	}
	free(old_inode);
	free(old_name);
}

static void resize_if_due(struct node_table *table)
{
	size_t buckets = (size_t)1 << table->bits;

	if (table->count > buckets)
		resize(table, table->bits + 1);
	else if (table->bits > MIN_BITS && table->count < buckets / 8)
		resize(table, table->bits - 1);
}

static struct node *find_inode(struct node_table *table, const struct inode_info *info)
{
	struct node *node =
		table->by_inode[bucket_of_inode(table, info->stat.st_dev, info->stat.st_ino)];

	while (node && (node->gone || node->ino != info->stat.st_ino || node->dev != info->stat.st_dev))
		node = node->hash_next;
	return node;
}

static struct node *find_name(struct node_table *table, const struct node *parent, const char *name)
{
	struct node *node = table->by_name[bucket_of_name(table, parent, name)];

	while (node && (node->parent != parent || strcmp(node->name, name) != 0))
		node = node->name_next;
	return node;
}

/* The caller frees what comes back in `garbage`, without the lock: parents of the last child may go too. */
static void drop_ref(struct fs *fs, struct node *node, struct node **garbage)
{
	struct node_table *table = fs->nodes;

	while (node && --node->refs == 0 && node->lookups == 0 && node != table->root) {
		struct node *parent = node->parent;

		unhash_inode(table, node);
		if (parent)
			unhash_name(table, node);
		fdcache_detach(fs, node);
		table->count--;
		node->hash_next = *garbage;
		*garbage = node;
		node = parent;
	}
}

static void free_garbage(struct call *c, struct node *garbage)
{
	struct call aside = {};

	while (garbage) {
		struct node *next = garbage->hash_next;

		if (garbage->fd >= 0)
			FS_CALL(c ?: &aside, close(garbage->fd));
		path_dir_text_free(garbage->dir_text);
		free(garbage->file_handle);
		free(garbage->ghost);
		free(garbage->name);
		free(garbage);
		garbage = next;
	}
}

void node_ref(struct fs *fs, struct node *node)
{
	pthread_mutex_lock(&fs->nodes->lock);
	node->refs++;
	pthread_mutex_unlock(&fs->nodes->lock);
}

void node_unref(struct fs *fs, struct node *node)
{
	struct node *garbage = NULL;

	pthread_mutex_lock(&fs->nodes->lock);
	drop_ref(fs, node, &garbage);
	resize_if_due(fs->nodes);
	pthread_mutex_unlock(&fs->nodes->lock);
	free_garbage(NULL, garbage);
}

bool node_forget(struct fs *fs, struct call *c, struct node *node, uint64_t count)
{
	struct node *garbage = NULL;
	bool gone;

	pthread_mutex_lock(&fs->nodes->lock);
	node->lookups -= count < node->lookups ? count : node->lookups;
	node->refs++; /* for drop_ref() to take */
	drop_ref(fs, node, &garbage);
	gone = garbage != NULL;
	resize_if_due(fs->nodes);
	pthread_mutex_unlock(&fs->nodes->lock);
	free_garbage(c, garbage);
	return gone;
}

static uint32_t now_ms(void)
{
	return (uint32_t)(clock_ns(CLOCK_MONOTONIC_COARSE) / 1000000);
}

void node_looked_up(struct node *node, pid_t tid)
{
	uint32_t now = now_ms();
	uint32_t before = atomic_exchange_explicit(&node->looker, (uint32_t)tid, memory_order_relaxed);

	if (before && before != (uint32_t)tid)
		atomic_store_explicit(&node->contested_ms,
			atomic_load_explicit(&node->looked_ms, memory_order_relaxed), memory_order_relaxed);
	atomic_store_explicit(&node->looked_ms, now, memory_order_relaxed);
}

bool node_is_wanted(const struct node *node, pid_t tid)
{
	uint32_t now = now_ms();
	uint32_t looker = atomic_load_explicit(&node->looker, memory_order_relaxed);

	if (!looker)
		return false;
	if (looker != (uint32_t)tid)
		return now - atomic_load_explicit(&node->looked_ms, memory_order_relaxed) < WANTED_MS;
	return now - atomic_load_explicit(&node->contested_ms, memory_order_relaxed) < WANTED_MS;
}

/* Takes the node's name away; the reference to its parent is the caller's to drop. */
static struct node *take_name(struct node_table *table, struct node *node)
{
	struct node *parent = node->parent;

	if (!parent)
		return NULL;
	unhash_name(table, node);
	free(node->name);
	node->name = NULL;
	node->parent = NULL;
	return parent;
}

/* The node right below `top` on the way up from `node`, or NULL when that way does not lead there. */
static struct node *below_on_the_way(const struct node *top, struct node *node)
{
	while (node && node->parent != top)
		node = node->parent;
	return node;
}

/*
 * Takes over `name`. Directories that were moved behind our back may have changed places, one being below the other now:
 * what was known of the way down from `node` to its new parent is out of date then, and must not close a circle. The
 * caller does not count on `node` to be alive afterwards, but for its memory, which is in `garbage` at worst.
 */
static void give_name(struct fs *fs, struct node *node, struct node *parent, char *name, struct node **garbage)
{
	struct node_table *table = fs->nodes;
	struct node *stale = node->type == S_IFDIR ? below_on_the_way(node, parent) : NULL;
	struct node *old = take_name(table, node);

	if (stale) {
		stale->unnamed = true;
		take_name(table, stale);
	}
	node->unnamed = parent == node; /* a directory in itself: another one has come behind our back */
	if (node->unnamed) {
		free(name);
	} else {
		node->parent = parent;
		node->name = name;
		parent->refs++;
		hash_name(table, node);
	}
	if (old)
		drop_ref(fs, old, garbage);
	if (stale)
		drop_ref(fs, node, garbage);
}

static struct node *node_new(struct node_table *table, const struct inode_info *info)
{
	struct node *node = calloc(1, sizeof(*node));

	if (!node)
		return NULL;
	node->id = ++table->last_id;
	node->ino = info->stat.st_ino;
	node->dev = info->stat.st_dev;
	node->btime_ns = info->btime_ns;
	node->type = info->stat.st_mode & S_IFMT;
	node->fd = -1;
	table->count++;
	hash_inode(table, node);
	return node;
}

int node_make_root(struct fs *fs, const struct inode_info *info)
{
	struct node *root = node_new(fs->nodes, info);

	if (!root)
		return -ENOMEM;
	root->refs = root->lookups = 1;
	root->fd = fs->source_fd;
	fs->nodes->root = root;
	return 0;
}

/* The same number, but another inode: the old one was removed behind our back. */
static bool is_other_inode(const struct node *node, const struct inode_info *info)
{
	return node->type != (info->stat.st_mode & S_IFMT) ||
	       (node->btime_ns && info->btime_ns && node->btime_ns != info->btime_ns);
}

int node_lookup(struct fs *fs, struct node *parent, const char *name, const struct inode_info *info, uint32_t path,
	uint32_t process, struct node **ret_node, bool *ret_fresh)
{
	struct node_table *table = fs->nodes;
	struct node *node, *other, *garbage = NULL;
	char *copy = strdup(name);
	bool fresh = false, renamed = false;

	if (!copy)
		return -ENOMEM;
	pthread_mutex_lock(&table->lock);
	node = find_inode(table, info);
	if (node && is_other_inode(node, info)) {
		node->gone = true;
		node = NULL;
	}
	if (!node) {
		node = node_new(table, info);
		fresh = true;
	}
	if (node) {
		node->lookups++;
		node->process = process;
		other = find_name(table, parent, name);
		if (other && other != node) { /* replaced behind our back */
			other->unnamed = true;
			drop_ref(fs, take_name(table, other), &garbage);
		}
		if (node != table->root && other != node) {
			give_name(fs, node, parent, steal_ptr(&copy), &garbage);
			node->pinned = false;
			node->path = 0;
			renamed = true;
		}
		if (path && node != table->root) {
			node->path = path;
			node->path_epoch = path_epoch(fs);
		}
		resize_if_due(table);
	}
	pthread_mutex_unlock(&table->lock);
	free(copy);
	free_garbage(NULL, garbage);
	if (!node)
		return -ENOMEM;
	*ret_node = node;
	if (ret_fresh)
		*ret_fresh = fresh || renamed;
	return 0;
}

struct node *node_by_name(struct fs *fs, struct node *parent, const char *name)
{
	struct node *node;

	pthread_mutex_lock(&fs->nodes->lock);
	node = find_name(fs->nodes, parent, name);
	if (node)
		node->refs++;
	pthread_mutex_unlock(&fs->nodes->lock);
	return node;
}

int node_where(struct fs *fs, struct node *node, struct node **ret_parent, char name[static 256])
{
	int err = -ESTALE;

	pthread_mutex_lock(&fs->nodes->lock);
	if (node->parent && strlen(node->name) < 256) {
		node->parent->refs++;
		*ret_parent = node->parent;
		strcpy(name, node->name);
		err = 0;
	}
	pthread_mutex_unlock(&fs->nodes->lock);
	return err;
}

void node_unname(struct fs *fs, struct node *parent, const char *name, uint32_t path, bool gone)
{
	struct node *node, *garbage = NULL;

	pthread_mutex_lock(&fs->nodes->lock);
	node = find_name(fs->nodes, parent, name);
	if (node) {
		node->unnamed = true;
		node->gone |= gone;
		node->path = path;
		drop_ref(fs, take_name(fs->nodes, node), &garbage);
	}
	pthread_mutex_unlock(&fs->nodes->lock);
	free_garbage(NULL, garbage);
}

bool node_renamed(struct fs *fs, struct node *parent, const char *name, struct node *parent2, const char *name2,
	uint32_t path2)
{
	struct node *node, *garbage = NULL;
	char *copy = strdup(name2);
	bool dir = true;

	pthread_mutex_lock(&fs->nodes->lock);
	node = find_name(fs->nodes, parent, name);
	if (node && !copy) { /* found again by its next look-up */
		node->unnamed = true;
		drop_ref(fs, take_name(fs->nodes, node), &garbage);
	} else if (node) {
		dir = node->type == S_IFDIR;
		give_name(fs, node, parent2, steal_ptr(&copy), &garbage);
		node->path = path2;
		node->path_epoch = path_epoch(fs);
	}
	pthread_mutex_unlock(&fs->nodes->lock);
	free(copy);
	free_garbage(NULL, garbage);
	return dir;
}

void node_exchanged(struct fs *fs, struct node *parent, const char *name, struct node *parent2, const char *name2)
{
	struct node *a, *b, *garbage = NULL;
	char *copy_a = strdup(name2), *copy_b = strdup(name);

	pthread_mutex_lock(&fs->nodes->lock);
	a = find_name(fs->nodes, parent, name);
	b = find_name(fs->nodes, parent2, name2);
	if (a && copy_a) {
		give_name(fs, a, parent2, steal_ptr(&copy_a), &garbage);
		a->path = 0;
	}
	if (b && copy_b) {
		give_name(fs, b, parent, steal_ptr(&copy_b), &garbage);
		b->path = 0;
	}
	pthread_mutex_unlock(&fs->nodes->lock);
	free(copy_a);
	free(copy_b);
	free_garbage(NULL, garbage);
}

void node_table_free(struct fs *fs)
{
	struct node_table *table = fs->nodes;

	if (!table)
		return;
	for (size_t i = 0; i < (size_t)1 << table->bits; i++) {
		struct node *garbage = table->by_inode[i];

		for (struct node *node = garbage; node; node = node->hash_next) {
			handle_free_list(node->handles);
			if (node == table->root)
				node->fd = -1; /* source_fd is the mount's own */
		}
		free_garbage(NULL, garbage);
	}
	free(table->by_inode);
	free(table->by_name);
	pthread_mutex_destroy(&table->lock);
	free(table);
	fs->nodes = NULL;
}
