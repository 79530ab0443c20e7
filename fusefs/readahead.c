/* SPDX-License-Identifier: MIT */
#include "readahead.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base.h"
#include "fs.h"

#define MOST_DIRECTORIES 64 /* that wait: more would use up descriptors, and come too late anyway */
#define CHUNK 16	    /* entries that a thread takes at a time: large enough to seldom need the lock */
#define LIST_BUFFER (32u << 10)

struct entry {
	uint64_t ino;
	size_t name; /* where in the directory's names */
	unsigned char type;
};

struct directory {
	struct directory *next;
	int fd;
	bool listed;	 /* entries are there; until then one thread reads them */
	unsigned int users; /* threads at work on it */
	struct entry *entries;
	size_t count, size, taken;
	struct strbuf names;
};

struct readahead {
	pthread_mutex_t lock;
	pthread_cond_t work;
	struct directory *first; /* in the order in which they were opened */
	size_t waiting;
	bool stop;
	pthread_t threads[READAHEAD_MAX_THREADS];
	unsigned int n_threads;
};

static void directory_free(struct directory *dir)
{
	close(dir->fd);
	free(dir->entries);
	strbuf_free(&dir->names);
	free(dir);
}

/* The directory's own atime is not to change because of us; who is not the owner may not ask for that. */
static int open_directory(int fd, const char *name)
{
	int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
	int opened = openat(fd, name, flags | O_NOATIME);

	return opened < 0 && errno == EPERM ? openat(fd, name, flags) : opened;
}

static void add_entry(struct directory *dir, const struct dirent64 *entry)
{
	if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
		return;
	if (dir->count == dir->size) {
		size_t size = dir->size * 2 + 64;
		struct entry *grown = reallocarray(dir->entries, size, sizeof(*grown));

		if (!grown)
			return;
		dir->entries = grown;
		dir->size = size;
	}
	dir->entries[dir->count++] = (struct entry){ entry->d_ino, dir->names.len, entry->d_type };
	strbuf_add(&dir->names, entry->d_name, strlen(entry->d_name) + 1);
}

/* Inodes lie on the disk by number, more or less; names in the order of their hashes. */
static int compare_entries(const void *a, const void *b)
{
	uint64_t x = ((const struct entry *)a)->ino, y = ((const struct entry *)b)->ino;

	return (x > y) - (x < y);
}

static void list(struct directory *dir, char *buf)
{
	ssize_t got;

	while ((got = getdents64(dir->fd, buf, LIST_BUFFER)) > 0)
		for (ssize_t pos = 0; pos < got;) {
			const struct dirent64 *entry = (const void *)(buf + pos);

			add_entry(dir, entry);
			pos += entry->d_reclen;
		}
	if (dir->names.failed)
		dir->count = 0;
	if (dir->count)
		array_sort(dir->entries, dir->count, sizeof(*dir->entries), compare_entries);
}

static void look_at(const struct directory *dir, const struct entry *entry, char *buf)
{
	const char *name = dir->names.buf + entry->name;
	struct stat st;
	int fd;

	if (fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0 || !S_ISDIR(st.st_mode))
		return;
	fd = open_directory(dir->fd, name);
	if (fd < 0)
		return;
	while (getdents64(fd, buf, LIST_BUFFER) > 0)
		;
	close(fd);
}

/* The first directory with something to do for one more thread; those that are exhausted leave the queue. Locked. */
static struct directory *next_work(struct readahead *r, size_t *ret_from)
{
	struct directory **link = &r->first;

	while (*link) {
		struct directory *dir = *link;

		if (!dir->listed && !dir->users)
			return dir;
		if (dir->listed && dir->taken < dir->count) {
			*ret_from = dir->taken;
			dir->taken += CHUNK;
			return dir;
		}
		if (dir->listed && !dir->users) {
			*link = dir->next;
			r->waiting--;
			directory_free(dir);
		} else {
			link = &dir->next;
		}
	}
	return NULL;
}

static void work_on(struct readahead *r, struct directory *dir, size_t from, char *buf)
{
	bool listed = dir->listed;

	dir->users++;
	pthread_mutex_unlock(&r->lock);
	if (!listed)
		list(dir, buf);
	for (size_t i = from; listed && i < from + CHUNK && i < dir->count; i++)
		look_at(dir, &dir->entries[i], buf);
	pthread_mutex_lock(&r->lock);
	dir->users--;
	dir->listed = true;
	if (!listed)
		pthread_cond_broadcast(&r->work);
}

static void *run(void *arg)
{
	struct readahead *r = arg;
	char *buf = malloc(LIST_BUFFER);

	pthread_mutex_lock(&r->lock);
	while (buf && !r->stop) {
		size_t from = 0;
		struct directory *dir = next_work(r, &from);

		if (dir)
			work_on(r, dir, from, buf);
		else
			pthread_cond_wait(&r->work, &r->lock);
	}
	pthread_mutex_unlock(&r->lock);
	free(buf);
	return NULL;
}

int readahead_start(struct fs *fs, struct readahead **ret_readahead)
{
	struct readahead *r;
	int err = 0;

	*ret_readahead = NULL;
	if (!fs->options.dir_readahead)
		return 0;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->work, NULL);
	while (r->n_threads < fs->options.dir_readahead && err == 0) {
		err = -pthread_create(&r->threads[r->n_threads], NULL, run, r);
		r->n_threads += err == 0;
	}
	if (err < 0)
		readahead_stop(r);
	else
		*ret_readahead = r;
	return err;
}

void readahead_directory(struct readahead *r, int fd)
{
	struct directory *dir = r ? calloc(1, sizeof(*dir)) : NULL, **link;

	if (!dir)
		return;
	dir->fd = open_directory(fd, ".");
	if (dir->fd < 0) {
		free(dir);
		return;
	}
	pthread_mutex_lock(&r->lock);
	if (r->waiting < MOST_DIRECTORIES && !r->stop) {
		for (link = &r->first; *link; link = &(*link)->next)
			;
		*link = dir;
		r->waiting++;
		dir = NULL;
		pthread_cond_signal(&r->work);
	}
	pthread_mutex_unlock(&r->lock);
	if (dir)
		directory_free(dir);
}

void readahead_stop(struct readahead *r)
{
	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	r->stop = true;
	pthread_cond_broadcast(&r->work);
	pthread_mutex_unlock(&r->lock);
	for (unsigned int i = 0; i < r->n_threads; i++)
		pthread_join(r->threads[i], NULL);
	while (r->first) {
		struct directory *dir = r->first;

		r->first = dir->next;
		directory_free(dir);
	}
	pthread_cond_destroy(&r->work);
	pthread_mutex_destroy(&r->lock);
	free(r);
}
