/* SPDX-License-Identifier: MIT */
/*
 * target.h - the filesystems that are compared: a row each in target.c.
 *
 *   NAME[:mkfs=OPTIONS][:mount=OPTIONS]   a new filesystem of that kind on a loop image; needs root
 *   dir=PATH                              a folder on whatever filesystem PATH is on
 *
 * A target is what the user asked for; a place is one filesystem made for one round of it.
 */
#ifndef FSTAPE_TARGET_H
#define FSTAPE_TARGET_H

#include <stddef.h>
#include <stdint.h>

#include "base.h"
#include "loop.h"

struct target_type {
	const char *name;    /* of the target and of mkfs.NAME */
	const char *package; /* Debian's, that has mkfs.NAME */
	const char *mkfs[6]; /* what mkfs.NAME always gets: quiet, forced, nothing left for later */
	int64_t min_size;    /* bytes; smaller images are refused by mkfs, or by us */
};

struct target {
	const struct target_type *type; /* NULL: a directory */
	char *name;                     /* as the user wrote it: what results are called */
	char *mkfs_options;             /* more, or NULL */
	char *mount_options;            /* or NULL */
	char *dir;                      /* of dir=PATH, absolute */
};

/* Where places are made. */
struct target_options {
	const char *work_dir;  /* mountpoints and device nodes */
	const char *image_dir; /* image files */
	int64_t size;          /* of an image, bytes */
};

struct place {
	char *dir;        /* an empty folder on the filesystem */
	char *mountpoint; /* NULL: nothing is mounted */
	struct loop loop;
};

/*
 * Parses "ext4,xfs:mount=noatime,logbsize=64k,dir=/data": a comma separates targets only where the name of
 * one follows. Adds to the array at `*targets`, which the caller frees with targets_free(). -EINVAL after a
 * message.
 */
int targets_parse(const char *spec, struct target **targets, size_t *count);
void targets_free(struct target *targets, size_t count);

/* Whether the target can be made here: programs, rights, size. Says on standard error what is missing. */
int target_check(const struct target *target, const struct target_options *options);

/* Makes a fresh filesystem, or folder, for it. Messages on standard error; nothing is left after a failure. */
int place_make(const struct target *target, const struct target_options *options, struct place *ret_place);
void place_remove(struct place *place);

/* Writes everything down to the disk, so that what was set up is not written on the clock of what comes. */
int place_sync(const struct place *place);

/* Adds members of a JSON object, each preceded by a comma: how it was made. */
void target_describe(const struct target *target, const struct target_options *options, struct strbuf *json);

/* "ext3, ext4, xfs, btrfs": for help and messages. */
void target_names(struct strbuf *text);

#endif
