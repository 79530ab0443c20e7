/* SPDX-License-Identifier: MIT */
/* check.h - what can be told before anything is mounted; each says on standard error what is wrong. */
#ifndef FSTAPE_CHECK_H
#define FSTAPE_CHECK_H

#include "options.h"

/*
 * Whether it is on one of the kernel's own filesystems: what they show is made up when it is read, and depends on who
 * reads. We read /proc while a request waits: through ourselves that would never end.
 */
bool check_is_kernel_s_own(int fd);

/* Opens the real directory. A descriptor, or -errno. */
int check_source(const char *source);

/* The mountpoint is a directory; sets options->in_place. */
int check_mountpoint(struct options *options, int source_fd);

/* The database lies outside of both trees: its writes would be recorded, and wait for the shim that makes them. */
int check_database(const struct options *options);

/* FUSE can be used at all. */
int check_fuse(void);

#endif
