/* SPDX-License-Identifier: MIT */
/*
 * target.h - the filesystems that are compared: a row each in target.c.
 *
 *   NAME[:raid1][:mkfs=OPTIONS][:mount=OPTIONS][:label=TEXT]   a new filesystem of that kind; needs root
 *   dir=PATH                                       a folder on whatever filesystem PATH is on
 *
 * A target is what the user asked for; place.h makes one filesystem for one measurement of it.
 */
#ifndef FSTAPE_TARGET_H
#define FSTAPE_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base.h"

enum target_kind {
	TARGET_BLOCK,   /* mkfs on a block device, mount */
	TARGET_MEMORY,  /* nothing below it: mounted as it is, with size= */
	TARGET_OVERLAY, /* over an ext4: a folder of it is the upper layer, an empty one the lower */
};

struct target_type {
	const char *name;    /* of the target and of mkfs.NAME */
	const char *package; /* Debian's, that has mkfs.NAME */
	const char *mkfs[6]; /* what mkfs.NAME always gets: quiet, forced, nothing left for later */
	int64_t min_size;    /* bytes; smaller images are refused by mkfs, or by us */
	enum target_kind kind;
	const char *below; /* TARGET_OVERLAY: the type that it lies on; its mkfs is used */
};

struct target {
	const struct target_type *type; /* NULL: a directory */
	char *name;                     /* the label, or as the user wrote it: what results are called */
	char *mkfs_options;             /* more, or NULL */
	char *mount_options;            /* or NULL */
	char *label;                    /* or NULL */
	bool raid1;                     /* data and metadata mirrored on two devices */
	char *dir;                      /* of dir=PATH, absolute */
};

/*
 * Parses "ext4,xfs:mount=noatime,logbsize=64k,dir=/data": a comma separates targets only where the name of
 * one follows. Adds to the array at `*targets`, which the caller frees with targets_free(). -EINVAL after a
 * message.
 */
int targets_parse(const char *spec, struct target **targets, size_t *count);
void targets_free(struct target *targets, size_t count);

/*
 * su(1) gives root the PATH of the user, without the directories that mkfs is in. They are added at its end: what is
 * found now is what was found before. 0, or -errno after a message.
 */
int target_extend_path(void);

/*
 * Whether the target can be made here: programs, rights, the kernel's support. `size` is that of an image, bytes; 0:
 * there is none. Says on standard error what is missing.
 */
int target_check(const struct target *target, int64_t size);

#define TARGET_MAX_WORDS 64

/*
 * The words of its mkfs and the devices, NULL-terminated; user's options are cut at spaces in `text`, a copy of them
 * that the words point into. `program` gets "mkfs.NAME". -E2BIG.
 */
int target_mkfs_words(const struct target *target, char *text, char program[static 32], const char *const *devices,
	size_t n_devices, char *words[static TARGET_MAX_WORDS]);

/* How many block devices it lies on: 0, 1 or 2. */
size_t target_devices(const struct target *target);

/* Adds members of a JSON object, each preceded by a comma: how it is made. */
void target_describe(const struct target *target, struct strbuf *json);

/* "ext3, ext4, xfs, ...": for help and messages. */
void target_names(struct strbuf *text);

#endif
