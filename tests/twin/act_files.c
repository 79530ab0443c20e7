/* SPDX-License-Identifier: MIT */
/* act_files.c - steps on open files. */
#include <linux/falloc.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#include "acts.h"

void act_close(struct world *w, const struct step *s)
{
	say(w, "%s", w->slots[s->slot] < 0 ? "empty" : "closed");
	world_put(w, s->slot, -1);
}

void act_reopen(struct world *w, const struct step *s)
{
	int fd;

	if (act_is_ghost(w, s->slot))
		return;
	fd = openat(w->proc_fd, fd_name(w, s->slot).text,
		((int)s->flags & ~(O_CREAT | O_NOFOLLOW)) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	say_result(w, fd < 0 ? fd : 0);
	if (fd >= 0)
		world_put(w, s->slot2, fd);
}

void act_dup(struct world *w, const struct step *s)
{
	int fd = fcntl(w->slots[s->slot], F_DUPFD_CLOEXEC, 0);

	say_result(w, fd < 0 ? fd : 0);
	if (fd < 0)
		return;
	world_put(w, s->slot2, fd);
	w->locked[s->slot2] = w->locked[s->slot];
}

void act_set_append(struct world *w, const struct step *s)
{
	say_result(w, fcntl(w->slots[s->slot], F_SETFL, O_NONBLOCK | (int)s->flags));
	say(w, " %x", fcntl(w->slots[s->slot], F_GETFL));
}

/* What is wrong first about reading a directory depends on its position: see act_lseek(). */
static void say_read(struct world *w, unsigned int slot, ssize_t got)
{
	struct stat st;

	if (got < 0 && errno == EINVAL && fstat(w->slots[slot], &st) == 0 && S_ISDIR(st.st_mode))
		errno = EISDIR;
	say_result(w, got);
	if (got > 0)
		say_bytes(w, w->data, (size_t)got);
}

void act_read(struct world *w, const struct step *s)
{
	say_read(w, s->slot, read(w->slots[s->slot], w->data, s->len));
}

void act_pread(struct world *w, const struct step *s)
{
	say_read(w, s->slot, pread(w->slots[s->slot], w->data, s->len, s->off));
}

void act_readv(struct world *w, const struct step *s)
{
	size_t part = s->len / 3;
	struct iovec iov[] = { { w->data, part }, { w->data + part, 0 }, { w->data + part, s->len - part } };

	say_read(w, s->slot, readv(w->slots[s->slot], iov, 3));
}

void act_write(struct world *w, const struct step *s)
{
	say_result(w, write(w->slots[s->slot], world_data(w, s->value, s->len), s->len));
}

void act_pwrite(struct world *w, const struct step *s)
{
	say_result(w, pwrite(w->slots[s->slot], world_data(w, s->value, s->len), s->len, s->off));
}

void act_writev(struct world *w, const struct step *s)
{
	size_t part = s->len / 5;
	struct iovec iov[] = { { w->data, part }, { w->data + part, s->len - part } };

	world_data(w, s->value, s->len);
	say_result(w, writev(w->slots[s->slot], iov, 2));
}

/* Whether all of a range that the filesystem calls a hole reads as zeros; looks at its first and last part. */
static bool is_empty(struct world *w, int fd, off_t from, off_t to)
{
	off_t parts[2] = { from, to - 4096 > from ? to - 4096 : from };

	for (int i = 0; i < 2; i++) {
		ssize_t got = pread(fd, w->data, to - parts[i] < 4096 ? (size_t)(to - parts[i]) : 4096, parts[i]);

		for (ssize_t at = 0; at < got; at++)
			if (w->data[at])
				return false;
	}
	return true;
}

/*
 * Preallocated blocks count as data or as a hole by what of them is in the page cache, which differs when somebody else
 * reads ahead. So the answers have to be true, not the same. The position is put back, for the same reason.
 */
static void say_seek_sparse(struct world *w, int fd, off_t from, int whence)
{
	off_t before = lseek(fd, 0, SEEK_CUR), at = lseek(fd, from, whence);
	struct stat st;

	if (at < 0 && errno != ENXIO) {
		say_result(w, -1);
		return;
	}
	lseek(fd, before, SEEK_SET);
	if (fstat(fd, &st) < 0)
		say_result(w, -1);
	else if (from >= st.st_size || (at < 0 && whence == SEEK_HOLE))
		say(w, "%s", at < 0 ? "beyond the end" : "found beyond the end");
	else if (at >= 0 && (at < from || at > st.st_size))
		say(w, "%lld from %lld", (long long)at, (long long)from);
	else if (whence == SEEK_DATA && !is_empty(w, fd, from, at < 0 ? st.st_size : at))
		say(w, "data in a hole");
	else
		say(w, "true");
}

/* Positions in directories are the filesystem's own. */
void act_lseek(struct world *w, const struct step *s)
{
	int fd = w->slots[s->slot];
	struct stat st;

	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
		say_result(w, lseek(fd, 0, SEEK_SET));
	else if (s->flags == SEEK_DATA || s->flags == SEEK_HOLE)
		say_seek_sparse(w, fd, s->off, (int)s->flags);
	else
		say_result(w, lseek(fd, s->off, (int)s->flags));
}

void act_ftruncate(struct world *w, const struct step *s)
{
	say_result(w, ftruncate(w->slots[s->slot], s->off));
}

void act_truncate(struct world *w, const struct step *s)
{
	char path[PATH_ROOM];

	world_path(&s->at, path);
	say_result(w, truncate(path, s->off));
}

/* Whether a hole punched where there is nothing clears set-id bits, filesystems differ about: see twin.h. */
void act_fallocate(struct world *w, const struct step *s)
{
	int fd = w->slots[s->slot];

	if (s->flags & FALLOC_FL_PUNCH_HOLE && (act_has_setid(fd, NULL) || act_has_capability(fd, NULL)))
		return;
	say_result(w, fallocate(fd, (int)s->flags, s->off, s->len));
}

void act_copy_range(struct world *w, const struct step *s)
{
	off_t in = s->off, out = s->off2;
	ssize_t got = copy_file_range(w->slots[s->slot], s->flags ? &in : NULL, w->slots[s->slot2],
		s->flags == 1 ? &out : NULL, s->len, 0);

	say_result(w, got);
	say(w, " %lld %lld", (long long)in, (long long)out);
}

void act_sendfile(struct world *w, const struct step *s)
{
	struct stat st;

	if (fstat(w->slots[s->slot2], &st) == 0 && S_ISDIR(st.st_mode)) /* as with say_read() */
		return;
	say_result(w, sendfile(w->slots[s->slot], w->slots[s->slot2], NULL, s->len));
}

void act_fsync(struct world *w, const struct step *s)
{
	say_result(w, s->flags ? fdatasync(w->slots[s->slot]) : fsync(w->slots[s->slot]));
}
