/* SPDX-License-Identifier: MIT */
/* spool.c - writing, reading and using segments again; spool_files.c has their files. */
#include "spool_internal.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base.h"

#define RETRY_NS (250 * 1000000LL)
#define CAPACITY (SPOOL_SEGMENT_SIZE - HEADER_SIZE)
#define FREE_KEPT 12u /* free segments above this are deleted, so that a burst does not stay in memory */

struct record_header {
	uint32_t size;	/* with this header; a multiple of 8 */
	uint32_t check; /* of the payload, the kind and the generation */
	uint32_t kind;
	uint32_t reserved;
};

struct spool_writer {
	struct spool *spool;
	struct segment *segment;
	uint64_t offset; /* where the next record goes */
};

static uint32_t record_check(uint64_t generation, uint32_t kind, const void *data, size_t size)
{
	return (uint32_t)XXH3_64bits_withSeed(data, size, generation << 8 | kind);
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
	/* On a full disk trying takes long, as filesystems look for room, and commit what they have, before they say no. */
	pthread_mutex_lock(&spool->lock);
	spool->retry_ns = clock_ns(CLOCK_MONOTONIC) + RETRY_NS;
	pthread_mutex_unlock(&spool->lock);
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

/* `*ret_no_more`: a file for one must, or can, not be made now. */
static struct segment *segment_take_ready(struct spool *spool, bool *ret_no_more)
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
	*ret_no_more = (uint64_t)(spool->count + 1) * SPOOL_SEGMENT_SIZE > spool->limit ||
		       (spool->retry_ns && clock_ns(CLOCK_MONOTONIC) < spool->retry_ns);
	pthread_mutex_unlock(&spool->lock);
	return segment;
}

/*
 * A free segment for a writer; made on the spot when none is ready and the limit allows one. Another writer may take
 * what was made here, so only the limit, or a file that cannot be made, ends the trying.
 */
static struct segment *segment_take(struct spool *spool)
{
	bool no_more;
	struct segment *segment = segment_take_ready(spool, &no_more);

	while (!segment && !no_more && spool_prepare(spool, 1) == 0)
		segment = segment_take_ready(spool, &no_more);
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

static bool is_loaded(const struct segment *segment)
{
	return segment->status == SEGMENT_SEALED &&
	       (segment->damaged || segment->loaded >= segment_published(segment));
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
	if (!is_loaded(segment)) {
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

struct spool_state *spool_state(struct spool *spool)
{
	return spool->state;
}

const char *spool_dir(const struct spool *spool)
{
	return spool->dir;
}

uint64_t spool_held(struct spool *spool)
{
	uint64_t held = 0;

	pthread_mutex_lock(&spool->lock);
	for (const struct segment *s = spool->segments; s; s = s->next)
		held += is_loaded(s) ? SPOOL_SEGMENT_SIZE : 0;
	pthread_mutex_unlock(&spool->lock);
	return held;
}

uint64_t spool_used(struct spool *spool)
{
	uint64_t held = spool_held(spool), used;

	pthread_mutex_lock(&spool->lock);
	used = (uint64_t)(spool->count - spool->free) * SPOOL_SEGMENT_SIZE;
	pthread_mutex_unlock(&spool->lock);
	return used - held; /* only the loader frees what is held */
}

uint64_t spool_unloaded(struct spool *spool)
{
	uint64_t bytes = 0;

	pthread_mutex_lock(&spool->lock);
	for (const struct segment *s = spool->segments; s; s = s->next) {
		uint64_t published = s->status == SEGMENT_FREE || s->damaged ? 0 : segment_published(s);

		bytes += published > s->loaded ? published - s->loaded : 0;
	}
	pthread_mutex_unlock(&spool->lock);
	return bytes;
}

bool spool_is_tight(struct spool *spool)
{
	bool tight;

	pthread_mutex_lock(&spool->lock);
	tight = spool->free < 2 && (uint64_t)(spool->count + 1) * SPOOL_SEGMENT_SIZE > spool->limit;
	pthread_mutex_unlock(&spool->lock);
	return tight;
}

uint64_t spool_limit(struct spool *spool)
{
	uint64_t limit;

	pthread_mutex_lock(&spool->lock);
	limit = spool->limit;
	pthread_mutex_unlock(&spool->lock);
	return limit;
}

void spool_raise_limit(struct spool *spool, uint64_t bytes)
{
	pthread_mutex_lock(&spool->lock);
	spool->limit += bytes;
	pthread_cond_broadcast(&spool->freed);
	pthread_mutex_unlock(&spool->lock);
}
