/* SPDX-License-Identifier: MIT */
/* runinfo.h - the conditions of a run, for its row: where, on what, with which versions and settings. */
#ifndef FSTAPE_RUNINFO_H
#define FSTAPE_RUNINFO_H

#include "fs.h"

struct trace;

/* What is known before the mount. 0 or -errno. */
int runinfo_write(struct fs *fs, struct trace *trace, int64_t run);

/* Names of FUSE capability bits (linux/fuse.h, 64 of them), joined by ' '; to be freed, NULL: no memory. */
char *runinfo_capabilities(uint64_t flags);

#endif
