/* SPDX-License-Identifier: MIT */
#include "handle.h"

#include "backing.h"
#include "dir.h"
#include "fdcache.h"
#include "node.h"

struct handle *handle_new(struct fs *fs, struct node *node, int fd, uint32_t process)
{
	struct handle *handle = calloc(1, sizeof(*handle));

	if (!handle) {
		close(fd);
		return NULL;
	}
	handle->id = atomic_fetch_add(&fs->handle_ids, 1) + 1;
	handle->fd = fd;
	handle->node = node;
	handle->process = process;
	atomic_init(&handle->refs, 1);
	fdcache_handles(fs, 1);
	pthread_mutex_lock(&fs->nodes->lock);
	node->refs++;
	handle->next = node->handles;
	node->handles = handle;
	pthread_mutex_unlock(&fs->nodes->lock);
	return handle;
}

/* What the kernel keeps of earlier opens it does not use for a file that it reads by itself, and refuses to be told to. */
void handle_answer(struct fs *fs, struct call *c)
{
	c->fi->fh = (uintptr_t)c->fh;
	if (fs->options.data_passthrough)
		c->backing_id = backing_take(fs, c, c->fh);
	c->fi->keep_cache = fs->options.cache == CACHE_ALWAYS && !c->backing_id;
}

int handle_hold(struct handle *handle)
{
	atomic_fetch_add(&handle->refs, 1);
	return handle->fd;
}

static void unlist(struct fs *fs, struct handle *handle)
{
	struct handle **link;

	pthread_mutex_lock(&fs->nodes->lock);
	for (link = &handle->node->handles; *link && *link != handle; link = &(*link)->next)
		;
	if (*link)
		*link = handle->next;
	pthread_mutex_unlock(&fs->nodes->lock);
}

void handle_put(struct fs *fs, struct handle *handle)
{
	if (atomic_fetch_sub(&handle->refs, 1) != 1)
		return;
	close(handle->fd);
	fdcache_handles(fs, -1);
	node_unref(fs, handle->node);
	dir_stream_free(handle->dir);
	free(handle);
}

void handle_release(struct fs *fs, struct call *c, struct handle *handle)
{
	unlist(fs, handle);
	backing_drop(fs, c, handle);
	FS_CALL(c, (handle_put(fs, handle), 0));
}

void handle_free_list(struct handle *handles)
{
	while (handles) {
		struct handle *handle = handles;

		handles = handle->next;
		close(handle->fd);
		backing_free(handle);
		dir_stream_free(handle->dir);
		free(handle);
	}
}
