/* SPDX-License-Identifier: MIT */
/*
 * map64.h - from 64-bit keys to 64-bit values, 16 bytes a place: for millions of hashes, where a node per entry would not do.
 * Keys should be hashes already (their low bits choose the place); 0 is stored as 1. One thread at a time.
 */
#ifndef FSTAPE_MAP64_H
#define FSTAPE_MAP64_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct map64 {
	struct map64_place {
		uint64_t key; /* 0: free */
		uint64_t value;
	} *places;
	size_t size, count; /* size: a power of two, or 0 */
};

static inline struct map64_place *map64_place(const struct map64 *map, uint64_t key)
{
	size_t at = key & (map->size - 1);

	while (map->places[at].key && map->places[at].key != key)
		at = (at + 1) & (map->size - 1);
	return &map->places[at];
}

static inline int map64_grow(struct map64 *map)
{
	struct map64 grown = { .size = map->size ? map->size * 2 : 1024, .count = map->count };

	grown.places = calloc(grown.size, sizeof(*grown.places));
	if (!grown.places)
		return -ENOMEM;
	for (size_t i = 0; i < map->size; i++)
		if (map->places[i].key)
			*map64_place(&grown, map->places[i].key) = map->places[i];
	free(map->places);
	*map = grown;
	return 0;
}

/* The value of `key` (*ret_value, written when it is there). */
static inline bool map64_get(const struct map64 *map, uint64_t key, uint64_t *ret_value)
{
	const struct map64_place *place = map->size ? map64_place(map, key + !key) : NULL;

	if (!place || !place->key)
		return false;
	*ret_value = place->value;
	return true;
}

/* Sets what is not there yet: 1; 0: it is there, and stays as it is; -ENOMEM. */
static inline int map64_add(struct map64 *map, uint64_t key, uint64_t value)
{
	struct map64_place *place;

	key += !key;
	if (map->count >= map->size / 2 && map64_grow(map) < 0)
		return -ENOMEM;
	place = map64_place(map, key);
	if (place->key)
		return 0;
	*place = (struct map64_place){ key, value };
	map->count++;
	return 1;
}

/* Sets it whether it is there or not. 0 or -ENOMEM. */
static inline int map64_set(struct map64 *map, uint64_t key, uint64_t value)
{
	int added = map64_add(map, key, value);

	if (added == 0)
		map64_place(map, key + !key)->value = value;
	return added < 0 ? added : 0;
}

static inline void map64_free(struct map64 *map)
{
	free(map->places);
	*map = (struct map64){};
}

#endif
