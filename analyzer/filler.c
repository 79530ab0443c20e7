/* SPDX-License-Identifier: MIT */
#include "filler.h"

#include <string.h>

/* The finaliser of SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", 2014). */
static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* The eight bytes at word `word` of the file whose seed and key are mixed into `base`. */
static uint64_t word_at(uint64_t base, uint64_t word)
{
	return mix(base + word * 0x9e3779b97f4a7c15u);
}

/* `len` bytes that begin at `offset` within one block. */
static void fill_part(const struct filler *filler, uint64_t base, uint64_t offset, unsigned char *buf, size_t len)
{
	unsigned int percent = filler->compressible < 100 ? filler->compressible : 100;
	size_t within = offset % FILLER_BLOCK, noise = FILLER_BLOCK / 8 * (100 - percent) / 100 * 8;

	while (len) {
		size_t skip = offset % 8, take = 8 - skip < len ? 8 - skip : len;
		uint64_t value;

		if (within >= noise) {
			memset(buf, 0, len);
			return;
		}
		value = word_at(base, offset / 8);
		memcpy(buf, (const unsigned char *)&value + skip, take);
		buf += take;
		offset += take;
		within += take;
		len -= take;
	}
}

void filler_fill(const struct filler *filler, uint64_t key, uint64_t offset, void *buf, size_t len)
{
	uint64_t base = mix(mix(filler->seed) + key);
	unsigned char *at = buf;

	while (len) {
		size_t room = FILLER_BLOCK - offset % FILLER_BLOCK, take = room < len ? room : len;

		fill_part(filler, base, offset, at, take);
		at += take;
		offset += take;
		len -= take;
	}
}
