/* SPDX-License-Identifier: MIT */
/* spool_internal.h - what the files spool*.c share; for nobody else. */
#ifndef FSTAPE_SPOOL_INTERNAL_H
#define FSTAPE_SPOOL_INTERNAL_H

#include <pthread.h>

#include "spool.h"

#define HEADER_SIZE 4096u /* a page of its own, so that records are page-aligned */

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

struct spool {
	char *dir;
	int dir_fd;
	int state_fd; /* holds the lock */
	struct spool_state *state;
	uint64_t limit;
	pthread_mutex_t lock; /* of all below but `unreadable`; never held across file work that can be avoided */
	pthread_cond_t freed;
	unsigned int unreadable; /* files that spool_open() left out */
	struct segment *segments; /* every one there is */
	unsigned int count, free, next_slot;
	int64_t retry_ns; /* until then (CLOCK_MONOTONIC) writers make no file, as the last one could not be made */
};

static inline struct segment_header *header_of(const struct segment *segment)
{
	return (struct segment_header *)segment->map;
}

/* The file of slot `slot`, mapped, as a free segment. The caller has counted it. */
int segment_make(struct spool *spool, uint32_t slot);

/* The file goes too. The segment is in no list any more. */
void segment_delete(struct spool *spool, struct segment *segment);

#endif
