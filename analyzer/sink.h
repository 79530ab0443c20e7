/* SPDX-License-Identifier: MIT */
/*
 * sink.h - a stream that remembers why it failed. Of a plain one only ferror() is left of that, long after the write whose
 * errno was "No space left on device".
 */
#ifndef FSTAPE_SINK_H
#define FSTAPE_SINK_H

#include <stdio.h>

/* Belongs to the caller, and lives as long as the stream. */
struct sink {
	int fd;
	int err; /* of the first write, or the close, that failed; > 0; else 0 */
};

/* A stream into `fd`, which it closes at its end; buffered, by lines on a terminal. NULL with errno: `fd` is still open. */
FILE *sink_open(struct sink *sink, int fd);

/* Closes the stream. 0, or -errno: the reason of the first failure. */
int sink_close(struct sink *sink, FILE *out);

#endif
