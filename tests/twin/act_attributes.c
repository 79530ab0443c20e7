/* SPDX-License-Identifier: MIT */
/* act_attributes.c - steps that ask for attributes of inodes and change them. */
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>

#include "acts.h"

static int ask(int dir, const char *path, int flags, struct statx *x)
{
	return statx(dir, path, flags, STATX_BASIC_STATS, x);
}

static void say_stat(struct world *w, int dir, const char *path, int flags)
{
	struct statx x;
	int result = ask(dir, path, flags, &x);

	say_result(w, result);
	if (result == 0)
		say_attributes(w, &x);
}

void act_stat(struct world *w, const struct step *s)
{
	char path[PATH_ROOM];
	int dir = world_at(w, &s->at, path);

	say_stat(w, dir, path, (int)s->flags);
}

void act_fstat(struct world *w, const struct step *s)
{
	say_stat(w, w->slots[s->slot], "", AT_EMPTY_PATH);
}

static void say_same(struct world *w, int result, const struct statx *x, int result2, const struct statx *x2)
{
	if (result < 0 || result2 < 0)
		say(w, "%d %d", result, result2);
	else
		say(w, "%s", x->stx_ino == x2->stx_ino && x->stx_dev_minor == x2->stx_dev_minor ? "one" : "two");
}

void act_same(struct world *w, const struct step *s)
{
	char path[PATH_ROOM], path2[PATH_ROOM];
	int dir = world_at(w, &s->at, path), dir2 = world_at(w, &s->at2, path2);
	struct statx x, x2;
	int result = ask(dir, path, AT_SYMLINK_NOFOLLOW, &x), result2 = ask(dir2, path2, AT_SYMLINK_NOFOLLOW, &x2);

	say_same(w, result, &x, result2, &x2);
}

void act_same_open(struct world *w, const struct step *s)
{
	char path[PATH_ROOM];
	int dir = world_at(w, &s->at, path);
	struct statx x, x2;
	int result = ask(dir, path, 0, &x), result2 = ask(w->slots[s->slot], "", AT_EMPTY_PATH, &x2);

	if (!act_is_ghost(w, s->slot)) /* whose number may be another's by now */
		say_same(w, result, &x, result2, &x2);
}

/* What has capabilities gets no set-id bits: see twin.h. */
static uint32_t mode_for(const struct step *s, int fd, const char *path)
{
	return act_has_capability(fd, path) ? s->mode & 0777 : s->mode;
}

void act_chmod(struct world *w, const struct step *s)
{
	char path[PATH_ROOM];

	world_path(&s->at, path);
	say_result(w, chmod(path, mode_for(s, -1, path)));
	say_stat(w, AT_FDCWD, path, 0);
}

void act_fchmod(struct world *w, const struct step *s)
{
	say_result(w, fchmod(w->slots[s->slot], mode_for(s, w->slots[s->slot], NULL)));
}

/* To nobody, by someone who may not: see twin.h. */
static bool is_void_chown(const struct step *s, int dir, const char *path, int flags)
{
	struct statx x;

	if (s->uid != (uint32_t)-1 || s->gid != (uint32_t)-1 || !s->actor)
		return false;
	return ask(dir, path, flags, &x) == 0 && x.stx_uid != geteuid();
}

void act_chown(struct world *w, const struct step *s)
{
	char path[PATH_ROOM];
	int dir = world_at(w, &s->at, path);

	if (is_void_chown(s, dir, path, (int)s->flags))
		return;
	say_result(w, fchownat(dir, path, s->uid, s->gid, (int)s->flags));
	say_stat(w, dir, path, (int)s->flags);
}

void act_fchown(struct world *w, const struct step *s)
{
	if (is_void_chown(s, w->slots[s->slot], "", AT_EMPTY_PATH))
		return;
	say_result(w, fchown(w->slots[s->slot], s->uid, s->gid));
	say_stat(w, w->slots[s->slot], "", AT_EMPTY_PATH);
}

/* The past, down to 1902, so that it is not taken for the present; or now, or not at all. */
static struct timespec time_from(int64_t number, uint32_t kind)
{
	if (kind % 4 == 0)
		return (struct timespec){ 0, UTIME_NOW };
	if (kind % 4 == 1)
		return (struct timespec){ 0, UTIME_OMIT };
	return (struct timespec){ number * 700 - 2000000000ll * (kind / 4 % 2), number * 7919 % 1000000000 };
}

static void make_times(const struct step *s, struct timespec times[2])
{
	times[0] = time_from(s->off & 0xfffff, s->value);
	times[1] = time_from(s->off2 & 0xfffff, s->value >> 8);
}

static void say_times(struct world *w, int dir, const char *path, int flags, const struct timespec times[2])
{
	struct statx x;

	if (ask(dir, path, flags, &x) < 0)
		return;
	/* The way to a symlink may lead through it. */
	if (times[0].tv_nsec != UTIME_NOW && times[0].tv_nsec != UTIME_OMIT && !S_ISLNK(x.stx_mode))
		say(w, " atime=%lld.%09u", (long long)x.stx_atime.tv_sec, x.stx_atime.tv_nsec);
	say_attributes(w, &x);
}

void act_utimens(struct world *w, const struct step *s)
{
	char path[PATH_ROOM];
	int dir = world_at(w, &s->at, path);
	struct timespec times[2];
	int result;

	make_times(s, times);
	result = utimensat(dir, path, times, (int)s->flags);
	say_result(w, result);
	if (result == 0)
		say_times(w, dir, path, (int)s->flags, times);
}

void act_futimens(struct world *w, const struct step *s)
{
	struct timespec times[2];
	int result;

	make_times(s, times);
	result = futimens(w->slots[s->slot], times);
	say_result(w, result);
	if (result == 0)
		say_times(w, w->slots[s->slot], "", AT_EMPTY_PATH, times);
}

void act_access(struct world *w, const struct step *s)
{
	char path[PATH_ROOM];
	int dir = world_at(w, &s->at, path);

	say_result(w, faccessat(dir, path, (int)(s->mode >> 6 & 7), (int)s->flags));
}

void act_statfs(struct world *w, const struct step *s)
{
	char path[PATH_ROOM];
	struct statvfs st;
	int result;

	world_path(&s->at, path);
	result = statvfs(path, &st);
	say_result(w, result);
	if (result == 0)
		say(w, " bsize=%lu frsize=%lu namemax=%lu", st.f_bsize, st.f_frsize, st.f_namemax);
}

static bool has_flags(const struct world *w, unsigned int slot)
{
	struct stat st;

	return fstat(w->slots[slot], &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode));
}

void act_get_flags(struct world *w, const struct step *s)
{
	int flags = 0, result = !has_flags(w, s->slot) ? 0 : ioctl(w->slots[s->slot], FS_IOC_GETFLAGS, &flags);

	say_result(w, result);
	say(w, " %#x", flags);
}

/* Only those that change nothing that the kernel decides by: with others the tree could not be removed. */
void act_set_flags(struct world *w, const struct step *s)
{
	int flags = 0, result = !has_flags(w, s->slot) ? -1 : ioctl(w->slots[s->slot], FS_IOC_GETFLAGS, &flags);

	if (result == 0) {
		flags = (flags & ~(FS_NODUMP_FL | FS_NOATIME_FL)) | (int)s->flags;
		result = ioctl(w->slots[s->slot], FS_IOC_SETFLAGS, &flags);
	}
	say_result(w, result);
}
