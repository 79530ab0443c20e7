/* SPDX-License-Identifier: MIT */
#include "handle.h"

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
	FS_CALL(c, (handle_put(fs, handle), 0));
}

void handle_free_list(struct handle *handles)
{
	while (handles) {
		struct handle *handle = handles;

		handles = handle->next;
		close(handle->fd);
		dir_stream_free(handle->dir);
		free(handle);
	}
}
