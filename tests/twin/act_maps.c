/* SPDX-License-Identifier: MIT */
/* act_maps.c - steps on mappings of files, and on locks. */
#include <sys/file.h>
#include <sys/mman.h>

#include "acts.h"

#define PAGE 4096ll

static void unmap(struct mapping *map)
{
	if (!map->at)
		return;
	munmap(map->at, map->len);
	close(map->file);
	*map = (struct mapping){ .file = -1 };
}

void act_map(struct world *w, const struct step *s)
{
	size_t len = s->len % (16 * PAGE) + 1;
	off_t offset = s->off & ~(PAGE - 1);
	bool shared = !(s->flags & 1u << 16);
	int file;
	char *at = mmap(NULL, len, (int)s->flags & 7, shared ? MAP_SHARED : MAP_PRIVATE, w->slots[s->slot], offset);

	say_result(w, at == MAP_FAILED ? -1 : 0);
	if (at == MAP_FAILED)
		return;
	unmap(&w->maps[s->map]);
	file = fcntl(w->slots[s->slot], F_DUPFD_CLOEXEC, 0); /* the mapping keeps the file open anyway */
	w->maps[s->map] = (struct mapping){ .at = at, .len = len, .offset = offset, .file = file, .shared = shared };
}

void act_unmap(struct world *w, const struct step *s)
{
	unmap(&w->maps[s->map]);
	say(w, "0");
}

/* The part of [off, off + len) that is inside the mapping and inside the file: what is beyond has no defined contents. */
static size_t clip(const struct mapping *map, const struct step *s, size_t *ret_at)
{
	struct stat st;
	size_t at, len = s->len % (8 * PAGE), end;

	if (!map->at || fstat(map->file, &st) < 0 || st.st_size <= map->offset)
		return 0;
	end = (size_t)(st.st_size - map->offset) < map->len ? (size_t)(st.st_size - map->offset) : map->len;
	at = (size_t)(s->off & 0xffff) % end;
	*ret_at = at;
	return len < end - at ? len : end - at;
}

/* Through a memfd: where a plain store would be a signal, read(2) into the mapping is an error. */
void act_poke(struct world *w, const struct step *s)
{
	struct mapping *map = &w->maps[s->map];
	size_t at = 0, len = clip(map, s, &at);

	if (!len || act_has_capability(map->file, NULL) ||
		pwrite(w->scratch, world_data(w, s->value, len), len, 0) != (ssize_t)len) {
		say(w, "nothing");
		return;
	}
	say_result(w, pread(w->scratch, map->at + at, len, 0));
	say(w, " ");
	say_result(w, msync(map->at, map->len, MS_SYNC));
}

void act_peek(struct world *w, const struct step *s)
{
	struct mapping *map = &w->maps[s->map];
	size_t at = 0, len = clip(map, s, &at);
	ssize_t got;

	if (!len) {
		say(w, "nothing");
		return;
	}
	got = pwrite(w->scratch, map->at + at, len, 0);
	say_result(w, got);
	if (got > 0 && pread(w->scratch, w->data, (size_t)got, 0) == got)
		say_bytes(w, w->data, (size_t)got);
}

/* --- locks --------------------------------------------------------------------------------------------------------- */

void act_flock(struct world *w, const struct step *s)
{
	int result = flock(w->slots[s->slot], (int)s->flags | LOCK_NB);

	say_result(w, result);
	if (result == 0)
		w->locked[s->slot] = true;
}

static struct flock lock_of(const struct step *s)
{
	return (struct flock){
		.l_type = (short)s->flags,
		.l_whence = SEEK_SET,
		.l_start = s->off,
		.l_len = s->len % 3 ? s->len : 0,
	};
}

static void lock(struct world *w, const struct step *s, int command)
{
	struct flock fl = lock_of(s);
	int result = fcntl(w->slots[s->slot], command, &fl);

	say_result(w, result);
	if (result == 0 && command == F_OFD_SETLK)
		w->locked[s->slot] = true;
}

void act_lock(struct world *w, const struct step *s)
{
	lock(w, s, F_SETLK);
}

void act_ofd_lock(struct world *w, const struct step *s)
{
	lock(w, s, F_OFD_SETLK);
}

void act_ofd_get_lock(struct world *w, const struct step *s)
{
	struct flock fl = lock_of(s);
	int result = fcntl(w->slots[s->slot], F_OFD_GETLK, &fl);

	say_result(w, result);
	if (result == 0)
		say(w, " type=%d", fl.l_type);
}
