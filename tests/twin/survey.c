/* SPDX-License-Identifier: MIT */
/* survey.c - everything there is in a world, as text: the tree, contents, attributes, and what open files see. */
#include <dirent.h>
#include <limits.h>
#include <string.h>
#include <sys/xattr.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "acts.h"
#include "twin.h"

#define INODES_MAX 4096
#define DEPTH_MAX 40

/* Inodes in the order in which they were met: their places here are comparable where their numbers are not. */
struct survey_state {
	size_t count;
	ino_t inodes[INODES_MAX];
};

static size_t index_of(struct survey_state *state, ino_t ino)
{
	size_t i = 0;

	while (i < state->count && state->inodes[i] != ino)
		i++;
	if (i == state->count && i < INODES_MAX)
		state->inodes[state->count++] = ino;
	return i;
}

/* Holes and zeros are the same; a sparse file of 4 GiB takes no longer than what is in it. */
static void say_contents(struct world *w, int fd)
{
	uint64_t sum = 0;
	off_t at = 0;
	ssize_t got = 0;

	while ((at = lseek(fd, at, SEEK_DATA)) >= 0) {
		at &= ~4095ll; /* btrfs and small files: data may begin anywhere */
		got = pread(fd, w->data, DATA_MAX, at);
		if (got <= 0)
			break;
		for (ssize_t i = 0; i < got; i++)
			if (w->data[i]) {
				ssize_t len = got - i < 256 ? got - i : 256 - (at + i) % 256;

				len = len < got - i ? len : got - i;
				sum += XXH3_64bits_withSeed(w->data + i, (size_t)len, (uint64_t)(at + i));
				i += len - 1;
			}
		at += got;
	}
	if (got < 0)
		say_result(w, -1);
	say(w, " contents=%llx", (unsigned long long)sum);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void say_xattrs(struct world *w, const char *path)
{
	char names[4096], *sorted[256];
	ssize_t len = llistxattr(path, names, sizeof(names));
	size_t count = 0;

	for (ssize_t at = 0; at < len && count < ARRAY_SIZE(sorted); at += (ssize_t)strlen(names + at) + 1)
		sorted[count++] = names + at;
	qsort(sorted, count, sizeof(*sorted), by_text);
	for (size_t i = 0; i < count; i++) {
		ssize_t got = lgetxattr(path, sorted[i], w->data, DATA_MAX);

		say(w, " %s=", sorted[i]);
		say_result(w, got);
		say_bytes(w, w->data, got > 0 ? (size_t)got : 0);
	}
}

static void survey_dir(struct world *w, struct survey_state *state, const char *path, int depth);

static void survey_name(struct world *w, struct survey_state *state, const char *path, int depth)
{
	char target[PATH_MAX];
	struct statx x;
	int result = statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &x);

	say(w, "\n%s ", path);
	say_result(w, result);
	if (result < 0)
		return;
	say(w, " inode %zu", index_of(state, x.stx_ino));
	say_attributes(w, &x);
	if (S_ISLNK(x.stx_mode)) {
		ssize_t len = readlink(path, target, sizeof(target));

		say_bytes(w, target, len > 0 ? (size_t)len : 0);
	} else if (S_ISREG(x.stx_mode)) {
		int auto_close fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

		if (fd < 0)
			say_result(w, -1);
		else
			say_contents(w, fd);
	}
	say_xattrs(w, path);
	if (S_ISDIR(x.stx_mode) && depth < DEPTH_MAX)
		survey_dir(w, state, path, depth);
}

static void survey_dir(struct world *w, struct survey_state *state, const char *path, int depth)
{
	struct dirent **entries = NULL;
	int count = scandir(path, &entries, NULL, NULL);

	if (count < 0) {
		say_result(w, -1);
		return;
	}
	for (int i = 1; i < count; i++) /* by bytes: a locale's order is no business of ours; few entries */
		for (int j = i; j > 0 && strcmp(entries[j - 1]->d_name, entries[j]->d_name) > 0; j--) {
			struct dirent *swap = entries[j];

			entries[j] = entries[j - 1];
			entries[j - 1] = swap;
		}
	for (int i = 0; i < count; i++) {
		char below[PATH_MAX];

		if (strcmp(entries[i]->d_name, ".") != 0 && strcmp(entries[i]->d_name, "..") != 0 &&
			snprintf(below, sizeof(below), "%s/%s", depth ? path : "", entries[i]->d_name) < (int)sizeof(below))
			survey_name(w, state, below, depth + 1);
		free(entries[i]);
	}
	free(entries);
}

static void survey_slot(struct world *w, struct survey_state *state, unsigned int slot)
{
	struct statx x;

	if (statx(w->slots[slot], "", AT_EMPTY_PATH, STATX_BASIC_STATS, &x) < 0)
		return;
	say(w, "\nfd%u: ", slot);
	if (!act_is_ghost(w, slot))
		say(w, "inode %zu", index_of(state, x.stx_ino));
	say_attributes(w, &x);
	if (S_ISREG(x.stx_mode))
		say(w, " position %lld", (long long)lseek(w->slots[slot], 0, SEEK_CUR));
}

/* As root, from the root, whoever and wherever the world is at the moment. */
void survey(struct world *w)
{
	struct survey_state *state = calloc(1, sizeof(*state));

	if (!state)
		_exit(6);
	world_act_as(w, 0);
	survey_name(w, state, "/", 0);
	for (unsigned int i = 0; i < SLOTS; i++)
		survey_slot(w, state, i);
	free(state);
}

void act_survey(struct world *w, const struct step *s)
{
	(void)s;
	survey(w);
}
