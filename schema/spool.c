/* SPDX-License-Identifier: MIT */
#include "spool.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base.h"

#define STATE_MAGIC "fstapeST"
#define SEGMENT_MAGIC "fstapeSG"
#define HEADER_SIZE 4096u /* a page of its own, so that records are page-aligned */
#define CAPACITY (SPOOL_SEGMENT_SIZE - HEADER_SIZE)
#define FREE_KEPT 8u /* free segments above this are deleted, so that a burst does not stay in memory */

enum { SEGMENT_FREE, SEGMENT_WRITING, SEGMENT_SEALED };

struct segment_header {
	char magic[8];
	uint32_t version;
	uint32_t slot;
	int64_t run;
	char uuid[SPOOL_UUID_LEN + 4];
	uint64_t generation;	    /* of the records below */
	_Atomic uint64_t published; /* bytes of records */
};

struct record_header {
	uint32_t size;	/* with this header; a multiple of 8 */
	uint32_t check; /* of the payload, the kind and the generation */
	uint32_t kind;
	uint32_t reserved;
};

struct spool {
	char *dir;
	int dir_fd;
	int state_fd; /* holds the lock */
	struct spool_state *state;
	uint64_t limit;
	pthread_mutex_t lock; /* of all below; never held across file work that can be avoided */
	pthread_cond_t freed;
	struct segment *segments; /* every one there is */
	unsigned int count, free, next_slot;
};

struct spool_writer {
	struct spool *spool;
	struct segment *segment;
	uint64_t offset; /* where the next record goes */
};

static struct segment_header *header_of(const struct segment *segment)
{
	return (struct segment_header *)segment->map;
}

static uint32_t record_check(uint64_t generation, uint32_t kind, const void *data, size_t size)
{
	return (uint32_t)XXH3_64bits_withSeed(data, size, generation << 8 | kind);
}

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

int spool_create(const char *root, int64_t run, const char *uuid, uint64_t limit, struct spool **ret_spool)
{
	struct spool_state *state;
	struct spool *spool;
	auto_free char *dir = NULL;
	int err;

	if (mkdir(root, 0700) < 0 && errno != EEXIST)
		return -errno;
	if (asprintf(&dir, "%s/run-%" PRId64, root, run) < 0)
		return -ENOMEM;
	if (mkdir(dir, 0700) < 0)
		return -errno;
	spool = spool_new(dir);
	if (!spool)
		return -errno;
	spool->limit = limit < 4 * SPOOL_SEGMENT_SIZE ? 4 * SPOOL_SEGMENT_SIZE : limit;
	err = spool->state_fd = make_file(spool->dir_fd, "state", sizeof(*state));
	if (err < 0)
		goto fail;
	spool->state = state = map_file(spool->state_fd, sizeof(*state));
	if (!state || flock(spool->state_fd, LOCK_EX | LOCK_NB) < 0) {
		err = -errno;
		goto fail;
	}
	memcpy(state->magic, STATE_MAGIC, sizeof(state->magic));
	state->version = SPOOL_VERSION;
	state->size = sizeof(*state);
	state->run = run;
	snprintf(state->uuid, sizeof(state->uuid), "%s", uuid);
	*ret_spool = spool;
	return 0;
fail:
	spool_remove(spool);
	spool_free(spool);
	return err;
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
static int segment_make(struct spool *spool, uint32_t slot)
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
	memcpy(header->magic, SEGMENT_MAGIC, sizeof(header->magic));
	memcpy(header->uuid, spool->state->uuid, sizeof(header->uuid));
	header->version = SPOOL_VERSION;
	header->slot = slot;
	header->run = spool->state->run;
	header->generation = 1;
	if (segment_add(spool, slot, header, SEGMENT_FREE))
		return 0;
	munmap(header, SPOOL_SEGMENT_SIZE);
	unlinkat(spool->dir_fd, name, 0);
	return -ENOMEM;
}

int spool_prepare(struct spool *spool, unsigned int spare)
{
	int err = 0;

	while (err == 0) {
		uint32_t slot;
		bool enough;

		pthread_mutex_lock(&spool->lock);
		enough = spool->free >= spare ||
			 (uint64_t)(spool->count + 1) * SPOOL_SEGMENT_SIZE > spool->limit;
		slot = spool->next_slot;
		spool->next_slot += !enough;
		pthread_mutex_unlock(&spool->lock);
		if (enough)
			return 0;
		err = segment_make(spool, slot);
	}
	return err;
}

void spool_idle(struct spool *spool)
{
	struct segment *segment;

	pthread_mutex_lock(&spool->lock);
	segment = spool->segments;
	pthread_mutex_unlock(&spool->lock);
	/* Only new ones come in at the head meanwhile, and only the loader takes any out. */
	for (; segment; segment = segment->next)
		madvise(segment->map, SPOOL_SEGMENT_SIZE, MADV_DONTNEED);
}

static struct segment *segment_take_ready(struct spool *spool, bool *ret_at_limit)
{
	struct segment *segment;

	pthread_mutex_lock(&spool->lock);
	for (segment = spool->segments; segment; segment = segment->next)
		if (segment->status == SEGMENT_FREE)
			break;
	if (segment) {
		segment->status = SEGMENT_WRITING;
		spool->free--;
	}
	*ret_at_limit = (uint64_t)(spool->count + 1) * SPOOL_SEGMENT_SIZE > spool->limit;
	pthread_mutex_unlock(&spool->lock);
	return segment;
}

/*
 * A free segment for a writer; made on the spot when none is ready and the limit allows one. Another writer may take
 * what was made here, so only the limit, or a file that cannot be made, ends the trying.
 */
static struct segment *segment_take(struct spool *spool)
{
	bool at_limit;
	struct segment *segment = segment_take_ready(spool, &at_limit);

	while (!segment && !at_limit && spool_prepare(spool, 1) == 0)
		segment = segment_take_ready(spool, &at_limit);
	return segment;
}

static void segment_seal(struct spool *spool, struct segment *segment)
{
	pthread_mutex_lock(&spool->lock);
	segment->status = SEGMENT_SEALED;
	pthread_mutex_unlock(&spool->lock);
}

struct spool_writer *spool_writer_new(struct spool *spool)
{
	struct spool_writer *writer = calloc(1, sizeof(*writer));

	if (writer)
		writer->spool = spool;
	return writer;
}

void spool_writer_free(struct spool_writer *writer)
{
	if (!writer)
		return;
	if (writer->segment)
		segment_seal(writer->spool, writer->segment);
	free(writer);
}

static size_t record_size(size_t payload)
{
	return sizeof(struct record_header) + ((payload + 7) & ~(size_t)7);
}

void *spool_reserve(struct spool_writer *writer, size_t size)
{
	size_t need = record_size(size);

	if (need > SPOOL_RECORD_MAX)
		return NULL;
	if (writer->segment && writer->offset + need > CAPACITY) {
		segment_seal(writer->spool, writer->segment);
		writer->segment = NULL;
	}
	if (!writer->segment) {
		writer->segment = segment_take(writer->spool);
		writer->offset = 0;
	}
	if (!writer->segment)
		return NULL;
	return writer->segment->map + HEADER_SIZE + writer->offset + sizeof(struct record_header);
}

void spool_publish(struct spool_writer *writer, enum record_kind kind, size_t size)
{
	struct segment *segment = writer->segment;
	struct record_header *record = (void *)(segment->map + HEADER_SIZE + writer->offset);
	size_t padded = record_size(size) - sizeof(*record);
	unsigned char *data = (unsigned char *)(record + 1);

	memset(data + size, 0, padded - size);
	record->size = (uint32_t)(padded + sizeof(*record));
	record->kind = kind;
	record->reserved = 0;
	record->check = record_check(segment->generation, kind, data, padded);
	writer->offset += record->size;
	atomic_store_explicit(&header_of(segment)->published, writer->offset, memory_order_release);
}

bool spool_wait_free(struct spool *spool, int64_t timeout_ns)
{
	int64_t until = clock_ns(CLOCK_MONOTONIC) + timeout_ns;
	struct timespec ts = { until / NSEC_PER_SEC, until % NSEC_PER_SEC };
	bool found;

	pthread_mutex_lock(&spool->lock);
	while (spool->free == 0 && pthread_cond_timedwait(&spool->freed, &spool->lock, &ts) == 0)
		;
	found = spool->free > 0;
	pthread_mutex_unlock(&spool->lock);
	return found;
}

size_t spool_segments(struct spool *spool, struct segment **list, size_t max)
{
	size_t count = 0;

	pthread_mutex_lock(&spool->lock);
	for (struct segment *s = spool->segments; s && count < max; s = s->next)
		if (s->status != SEGMENT_FREE)
			list[count++] = s;
	pthread_mutex_unlock(&spool->lock);
	return count;
}

uint64_t segment_published(const struct segment *segment)
{
	uint64_t published = atomic_load_explicit(&header_of(segment)->published, memory_order_acquire);

	return published < CAPACITY ? published : CAPACITY;
}

int segment_read(const struct segment *segment, uint64_t *offset, uint64_t end, struct spool_record *ret_record)
{
	const struct record_header *record = (const void *)(segment->map + HEADER_SIZE + *offset);
	size_t padded;

	if (*offset >= end)
		return 0;
	if (*offset % 8 || end - *offset < sizeof(*record) || record->size < sizeof(*record) ||
		record->size % 8 || record->size > end - *offset)
		return -EUCLEAN;
	padded = record->size - sizeof(*record);
	if (record->check != record_check(segment->generation, record->kind, record + 1, padded))
		return -EUCLEAN;
	*ret_record = (struct spool_record){ record->kind, (uint32_t)padded, record + 1 };
	*offset += record->size;
	return 1;
}

static void segment_delete(struct spool *spool, struct segment *segment)
{
	char name[32];

	segment_name(segment->slot, name);
	unlinkat(spool->dir_fd, name, 0);
	munmap(segment->map, SPOOL_SEGMENT_SIZE);
	free(segment);
}

/*
 * A new generation starts empty: first the records are declared gone, then the number changes, so that a crash in
 * between leaves an old generation without records and never a new one with old records.
 */
void spool_recycle(struct spool *spool, struct segment *segment)
{
	struct segment_header *header = header_of(segment);
	struct segment **link, *surplus = NULL;

	pthread_mutex_lock(&spool->lock);
	if (segment->status != SEGMENT_SEALED ||
		(!segment->damaged && segment->loaded < segment_published(segment))) {
		pthread_mutex_unlock(&spool->lock);
		return;
	}
	atomic_store_explicit(&header->published, 0, memory_order_release);
	header->generation = segment->generation += 1;
	segment->loaded = 0;
	segment->damaged = false;
	segment->status = SEGMENT_FREE;
	spool->free++;
	if (spool->free > FREE_KEPT) {
		for (link = &spool->segments; *link != segment; link = &(*link)->next)
			;
		*link = segment->next;
		spool->free--;
		spool->count--;
		surplus = segment;
	}
	pthread_cond_broadcast(&spool->freed);
	pthread_mutex_unlock(&spool->lock);
	if (surplus)
		segment_delete(spool, surplus);
}

static int segment_open(struct spool *spool, const char *name)
{
	struct segment_header *header;
	struct segment *segment;
	int auto_close fd = openat(spool->dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size != SPOOL_SEGMENT_SIZE)
		return -EUCLEAN;
	header = map_file(fd, SPOOL_SEGMENT_SIZE);
	if (!header)
		return -errno;
	if (memcmp(header->magic, SEGMENT_MAGIC, sizeof(header->magic)) == 0 &&
		header->version == SPOOL_VERSION && header->run == spool->state->run &&
		memcmp(header->uuid, spool->state->uuid, sizeof(header->uuid)) == 0) {
		segment = segment_add(spool, header->slot, header, SEGMENT_SEALED);
		if (segment)
			return 0;
	}
	munmap(header, SPOOL_SEGMENT_SIZE);
	return -EUCLEAN;
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

/* Calls `each` for the segment files of the spool; a negative result of it counts as damage. Returns their number. */
static int each_segment_file(struct spool *spool, int (*each)(struct spool *, const char *))
{
	int fd = openat(spool->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	int bad = 0;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return -errno;
	}
	for (struct dirent *entry; (entry = readdir(dir));)
		if (strncmp(entry->d_name, "segment-", 8) == 0 && each(spool, entry->d_name) < 0)
			bad++;
	closedir(dir);
	return bad;
}

int spool_open(const char *dir, struct spool **ret_spool)
{
	struct spool *spool = spool_new(dir);
	int err;

	if (!spool)
		return -errno;
	err = state_open(spool);
	if (err == 0) {
		int bad = each_segment_file(spool, segment_open);

		if (bad > 0)
			log_msg("%s: %d spool segments are damaged or foreign, and left out", dir, bad);
		err = bad < 0 ? bad : 0;
	}
	if (err < 0) {
		spool_free(spool);
		return err;
	}
	*ret_spool = spool;
	return 0;
}

static int unlink_segment_file(struct spool *spool, const char *name)
{
	return unlinkat(spool->dir_fd, name, 0);
}

int spool_remove(struct spool *spool)
{
	char *slash;
	int err = each_segment_file(spool, unlink_segment_file);

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

struct spool_state *spool_state(struct spool *spool)
{
	return spool->state;
}

const char *spool_dir(const struct spool *spool)
{
	return spool->dir;
}

uint64_t spool_used(struct spool *spool)
{
	uint64_t used;

	pthread_mutex_lock(&spool->lock);
	used = (uint64_t)(spool->count - spool->free) * SPOOL_SEGMENT_SIZE;
	pthread_mutex_unlock(&spool->lock);
	return used;
}

uint64_t spool_limit(const struct spool *spool)
{
	return spool->limit;
}
