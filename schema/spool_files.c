/* SPDX-License-Identifier: MIT */
/* spool_files.c - making, opening and removing a spool's files. */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base.h"
#include "spool_internal.h"

#define STATE_MAGIC "fstapeST"
#define SEGMENT_MAGIC "fstapeSG"

static void *map_file(int fd, size_t size)
{
	void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);

	return map == MAP_FAILED ? NULL : map;
}

/* A file with all its blocks. On btrfs it must not be copied on write: that allocates anew, and fails late. */
static int make_file(int dir_fd, const char *name, off_t size)
{
	int auto_close fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int flags, err;

	if (fd < 0)
		return -errno;
	if (ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0) {
		flags |= FS_NOCOW_FL;
		ioctl(fd, FS_IOC_SETFLAGS, &flags); /* refused elsewhere, where it is not needed */
	}
	err = posix_fallocate(fd, 0, size);
	if (err) {
		unlinkat(dir_fd, name, 0);
		return -err;
	}
	return steal_fd(&fd);
}

static struct spool *spool_new(const char *dir)
{
	struct spool *spool = calloc(1, sizeof(*spool));
	pthread_condattr_t attr;

	if (!spool)
		return NULL;
	spool->dir_fd = spool->state_fd = -1;
	pthread_mutex_init(&spool->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&spool->freed, &attr);
	pthread_condattr_destroy(&attr);
	spool->dir = strdup(dir);
	spool->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (spool->dir && spool->dir_fd >= 0)
		return spool;
	spool_free(spool);
	return NULL;
}

/* The root may go with another run's spool between the two calls. The name is filled into `dir`. */
static int make_dirs(const char *root, char *dir)
{
	for (int tries = 0; tries < 100; tries++) {
		if (mkdir(root, 0700) < 0 && errno != EEXIST)
			return -errno;
		if (mkdtemp(dir))
			return 0;
		if (errno != ENOENT)
			return -errno;
	}
	return -ENOENT;
}

static int make_state(struct spool *spool, int64_t run, const char *uuid)
{
	struct spool_state *state;

	spool->state_fd = make_file(spool->dir_fd, "state", sizeof(*state));
	if (spool->state_fd < 0)
		return spool->state_fd;
	spool->state = state = map_file(spool->state_fd, sizeof(*state));
	if (!state || flock(spool->state_fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	memcpy(state->magic, STATE_MAGIC, sizeof(state->magic));
	state->version = SPOOL_VERSION;
	state->size = sizeof(*state);
	state->run = run;
	snprintf(state->uuid, sizeof(state->uuid), "%s", uuid);
	return 0;
}

/* It gets its name when it is whole and locked: a recovery meanwhile does not see a spool that is half made. */
int spool_create(const char *root, int64_t run, const char *uuid, uint64_t limit, struct spool **ret_spool)
{
	struct spool *spool;
	auto_free char *dir = NULL, *named = NULL;
	int err;

	if (asprintf(&dir, "%s/" SPOOL_UNNAMED "XXXXXX", root) < 0 || asprintf(&named, "%s/run-%" PRId64, root, run) < 0)
		return -ENOMEM;
	err = make_dirs(root, dir);
	if (err < 0)
		return err;
	spool = spool_new(dir);
	if (!spool)
		return -errno;
	spool->limit = limit < 4 * SPOOL_SEGMENT_SIZE ? 4 * SPOOL_SEGMENT_SIZE : limit;
	err = make_state(spool, run, uuid);
	if (err == 0 && rename(dir, named) < 0)
		err = errno == ENOTEMPTY ? -EEXIST : -errno;
	if (err < 0) {
		spool_remove(spool);
		spool_free(spool);
		return err;
	}
	free(spool->dir);
	spool->dir = steal_ptr(&named);
	*ret_spool = spool;
	return 0;
}

static struct segment *segment_add(struct spool *spool, uint32_t slot, void *map, int status)
{
	struct segment *segment = calloc(1, sizeof(*segment));

	if (!segment)
		return NULL;
	segment->slot = slot;
	segment->map = map;
	segment->generation = header_of(segment)->generation;
	segment->status = status;
	pthread_mutex_lock(&spool->lock);
	segment->next = spool->segments;
	spool->segments = segment;
	spool->count++;
	spool->free += status == SEGMENT_FREE;
	if (slot >= spool->next_slot)
		spool->next_slot = slot + 1;
	pthread_mutex_unlock(&spool->lock);
	return segment;
}

static void segment_name(uint32_t slot, char name[static 32])
{
	snprintf(name, 32, "segment-%06u", slot);
}

/* The caller has counted the slot, so that the limit holds although the file is made outside the lock. */
int segment_make(struct spool *spool, uint32_t slot)
{
	struct segment_header *header;
	char name[32];
	int auto_close fd = -1;

	segment_name(slot, name);
	fd = make_file(spool->dir_fd, name, SPOOL_SEGMENT_SIZE);
	if (fd < 0)
		return fd;
	header = map_file(fd, SPOOL_SEGMENT_SIZE);
	if (!header) {
		int err = -errno;

		unlinkat(spool->dir_fd, name, 0);
		return err;
	}
	/*
	 * MAP_POPULATE has a shared file read in; on a disk filesystem each page's first write would still be a fault, in a
	 * worker that a client waits for. Kernels before 5.14 cannot do it: then it is one.
	 */
	madvise(header, SPOOL_SEGMENT_SIZE, MADV_POPULATE_WRITE);
	memcpy(header->uuid, spool->state->uuid, sizeof(header->uuid));
	header->version = SPOOL_VERSION;
	header->slot = slot;
	header->run = spool->state->run;
	header->generation = 1;
	atomic_thread_fence(memory_order_release);
	memcpy(header->magic, SEGMENT_MAGIC, sizeof(header->magic)); /* last: is_half_made() */
	if (segment_add(spool, slot, header, SEGMENT_FREE))
		return 0;
	munmap(header, SPOOL_SEGMENT_SIZE);
	unlinkat(spool->dir_fd, name, 0);
	return -ENOMEM;
}

void segment_delete(struct spool *spool, struct segment *segment)
{
	char name[32];

	segment_name(segment->slot, name);
	unlinkat(spool->dir_fd, name, 0);
	munmap(segment->map, SPOOL_SEGMENT_SIZE);
	free(segment);
}

/* Its maker was killed over it; no record can be in it. */
static bool is_half_made(int fd)
{
	static const char none[8];
	char magic[8] = {};

	return pread(fd, magic, sizeof(magic), 0) >= 0 && memcmp(magic, none, sizeof(magic)) == 0;
}

static int segment_map(struct spool *spool, const char *name, int fd)
{
	struct segment_header *header = map_file(fd, SPOOL_SEGMENT_SIZE);
	char its_name[32];
	int err = -EUCLEAN;

	if (!header)
		return -errno;
	segment_name(header->slot, its_name);
	if (memcmp(header->magic, SEGMENT_MAGIC, sizeof(header->magic)) == 0 &&
		header->version == SPOOL_VERSION && header->run == spool->state->run &&
		memcmp(header->uuid, spool->state->uuid, sizeof(header->uuid)) == 0 && strcmp(name, its_name) == 0)
		err = segment_add(spool, header->slot, header, SEGMENT_SEALED) ? 0 : -ENOMEM;
	if (err < 0)
		munmap(header, SPOOL_SEGMENT_SIZE);
	return err;
}

static int segment_open(struct spool *spool, const char *name)
{
	int auto_close fd = openat(spool->dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (S_ISREG(st.st_mode) && is_half_made(fd))
		return 0;
	if (!S_ISREG(st.st_mode) || st.st_size != SPOOL_SEGMENT_SIZE)
		return -EUCLEAN;
	return segment_map(spool, name, fd);
}

/* Says nothing about what is in the file: the next try, or somebody else's, may go well. */
static bool is_passing(int err)
{
	return err == -ENOMEM || err == -EMFILE || err == -ENFILE || err == -EACCES || err == -EPERM;
}

static int segment_take_up(struct spool *spool, const char *name)
{
	int err = segment_open(spool, name);

	if (is_passing(err))
		return log_errno(-err, "%s/%s", spool->dir, name);
	spool->unreadable += err < 0;
	return 0;
}

static int state_open(struct spool *spool)
{
	struct stat st;

	spool->state_fd = openat(spool->dir_fd, "state", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (spool->state_fd < 0)
		return -errno;
	if (flock(spool->state_fd, LOCK_EX | LOCK_NB) < 0 || fstat(spool->state_fd, &st) < 0)
		return -errno;
	if (st.st_nlink == 0) /* a recovery that held the lock before us has finished the work */
		return -ENOENT;
	if (!S_ISREG(st.st_mode) || st.st_size != sizeof(struct spool_state))
		return -EUCLEAN;
	spool->state = map_file(spool->state_fd, sizeof(struct spool_state));
	if (!spool->state)
		return -errno;
	if (memcmp(spool->state->magic, STATE_MAGIC, sizeof(spool->state->magic)) != 0 ||
		spool->state->version != SPOOL_VERSION || spool->state->size != sizeof(struct spool_state))
		return -EUCLEAN;
	return 0;
}

bool spool_is_alive(const char *dir)
{
	auto_free char *path = NULL;
	int auto_close fd = -1;

	if (asprintf(&path, "%s/state", dir) < 0)
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

/* Calls `each` for the segment files of the spool, up to the first negative result, which is returned. */
static int each_segment_file(struct spool *spool, int (*each)(struct spool *, const char *))
{
	int fd = openat(spool->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	int err = 0;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return -errno;
	}
	for (struct dirent *entry; err >= 0 && (entry = readdir(dir));)
		if (strncmp(entry->d_name, "segment-", 8) == 0)
			err = each(spool, entry->d_name);
	closedir(dir);
	return err;
}

int spool_open(const char *dir, struct spool **ret_spool)
{
	struct spool *spool = spool_new(dir);
	int err;

	if (!spool)
		return -errno;
	err = state_open(spool);
	err = err ?: each_segment_file(spool, segment_take_up);
	if (err < 0) {
		spool_free(spool);
		return err;
	}
	if (spool->unreadable)
		log_msg("%s: %u spool segments are damaged or foreign, and left out", dir, spool->unreadable);
	*ret_spool = spool;
	return 0;
}

unsigned int spool_unreadable(const struct spool *spool)
{
	return spool->unreadable;
}

static bool is_known(struct spool *spool, const char *name)
{
	bool known = false;
	char its_name[32];

	pthread_mutex_lock(&spool->lock);
	for (const struct segment *s = spool->segments; s && !known; s = s->next) {
		segment_name(s->slot, its_name);
		known = strcmp(name, its_name) == 0;
	}
	pthread_mutex_unlock(&spool->lock);
	return known;
}

/* What could not be read may be of use to somebody who knows more about it. */
static int remove_segment_file(struct spool *spool, const char *name)
{
	auto_free char *kept = NULL;
	int auto_close fd = -1;

	if (!is_known(spool, name) && spool->unreadable) {
		fd = openat(spool->dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if ((fd < 0 || !is_half_made(fd)) &&
			asprintf(&kept, "../" SPOOL_UNREADABLE "%" PRId64 "-%s", spool->state->run, name) >= 0 &&
			renameat(spool->dir_fd, name, spool->dir_fd, kept) == 0)
			return 0;
	}
	unlinkat(spool->dir_fd, name, 0);
	return 0;
}

int spool_remove(struct spool *spool)
{
	char *slash;
	int err = each_segment_file(spool, remove_segment_file);

	unlinkat(spool->dir_fd, "state", 0);
	if (rmdir(spool->dir) < 0)
		err = -errno;
	slash = strrchr(spool->dir, '/');
	if (slash) {
		*slash = '\0';
		rmdir(spool->dir); /* stays while other runs have theirs */
		*slash = '/';
	}
	return err < 0 ? err : 0;
}

void spool_free(struct spool *spool)
{
	int saved = errno;

	if (!spool)
		return;
	while (spool->segments) {
		struct segment *segment = spool->segments;

		spool->segments = segment->next;
		munmap(segment->map, SPOOL_SEGMENT_SIZE);
		free(segment);
	}
	if (spool->state)
		munmap(spool->state, sizeof(*spool->state));
	if (spool->state_fd >= 0)
		close(spool->state_fd);
	if (spool->dir_fd >= 0)
		close(spool->dir_fd);
	pthread_cond_destroy(&spool->freed);
	pthread_mutex_destroy(&spool->lock);
	free(spool->dir);
	free(spool);
	errno = saved;
}
