/* SPDX-License-Identifier: MIT */
/*
 * initial.h - what existed when a run began, found again from what it was later.
 *
 * A recorder writes a row of `initial` when the kernel asks for a name that it does not know. The row has the path of
 * that moment. Two things keep it from being the path of the start:
 *
 *   - a directory above was renamed before: the path leads over its new name
 *   - the name is not from the start at all: the run had moved or linked the inode there, and the kernel had forgotten it
 *
 * The kernel cannot move or link what it has not looked up first, so every inode of the start that the run touched has
 * a row of its first name, in a directory that has one too, up to the root. So the start path of a row is that of its
 * directory's inode, and its name; a row whose directory is not of the start, or whose name was made by an operation
 * before the row, is none. The nodes of such rows are kept in `node_alias`: they say which inode a node was. Paths count as names do (bytes).
 *
 * Memory: about 100 bytes and a name per row, and 32 per name that the run has made. One thread at a time.
 */
#ifndef FSTAPE_INITIAL_H
#define FSTAPE_INITIAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base.h"
#include "trace.h"

struct initial_index;

struct initial_entry {
	uint64_t dev, ino, node, seq;
	uint32_t path; /* path id */
	uint32_t mode;
	uint32_t dir;  /* number of the entry of its directory; of the root its own */
	uint32_t name; /* where its name is; the index knows */
};

#define INITIAL_NONE UINT32_MAX

/*
 * Puts the rows of a run that has ended right: paths back to those of the start, rows that are none away. Within the
 * caller's transaction. Does nothing, quickly, when there is nothing to do. 0 or -errno of trace.h.
 */
int initial_settle(struct trace *trace, int64_t run);

/* The rows of a settled run, to look things up. The trace is needed no longer. */
int initial_index_new(struct trace *trace, int64_t run, struct initial_index **ret_index);
void initial_index_free(struct initial_index *index);

const struct initial_entry *initial_entry(const struct initial_index *index, uint32_t number);

/* The number of the first row of an inode, or INITIAL_NONE. */
uint32_t initial_of_inode(const struct initial_index *index, dev_t dev, ino_t ino);

/* Whether directory `dir` had `name` at the start; `*ret_number` is its row then. */
bool initial_by_name(const struct initial_index *index, uint32_t dir, const char *name, uint32_t *ret_number);

/* Whether an operation before `seq` has made (moved, linked) `name` in directory `dir`. */
bool initial_was_made(const struct initial_index *index, uint32_t dir, const char *name, uint64_t seq);

/* Adds the path of the start to `text`. -ELOOP: the row is not of the start. */
int initial_path(const struct initial_index *index, uint32_t number, struct strbuf *text);

#endif
