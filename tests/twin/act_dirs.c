/* SPDX-License-Identifier: MIT */
/* act_dirs.c - steps that read directories. */
#include <dirent.h>
#include <string.h>

#include "acts.h"

struct item {
	char name[256];
	ino_t ino;
	off_t next;
	unsigned char type;
};

struct listing {
	struct item *items;
	size_t count, room;
};

static void listing_add(struct listing *l, const struct dirent64 *entry)
{
	struct item *item;

	if (l->count == l->room) {
		l->room = l->room * 2 + 128;
		l->items = realloc(l->items, l->room * sizeof(*l->items));
		if (!l->items)
			_exit(6);
	}
	item = &l->items[l->count++];
	*item = (struct item){ .ino = entry->d_ino, .next = entry->d_off, .type = entry->d_type };
	memcpy(item->name, entry->d_name, strnlen(entry->d_name, sizeof(item->name) - 1));
}

/* From where the descriptor stands to the end, or one buffer's worth. 0 or -1 with errno. */
static int listing_read(struct listing *l, int fd, bool all)
{
	_Alignas(struct dirent64) char buf[1024];
	ssize_t got;

	while ((got = getdents64(fd, buf, sizeof(buf))) > 0) {
		for (ssize_t at = 0; at < got;) {
			const struct dirent64 *entry = (const void *)(buf + at);

			listing_add(l, entry);
			at += entry->d_reclen;
		}
		if (!all)
			break;
	}
	return got < 0 ? -1 : 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct item *)a)->name, ((const struct item *)b)->name);
}

/* Types may be unknown to the filesystem. The number of ".." in a root is that of what is above. */
static void say_item(struct world *w, int fd, struct item item)
{
	struct stat st;

	say(w, "\n  %s", item.name);
	if (strcmp(item.name, ".") == 0 || strcmp(item.name, "..") == 0 ||
		fstatat(fd, item.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	if (item.ino != st.st_ino)
		say(w, " another number than its inode");
	if (item.type != DT_UNKNOWN && item.type != IFTODT(st.st_mode))
		say(w, " another type than its inode");
}

static void say_listing_of(struct world *w, int fd, struct listing *l, const char *without)
{
	if (!l->items) /* a removed directory lists not even "." */
		return;
	qsort(l->items, l->count, sizeof(*l->items), by_name);
	for (size_t i = 0; i < l->count; i++)
		if (!without || strcmp(l->items[i].name, without) != 0)
			say_item(w, fd, l->items[i]);
}

void say_listing(struct world *w, int fd)
{
	struct listing l = {};

	if (listing_read(&l, fd, true) < 0)
		say_result(w, -1);
	else
		say_listing_of(w, fd, &l, NULL);
	free(l.items);
}

void act_list(struct world *w, const struct step *s)
{
	char path[PATH_ROOM];
	int dir = world_at(w, &s->at, path);
	int auto_close fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	say_result(w, fd < 0 ? fd : 0);
	if (fd >= 0)
		say_listing(w, fd);
}

/* A directory that was opened earlier, and may have been removed or changed since. */
void act_list_open(struct world *w, const struct step *s)
{
	int fd = w->slots[s->slot];
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISDIR(st.st_mode)) {
		say(w, "no directory");
		return;
	}
	say_result(w, lseek(fd, 0, SEEK_SET));
	say_listing(w, fd);
}

/* What follows a position is the same every time. */
void act_list_seek(struct world *w, const struct step *s)
{
	char path[PATH_ROOM];
	int dir = world_at(w, &s->at, path);
	int auto_close fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct listing l = {}, rest = {};
	size_t from;

	if (fd < 0 || listing_read(&l, fd, true) < 0 || !l.count) {
		say_result(w, -1);
		goto out;
	}
	from = s->value % l.count;
	if (lseek(fd, l.items[from].next, SEEK_SET) < 0 || listing_read(&rest, fd, true) < 0) {
		say_result(w, -1);
		goto out;
	}
	say(w, "%zu entries", l.count);
	if (rest.count != l.count - from - 1)
		say(w, ", after number %zu there are %zu", from, rest.count);
	for (size_t i = 0; i < rest.count && from + 1 + i < l.count; i++)
		if (strcmp(rest.items[i].name, l.items[from + 1 + i].name) != 0)
			say(w, ", '%s' where '%s' was", rest.items[i].name, l.items[from + 1 + i].name);
out:
	free(l.items);
	free(rest.items);
}

/* An entry comes or goes between two reads: each of the others is there once. */
void act_list_changing(struct world *w, const struct step *s)
{
	char path[PATH_ROOM], name[PATH_ROOM];
	struct place leaf = { .base = BASE_ROOT, .text = { s->at2.text[0] } };
	int dir = world_at(w, &s->at, path);
	int auto_close fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct listing l = {};
	int result, made;

	place_text(&leaf, name);
	if (fd < 0 || listing_read(&l, fd, false) < 0) {
		say_result(w, -1);
		goto out;
	}
	if (s->value & 1) {
		say_result(w, unlinkat(fd, name, 0));
	} else {
		made = openat(fd, name, O_WRONLY | O_CREAT | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC, 0644);
		say_result(w, made < 0 ? made : 0);
		if (made >= 0)
			close(made);
	}
	result = listing_read(&l, fd, true);
	say(w, " ");
	say_result(w, result);
	if (result == 0)
		say_listing_of(w, fd, &l, name);
out:
	free(l.items);
}
