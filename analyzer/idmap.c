/* SPDX-License-Identifier: MIT */
#include "idmap.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#define FIRST_SIZE 64

void idmap_free(struct idmap *map)
{
	free(map->keys);
	free(map->values);
	*map = (struct idmap){};
}

/* Keys are often 1, 2, 3, ... or two such numbers side by side: all bits go into the low ones (splitmix64's mixer). */
static size_t place_of(const struct idmap *map, uint64_t key)
{
	key ^= map->seed;
	key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9;
	key = (key ^ (key >> 27)) * 0x94d049bb133111eb;
	return (size_t)(key ^ (key >> 31)) & (map->size - 1);
}

uint32_t idmap_get(const struct idmap *map, uint64_t key)
{
	if (!map->size)
		return 0;
	for (size_t i = place_of(map, key);; i = (i + 1) & (map->size - 1))
		if (!map->values[i] || map->keys[i] == key)
			return map->values[i];
}

uint32_t idmap_probe(const struct idmap *map, uint64_t hash, uint64_t *place)
{
	size_t i;

	if (!map->size)
		return 0;
	i = *place == IDMAP_START ? place_of(map, hash) : (size_t)*place;
	for (; map->values[i]; i = (i + 1) & (map->size - 1)) {
		if (map->keys[i] != hash)
			continue;
		*place = (i + 1) & (map->size - 1);
		return map->values[i];
	}
	return 0;
}

static void put(struct idmap *map, uint64_t key, uint32_t value)
{
	size_t i = place_of(map, key);

	while (map->values[i])
		i = (i + 1) & (map->size - 1);
	map->keys[i] = key;
	map->values[i] = value;
	map->used++;
}

static int grow(struct idmap *map)
{
	struct idmap bigger = { .size = map->size ? map->size * 2 : FIRST_SIZE, .seed = map->seed };

	bigger.keys = malloc(bigger.size * sizeof(*bigger.keys));
	bigger.values = calloc(bigger.size, sizeof(*bigger.values));
	if (!bigger.keys || !bigger.values) {
		idmap_free(&bigger);
		return -ENOMEM;
	}
	if (!map->size && getrandom(&bigger.seed, sizeof(bigger.seed), GRND_NONBLOCK) < 0)
		bigger.seed = (uintptr_t)bigger.keys;
	for (size_t i = 0; i < map->size; i++)
		if (map->values[i])
			put(&bigger, map->keys[i], map->values[i]);
	idmap_free(map);
	*map = bigger;
	return 0;
}

int idmap_add(struct idmap *map, uint64_t key, uint32_t value)
{
	if (map->used * 4 >= map->size * 3 && grow(map) < 0)
		return -ENOMEM;
	put(map, key, value);
	return 0;
}

int idmap_set(struct idmap *map, uint64_t key, uint32_t value)
{
	if (map->size)
		for (size_t i = place_of(map, key); map->values[i]; i = (i + 1) & (map->size - 1))
			if (map->keys[i] == key) {
				map->values[i] = value;
				return 0;
			}
	return idmap_add(map, key, value);
}
