/* SPDX-License-Identifier: MIT */
#include "path.h"

#include <pthread.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "node.h"
#include "recorder.h"

#define CACHE_BITS 13
#define WAYS 4
#define TEXT_ROOM (PATH_TEXT_MAX + 256)

/* 128 bits of hash stand for (parent id, name): two paths are never mistaken for each other in practice. */
struct entry {
	XXH128_hash_t key;
	uint32_t id;
	uint32_t used; /* for which of the ways to replace */
};

struct path_table {
	pthread_mutex_t lock; /* of the cache; the texts of directories are under the node table's */
	uint64_t seed;
	uint32_t clock;
	_Atomic uint32_t epoch;
	struct entry cache[1 << CACHE_BITS][WAYS];
};

/* A directory's path, kept so that paths of its children are one copy away. */
struct dir_text {
	uint32_t id, epoch;
	uint32_t len;
	char text[];
};

int path_table_new(struct path_table **ret_table)
{
	struct path_table *table = calloc(1, sizeof(*table));

	if (!table)
		return -ENOMEM;
	pthread_mutex_init(&table->lock, NULL);
	table->seed = (uint64_t)clock_ns(CLOCK_REALTIME) ^ (uint64_t)(uintptr_t)table;
	atomic_init(&table->epoch, 1);
	*ret_table = table;
	return 0;
}

void path_table_free(struct fs *fs)
{
	if (!fs->paths)
		return;
	pthread_mutex_destroy(&fs->paths->lock);
	free(fs->paths);
	fs->paths = NULL;
}

uint32_t path_epoch(struct fs *fs)
{
	return fs->paths ? atomic_load_explicit(&fs->paths->epoch, memory_order_acquire) : 0;
}

void path_bump_epoch(struct fs *fs)
{
	if (fs->paths)
		atomic_fetch_add_explicit(&fs->paths->epoch, 1, memory_order_acq_rel);
}

void path_dir_text_free(struct dir_text *text)
{
	free(text);
}

static XXH128_hash_t key_of(const struct path_table *table, uint32_t parent, const char *name, size_t len)
{
	return XXH3_128bits_withSeed(name, len, table->seed + parent);
}

static uint32_t cache_find(struct path_table *table, XXH128_hash_t key)
{
	struct entry *ways = table->cache[key.low64 >> (64 - CACHE_BITS)];
	uint32_t id = 0;

	pthread_mutex_lock(&table->lock);
	for (int i = 0; i < WAYS && !id; i++)
		if (ways[i].id && XXH128_isEqual(ways[i].key, key)) {
			ways[i].used = ++table->clock;
			id = ways[i].id;
		}
	pthread_mutex_unlock(&table->lock);
	return id;
}

static void cache_put(struct path_table *table, XXH128_hash_t key, uint32_t id)
{
	struct entry *ways = table->cache[key.low64 >> (64 - CACHE_BITS)], *oldest = ways;

	pthread_mutex_lock(&table->lock);
	for (int i = 1; i < WAYS; i++)
		if (table->clock - ways[i].used > table->clock - oldest->used)
			oldest = &ways[i];
	*oldest = (struct entry){ key, id, ++table->clock };
	pthread_mutex_unlock(&table->lock);
}

/* Makes of a directory's text that of `name` in it; returns its length. */
static size_t join(char text[static TEXT_ROOM], size_t len, const char *name, size_t name_len)
{
	if (len + 1 + name_len > PATH_TEXT_MAX) {
		memcpy(text, "...", 3);
		len = 3;
	}
	if (len)
		text[len++] = '/';
	if (name_len > TEXT_ROOM - len)
		name_len = TEXT_ROOM - len;
	memcpy(text + len, name, name_len);
	return len + name_len;
}

/*
 * The directory's path id and, in `text`, its text; from what it keeps when that is of today's epoch. 0 when it keeps
 * nothing of use.
 */
static uint32_t kept_text(struct fs *fs, struct node *dir, char *text, size_t *ret_len)
{
	uint32_t id = 0;

	pthread_mutex_lock(&fs->nodes->lock);
	if (dir->dir_text && (dir->dir_text->epoch == path_epoch(fs) || dir->unnamed)) {
		id = dir->dir_text->id;
		*ret_len = dir->dir_text->len;
		memcpy(text, dir->dir_text->text, *ret_len);
	}
	pthread_mutex_unlock(&fs->nodes->lock);
	return id;
}

static void keep_text(struct fs *fs, struct node *dir, uint32_t epoch, uint32_t id, const char *text, size_t len)
{
	struct dir_text *kept = malloc(sizeof(*kept) + len);

	if (!kept)
		return;
	*kept = (struct dir_text){ .id = id, .epoch = epoch, .len = (uint32_t)len };
	memcpy(kept->text, text, len);
	pthread_mutex_lock(&fs->nodes->lock);
	free(dir->dir_text);
	dir->dir_text = kept;
	pthread_mutex_unlock(&fs->nodes->lock);
}

/*
 * The id of `name` in a directory whose id and text are known; the text becomes that of the name. 0 when the recorder
 * has no room.
 */
static uint32_t intern(struct fs *fs, uint32_t dir, char text[static TEXT_ROOM], size_t *len, const char *name)
{
	size_t name_len = strlen(name);
	XXH128_hash_t key = key_of(fs->paths, dir, name, name_len);
	uint32_t id = cache_find(fs->paths, key);

	*len = join(text, *len, name, name_len);
	if (!id) {
		id = recorder_path(fs->recorder, dir, text, *len);
		if (id)
			cache_put(fs->paths, key, id);
	}
	return id;
}

static uint32_t root_path(struct fs *fs)
{
	struct node *root = fs->nodes->root;
	uint32_t id = __atomic_load_n(&root->path, __ATOMIC_ACQUIRE);

	if (!id) {
		id = recorder_path(fs->recorder, 0, "", 0);
		__atomic_store_n(&root->path, id, __ATOMIC_RELEASE);
	}
	return id;
}

/* One level of dir_path(): `id` and the text are those of the parent of `dir`, and become its own. */
static uint32_t renew(struct fs *fs, struct node *dir, uint32_t epoch, uint32_t id, char *text, size_t *len)
{
	struct node *parent;
	char name[256];

	if (!id || node_where(fs, dir, &parent, name) < 0)
		return kept_text(fs, dir, text, len);
	id = intern(fs, id, text, len, name);
	keep_text(fs, dir, epoch, id, text, *len);
	node_unref(fs, parent);
	return id;
}

/*
 * A directory's path id and text. Ancestors whose texts are out of date are brought up to date from the top down, so
 * that a deep tree takes a list of them and not a deep stack.
 */
static uint32_t dir_path(struct fs *fs, struct node *dir, char text[static TEXT_ROOM], size_t *ret_len)
{
	struct node **chain = NULL, *node = dir, *parent;
	size_t depth = 0, room = 0;
	uint32_t epoch = path_epoch(fs), id = 0;
	char name[256];

	*ret_len = 0;
	while (node != fs->nodes->root && !(id = kept_text(fs, node, text, ret_len))) {
		if (node_where(fs, node, &parent, name) < 0) {
			id = kept_text(fs, node, text, ret_len); /* it may have lost its name in between */
			break;
		}
		if (depth == room) {
			struct node **grown = realloc(chain, (room = room * 2 + 16) * sizeof(*chain));

			if (!grown) {
				node_unref(fs, parent);
				break;
			}
			chain = grown;
		}
		chain[depth++] = node; /* held by the reference that the level below it has to it */
		node = parent;
	}
	if (node == fs->nodes->root)
		id = root_path(fs);
	/* `node` is where the walk ended; each chain[i] is below chain[i + 1]. */
	while (depth > 0) {
		id = renew(fs, chain[--depth], epoch, id, text, ret_len);
		node_unref(fs, node);
		node = chain[depth];
	}
	free(chain);
	return id;
}

uint32_t path_of_name(struct fs *fs, struct node *parent, const char *name)
{
	char text[TEXT_ROOM];
	size_t len = 0;
	uint32_t id;

	if (!fs->recorder)
		return 0;
	id = parent == fs->nodes->root ? root_path(fs) : kept_text(fs, parent, text, &len);
	id = id ?: dir_path(fs, parent, text, &len);
	return id ? intern(fs, id, text, &len, name) : 0;
}

/* What a node remembers, when it still holds. */
static uint32_t remembered(struct fs *fs, struct node *node)
{
	uint32_t id;

	pthread_mutex_lock(&fs->nodes->lock);
	id = node->unnamed || node->path_epoch == path_epoch(fs) ? node->path : 0;
	pthread_mutex_unlock(&fs->nodes->lock);
	return id;
}

uint32_t path_of_node(struct fs *fs, struct node *node)
{
	struct node *parent;
	char name[256];
	uint32_t id, epoch;

	if (!fs->recorder)
		return 0;
	if (node == fs->nodes->root)
		return root_path(fs);
	epoch = path_epoch(fs);
	id = remembered(fs, node);
	if (id)
		return id;
	if (node_where(fs, node, &parent, name) < 0)
		return remembered(fs, node); /* it may have lost its name in between */
	id = path_of_name(fs, parent, name);
	pthread_mutex_lock(&fs->nodes->lock);
	if (node->parent == parent && strcmp(node->name, name) == 0) { /* still */
		node->path = id;
		node->path_epoch = epoch;
	}
	pthread_mutex_unlock(&fs->nodes->lock);
	node_unref(fs, parent);
	return id;
}

uint32_t path_of_text(struct fs *fs, const char *text)
{
	return fs->recorder ? recorder_path(fs->recorder, 0, text, strlen(text)) : 0;
}

void path_remember(struct fs *fs, struct node *dir)
{
	char text[TEXT_ROOM];
	size_t len;

	if (fs->recorder)
		dir_path(fs, dir, text, &len);
}
