/* SPDX-License-Identifier: MIT */
/* act_files.c - steps on open files. */
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <linux/magic.h>

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

static void say_read(struct world *w, ssize_t got)
{
	say_result(w, got);
	if (got > 0)
		say_bytes(w, w->data, (size_t)got);
}

void act_read(struct world *w, const struct step *s)
{
	say_read(w, read(w->slots[s->slot], w->data, s->len));
}

void act_pread(struct world *w, const struct step *s)
{
	say_read(w, pread(w->slots[s->slot], w->data, s->len, s->off));
}

void act_readv(struct world *w, const struct step *s)
{
	size_t part = s->len / 3;
	struct iovec iov[] = { { w->data, part }, { w->data + part, 0 }, { w->data + part, s->len - part } };

	say_read(w, readv(w->slots[s->slot], iov, 3));
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

/* Positions in directories are the filesystem's own. */
void act_lseek(struct world *w, const struct step *s)
{
	struct stat st;

	if (fstat(w->slots[s->slot], &st) == 0 && S_ISDIR(st.st_mode))
		say_result(w, lseek(w->slots[s->slot], 0, SEEK_SET));
	else
		say_result(w, lseek(w->slots[s->slot], s->off, (int)s->flags));
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

void act_fallocate(struct world *w, const struct step *s)
{
	say_result(w, fallocate(w->slots[s->slot], (int)s->flags, s->off, s->len));
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
	say_result(w, sendfile(w->slots[s->slot], w->slots[s->slot2], NULL, s->len));
}

void act_fsync(struct world *w, const struct step *s)
{
	int fd = w->slots[s->slot], result = s->flags ? fdatasync(fd) : fsync(fd);
	struct stat st;

	say_result(w, result);
	if (result == 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		w->memory->outcomes[atomic_load(&w->memory->begun) - 1].blocks = st.st_blocks;
}
