/* SPDX-License-Identifier: MIT */
/*
 * spool.h - the memory-mapped files that events go to before they go to the database.
 *
 * A spool belongs to one run: a directory DB-spool/run-N beside the database DB, which holds
 *
 *   state        counters and ids (struct spool_state), mapped for as long as the run lasts and locked with flock(2):
 *                whoever gets the lock knows that the recorder is gone
 *   segment-S    slot S: a header (struct segment_header) and records, written by one thread at a time
 *
 * Pages of a shared file mapping outlive the process that wrote them, so what a writer has published survives SIGKILL.
 * A record counts from the moment of one release store of `published`; until then it does not exist. A segment that
 * has been loaded whole is used again under the next generation, so that its pages stay where they are and no new
 * ones have to be faulted in. Files are allocated in full when they are made: a full disk shows there, as an error,
 * and not later, as SIGBUS.
 *
 * Life of a segment: FREE -> (spool_writer takes it) WRITING -> (full, or its writer ends) SEALED -> (loaded, and given
 * back) FREE.
 *
 * Thread-safety: a spool_writer belongs to one thread; spool_segments() and what comes from it to one loader; the
 * rest may be called from any thread.
 */
#ifndef FSTAPE_SPOOL_H
#define FSTAPE_SPOOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event.h"
#include "op.h"

#define SPOOL_VERSION 3u
#define SPOOL_SEGMENT_SIZE (1u << 20)	/* bytes, with the header */
#define SPOOL_LIMIT_MAX (4096ull * SPOOL_SEGMENT_SIZE) /* as many segments as a loader looks at */
#define SPOOL_RECORD_MAX (256u << 10)	/* bytes of one record, with its header */
#define SPOOL_UUID_LEN 36
#define SPOOL_UNREADABLE "unreadable-run-" /* beside the spools: how the name of a segment begins that spool_open() left out */
#define SPOOL_UNNAMED "new-" /* how the name of a spool begins that is being made; it holds `state` at most */

/* The file `state`: what a recovery must know, kept up to date by plain stores into the mapping. */
struct spool_state {
	char magic[8];
	uint32_t version;
	uint32_t size; /* sizeof(struct spool_state) */
	char uuid[SPOOL_UUID_LEN + 4]; /* of the database that the run belongs to */
	int64_t run;
	int64_t start_real_ns; /* CLOCK_REALTIME at the run's time 0 */
	int64_t start_mono_ns; /* CLOCK_MONOTONIC at the run's time 0 */
	_Atomic uint64_t requests; /* counted at dispatch: the last event's seq */
	_Atomic uint64_t dropped[OP_COUNT];
	_Atomic uint64_t data_lost; /* pieces of contents that found no room */
	_Atomic uint32_t paths;	    /* the last path id given out */
	_Atomic uint32_t processes; /* the last process id given out */
	_Atomic uint32_t complete;  /* 1: the mount has ended, no event will follow */
	_Atomic uint32_t loss_errno; /* why the first of the dropped operations was: see loss_text() in loader.c; 0: no room */
	_Atomic int64_t first_loss_ns; /* the run's time; 0: nothing has been dropped */
	_Atomic int64_t last_loss_ns;
	char label[256];  /* NUL-terminated, cut off when longer */
	char source[1024];
};

struct spool;
struct spool_writer;

/* A segment as the loader sees it. */
struct segment {
	uint32_t slot;
	uint64_t generation;
	uint64_t loaded; /* bytes of records that are in the database: the loader's to set */
	bool damaged;	 /* a record was not as it was written: the loader's to set; nothing after it is read */
	/* private to spool.c */
	unsigned char *map;
	struct segment *next;
	int status;
};

struct spool_record {
	enum record_kind kind;
	uint32_t size;	  /* of payload, bytes, rounded up to a multiple of 8 */
	const void *data; /* points into the mapping: gone with spool_recycle() and spool_free() */
};

/*
 * Makes the spool of a new run under `root` (made when missing, 0700), of at most `limit` bytes.
 * -EEXIST when the run has one already.
 */
int spool_create(const char *root, int64_t run, const char *uuid, uint64_t limit, struct spool **ret_spool);

/*
 * Opens the spool that a dead recorder left in `dir`, for loading only. -EWOULDBLOCK when the recorder, or another
 * recovery, is alive; -EUCLEAN when it is not a spool of this version; -ENOENT when it has gone, or has no `state`.
 * Segments that are cut off, of another spool, or no segments at all, are left out with a message.
 */
int spool_open(const char *dir, struct spool **ret_spool);

/* How many segments were left out. */
unsigned int spool_unreadable(const struct spool *spool);

/* Whether a recorder, or a recovery, has this spool at this moment. */
bool spool_is_alive(const char *dir);

/*
 * Unmaps everything. Files stay; spool_remove() deletes them first, for a run that is in the database whole; but segments
 * that were left out are moved beside the spools, as unreadable-run-N-segment-S.
 */
void spool_free(struct spool *spool);
int spool_remove(struct spool *spool);

struct spool_state *spool_state(struct spool *spool);
const char *spool_dir(const struct spool *spool);

/* Bytes of segments that hold records which are not loaded yet, or are being written. Loader only. */
uint64_t spool_used(struct spool *spool);

/*
 * Bytes of records that are published and not loaded yet: what will become rows. Far less than spool_used(), which counts
 * whole segments, where many writers have written little. Loader only.
 */
uint64_t spool_unloaded(struct spool *spool);

/* Bytes of segments that are loaded whole and could be given back. Loader only. */
uint64_t spool_held(struct spool *spool);

/* Hardly anything is free, and the limit allows no more: what is held must be given back. */
bool spool_is_tight(struct spool *spool);

/* The most bytes there may be in all segments. Raising it lets writers go on that have found no room. */
uint64_t spool_limit(struct spool *spool);
void spool_raise_limit(struct spool *spool, uint64_t bytes);

/* Keeps `spare` segments ready, so that no writer waits for a file to be made. Loader only. 0 or -errno (-ENOSPC). */
int spool_prepare(struct spool *spool, unsigned int spare);

/*
 * Nothing is being written: takes the segments' pages out of our memory. They stay in the page cache, and come back when
 * they are touched. Loader only.
 */
void spool_idle(struct spool *spool);

struct spool_writer *spool_writer_new(struct spool *spool); /* NULL: no memory */
void spool_writer_free(struct spool_writer *writer);

/*
 * Room for a record of `size` bytes, or NULL when the spool is at its limit (or no file can be made) or `size` is above
 * SPOOL_RECORD_MAX. Nothing is written until spool_publish(), which takes what the caller has put there.
 */
void *spool_reserve(struct spool_writer *writer, size_t size);
void spool_publish(struct spool_writer *writer, enum record_kind kind, size_t size);

/* Waits until a segment has come back, at most `timeout_ns`. False: none has. */
bool spool_wait_free(struct spool *spool, int64_t timeout_ns);

/*
 * The segments that hold, or may come to hold, unloaded records, into `list` of `max`; returns their number.
 * They stay valid until the loader recycles them.
 */
size_t spool_segments(struct spool *spool, struct segment **list, size_t max);

/* Where the records of a segment end by now; read it once and go on up to there. */
uint64_t segment_published(const struct segment *segment);

/* The record at `*offset`, which is moved behind it. 1, 0 at `end`, or -EUCLEAN when the record is damaged. */
int segment_read(const struct segment *segment, uint64_t *offset, uint64_t end, struct spool_record *ret_record);

/* Gives a sealed segment back once all of it is loaded (or damaged); does nothing when it is still in use. */
void spool_recycle(struct spool *spool, struct segment *segment);

#endif
