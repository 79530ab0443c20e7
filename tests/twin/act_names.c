/* SPDX-License-Identifier: MIT */
/* act_names.c - steps that make, move, follow and remove names. */
#include <limits.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "acts.h"

struct fd_name fd_name(const struct world *w, unsigned int slot)
{
	struct fd_name name;

	snprintf(name.text, sizeof(name.text), "%d", w->slots[slot]);
	return name;
}

bool act_is_ghost(struct world *w, unsigned int slot)
{
	struct stat st;
	int flags = fcntl(w->slots[slot], F_GETFL);

	if (flags < 0 || !(flags & O_PATH) || fstat(w->slots[slot], &st) < 0 || S_ISDIR(st.st_mode) || st.st_nlink > 0)
		return false;
	say(w, "removed");
	return true;
}

/* Never waits: fifos and devices are opened too. */
void act_open(struct world *w, const struct step *s)
{
	char path[PATH_ROOM];
	int dir = world_at(w, &s->at, path);
	int fd = openat(dir, path, (int)s->flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, s->mode);

	say_result(w, fd < 0 ? fd : 0);
	if (fd >= 0)
		world_put(w, s->slot, fd);
}

void act_mkdir(struct world *w, const struct step *s)
{
	char path[PATH_ROOM];
	int dir = world_at(w, &s->at, path);

	say_result(w, mkdirat(dir, path, s->mode));
}

void act_unlink(struct world *w, const struct step *s)
{
	char path[PATH_ROOM];
	int dir = world_at(w, &s->at, path);

	say_result(w, unlinkat(dir, path, (int)s->flags));
}

void act_rename(struct world *w, const struct step *s)
{
	char path[PATH_ROOM], path2[PATH_ROOM];
	int dir = world_at(w, &s->at, path), dir2 = world_at(w, &s->at2, path2);

	say_result(w, renameat2(dir, path, dir2, path2, s->flags));
}

/*
 * Whether a file may be linked depends on its set-id bits (proc(5), protected_hardlinks), and the kernel looks at those
 * that it has without asking the filesystem: they are brought up to date first.
 */
static void refresh(int dir, const char *path, int flags)
{
	struct stat st;

	fstatat(dir, path, &st, flags);
}

void act_link(struct world *w, const struct step *s)
{
	char path[PATH_ROOM], path2[PATH_ROOM];
	int dir = world_at(w, &s->at, path), dir2 = world_at(w, &s->at2, path2);

	refresh(dir, path, s->flags ? 0 : AT_SYMLINK_NOFOLLOW);
	say_result(w, linkat(dir, path, dir2, path2, (int)s->flags));
}

void act_link_open(struct world *w, const struct step *s)
{
	char path[PATH_ROOM];
	int dir = world_at(w, &s->at2, path);

	refresh(w->slots[s->slot], "", AT_EMPTY_PATH);
	say_result(w, linkat(w->proc_fd, fd_name(w, s->slot).text, dir, path, AT_SYMLINK_FOLLOW));
}

void act_symlink(struct world *w, const struct step *s)
{
	char path[PATH_ROOM], target[PATH_ROOM];
	int dir = world_at(w, &s->at, path);

	world_path(&s->at2, target);
	say_result(w, symlinkat(target, dir, path));
}

static void say_link(struct world *w, int dir, const char *path)
{
	char target[PATH_MAX];
	ssize_t len = readlinkat(dir, path, target, sizeof(target));

	say_result(w, len);
	if (len >= 0)
		say_bytes(w, target, (size_t)len);
}

void act_readlink(struct world *w, const struct step *s)
{
	char path[PATH_ROOM];
	int dir = world_at(w, &s->at, path);

	say_link(w, dir, path);
}

void act_readlink_open(struct world *w, const struct step *s)
{
	if (!act_is_ghost(w, s->slot))
		say_link(w, w->slots[s->slot], "");
}

void act_mknod(struct world *w, const struct step *s)
{
	char path[PATH_ROOM];
	int dir = world_at(w, &s->at, path);

	/* /dev/full: harmless when it is opened and written to */
	say_result(w, mknodat(dir, path, s->mode | s->flags, s->flags == S_IFCHR ? makedev(1, 7) : 0));
}

void act_chdir(struct world *w, const struct step *s)
{
	char path[PATH_ROOM];

	world_path(&s->at, path);
	say_result(w, chdir(path));
}

void act_fchdir(struct world *w, const struct step *s)
{
	say_result(w, fchdir(w->slots[s->slot]));
}

void act_getcwd(struct world *w, const struct step *s)
{
	char path[PATH_MAX];

	(void)s;
	if (getcwd(path, sizeof(path)))
		say_bytes(w, path, strlen(path));
	else
		say_result(w, -1);
}

/* A directory of several readdir(2) calls. */
void act_fill(struct world *w, const struct step *s)
{
	char path[PATH_ROOM], name[256];
	int dir = world_at(w, &s->at, path);
	int auto_close top = openat(dir, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int made = 0;

	for (int i = 0; i < 60; i++) {
		int fd;

		snprintf(name, sizeof(name), "%0*d", 1 + i * 3, i);
		fd = openat(top, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (fd >= 0) {
			made++;
			close(fd);
		}
	}
	say(w, "%d", made);
}

void act_empty(struct world *w, const struct step *s)
{
	char path[PATH_ROOM], name[256];
	int dir = world_at(w, &s->at, path);
	int auto_close top = openat(dir, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int removed = 0;

	for (int i = 0; i < 60; i++) {
		snprintf(name, sizeof(name), "%0*d", 1 + i * 3, i);
		removed += unlinkat(top, name, 0) == 0;
	}
	say(w, "%d", removed);
}
