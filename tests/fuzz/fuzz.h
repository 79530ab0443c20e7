/* SPDX-License-Identifier: MIT */
/* fuzz.h - what fuzz targets with a database share: a place in memory for it, a template, and bits of the input. */
#ifndef FSTAPE_FUZZ_H
#define FSTAPE_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base.h"
#include "trace.h"

struct fuzz_place {
	char dir[64]; /* on a tmpfs, deleted at exit */
	char db[96];
	unsigned char *template; /* a database with one run, a few operations, paths and processes */
	size_t template_size;
};

struct fuzz_input {
	const uint8_t *data;
	size_t size;
};

/* The one of this process. Ends the process when it cannot be made. */
const struct fuzz_place *fuzz_place(void);

/* The template as the database. */
void fuzz_database(const struct fuzz_place *place);
void fuzz_write(const char *path, const void *data, size_t size);

/* Takes away the database, its spools and what else is in the place. */
void fuzz_clear(const struct fuzz_place *place);

/* Copies the next `len` bytes and moves on; false, and none, when there are fewer. */
bool fuzz_take(struct fuzz_input *in, void *to, size_t len);
uint8_t fuzz_byte(struct fuzz_input *in); /* 0 at the end */

/* Whether SQLite's integrity check says so. */
bool fuzz_is_intact(struct trace *trace);

#endif
