/* SPDX-License-Identifier: MIT */
#include <grp.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sysmacros.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "acts.h"
#include "twin.h"

/* A time at or above this is the present: steps set earlier ones only. */
#define PRESENT_S 1600000000ll

static const struct actor {
	uid_t uid;
	gid_t gid, group; /* and one supplementary group */
} actors[] = { { 0, 0, 0 }, { 1000, 1000, 2000 }, { 1001, 1001, 1000 } };

static void (*const acts[])(struct world *, const struct step *) = {
#define STEP(name, weight, uses, choices) [STEP_##name] = act_##name,
#include "steps.def"
#undef STEP
};

void say(struct world *w, const char *fmt, ...)
{
	struct memory *m = w->memory;
	va_list args;
	int len;

	va_start(args, fmt);
	len = vsnprintf(m->text + m->used, TEXT_MAX - m->used, fmt, args);
	va_end(args);
	if (len < 0 || (size_t)len >= TEXT_MAX - m->used)
		_exit(3); /* the parent says that the world has ended */
	m->used += (uint32_t)len;
}

void say_result(struct world *w, long result)
{
	char buf[16];

	if (result < 0)
		say(w, "%s", errno_name(errno, buf));
	else
		say(w, "%ld", result);
}

void say_bytes(struct world *w, const void *data, size_t len)
{
	say(w, " #%016llx", (unsigned long long)XXH3_64bits(data, len));
}

void say_attributes(struct world *w, const struct statx *x)
{
	say(w, " mode=%o nlink=%u uid=%u gid=%u size=%llu", x->stx_mode, x->stx_nlink, x->stx_uid, x->stx_gid,
		(unsigned long long)x->stx_size);
	if (S_ISCHR(x->stx_mode) || S_ISBLK(x->stx_mode))
		say(w, " rdev=%u:%u", x->stx_rdev_major, x->stx_rdev_minor);
	if (S_ISFIFO(x->stx_mode) || S_ISCHR(x->stx_mode))
		return;
	if (x->stx_mtime.tv_sec >= PRESENT_S)
		say(w, " mtime=now");
	else
		say(w, " mtime=%lld.%09u", (long long)x->stx_mtime.tv_sec, x->stx_mtime.tv_nsec);
	if (x->stx_ctime.tv_sec < PRESENT_S)
		say(w, " ctime=%lld", (long long)x->stx_ctime.tv_sec);
}

/* setresuid(2) and friends of the effective ids only: coming back to root must stay possible. */
void world_act_as(struct world *w, uint8_t actor)
{
	const struct actor *a = &actors[actor];

	if (w->actor == actor)
		return;
	if (setresuid((uid_t)-1, 0, (uid_t)-1) < 0 || setresgid((gid_t)-1, a->gid, (gid_t)-1) < 0 ||
		setgroups(a->group ? 1 : 0, &a->group) < 0 || setresuid((uid_t)-1, a->uid, (uid_t)-1) < 0)
		_exit(4);
	w->actor = actor;
}

int world_at(struct world *w, const struct place *place, char text[static PATH_ROOM])
{
	switch (place->base) {
	case BASE_ABSOLUTE:
		text[0] = '/';
		place_text(place, text + 1);
		return AT_FDCWD;
	case BASE_SLOT:
		place_text(place, text);
		return w->slots[place->slot];
	default:
		place_text(place, text);
		return place->base == BASE_CWD ? AT_FDCWD : w->root;
	}
}

void world_path(const struct place *place, char text[static PATH_ROOM])
{
	if (place->base == BASE_CWD) {
		place_text(place, text);
		return;
	}
	text[0] = '/';
	place_text(place, text + 1);
}

/* Locks of an open file end with it, through FUSE a moment later than that (RELEASE is not waited for): unlocked first. */
static void let_go(int fd)
{
	struct flock whole = { .l_type = F_UNLCK, .l_whence = SEEK_SET };

	flock(fd, LOCK_UN);
	fcntl(fd, F_OFD_SETLK, &whole);
}

void world_put(struct world *w, unsigned int slot, int fd)
{
	if (w->slots[slot] >= 0) {
		if (w->locked[slot])
			let_go(w->slots[slot]);
		close(w->slots[slot]);
	}
	w->slots[slot] = fd;
	w->locked[slot] = false;
}

const char *world_data(struct world *w, uint32_t value, size_t len)
{
	for (size_t i = 0; i < len; i += 4) {
		uint32_t word = value + (uint32_t)i * 0x9e3779b1u;

		memcpy(w->data + i, &word, len - i < 4 ? len - i : 4);
	}
	return w->data;
}

static void world_enter(struct world *w, const char *dir)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	w->proc_fd = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	w->scratch = memfd_create("scratch", MFD_CLOEXEC);
	w->data = malloc(DATA_MAX + 4);
	if (chdir(dir) < 0 || chroot(".") < 0 || w->proc_fd < 0 || w->scratch < 0 || !w->data) {
		log_errno(errno, "cannot live in '%s'", dir);
		_exit(5);
	}
	w->root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (unsigned int i = 0; i < SLOTS; i++)
		w->slots[i] = -1;
	for (unsigned int i = 0; i < MAPS; i++)
		w->maps[i] = (struct mapping){ .file = -1 };
	w->umask = 022;
	umask(022);
}

_Noreturn void world_run(const char *dir, struct memory *memory, const struct step *steps, size_t count)
{
	struct world w = { .memory = memory };

	world_enter(&w, dir);
	for (size_t i = 0; i < count; i++) {
		const struct step *step = &steps[i];

		memory->outcomes[i] = memory->used;
		atomic_store(&memory->begun, (uint32_t)i + 1);
		if (w.umask != step->umask)
			umask(w.umask = step->umask);
		world_act_as(&w, step->actor);
		acts[step->kind](&w, step);
		memory->text[memory->used++] = '\0';
	}
	_exit(0);
}
