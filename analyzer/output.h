/* SPDX-License-Identifier: MIT */
/* output.h - where a long result goes, so that nobody ever finds half of one. */
#ifndef FSTAPE_OUTPUT_H
#define FSTAPE_OUTPUT_H

#include <stdio.h>

/*
 * Has `write` write what belongs into `path`: by way of a new file beside it that takes its place
 * when it is whole and is removed when it is not; devices, pipes and the like are written to as
 * they are; NULL and "-" are standard output, which stays unflushed. `write` returns 0, or -errno
 * after a message; when the stream has failed (ferror()) it gives the reason and leaves the message
 * to us. `database`, which `path` may not be, is the file that is read. Returns 0, or -errno;
 * that standard output has failed is left to main() to say.
 */
int output_write(
	const char *path, const char *database, int (*write)(FILE *out, void *arg), void *arg);

#endif
