/* SPDX-License-Identifier: MIT */
/*
 * idmap.h - maps 64-bit keys to 32-bit numbers, at 12 bytes per place: a run of millions of operations has as many
 * nodes, names and handles, for which a chained table with its pointers would take three to five times the memory.
 *
 * Numbers are not 0: that is what a key without an entry gives. Not thread-safe.
 */
#ifndef FSTAPE_IDMAP_H
#define FSTAPE_IDMAP_H

#include <stddef.h>
#include <stdint.h>

struct idmap {
	uint64_t *keys;
	uint32_t *values; /* 0: the place is free */
	size_t size, used; /* size: a power of two, or 0 */
	uint64_t seed;	   /* random: keys may come from somebody who would like them to collide */
};

#define IDMAP_START UINT64_MAX

void idmap_free(struct idmap *map);

/* The number of `key`, or 0. */
uint32_t idmap_get(const struct idmap *map, uint64_t key);

/* Sets the number of `key`; there was one before or not. 0 or -ENOMEM. */
int idmap_set(struct idmap *map, uint64_t key, uint32_t value);

/*
 * Where the next key with this hash may be, for callers whose keys are hashes of something longer, which they compare
 * themselves: `*place` starts as IDMAP_START and is carried along. Returns the number there, or 0 at the end.
 */
uint32_t idmap_probe(const struct idmap *map, uint64_t hash, uint64_t *place);

/* Adds one more entry with this key beside those that there are. 0 or -ENOMEM. */
int idmap_add(struct idmap *map, uint64_t key, uint32_t value);

#endif
