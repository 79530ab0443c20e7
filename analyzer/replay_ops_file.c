/* SPDX-License-Identifier: MIT */
/* replay_ops_file.c - the system calls of actions on open files and directories. */
#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "beneath.h"
#include "replay_worker.h"

#define LIST_BUFFER (32u << 10)
#define READ_WHOLE  (128u << 10) /* as the kernel reads ahead at most, by default */
/* Bytes of an entry in the FUSE protocol (linux/fuse.h): struct fuse_dirent, rounded up; what READDIRPLUS adds */
#define ENTRY_BYTES(len) (((len) + 24 + 7) & ~(size_t)7)
#define ENTRY_PLUS       128

static struct open_file *file_of(struct worker *w, uint32_t handle)
{
	return &w->replay->files[handle];
}

static int fd_of(struct worker *w, uint32_t handle)
{
	return atomic_load_explicit(&file_of(w, handle)->fd, memory_order_relaxed);
}

/* Appends go to the offset at which they were recorded; O_DIRECT would make demands on our buffers. */
static int open_flags(const struct action *a)
{
	return (int)a->flags & ~(O_APPEND | O_DIRECT);
}

static void read_whole(struct worker *w, const struct action *a, int fd)
{
	char *buf = worker_buffer(w, READ_WHOLE);
	int64_t aside = w->fs_ns; /* no part of the open */

	if (!buf || (a->flags & O_ACCMODE) == O_WRONLY)
		return;
	while (read(fd, buf, READ_WHOLE) > 0)
		;
	lseek(fd, 0, SEEK_SET);
	w->fs_ns = aside;
}

static int64_t opened(struct worker *w, const struct action *a, int fd)
{
	if (fd < 0)
		return fd;
	if (a->result < 0) { /* it was not to succeed, and nothing of the recording will close it */
		close(fd);
		return 0;
	}
	*file_of(w, a->handle) = (struct open_file){ .fd = fd };
	return 0;
}

static int try_open(struct worker *w, const struct action *a, int extra_flags, int without)
{
	int fd = -1, err, dir_fd = dirs_get(w->replay->dirs, a->dir);

	if (dir_fd < 0)
		return dir_fd;
	do
		err = TIMED(
			w, beneath_open(dir_fd, plan_text(w->replay->plan, a->name),
				   (open_flags(a) | extra_flags) & ~without, worker_mode(w, a->mode & 07777), &fd));
	while (err == -EMFILE && dirs_relieve(w->replay->dirs));
	dirs_put(w->replay->dirs, a->dir);
	return err < 0 ? err : fd;
}

int64_t replay_create(struct worker *w, const struct action *a)
{
	return opened(w, a, try_open(w, a, O_CREAT, 0));
}

int64_t replay_open(struct worker *w, const struct action *a)
{
	int fd;

	if (a->by_handle) { /* it has no name any more */
		char path[32];

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd_of(w, a->handle2));
		fd = TIMED(w, open(path, (open_flags(a) & ~(O_CREAT | O_EXCL)) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
		return opened(w, a, fd < 0 ? -errno : fd);
	}
	fd = try_open(w, a, 0, O_CREAT | O_EXCL);
	if (fd >= 0 && w->replay->options->read_opened)
		read_whole(w, a, fd);
	return opened(w, a, fd);
}

int64_t replay_opendir(struct worker *w, const struct action *a)
{
	int fd, dir_fd = dirs_get(w->replay->dirs, a->object);

	if (dir_fd < 0)
		return dir_fd;
	do
		fd = TIMED(w, openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	while (fd < 0 && errno == EMFILE && dirs_relieve(w->replay->dirs));
	fd = fd < 0 ? -errno : fd;
	dirs_put(w->replay->dirs, a->object);
	return opened(w, a, fd);
}

int64_t replay_read(struct worker *w, const struct action *a)
{
	char *buf = worker_buffer(w, (size_t)a->length);
	ssize_t got;

	if (!buf && a->length)
		return -ENOMEM;
	got = TIMED(w, pread(fd_of(w, a->handle), buf, (size_t)a->length, a->offset));
	return got < 0 ? -errno : got;
}

int64_t replay_write(struct worker *w, const struct action *a)
{
	ssize_t done;
	char *buf;
	int err = worker_contents(w, a, &buf);

	if (err < 0)
		return err;
	done = TIMED(w, pwrite(fd_of(w, a->handle), buf, (size_t)a->length, a->offset));
	return done < 0 ? -errno : done;
}

/* The filesystem's part of closing one of several descriptors; and the end of its owner's locks. */
int64_t replay_flush(struct worker *w, const struct action *a)
{
	struct flock all = { .l_type = F_UNLCK, .l_whence = SEEK_SET };
	int fd = dup(fd_of(w, a->handle));
	int64_t result = fd < 0 ? -errno : TIMED(w, close(fd)) < 0 ? -errno : 0;

	if (a->drops_locks)
		fcntl(fd_of(w, a->handle2 ? a->handle2 : a->handle), F_OFD_SETLK, &all);
	return result;
}

int64_t replay_release(struct worker *w, const struct action *a)
{
	int fd = atomic_exchange(&file_of(w, a->handle)->fd, -1);

	if (fd < 0)
		return -EBADF;
	TIMED(w, close(fd)); /* RELEASE has no result: errors belong to FLUSH */
	return 0;
}

int64_t replay_releasedir(struct worker *w, const struct action *a)
{
	return replay_release(w, a);
}

int64_t replay_fsync(struct worker *w, const struct action *a)
{
	int fd = fd_of(w, a->handle);
	int result = a->flags & 1 ? TIMED(w, fdatasync(fd)) : TIMED(w, fsync(fd));

	return result < 0 ? -errno : 0;
}

int64_t replay_fsyncdir(struct worker *w, const struct action *a)
{
	return replay_fsync(w, a);
}

int64_t replay_fallocate(struct worker *w, const struct action *a)
{
	return TIMED(w, fallocate(fd_of(w, a->handle), (int)a->mode, a->offset, a->length)) < 0 ? -errno : 0;
}

int64_t replay_lseek(struct worker *w, const struct action *a)
{
	off_t result = TIMED(w, lseek(fd_of(w, a->handle), a->offset, (int)a->flags));

	return result < 0 ? -errno : result;
}

/* No more than was copied then: programs ask for all that there is. */
int64_t replay_copy_file_range(struct worker *w, const struct action *a)
{
	off_t in = a->offset, out = plan_arg(w->replay->plan, a, ARG_OFFSET_OUT, NULL);
	size_t length = a->result > 0 ? (size_t)a->result : 0;
	ssize_t got = TIMED(w, copy_file_range(fd_of(w, a->handle), &in, fd_of(w, a->handle2), &out, length, 0));

	return got < 0 ? -errno : got;
}

/* Flags that would make what we have made impossible to remove are left out. */
int64_t replay_ioctl(struct worker *w, const struct action *a)
{
	union {
		long number; /* the kernel takes and gives 32 bits of it */
		struct fsxattr fsxattr;
	} arg = {};
	int fd = fd_of(w, a->handle);

	if (a->flags == FS_IOC_SETFLAGS)
		arg.number =
			(long)plan_arg(w->replay->plan, a, ARG_VALUE_INT, NULL) & ~(FS_IMMUTABLE_FL | FS_APPEND_FL);
	return TIMED(w, ioctl(fd, a->flags, &arg)) < 0 ? -errno : a->result > 0 ? a->result : 0;
}

/* --- locks ------------------------------------------------------------------------------------------------------- */

/*
 * Never waited for: the order of the recording is kept, so what had to be waited for then is free when its turn comes.
 * Locks of processes become locks of open files, as one process plays all of them.
 */
static int64_t lock_call(struct worker *w, const struct action *a, int command)
{
	const char *type = plan_text(w->replay->plan, (uint32_t)plan_arg(w->replay->plan, a, ARG_TYPE, NULL));
	struct flock lock = {
		.l_type = strcmp(type, "read") == 0  ? F_RDLCK :
			  strcmp(type, "write") == 0 ? F_WRLCK :
						       F_UNLCK,
		.l_whence = SEEK_SET,
		.l_start = a->offset,
		.l_len = a->length,
	};

	if (command == F_OFD_GETLK && lock.l_type == F_UNLCK)
		lock.l_type = F_WRLCK;
	return TIMED(w, fcntl(fd_of(w, a->handle2 ? a->handle2 : a->handle), command, &lock)) < 0 ? -errno : 0;
}

int64_t replay_getlk(struct worker *w, const struct action *a)
{
	return lock_call(w, a, F_OFD_GETLK);
}

int64_t replay_setlk(struct worker *w, const struct action *a)
{
	return lock_call(w, a, F_OFD_SETLK);
}

int64_t replay_flock(struct worker *w, const struct action *a)
{
	return TIMED(w, flock(fd_of(w, a->handle), ((int)a->flags & (LOCK_SH | LOCK_EX | LOCK_UN)) | LOCK_NB)) < 0 ?
		       -errno :
		       0;
}

/* --- listings ---------------------------------------------------------------------------------------------------- */

static bool same_listing(const struct open_file *file, const struct action *a)
{
	int64_t more = a->offset - file->bytes;

	if (a->mode) /* the names were recorded */
		return file->names_sum == (uint64_t)a->offset && file->entries == a->length;
	/* Only sizes of answers: an entry counts its name, and 128 bytes more where it came with attributes. */
	return more >= 0 && more % ENTRY_PLUS == 0 && more / ENTRY_PLUS <= file->entries;
}

/* One getdents64(2). With attributes of each entry for READDIRPLUS, which the recorder had to get, too. */
static int64_t list_some(struct worker *w, struct open_file *file, int fd, char *buf, bool plus)
{
	ssize_t got = TIMED(w, getdents64(fd, buf, LIST_BUFFER));
	struct stat st;

	for (ssize_t at = 0; at < got;) {
		const struct dirent64 *entry = (const struct dirent64 *)(const void *)(buf + at);
		size_t len = strlen(entry->d_name);
		bool dots = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;

		if (plus && !dots)
			TIMED(w, fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW));
		file->names_sum += XXH3_64bits(entry->d_name, len);
		file->bytes += (int64_t)ENTRY_BYTES(len);
		file->entries++;
		at += entry->d_reclen;
	}
	return got < 0 ? -errno : got;
}

/*
 * Answers to the kernel are smaller than those to us, so the end may come before it came then; where it came then, we
 * read on until it comes.
 */
static int64_t list(struct worker *w, const struct action *a, bool plus)
{
	struct open_file *file = file_of(w, a->handle);
	int fd = fd_of(w, a->handle);
	char *buf = worker_buffer(w, LIST_BUFFER);
	int64_t got;

	if (!buf)
		return -ENOMEM;
	if (a->flags & 1) {
		if (lseek(fd, 0, SEEK_SET) < 0)
			return -errno;
		*file = (struct open_file){ .fd = fd };
	}
	do
		got = list_some(w, file, fd, buf, plus);
	while (got > 0 && a->listing_end);
	if (got < 0)
		return got;
	if (a->listing_end && !same_listing(file, a))
		w->state = OUTCOME_LISTING;
	return a->result < 0 ? 0 : a->result;
}

int64_t replay_readdir(struct worker *w, const struct action *a)
{
	return list(w, a, false);
}

int64_t replay_readdirplus(struct worker *w, const struct action *a)
{
	return list(w, a, true);
}
