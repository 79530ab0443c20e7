/* SPDX-License-Identifier: MIT */
/*
 * beneath.h - reaching objects below a directory by paths that a stranger wrote.
 *
 * A recording names its objects by paths relative to its root, and whoever made it may have put anything there: "../x",
 * an absolute path, the name of a symlink that leads out. Nothing here ever leaves the directory that it is given, nor
 * follows a link, nor enters another mount:
 *
 *   - a path is checked as text first (beneath_check);
 *   - a directory is opened by openat2(2) with RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS |
 *     RESOLVE_NO_XDEV, so that what somebody puts there meanwhile does not help either;
 *   - on the last component use *at(2) calls with that directory's descriptor and a checked name, and with
 *     AT_SYMLINK_NOFOLLOW or O_NOFOLLOW; beneath_open() for files. Calls that have no *at form (xattrs) take
 *     beneath_at()'s path and their l* variant.
 *
 * A descriptor of a directory may be kept and used for as long as one likes: what is done by a checked name in it stays
 * beneath. Directories are opened O_PATH, so they need search permission alone. All functions are thread-safe, take
 * nothing over, and return -errno without a message.
 */
#ifndef FSTAPE_BENEATH_H
#define FSTAPE_BENEATH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define BENEATH_PATH_MAX  16640 /* bytes: what a recorder keeps of a path, and its last name */
#define BENEATH_DEPTH_MAX 2048  /* components */
#define BENEATH_NAME_MAX  255   /* bytes: the kernel's limit of a component */

/*
 * Opens the directory everything is to happen in, following links: it is the user's word. With `empty` a directory that
 * has anything in it (but lost+found) is refused with -ENOTEMPTY. The descriptor (O_RDONLY) is the caller's.
 */
int beneath_root(const char *target, bool empty, int *ret_fd);

/*
 * Whether `path` may be used at all: "" (the root itself), or components separated by one '/' each, none of them empty,
 * "." or "..", within the limits above. 0; -EXDEV: it leads, or may lead, out; -ENAMETOOLONG: too long or too deep;
 * -EINVAL: it holds a NUL.
 */
int beneath_check(const char *path, size_t len);

/* Whether `name` may be a last component: as above, without '/'. */
bool beneath_name_ok(const char *name);

/* O_PATH | O_DIRECTORY of the directory `path`. -ELOOP: there is a symlink in it; -EXDEV: it leads out. */
int beneath_dir(int root_fd, const char *path, size_t len, int *ret_fd);

/*
 * The same of the directory that holds `path`, whose last component gets into `name`. -EINVAL for the root, which has
 * no name.
 */
int beneath_parent(int root_fd, const char *path, size_t len, int *ret_fd, char name[static BENEATH_NAME_MAX + 1]);

/*
 * Opens (or with O_CREAT makes) `name` in a directory from above. O_NOFOLLOW, O_CLOEXEC, O_NOCTTY and O_NONBLOCK are
 * added: a fifo or a terminal must not stop us. Flags that open(2) does not know are left out.
 */
int beneath_open(int dir_fd, const char *name, int flags, mode_t mode, int *ret_fd);

/* A path of `name` in `dir_fd` for calls without an *at form; for their l* variants only: they would follow a link. */
struct beneath_at {
	char text[32 + BENEATH_NAME_MAX];
};
struct beneath_at beneath_at(int dir_fd, const char *name);

#endif
