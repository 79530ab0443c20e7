/* SPDX-License-Identifier: MIT */
/* bind.h - libfuse's entry points: each fills a struct call and hands it to dispatch(). */
#ifndef FSTAPE_BIND_H
#define FSTAPE_BIND_H

#include "fs.h"

/* The handlers of the operations in ops.def; `init` is for the session to add. */
extern const struct fuse_lowlevel_ops bind_ops;

#endif
