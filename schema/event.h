/* SPDX-License-Identifier: MIT */
/*
 * event.h - what a recorder writes: one recorded operation, and the things that operations refer to.
 *
 * Plain data in the byte order of the machine: a spool is read back on the machine that wrote it. Each struct is the
 * fixed part of a spool record; the text that follows it in the record is named beside it. A change of any of them
 * is a change of SPOOL_VERSION.
 */
#ifndef FSTAPE_EVENT_H
#define FSTAPE_EVENT_H

#include <assert.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base.h"

enum record_kind {
	RECORD_EVENT = 1, /* struct event */
	RECORD_PATH,	  /* struct path_record */
	RECORD_PROCESS,	  /* struct process_record */
	RECORD_INITIAL,	  /* struct initial_record */
	RECORD_CONTENT,	  /* struct content_record */
	RECORD_DATA,	  /* struct data_record */
	RECORD_CPU,	  /* struct cpu_record */
};

/*
 * One operation. Which members mean something is said by the operation's columns in ops.def; ids of 0 mean "none".
 * Followed by `args_len` bytes: a JSON object of further arguments.
 */
struct event {
	uint64_t seq;	   /* 1, 2, ... in order of arrival, without a gap, per run */
	int64_t start_ns;  /* request taken up, since the run's start (CLOCK_MONOTONIC) */
	int64_t dur_ns;	   /* until just before the reply */
	int64_t fs_ns;	   /* of these, inside the operation's own system calls on the real filesystem */
	uint64_t node;	   /* monotonic ids, never reused within a run */
	uint64_t parent;
	uint64_t fh;
	int64_t offset;	   /* bytes */
	int64_t length;	   /* bytes asked for; for forget the number of look-ups, for forget_multi of inodes dropped */
	int64_t result;	   /* count, or 0, or -errno */
	uint32_t process;  /* struct process_record.id */
	uint32_t path;	   /* struct path_record.id, as the path was when the operation ran */
	uint32_t path2;
	uint32_t flags;
	uint32_t mode;
	uint16_t op;	   /* enum op_id */
	uint16_t args_len;
};

/* A path relative to the mount's root ("" is the root itself), any bytes but NUL. Followed by `text_len` bytes. */
struct path_record {
	uint32_t id;	 /* 1, 2, ... per run */
	uint32_t parent; /* path id of the directory; 0 for the root */
	uint32_t text_len;
	uint32_t reserved;
};

/* A thread as it was at one time: exec and a recycled tid make a new one. Followed by comm, exe and cmdline. */
struct process_record {
	uint32_t id; /* 1, 2, ... per run */
	int32_t tid;
	int32_t tgid; /* the process: what ps calls PID */
	int32_t ppid;
	uint32_t uid;
	uint32_t gid;
	uint64_t start_ticks; /* since boot, in clock ticks: field 22 of /proc/PID/stat, proc(5) */
	int64_t first_ns;     /* first seen, since the run's start */
	uint16_t comm_len;
	uint16_t exe_len;
	uint32_t cmdline_len; /* arguments, each ended by NUL as in /proc/PID/cmdline */
};

/*
 * A name that was there before the run, and what it named. Followed by `target_len` bytes of a symlink's target. It is
 * what was found at `seq`: below a directory that the run had renamed by then, `path` is where it was found;
 * schema/initial.h puts it back.
 */
struct initial_record {
	uint64_t seq; /* of the operation that found it; 0: the root, which nobody has to find */
	uint64_t node;
	uint64_t parent; /* node of the directory that it was found in; 0 for the root */
	uint64_t dev;	 /* st_dev and st_ino: names of one file have both in common */
	uint64_t ino;
	uint64_t rdev;	 /* of a device */
	uint64_t blocks; /* allocated, of 512 bytes */
	uint32_t path;
	uint32_t mode; /* st_mode, with the type */
	int64_t size;  /* bytes */
	int64_t mtime_ns;
	uint32_t nlink;
	uint32_t uid;
	uint32_t gid;
	uint32_t target_len;
};

/* All but where it was found, and a symlink's target. */
static inline struct initial_record initial_of_stat(const struct stat *st)
{
	return (struct initial_record){
		.dev = st->st_dev,
		.ino = st->st_ino,
		.rdev = st->st_rdev,
		.blocks = (uint64_t)st->st_blocks,
		.mode = st->st_mode,
		.size = st->st_size,
		.mtime_ns = timespec_ns(st->st_mtim),
		.nlink = (uint32_t)st->st_nlink,
		.uid = st->st_uid,
		.gid = st->st_gid,
	};
}

#define CONTENT_PIECE (64u << 10) /* bytes, at most, of one struct content_record */

/* XXH3 (128 bits) of the bytes, in its canonical form. */
struct content_hash {
	unsigned char bytes[16];
};

/* Bytes, once for all that have them. Followed by the `length` bytes. */
struct content_record {
	struct content_hash hash;
	uint32_t length;
	uint32_t reserved;
};

/* A piece of what an operation wrote, copied or read. Its content may come before or after it. */
struct data_record {
	uint64_t seq;
	int64_t offset; /* in the file that the operation's node is */
	struct content_hash hash;
	uint32_t length;
	uint32_t reserved;
};

/* Processor time of the thread that made request `seq`, when that had come; since the thread began. */
struct cpu_record {
	uint64_t seq;
	int64_t cpu_ns;	  /* used */
	int64_t delay_ns; /* ready to run, and waiting for a processor */
};

static_assert(sizeof(struct event) == 104, "the event is part of the spool format");
static_assert(sizeof(struct path_record) == 16, "the path record is part of the spool format");
static_assert(sizeof(struct process_record) == 48, "the process record is part of the spool format");
static_assert(sizeof(struct initial_record) == 96, "the initial record is part of the spool format");
static_assert(sizeof(struct content_record) == 24, "the content record is part of the spool format");
static_assert(sizeof(struct data_record) == 40, "the data record is part of the spool format");
static_assert(sizeof(struct cpu_record) == 24, "the processor time record is part of the spool format");

#endif
