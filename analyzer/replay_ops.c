/* SPDX-License-Identifier: MIT */
/*
 * replay_ops.c - the system calls of actions on names and objects; replay_ops_file.c has those on open files.
 *
 * Names were checked when the plan was made, directories come from dirs_get(), and nothing here follows a symlink.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#include "beneath.h"
#include "replay_worker.h"

static int64_t (*const replayers[OP_COUNT])(struct worker *, const struct action *) = {
#define REPLAYER_true(function)                    function
#define REPLAYER_false(function)                   NULL
#define OP(code, name, class, reply, cols, replay) [OP_##name] = REPLAYER_##replay(replay_##name),
#include "ops.def"
#undef OP
};

int64_t worker_perform(struct worker *w, const struct action *a)
{
	return replayers[a->op] ? replayers[a->op](w, a) : -EOPNOTSUPP;
}

static const char *text(const struct worker *w, uint32_t number)
{
	return plan_text(w->replay->plan, number);
}

/* Where an object is reached: arguments for *at(2) calls. `held`: the directory to put back, or 0. */
struct spot {
	int fd, flags;
	const char *name;
	uint32_t held;
};

static int spot_find(struct worker *w, const struct action *a, struct spot *ret)
{
	*ret = (struct spot){ .name = "", .flags = AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW };
	if (a->by_handle) {
		ret->fd = atomic_load_explicit(&w->replay->files[a->handle].fd, memory_order_relaxed);
		return ret->fd < 0 ? -EBADF : 0;
	}
	ret->held = a->object;
	if (!action_is_dir(w->replay->plan, a)) {
		ret->held = a->dir;
		ret->name = text(w, a->name);
		ret->flags = AT_SYMLINK_NOFOLLOW;
	}
	ret->fd = dirs_get(w->replay->dirs, ret->held);
	return ret->fd < 0 ? ret->fd : 0;
}

static int64_t spot_done(struct worker *w, const struct spot *spot, int64_t result)
{
	if (spot->held)
		dirs_put(w->replay->dirs, spot->held);
	return result;
}

/* A path of the object for calls that take nothing else. Of a name in a directory only for those that do not follow. */
static struct beneath_at spot_path(const struct spot *spot)
{
	struct beneath_at at;

	if (spot->name[0])
		return beneath_at(spot->fd, spot->name);
	snprintf(at.text, sizeof(at.text), "/proc/self/fd/%d", spot->fd);
	return at;
}

/* --- names ------------------------------------------------------------------------------------------------------- */

int64_t replay_lookup(struct worker *w, const struct action *a)
{
	int fd = dirs_get(w->replay->dirs, a->dir);
	struct stat st;
	int64_t result;

	if (fd < 0)
		return fd;
	result = TIMED(w, fstatat(fd, text(w, a->name), &st, AT_SYMLINK_NOFOLLOW)) < 0 ? -errno : 0;
	dirs_put(w->replay->dirs, a->dir);
	if (result == 0 && a->result == 0 && a->mode && (st.st_mode ^ a->mode) & S_IFMT)
		w->state = OUTCOME_TYPE;
	return result;
}

/* A name made or removed in one directory. */
#define IN_DIR(w, a, call)                                                                                            \
	({                                                                                                            \
		int fd = dirs_get((w)->replay->dirs, (a)->dir);                                                       \
		const char *name = text(w, (a)->name);                                                                \
		int64_t in_dir_result = fd;                                                                           \
		if (fd >= 0) {                                                                                        \
			in_dir_result = TIMED(w, call) < 0 ? -errno : 0;                                              \
			dirs_put((w)->replay->dirs, (a)->dir);                                                        \
		}                                                                                                     \
		in_dir_result;                                                                                        \
	})

int64_t replay_mkdir(struct worker *w, const struct action *a)
{
	return IN_DIR(w, a, mkdirat(fd, name, a->mode & 07777));
}

int64_t replay_mknod(struct worker *w, const struct action *a)
{
	dev_t rdev = (dev_t)plan_arg(w->replay->plan, a, ARG_RDEV, NULL);

	return IN_DIR(w, a, mknodat(fd, name, worker_mode(w, a->mode), rdev));
}

int64_t replay_symlink(struct worker *w, const struct action *a)
{
	return IN_DIR(w, a, symlinkat(text(w, a->name2), fd, name));
}

int64_t replay_unlink(struct worker *w, const struct action *a)
{
	return IN_DIR(w, a, unlinkat(fd, name, 0));
}

int64_t replay_rmdir(struct worker *w, const struct action *a)
{
	const struct object *object = a->object ? &w->replay->plan->objects[a->object] : NULL;
	int64_t result;

	/* Somebody goes on in it after it is gone: its descriptor has to be there by then, and stays. */
	if (object && object->used_after_removal && dirs_get(w->replay->dirs, a->object) >= 0)
		dirs_put(w->replay->dirs, a->object);
	result = IN_DIR(w, a, unlinkat(fd, name, AT_REMOVEDIR));
	if (result == 0 && object)
		dirs_removed(w->replay->dirs, a->object);
	return result;
}

/* Two directories' descriptors at once. */
static int64_t between(
	struct worker *w, const struct action *a, int64_t (*call)(struct worker *, const struct action *, int, int))
{
	int fd = dirs_get(w->replay->dirs, a->dir), fd2;
	int64_t result;

	if (fd < 0)
		return fd;
	fd2 = dirs_get(w->replay->dirs, a->dir2);
	result = fd2 < 0 ? fd2 : call(w, a, fd, fd2);
	if (fd2 >= 0)
		dirs_put(w->replay->dirs, a->dir2);
	dirs_put(w->replay->dirs, a->dir);
	return result;
}

static int64_t call_rename(struct worker *w, const struct action *a, int fd, int fd2)
{
	return TIMED(w, renameat2(fd, text(w, a->name), fd2, text(w, a->name2), a->flags)) < 0 ? -errno : 0;
}

int64_t replay_rename(struct worker *w, const struct action *a)
{
	struct dirs *dirs = w->replay->dirs;
	const struct plan *plan = w->replay->plan;
	uint32_t other = a->handle2;
	int64_t result = between(w, a, call_rename);

	if (result != 0 || !a->object)
		return result;
	if (plan->objects[a->object].type != OBJECT_OTHER)
		dirs_moved(dirs, a->object, a->dir2, a->name2);
	if (other && plan->objects[other].type == OBJECT_DIR) {
		if (a->flags & RENAME_EXCHANGE)
			dirs_moved(dirs, other, a->dir, a->name);
		else
			dirs_removed(dirs, other);
	}
	return 0;
}

static int64_t call_link(struct worker *w, const struct action *a, int fd, int fd2)
{
	return TIMED(w, linkat(fd2, text(w, a->name2), fd, text(w, a->name), 0)) < 0 ? -errno : 0;
}

int64_t replay_link(struct worker *w, const struct action *a)
{
	return between(w, a, call_link);
}

/* --- attributes -------------------------------------------------------------------------------------------------- */

int64_t replay_getattr(struct worker *w, const struct action *a)
{
	struct stat st;
	struct spot spot;
	int err = spot_find(w, a, &spot);

	return err ?: spot_done(w, &spot, TIMED(w, fstatat(spot.fd, spot.name, &st, spot.flags)) < 0 ? -errno : 0);
}

static struct timespec time_arg(const struct plan *plan, const struct action *a, enum arg_key key, enum arg_key now)
{
	bool found;
	int64_t ns = plan_arg(plan, a, key, &found);
	struct timespec ts = { .tv_nsec = UTIME_OMIT };

	if (found) {
		ts.tv_sec = ns / NSEC_PER_SEC - (ns % NSEC_PER_SEC < 0);
		ts.tv_nsec = ns % NSEC_PER_SEC + (ns % NSEC_PER_SEC < 0 ? NSEC_PER_SEC : 0);
	}
	plan_arg(plan, a, now, &found);
	if (found)
		ts.tv_nsec = UTIME_NOW;
	return ts;
}

/* chmod(2) and truncate(2) follow links, so they get the object itself: an O_PATH descriptor of it. */
static int64_t set_by_path(struct worker *w, const struct action *a, const struct spot *spot)
{
	const struct plan *plan = w->replay->plan;
	int auto_close own = -1;
	struct beneath_at path;
	bool mode, size;
	mode_t bits = (mode_t)plan_arg(plan, a, ARG_MODE, &mode) & 07777;
	int64_t bytes = plan_arg(plan, a, ARG_SIZE, &size), result = 0;

	if (!mode && !size)
		return 0;
	if (spot->name[0]) {
		int err = beneath_open(spot->fd, spot->name, O_PATH, 0, &own);

		if (err < 0)
			return err;
	}
	path = spot_path(&(struct spot){ .fd = own >= 0 ? own : spot->fd, .name = "" });
	if (mode)
		result = TIMED(w, chmod(path.text, action_is_dir(plan, a) ? bits : worker_mode(w, bits))) < 0 ?
				 -errno :
				 0;
	if (result == 0 && size && a->by_handle)
		result = TIMED(w, ftruncate(spot->fd, bytes)) < 0 ? -errno : 0;
	else if (result == 0 && size)
		result = TIMED(w, truncate(path.text, bytes)) < 0 ? -errno : 0;
	return result;
}

/* In the order in which the recorder did it. */
int64_t replay_setattr(struct worker *w, const struct action *a)
{
	const struct plan *plan = w->replay->plan;
	struct timespec times[2] = {
		time_arg(plan, a, ARG_ATIME, ARG_ATIME_NOW),
		time_arg(plan, a, ARG_MTIME, ARG_MTIME_NOW),
	};
	bool owner, group;
	uid_t uid = (uid_t)plan_arg(plan, a, ARG_UID, &owner);
	gid_t gid = (gid_t)plan_arg(plan, a, ARG_GID, &group);
	struct spot spot;
	int64_t result = spot_find(w, a, &spot);

	if (result < 0)
		return result;
	if (owner || group)
		result = TIMED(w, fchownat(spot.fd, spot.name, owner ? uid : (uid_t)-1, group ? gid : (gid_t)-1,
					  spot.flags)) < 0 ?
				 -errno :
				 0;
	result = result ?: set_by_path(w, a, &spot);
	if (result == 0 && (times[0].tv_nsec != UTIME_OMIT || times[1].tv_nsec != UTIME_OMIT))
		result = TIMED(w, utimensat(spot.fd, spot.name, times, spot.flags)) < 0 ? -errno : 0;
	return spot_done(w, &spot, result);
}

int64_t replay_readlink(struct worker *w, const struct action *a)
{
	char target[4096];
	struct spot spot;
	ssize_t got;
	int err = spot_find(w, a, &spot);

	if (err < 0)
		return err;
	got = TIMED(w, readlinkat(spot.fd, spot.name, target, sizeof(target)));
	return spot_done(w, &spot, got < 0 ? -errno : got);
}

int64_t replay_access(struct worker *w, const struct action *a)
{
	struct spot spot;
	int64_t result = spot_find(w, a, &spot);

	if (result < 0)
		return result;
	result = TIMED(w, faccessat(spot.fd, spot.name, (int)a->mode & 7, spot.flags | AT_EACCESS)) < 0 ? -errno : 0;
	return spot_done(w, &spot, result);
}

/* Of whatever the object is in: all objects of a run are on one filesystem. */
int64_t replay_statfs(struct worker *w, const struct action *a)
{
	struct statvfs info;
	struct spot spot;
	int err = spot_find(w, a, &spot);

	return err ?: spot_done(w, &spot, TIMED(w, fstatvfs(spot.fd, &info)) < 0 ? -errno : 0);
}

/* --- extended attributes ----------------------------------------------------------------------------------------- */

static const char *attribute(const struct worker *w, const struct action *a)
{
	return text(w, (uint32_t)plan_arg(w->replay->plan, a, ARG_NAME, NULL));
}

static int64_t unhex(const char *hex, char *bytes)
{
	static const char digits[] = "0123456789abcdef";
	int64_t count = 0;

	for (; hex[0] && hex[1]; hex += 2, count++) {
		const char *high = strchr(digits, hex[0] | 0x20), *low = strchr(digits, hex[1] | 0x20);

		if (!high || !low)
			return -EINVAL;
		bytes[count] = (char)((high - digits) << 4 | (low - digits));
	}
	return count;
}

/* The recorded value, or as many bytes of our own. */
static int64_t value_of(struct worker *w, const struct action *a, char **ret_value)
{
	bool found;
	const char *hex = text(w, (uint32_t)plan_arg(w->replay->plan, a, ARG_VALUE, &found));
	size_t len = found ? strlen(hex) / 2 : (size_t)a->length;
	char *value = worker_buffer(w, len + 1);

	if (!value)
		return -ENOMEM;
	*ret_value = value;
	if (found)
		return unhex(hex, value);
	filler_fill(&w->replay->options->filler, a->object, 0, value, len);
	return (int64_t)len;
}

/* setxattr(2) and so on, with an l before it unless the object is reached by a link of /proc, which is to be followed. */
#define XATTR(w, spot, call, ...)                                                                                     \
	({                                                                                                            \
		struct beneath_at path = spot_path(spot);                                                             \
		int64_t xattr_result = (spot)->name[0] ? TIMED(w, l##call(path.text, __VA_ARGS__)) :                  \
							 TIMED(w, call(path.text, __VA_ARGS__));                      \
		spot_done(w, spot, xattr_result < 0 ? -errno : xattr_result);                                         \
	})

int64_t replay_setxattr(struct worker *w, const struct action *a)
{
	struct spot spot;
	char *value;
	int64_t len = value_of(w, a, &value);
	int err = len < 0 ? (int)len : spot_find(w, a, &spot);

	return err ?: XATTR(w, &spot, setxattr, attribute(w, a), value, (size_t)len, (int)a->flags);
}

int64_t replay_removexattr(struct worker *w, const struct action *a)
{
	struct spot spot;
	int err = spot_find(w, a, &spot);

	return err ?: XATTR(w, &spot, removexattr, attribute(w, a));
}

int64_t replay_getxattr(struct worker *w, const struct action *a)
{
	char *buf = worker_buffer(w, (size_t)a->length + 1);
	struct spot spot;
	int err = buf ? spot_find(w, a, &spot) : -ENOMEM;

	return err ?: XATTR(w, &spot, getxattr, attribute(w, a), buf, (size_t)a->length);
}

int64_t replay_listxattr(struct worker *w, const struct action *a)
{
	char *buf = worker_buffer(w, (size_t)a->length + 1);
	struct spot spot;
	int err = buf ? spot_find(w, a, &spot) : -ENOMEM;

	return err ?: XATTR(w, &spot, listxattr, buf, (size_t)a->length);
}
