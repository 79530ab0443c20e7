/* SPDX-License-Identifier: MIT */
/*
 * twin.h - the same random steps on two directories, which must not be told apart.
 *
 *   steps.c    what a step is: the table (steps.def), random ones, their description
 *   world.c    one directory: the process that lives in it, its open files, what it has to say of each step
 *   act_*.c    the steps themselves
 *   survey.c   the whole tree as text
 *   episode.c  two worlds, the same steps, the first difference
 *   shrink.c   the few steps that make it
 *
 * A world is a child process, chrooted into a fresh directory. The steps do not depend on what earlier ones answered,
 * so the worlds need not wait for each other: each writes an outcome, a line of text, for each step, and the lines are
 * compared afterwards. Every subset of the steps is a valid sequence too, which makes shrinking simple.
 *
 * Not compared, as the two may differ:
 *   inode numbers       only which names and open files are one inode, and that numbers agree within a world
 *   times of now        "now"; those that utimensat(2) has set are compared to the nanosecond
 *   access times        what the kernel's cache answers changes none; compared only right after they were set
 *   times of fifos      a pipe's traffic stays in the kernel: below, nothing has happened to it
 *   allocated blocks    depend on the sizes of writes and of folios in the page cache, and change when a file is closed
 *   directories' order  as sets; that seeking in them works is tested within a world
 * Not done, as FUSE (7.45, libfuse 3.14) has no way to do it as it is done below:
 *   O_TMPFILE; fallocate(2) that collapses or inserts ranges; O_DIRECT with its filesystem's own alignment
 *   opening a removed file again through an O_PATH descriptor; chattr flags of what is neither file nor directory
 *   chown(2) to neither owner nor group by someone who may not: it succeeds, without effect
 *   writes to files that have both set-id bits and capabilities, by root: the kernel's wish to clear the one looks like the
 *   wish to clear the other; writes through a mapping of a file with capabilities: they are lost, as with any write
 * AT_STATX_DONT_SYNC asks for what may be out of date, and gets it. Holes punched where nothing is clear set-id bits on
 * some filesystems only.
 */
#ifndef FSTAPE_TWIN_H
#define FSTAPE_TWIN_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base.h"

#define SLOTS 6		    /* open files of a world */
#define MAPS 2		    /* its mappings */
#define STEPS_MAX 8192u	    /* of an episode */
#define TEXT_MAX (96u << 20) /* bytes: all outcomes of an episode */
#define PLACE_MAX 1024	    /* bytes of a template's path */
#define PATH_ROOM (PLACE_MAX + 1) /* and a slash before it */
#define DATA_MAX (256u << 10)

enum base { BASE_ROOT, BASE_ABSOLUTE, BASE_CWD, BASE_SLOT };

/* A path: where it begins, and a template whose letters are names; capitals stand for odd ones (place_text()). */
struct place {
	uint8_t base, slot;
	char text[14];
};

enum step_kind {
#define STEP(name, weight, uses, choices) STEP_##name,
#include "steps.def"
#undef STEP
	STEP_COUNT
};

struct step {
	uint8_t kind;
	uint8_t actor; /* actors[] of world.c */
	uint8_t slot, slot2, map;
	uint16_t umask;
	struct place at, at2;
	uint32_t flags, mode, len, value;
	int64_t off, off2;
	uint32_t uid, gid;
};

/* Shared between a world and its parent. */
struct memory {
	_Atomic uint32_t begun; /* steps */
	uint32_t used;
	uint32_t outcomes[STEPS_MAX + 1]; /* what the world says of each step: where in `text` */
	char text[TEXT_MAX];
};

struct mapping {
	char *at;
	size_t len;
	off_t offset;
	int file; /* its own descriptor of what is mapped */
	bool shared;
};

struct world {
	struct memory *memory;
	int root, proc_fd; /* O_PATH: "/", /proc/self/fd */
	int scratch;	   /* a memfd: data comes and goes through it where a fault is to be an error and no signal */
	int slots[SLOTS];
	bool locked[SLOTS]; /* flock(2) or an open file description's lock was taken there */
	struct mapping maps[MAPS];
	uint8_t actor;
	mode_t umask;
	char *data; /* DATA_MAX bytes */
};

/* --- steps.c ------------------------------------------------------------------------------------------------------- */

struct random {
	uint64_t state;
};

void steps_make(struct random *random, struct step *steps, size_t count);
void step_describe(FILE *file, const struct step *step);

/* The path of a template, "x/y" without a leading slash. */
void place_text(const struct place *place, char text[static PLACE_MAX]);

/* --- world.c ------------------------------------------------------------------------------------------------------- */

/* Does not return. `dir` is the directory to live in. */
_Noreturn void world_run(const char *dir, struct memory *memory, const struct step *steps, size_t count);

void say(struct world *w, const char *fmt, ...) PRINTF(2, 3);
void say_result(struct world *w, long result); /* of a system call: the number, or errno's name */
void say_bytes(struct world *w, const void *data, size_t len); /* a hash of them */
void say_attributes(struct world *w, const struct statx *x);

/* Become that user, 0 being root. */
void world_act_as(struct world *w, uint8_t actor);

/* Where a place's path starts (a descriptor for *at calls), and the path. */
int world_at(struct world *w, const struct place *place, char text[static PATH_ROOM]);

/* A path that calls without a descriptor can take. */
void world_path(const struct place *place, char text[static PATH_ROOM]);

/* Closes what is in the slot and puts `fd` (or -1) there. */
void world_put(struct world *w, unsigned int slot, int fd);

/* `len` bytes made from `value`. */
const char *world_data(struct world *w, uint32_t value, size_t len);

/* --- survey.c ------------------------------------------------------------------------------------------------------ */

void survey(struct world *w);

/* --- episode.c ----------------------------------------------------------------------------------------------------- */

struct twin {
	const char *dirs[2];
	const char *below; /* the directory that dirs[1] shows, or NULL */
	struct memory *memories[2];
	unsigned int episodes; /* so far: names of their directories */
	bool keep;
};

/* The first difference of an episode: after `step` steps. */
struct difference {
	size_t step;
	char text[2][2 * 4096]; /* what the worlds say: the line that differs */
};

/* 1: a difference, 0: none, -errno. */
int episode_run(struct twin *twin, const struct step *steps, size_t count, struct difference *ret_difference);

/* --- shrink.c ------------------------------------------------------------------------------------------------------ */

/*
 * Reduces `steps`, which are known to make a difference, as far as `seconds` allow. Returns how many are left, or 0 when the
 * difference does not come again.
 */
size_t shrink(struct twin *twin, struct step *steps, size_t count, unsigned int seconds,
	struct difference *ret_difference);

#endif
