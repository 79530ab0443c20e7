/* SPDX-License-Identifier: MIT */
/*
 * keeper.h - a small process that ends another one when this one dies without having taken care of it, as by
 * SIGKILL: a mount must not stay behind for ever.
 */
#ifndef FSTAPE_KEEPER_H
#define FSTAPE_KEEPER_H

#include <sys/types.h>

struct keeper {
	pid_t pid; /* 0: there is none */
	int line;  /* it watches the other end */
};

/* From now on `child` gets SIGTERM when this process dies. 0 or -errno. */
int keeper_start(struct keeper *keeper, pid_t child);

/* The end of that, and of the keeper; `child` is left alone. */
void keeper_release(struct keeper *keeper);

#endif
