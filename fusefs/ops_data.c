/* SPDX-License-Identifier: MIT */
/* ops_data.c - open files and what is in them. */
#include <fcntl.h>
#include <sys/uio.h>

#include "fdcache.h"
#include "handle.h"
#include "lock.h"
#include "node.h"
#include "worker.h"

/*
 * Flags of the descriptor below. O_APPEND is left out: the kernel writes dirty pages of a mapping through any descriptor
 * of the file, at their own place. O_DIRECT too: requests have no alignment that could be promised, and mappings of the
 * same file would not see direct writes.
 */
static int backing_flags(const struct fs *fs, uint32_t flags)
{
	return (handle_flags(fs, (int)flags) & ~(O_APPEND | O_DIRECT | O_CREAT | O_EXCL | O_NOFOLLOW)) | O_CLOEXEC |
	       O_NOCTTY | O_NONBLOCK;
}

/*
 * By its name, when it has no descriptor yet: one call instead of two. The name may mean another file by now, so the
 * file is compared; O_TRUNC must not come so far. -ESTALE: do it the long way.
 */
static int open_by_name(struct fs *fs, struct call *c, int flags)
{
	struct inode_info info;
	struct node *parent;
	struct fdref dir;
	char name[256];
	int fd, err = flags & O_TRUNC ? -ESTALE : node_where(fs, c->node, &parent, name);

	if (err < 0)
		return err;
	err = fdref_get(fs, parent, &dir);
	if (err == 0) {
		fd = FS_CALL(c, openat(dir.fd, name, flags | O_NOFOLLOW));
		err = fd < 0 ? -errno : fd;
		fdref_put(fs, &dir);
	}
	node_unref(fs, parent);
	if (err >= 0 && (inode_info_at(err, "", &info) < 0 || !node_is(c->node, &info))) {
		close(err);
		err = -ESTALE;
	}
	return err;
}

static int open_by_descriptor(struct fs *fs, struct call *c, int flags)
{
	struct proc_path path;
	struct fdref ref;
	int fd, err = fdref_get(fs, c->node, &ref);

	if (err < 0)
		return err;
	path = fdref_path(&ref);
	do
		fd = FS_CALL(c, open(path.text, flags));
	while (fd < 0 && errno == EMFILE && fdcache_relieve(fs));
	err = fd < 0 ? -errno : fd;
	fdref_put(fs, &ref);
	return err;
}

int64_t do_open(struct fs *fs, struct call *c)
{
	int flags = backing_flags(fs, c->flags);
	int fd;

	if (fdcache_full(fs))
		return -EMFILE;
	fd = open_by_name(fs, c, flags);
	if (fd == -ESTALE || fd == -ENOENT || fd == -ELOOP || fd == -EMFILE || fd == -ENXIO)
		fd = open_by_descriptor(fs, c, flags);
	if (fd < 0)
		return fd;
	c->fh = handle_new(fs, c->node, fd, c->process);
	if (!c->fh)
		return -ENOMEM;
	c->fh_id = c->fh->id;
	handle_answer(fs, c);
	return 0;
}

int64_t do_read(struct fs *fs, struct call *c)
{
	ssize_t got;

	(void)fs;
	c->buf = worker_buffer();
	if (!c->buf || c->length > WORKER_BUFFER_SIZE)
		return -ENOMEM;
	got = FS_CALL(c, pread(c->fh->fd, c->buf, c->length, c->offset));
	return got < 0 ? -errno : got;
}

/* Where an append began: the kernel may have believed the end to be elsewhere. It writes one thing at a time to a file. */
static void note_append(struct call *c, ssize_t got)
{
	struct stat st;

	if (got > 0 && fstat(c->fh->fd, &st) == 0 && st.st_size >= got)
		c->offset = st.st_size - got;
}

/*
 * An append goes to the end as it is now, wherever the kernel believed it to be; a dirty page of a mapping that is
 * written through a descriptor opened for appending goes to its place.
 */
int64_t do_write(struct fs *fs, struct call *c)
{
	bool append = (c->fi->flags & O_APPEND) && !c->fi->writepage;
	struct iovec iov = { (void *)(uintptr_t)c->data, c->length };
	ssize_t got = FS_CALL(c, pwritev2(c->fh->fd, &iov, 1, c->offset, append ? RWF_APPEND : 0));

	if (append && fs->recorder)
		note_append(c, got);
	return got < 0 ? -errno : got;
}

/* close(2) of a duplicate is what lets a network filesystem below report errors of earlier writes. */
int64_t do_flush(struct fs *fs, struct call *c)
{
	int fd = dup(c->fh->fd);
	int err = fd < 0 ? 0 : FS_CALL(c, close(fd)) < 0 ? -errno : 0; /* without a descriptor to spare: at release */

	c->had_locks = lock_drop_owner(fs, c->node, c->lock_owner);
	return err;
}

/* Of a removed file: who still holds it without having it open goes on to see it as it was at the end. */
static void refresh_ghost(struct fs *fs, struct handle *handle)
{
	struct node *node = handle->node;
	struct inode_info info;
	bool is_ghost;

	pthread_mutex_lock(&fs->nodes->lock);
	is_ghost = node->gone && node->ghost;
	pthread_mutex_unlock(&fs->nodes->lock);
	if (!is_ghost || inode_info_at(handle->fd, "", &info) < 0)
		return;
	pthread_mutex_lock(&fs->nodes->lock);
	node->ghost->stat = info.stat;
	pthread_mutex_unlock(&fs->nodes->lock);
}

int64_t do_release(struct fs *fs, struct call *c)
{
	refresh_ghost(fs, c->fh);
	lock_drop_handle(fs, c->node, c->fh->id);
	handle_release(fs, c, c->fh);
	return 0;
}

int64_t do_fsync(struct fs *fs, struct call *c)
{
	int result = c->flags ? FS_CALL(c, fdatasync(c->fh->fd)) : FS_CALL(c, fsync(c->fh->fd));

	(void)fs;
	return result < 0 ? -errno : 0;
}

int64_t do_fallocate(struct fs *fs, struct call *c)
{
	(void)fs;
	return FS_CALL(c, fallocate(c->fh->fd, (int)c->mode, c->offset, (off_t)c->length)) < 0 ? -errno : 0;
}

int64_t do_lseek(struct fs *fs, struct call *c)
{
	off_t result = FS_CALL(c, lseek(c->fh->fd, c->offset, (int)c->flags));

	(void)fs;
	return result < 0 ? -errno : result;
}

int64_t do_copy_file_range(struct fs *fs, struct call *c)
{
	off_t in = c->offset, out = c->offset2;
	ssize_t got = FS_CALL(c, copy_file_range(c->fh->fd, &in, c->fh2->fd, &out, c->length, c->flags));

	(void)fs;
	return got < 0 ? -errno : got;
}
