/* SPDX-License-Identifier: MIT */
/* start_objects.c - the objects of a start state, made one by one. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "start_internal.h"

/* Missing ones are made: a recording that lost records may lack their rows. */
static int make_dirs(struct start *start, const char *path, size_t len)
{
	char name[BENEATH_NAME_MAX + 1];
	const char *slash;
	int fd = -1, err;

	for (const char *at = path;; at = slash + 1) {
		slash = memchr(at, '/', len - (size_t)(at - path)) ?: path + len;
		err = beneath_parent(start->root_fd, path, (size_t)(slash - path), &fd, name);
		if (err < 0)
			return err;
		err = mkdirat(fd, name, 0755) < 0 && errno != EEXIST ? -errno : 0;
		close(fd);
		if (err < 0 || slash == path + len)
			return err;
	}
}

/* The directory that holds `path`, kept for the next object, and the object's name. */
static int enter(struct start *start, const char *path, size_t len, char name[static BENEATH_NAME_MAX + 1])
{
	const char *slash = memrchr(path, '/', len);
	size_t dir_len = slash ? (size_t)(slash - path) : 0, name_len = len - (slash ? dir_len + 1 : 0);
	int err;

	if (name_len > BENEATH_NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(name, path + len - name_len, name_len);
	name[name_len] = '\0';
	if (!beneath_name_ok(name))
		return -EXDEV;
	if (start->dir_fd >= 0 && dir_len == start->dir_len && memcmp(path, start->dir, dir_len) == 0)
		return 0;
	if (start->dir_fd >= 0)
		close(start->dir_fd);
	start->dir_fd = -1;
	err = beneath_dir(start->root_fd, path, dir_len, &start->dir_fd);
	if (err == -ENOENT) {
		err = make_dirs(start, path, dir_len);
		err = err ?: beneath_dir(start->root_fd, path, dir_len, &start->dir_fd);
	}
	if (err < 0)
		return err;
	memcpy(start->dir, path, dir_len);
	start->dir_len = dir_len;
	return 0;
}

static bool xattr_allowed(const struct start *start, const char *name)
{
	return start->options->allow_setid || strncmp(name, "user.", 5) == 0 ||
	       strncmp(name, "system.posix_acl_", 17) == 0;
}

static int set_xattrs(struct start *start, const struct start_row *row, const char *path)
{
	uint64_t named;
	int err;

	if (!map64_get(&start->xattrs, start_inode_key(row->dev, row->ino), &named))
		return 0;
	trace_reset(start->xattrs_of);
	err = trace_bind_int(start->xattrs_of, 1, start->run);
	err = err ?: trace_bind_int(start->xattrs_of, 2, (int64_t)named);
	while (err >= 0 && (err = trace_step(start->xattrs_of)) == 1) {
		const char *name = trace_column_text(start->xattrs_of, 0) ?: "";

		if (!xattr_allowed(start, name))
			start->result.xattrs_left_out++;
		else if (lsetxattr(path, name, trace_column_blob(start->xattrs_of, 1),
				 trace_column_bytes(start->xattrs_of, 1), 0) < 0)
			start->result.xattrs_failed++;
	}
	return err < 0 ? start_error(start, err, row->path, "cannot read its attributes") : 0;
}

static mode_t mode_of(struct start *start, const struct start_row *row)
{
	mode_t mode = row->mode & 07777;

	if (S_ISDIR(row->mode) || start->options->allow_setid || !(mode & (S_ISUID | S_ISGID)))
		return mode;
	start->result.setid_left_out++;
	return mode & ~(mode_t)(S_ISUID | S_ISGID);
}

/* chmod(2) would follow a link that somebody puts there meanwhile. */
static int set_mode(int dir_fd, const char *name, mode_t mode, int fd)
{
	return fd >= 0 ? fchmod(fd, mode) : fchmodat(dir_fd, name, mode, AT_SYMLINK_NOFOLLOW);
}

/*
 * `fd`: of a file, else -1. In this order: a change of owner clears set-id bits, an access list has the last word on the mode, all touch
 * times.
 */
static int set_attributes(struct start *start, const struct start_row *row, int dir_fd, const char *name, int fd)
{
	struct beneath_at at = beneath_at(dir_fd, name);
	struct timespec times[2] = { { 0, UTIME_OMIT } };
	int err;

	if (start->options->owners && fchownat(dir_fd, name, row->uid, row->gid, AT_SYMLINK_NOFOLLOW) < 0)
		start->result.owners_failed++;
	if (!S_ISLNK(row->mode) && set_mode(dir_fd, name, mode_of(start, row), fd) < 0)
		return start_error(start, errno, row->path, "cannot set its mode");
	err = set_xattrs(start, row, at.text);
	times[1] = (struct timespec){ row->mtime_ns / NSEC_PER_SEC, row->mtime_ns % NSEC_PER_SEC };
	if (times[1].tv_nsec < 0)
		times[1] = (struct timespec){ times[1].tv_sec - 1, times[1].tv_nsec + NSEC_PER_SEC };
	if (err == 0 && utimensat(dir_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return start_error(start, errno, row->path, "cannot set its time");
	return err;
}

static int make_file(struct start *start, const struct start_row *row, const char *name)
{
	int auto_close fd = -1;
	int err = beneath_open(start->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL, 0600, &fd);

	if (err < 0)
		return start_error(start, err, row->path, "cannot be made");
	start->result.files++;
	err = start_fill(start, row, fd);
	return err ?: set_attributes(start, row, start->dir_fd, name, fd);
}

static int make_node(struct start *start, const struct start_row *row, const char *name)
{
	bool device = S_ISCHR(row->mode) || S_ISBLK(row->mode);

	if (mknodat(start->dir_fd, name, (row->mode & S_IFMT) | 0600, device ? row->rdev : 0) < 0)
		return start_error(start, errno, row->path, "cannot be made");
	start->result.others++;
	return set_attributes(start, row, start->dir_fd, name, -1);
}

static int make_symlink(struct start *start, const struct start_row *row, const char *name)
{
	if (!row->target || symlinkat(row->target, start->dir_fd, name) < 0)
		return start_error(start, row->target ? errno : EINVAL, row->path, "cannot be made");
	start->result.symlinks++;
	return set_attributes(start, row, start->dir_fd, name, -1);
}

/* A further name of what has been made already. */
static int make_link(struct start *start, const struct start_row *row, const char *name, uint32_t first)
{
	char first_name[BENEATH_NAME_MAX + 1];
	int fd = -1, err;

	trace_reset(start->text_of);
	err = trace_bind_int(start->text_of, 1, start->run);
	err = err ?: trace_bind_int(start->text_of, 2, first);
	err = err ?: trace_step(start->text_of);
	if (err < 0)
		return start_error(start, err, row->path, "cannot read its other name");
	err = beneath_parent(start->root_fd, trace_column_text(start->text_of, 0), trace_column_bytes(start->text_of, 0), &fd,
		first_name);
	if (err == 0 && linkat(fd, first_name, start->dir_fd, name, 0) < 0)
		err = -errno;
	if (fd >= 0)
		close(fd);
	start->result.links++;
	return err < 0 ? start_error(start, err, row->path, "cannot be linked") : 0;
}

static int make_other(struct start *start, const struct start_row *row, const char *name)
{
	if (S_ISREG(row->mode))
		return make_file(start, row, name);
	if (S_ISLNK(row->mode))
		return make_symlink(start, row, name);
	return make_node(start, row, name);
}

int start_make(struct start *start, const struct start_row *row)
{
	char name[BENEATH_NAME_MAX + 1];
	uint64_t key = start_inode_key(row->dev, row->ino), first;
	int err;

	if (row->path_len == 0)
		return 0;
	if ((S_ISCHR(row->mode) || S_ISBLK(row->mode)) && !start->options->allow_devices) {
		start->result.devices_left_out++;
		return 0;
	}
	err = enter(start, row->path, row->path_len, name);
	if (err < 0)
		return start_error(start, err, row->path, "cannot reach its directory");
	if (S_ISDIR(row->mode)) {
		/* 0700: attributes follow when what is in it has been made */
		if (mkdirat(start->dir_fd, name, 0700) < 0)
			return start_error(start, errno, row->path, "cannot be made");
		start->result.dirs++;
		return 0;
	}
	if (map64_get(&start->first, key, &first))
		return make_link(start, row, name, (uint32_t)first);
	if (map64_add(&start->first, key, row->path_id) < 0)
		return start_error(start, ENOMEM, row->path, "cannot be made");
	return make_other(start, row, name);
}

int start_finish_dir(struct start *start, const struct start_row *row)
{
	char name[BENEATH_NAME_MAX + 1];
	int err;

	if (row->path_len == 0)
		return set_attributes(start, row, start->root_fd, ".", -1);
	err = enter(start, row->path, row->path_len, name);
	if (err < 0)
		return start_error(start, err, row->path, "cannot reach its directory");
	return set_attributes(start, row, start->dir_fd, name, -1);
}
