/* SPDX-License-Identifier: MIT */
/* start_internal.h - what the files start_*.c share; for nobody else. */
#ifndef FSTAPE_START_INTERNAL_H
#define FSTAPE_START_INTERNAL_H

#include "base.h"
#include "beneath.h"
#include "content.h"
#include "map64.h"
#include "progress.h"
#include "start_state.h"

#define START_BUFFER   (256u << 10)
#define LARGEST_SIZE   (1ll << 50) /* bytes of one file; more is no recording but mischief */
#define SPARSE_SLACK   (64ll << 10) /* a file with so much less allocated than its size was sparse */

/* A row of `initial`; texts are valid until the next one. */
struct start_row {
	uint32_t path_id;
	const char *path;
	size_t path_len;
	uint64_t node, dev, ino, rdev;
	uint32_t mode, uid, gid;
	int64_t size, mtime_ns;
	int64_t blocks; /* -1: not known */
	const char *target;
};

/* An operation that read, or copied from, a file of the start. */
struct start_use {
	uint64_t seq;
	uint32_t next; /* of the same node, an earlier one; 0: none */
};

struct start {
	struct trace *trace;
	int64_t run;
	int root_fd;
	const char *target;
	const struct start_options *options;
	const volatile int *stop;
	struct start_result result;
	uint64_t max_bytes, max_objects, need_bytes, need_objects;

	struct map64 first;  /* hash of (dev, ino) -> path id of the first name made */
	struct map64 xattrs; /* the same -> path id of the name that has the attributes: any of them */
	struct map64 data;   /* the same -> that has the contents */
	struct map64 uses;   /* hash of node -> number in use_list */
	struct start_use *use_list;
	uint32_t use_count, use_room;
	struct content_reader *contents; /* NULL: the run has none */
	struct trace_stmt *text_of, *xattrs_of;

	/* the directory of the last object */
	char dir[BENEATH_PATH_MAX];
	size_t dir_len;
	int dir_fd; /* -1: none */

	char *buf; /* START_BUFFER bytes */
	struct progress progress;
};

/* "fstape: TARGET: PATH: TEXT: STRERROR"; returns -|err|. */
int start_error(const struct start *start, int err, const char *path, const char *text);

uint64_t start_inode_key(uint64_t dev, uint64_t ino);
uint64_t start_id_key(uint64_t id);

/* How much of the disk a file's contents need. */
int64_t start_allocated(const struct start_row *row);

/* Makes one object, with everything but the attributes of directories. -errno after a message. */
int start_make(struct start *start, const struct start_row *row);

/* The attributes of a directory whose contents are complete. */
int start_finish_dir(struct start *start, const struct start_row *row);

/* Fills an empty file up to its size. -errno after a message. */
int start_fill(struct start *start, const struct start_row *row, int fd);

/* Which names of inodes have rows in `table`. 0 or -errno of trace.h. */
int start_load_names(struct start *start, const char *table, struct map64 *names);

/* Reads what the contents of files come from, when the run has any. 0 or -errno of trace.h. */
int start_load_contents(struct start *start);

#endif
