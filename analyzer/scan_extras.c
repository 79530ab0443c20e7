/* SPDX-License-Identifier: MIT */
/* scan_extras.c - extended attributes and contents of what was there before a run. */
#include <fcntl.h>
#include <linux/limits.h>
#include <string.h>
#include <sys/xattr.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "beneath.h"
#include "content.h"
#include "scan_internal.h"

int scan_note_xattrs(struct scan *scan, uint64_t node)
{
	return map64_add(&scan->xattrs_set, XXH3_64bits(&node, sizeof(node)), 0);
}

static int store_xattr(struct scan *scan, const struct scan_object *object, const char *path, const char *name)
{
	char value[XATTR_SIZE_MAX];
	ssize_t got = lgetxattr(path, name, value, sizeof(value));
	int err;

	if (got < 0)
		return 0; /* gone, or not for us to read */
	trace_reset(scan->add_xattr);
	err = trace_bind_int(scan->add_xattr, 1, scan->run);
	err = err ?: trace_bind_int(scan->add_xattr, 2, object->path);
	err = err ?: trace_bind_text(scan->add_xattr, 3, name);
	err = err ?: trace_bind_blob(scan->add_xattr, 4, value, (size_t)got);
	scan->pending += got;
	return err ?: trace_step(scan->add_xattr);
}

static int store_xattrs(struct scan *scan, const struct scan_object *object)
{
	struct beneath_at at = beneath_at(object->dir_fd, object->name);
	char names[XATTR_LIST_MAX];
	uint64_t value;
	ssize_t got;
	int err = 0;

	if (scan->no_xattrs || map64_get(&scan->xattrs_set, XXH3_64bits(&object->node, sizeof(object->node)), &value))
		return 0;
	got = llistxattr(at.text, names, sizeof(names));
	if (got < 0 && errno == ENOTSUP)
		scan->no_xattrs = true;
	for (ssize_t i = 0; i < got && err == 0; i += (ssize_t)strlen(names + i) + 1)
		err = store_xattr(scan, object, at.text, names + i);
	return err;
}

static int store_piece(struct scan *scan, uint32_t path, int64_t offset, size_t len)
{
	struct content_hash hash;
	int err;

	content_hash(scan->buf, len, &hash);
	err = trace_add_content(scan->trace, &hash, scan->buf, (uint32_t)len);
	if (err < 0)
		return err;
	trace_reset(scan->add_data);
	err = trace_bind_int(scan->add_data, 1, scan->run);
	err = err ?: trace_bind_int(scan->add_data, 2, path);
	err = err ?: trace_bind_int(scan->add_data, 3, offset);
	err = err ?: trace_bind_int(scan->add_data, 4, (int64_t)len);
	err = err ?: trace_bind_blob(scan->add_data, 5, hash.bytes, sizeof(hash.bytes));
	scan->pending += (int64_t)len;
	return err ?: trace_step(scan->add_data);
}

static int read_piece(int fd, char *buf, off_t offset, ssize_t *ret_len)
{
	ssize_t got, len = 0;

	do {
		got = pread(fd, buf + len, CONTENT_PIECE - (size_t)len, offset + len);
		len += got > 0 ? got : 0;
	} while ((got > 0 && len < (ssize_t)CONTENT_PIECE) || (got < 0 && errno == EINTR));
	*ret_len = len;
	return got < 0 ? -errno : 0;
}

/* Pieces begin at multiples of their size; a piece that is all hole is left out. */
static int store_contents(struct scan *scan, const struct scan_object *object)
{
	int auto_close fd = -1;
	off_t offset = 0;
	int err = beneath_open(object->dir_fd, object->name, O_RDONLY, 0, &fd);

	if (err < 0) {
		scan->unread++;
		return 0;
	}
	for (;;) {
		off_t data = lseek(fd, offset, SEEK_DATA);
		ssize_t len;

		if (data < 0 && errno == ENXIO)
			return 0;
		if (data > offset)
			offset = data - data % CONTENT_PIECE;
		if (read_piece(fd, scan->buf, offset, &len) < 0) {
			scan->unread++;
			return 0;
		}
		if (len == 0)
			return 0;
		err = store_piece(scan, object->path, offset, (size_t)len);
		if (err < 0)
			return err;
		offset += len;
	}
}

int scan_extras(struct scan *scan, const struct scan_object *object)
{
	const uint64_t inode[2] = { object->st->st_dev, object->st->st_ino };
	int err = 1;

	if (object->st->st_nlink > 1 && !S_ISDIR(object->st->st_mode))
		err = map64_add(&scan->extras_done, XXH3_64bits(inode, sizeof(inode)), 0);
	if (err <= 0)
		return err;
	err = store_xattrs(scan, object);
	if (err == 0 && scan->options->contents && S_ISREG(object->st->st_mode))
		err = store_contents(scan, object);
	return err;
}
