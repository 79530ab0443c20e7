/* SPDX-License-Identifier: MIT */
/* ops_dir.c - directories: streams, listings. */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#include "dir.h"
#include "entry.h"
#include "fdcache.h"
#include "handle.h"
#include "node.h"
#include "path.h"
#include "readahead.h"
#include "worker.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#define STREAM_BUFFER (32u << 10)

struct dir_stream {
	off_t offset; /* of the next entry */
	size_t pos, len;
	char buf[STREAM_BUFFER];
};

/* Nodes that the answer under way hands to the kernel. */
static _Thread_local struct {
	struct node **nodes;
	size_t count, room;
} handed_out;

struct dir_stream *dir_stream_new(void)
{
	struct dir_stream *stream = malloc(sizeof(*stream));

	if (stream)
		stream->offset = 0, stream->pos = stream->len = 0;
	return stream;
}

void dir_stream_free(struct dir_stream *stream)
{
	free(stream);
}

void dir_undo_lookups(struct fs *fs)
{
	for (size_t i = 0; i < handed_out.count; i++)
		node_forget(fs, NULL, handed_out.nodes[i], 1);
	handed_out.count = 0;
}

void dir_thread_end(void)
{
	free(handed_out.nodes);
	handed_out.nodes = NULL;
	handed_out.count = handed_out.room = 0;
}

static bool hand_out(struct node *node)
{
	if (handed_out.count == handed_out.room) {
		size_t room = handed_out.room * 2 + 64;
		struct node **grown = realloc(handed_out.nodes, room * sizeof(*grown));

		if (!grown)
			return false;
		handed_out.nodes = grown;
		handed_out.room = room;
	}
	handed_out.nodes[handed_out.count++] = node;
	return true;
}

int64_t do_opendir(struct fs *fs, struct call *c)
{
	struct fdref ref;
	int fd, err = fdcache_full(fs) ? -EMFILE : fdref_get(fs, c->node, &ref);

	if (err < 0)
		return err;
	do
		fd = FS_CALL(c, openat(ref.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	while (fd < 0 && errno == EMFILE && fdcache_relieve(fs));
	err = fd < 0 ? -errno : 0;
	fdref_put(fs, &ref);
	if (err < 0)
		return err;
	c->fh = handle_new(fs, c->node, fd, c->process);
	if (!c->fh)
		return -ENOMEM;
	c->fh_id = c->fh->id;
	c->fi->fh = (uintptr_t)c->fh;
	readahead_directory(fs->readahead, fd);
	if (fs->options.cache == CACHE_ALWAYS)
		c->fi->keep_cache = c->fi->cache_readdir = 1;
	return 0;
}

/* The next entry, which stays the next one until dir_advance(). 1, 0 at the end, or -errno. */
static int dir_peek(struct call *c, struct dir_stream *s, struct dirent64 **ret_entry)
{
	if (s->pos >= s->len) {
		ssize_t got = FS_CALL(c, getdents64(c->fh->fd, s->buf, sizeof(s->buf)));

		if (got <= 0)
			return got < 0 ? -errno : 0;
		s->pos = 0;
		s->len = (size_t)got;
	}
	*ret_entry = (struct dirent64 *)(void *)(s->buf + s->pos);
	return 1;
}

static void dir_advance(struct dir_stream *s, const struct dirent64 *entry)
{
	s->offset = entry->d_off;
	s->pos += entry->d_reclen;
}

/*
 * Going back to the start is passed on wherever the stream is: btrfs lists what was there when the directory was opened,
 * or when it was rewound last.
 */
static int dir_seek(struct call *c, struct dir_stream *s)
{
	if (s->offset == c->offset && c->offset != 0)
		return 0;
	if (lseek(c->fh->fd, c->offset, SEEK_SET) < 0)
		return -errno;
	s->offset = c->offset;
	s->pos = s->len = 0;
	return 0;
}

/* What a listing itself says of an entry. */
static struct stat listed_stat(const struct call *c, const struct dirent64 *entry)
{
	return (struct stat){
		.st_ino = entry_ino(c->mount, c->node->dev, entry->d_ino),
		.st_mode = (mode_t)DTTOIF(entry->d_type),
	};
}

/* Bytes used, or 0 when there is not room enough. */
static size_t add_plain(struct call *c, char *buf, size_t room, const struct dirent64 *entry)
{
	struct stat st = listed_stat(c, entry);
	size_t need = fuse_add_direntry(NULL, NULL, 0, entry->d_name, NULL, 0);

	if (need > room)
		return 0;
	return fuse_add_direntry(NULL, buf, room, entry->d_name, &st, entry->d_off);
}

/*
 * With everything about the inode, or not at all: an entry that has gone since it was listed is left out. The two dots
 * are listed without being looked up.
 */
static int add_plus(struct fs *fs, struct call *c, char *buf, size_t room, const struct dirent64 *entry)
{
	struct fuse_entry_param param = { .attr = listed_stat(c, entry) };
	const char *name = entry->d_name;
	size_t need = fuse_add_direntry_plus(NULL, NULL, 0, name, NULL, 0);
	struct inode_info info;
	struct node *node;
	bool fresh;

	if (need > room)
		return -ENOSPC;
	if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
		int err = FS_CALL(c, inode_info_at(c->fh->fd, name, &info));

		if (err == -ENOENT)
			return 0;
		err = err ?: node_lookup(fs, c->node, name, &info, 0, c->process, &node, &fresh);
		if (err < 0)
			return err;
		if (!hand_out(node)) {
			node_forget(fs, NULL, node, 1);
			return -ENOMEM;
		}
		if (fresh && fs->recorder)
			entry_initial(fs, c, &info, c->fh->fd, name, path_of_node(fs, node), c->node, node);
		param = entry_param(c->mount, node, &info);
	}
	return (int)fuse_add_direntry_plus(NULL, buf, room, name, &param, entry->d_off);
}

static void count_entry(struct call *c, const struct dirent64 *entry)
{
	c->listed++;
	c->listed_names += XXH3_64bits(entry->d_name, strlen(entry->d_name));
}

static int64_t list(struct fs *fs, struct call *c, bool plus)
{
	struct dir_stream *s = c->fh->dir ?: (c->fh->dir = dir_stream_new());
	size_t used = 0;
	int got;

	handed_out.count = 0;
	c->buf = worker_buffer();
	if (!s || !c->buf)
		return -ENOMEM;
	if (c->length > WORKER_BUFFER_SIZE)
		c->length = WORKER_BUFFER_SIZE;
	got = dir_seek(c, s);
	while (got >= 0) {
		struct dirent64 *entry = NULL;

		got = dir_peek(c, s, &entry);
		if (got <= 0)
			break;
		if (plus)
			got = add_plus(fs, c, c->buf + used, c->length - used, entry);
		else
			got = (int)add_plain(c, c->buf + used, c->length - used, entry) ?: -ENOSPC;
		if (got < 0)
			break;
		used += (size_t)got;
		if (got > 0)
			count_entry(c, entry);
		dir_advance(s, entry);
	}
	/* What was listed before an error counts; the error comes again with the next request. */
	return got < 0 && got != -ENOSPC && used == 0 ? got : (int64_t)used;
}

int64_t do_readdir(struct fs *fs, struct call *c)
{
	return list(fs, c, false);
}

int64_t do_readdirplus(struct fs *fs, struct call *c)
{
	return list(fs, c, true);
}

int64_t do_releasedir(struct fs *fs, struct call *c)
{
	handle_release(fs, c, c->fh);
	return 0;
}

int64_t do_fsyncdir(struct fs *fs, struct call *c)
{
	int result = c->flags ? FS_CALL(c, fdatasync(c->fh->fd)) : FS_CALL(c, fsync(c->fh->fd));

	(void)fs;
	return result < 0 ? -errno : 0;
}
