/* SPDX-License-Identifier: MIT */
/*
 * dir.h - directory streams: what is read ahead from the real directory between two requests.
 *
 * Offsets are the real filesystem's own (d_off), so that seeking and entries that come and go behave as they do there.
 * A stream is used by one request at a time: the kernel holds the file's position lock.
 */
#ifndef FSTAPE_DIR_H
#define FSTAPE_DIR_H

#include "fs.h"

struct dir_stream;

struct dir_stream *dir_stream_new(void); /* NULL: no memory */
void dir_stream_free(struct dir_stream *stream);

/* Takes back the look-ups that this thread's last readdirplus has handed out. */
void dir_undo_lookups(struct fs *fs);

/* This thread reads no more directories. */
void dir_thread_end(void);

#endif
