/* SPDX-License-Identifier: MIT */
/*
 * ops_xattr.c - extended attributes: of an open file by its descriptor, else by /proc/self/fd/N, as O_PATH descriptors do
 * not take f*xattr(2). The latter takes three times as long, and each new file is asked for security.capability once.
 */
#include <sys/xattr.h>

#include "fdcache.h"
#include "node.h"
#include "worker.h"

static int set(const struct fdref *ref, const struct call *c)
{
	if (ref->handle)
		return fsetxattr(ref->fd, c->name, c->data, c->length, (int)c->flags);
	return setxattr(fdref_path(ref).text, c->name, c->data, c->length, (int)c->flags);
}

static int remove_one(const struct fdref *ref, const char *name)
{
	return ref->handle ? fremovexattr(ref->fd, name) : removexattr(fdref_path(ref).text, name);
}

static ssize_t get_one(const struct fdref *ref, const struct call *c)
{
	if (ref->handle)
		return fgetxattr(ref->fd, c->name, c->buf, c->length);
	return getxattr(fdref_path(ref).text, c->name, c->buf, c->length);
}

static ssize_t list(const struct fdref *ref, const struct call *c)
{
	if (ref->handle)
		return flistxattr(ref->fd, c->buf, c->length);
	return listxattr(fdref_path(ref).text, c->buf, c->length);
}

int64_t do_setxattr(struct fs *fs, struct call *c)
{
	struct fdref ref;
	int err = fdref_get(fs, c->node, &ref);

	if (err < 0)
		return err;
	err = FS_CALL(c, set(&ref, c)) < 0 ? -errno : 0;
	fdref_put(fs, &ref);
	return err;
}

int64_t do_removexattr(struct fs *fs, struct call *c)
{
	struct fdref ref;
	int err = fdref_get(fs, c->node, &ref);

	if (err < 0)
		return err;
	err = FS_CALL(c, remove_one(&ref, c->name)) < 0 ? -errno : 0;
	fdref_put(fs, &ref);
	return err;
}

/* The value of c->name, or the list of names when it is NULL; only its size when c->length is 0. */
static int64_t get(struct fs *fs, struct call *c)
{
	struct fdref ref;
	ssize_t got;
	int err = fdref_get(fs, c->node, &ref);

	if (err < 0)
		return err;
	c->buf = worker_buffer();
	if (!c->buf || c->length > WORKER_BUFFER_SIZE) {
		err = -ENOMEM;
	} else {
		got = c->name ? FS_CALL(c, get_one(&ref, c)) : FS_CALL(c, list(&ref, c));
		err = got < 0 ? -errno : (int)got;
	}
	fdref_put(fs, &ref);
	return err;
}

int64_t do_getxattr(struct fs *fs, struct call *c)
{
	return get(fs, c);
}

int64_t do_listxattr(struct fs *fs, struct call *c)
{
	return get(fs, c);
}
