/* SPDX-License-Identifier: MIT */
/* ops_xattr.c - extended attributes, by /proc/self/fd/N: O_PATH descriptors do not take f*xattr(2). */
#include <sys/xattr.h>

#include "fdcache.h"
#include "node.h"
#include "worker.h"

int64_t do_setxattr(struct fs *fs, struct call *c)
{
	struct proc_path path;
	struct fdref ref;
	int err = fdref_get(fs, c->node, &ref);

	if (err < 0)
		return err;
	path = fdref_path(&ref);
	err = FS_CALL(c, setxattr(path.text, c->name, c->data, c->length, (int)c->flags)) < 0 ? -errno : 0;
	fdref_put(fs, &ref);
	return err;
}

int64_t do_removexattr(struct fs *fs, struct call *c)
{
	struct proc_path path;
	struct fdref ref;
	int err = fdref_get(fs, c->node, &ref);

	if (err < 0)
		return err;
	path = fdref_path(&ref);
	err = FS_CALL(c, removexattr(path.text, c->name)) < 0 ? -errno : 0;
	fdref_put(fs, &ref);
	return err;
}

/* The value of c->name, or the list of names when it is NULL; only its size when c->length is 0. */
static int64_t get(struct fs *fs, struct call *c)
{
	struct proc_path path;
	struct fdref ref;
	ssize_t got;
	int err = fdref_get(fs, c->node, &ref);

	if (err < 0)
		return err;
	c->buf = worker_buffer();
	path = fdref_path(&ref);
	if (!c->buf || c->length > WORKER_BUFFER_SIZE) {
		err = -ENOMEM;
	} else {
		got = c->name ? FS_CALL(c, getxattr(path.text, c->name, c->buf, c->length)) :
				FS_CALL(c, listxattr(path.text, c->buf, c->length));
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
