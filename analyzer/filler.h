/* SPDX-License-Identifier: MIT */
/*
 * filler.h - contents for files whose contents were not recorded.
 *
 * What a byte is depends on the seed, the file's key and the byte's offset alone: any part of a file can be made in any
 * order and comes out the same, and two files with different keys have nothing in common that a filesystem could store
 * once. Of each FILLER_BLOCK bytes `compressible` percent are easy to compress (zeros), the rest are noise, so
 * that a compressor gets a file down to about 100 - compressible percent. No state; thread-safe.
 */
#ifndef FSTAPE_FILLER_H
#define FSTAPE_FILLER_H

#include <stddef.h>
#include <stdint.h>

#define FILLER_BLOCK 4096

struct filler {
	uint64_t seed;
	unsigned int compressible; /* percent, 0 to 100 */
};

/* What file `key` has at `offset`, `len` bytes. About 4 GB/s. */
void filler_fill(const struct filler *filler, uint64_t key, uint64_t offset, void *buf, size_t len);

#endif
