/* SPDX-License-Identifier: MIT */
/* acts.h - one function for each row of steps.def: does the step in a world and says what came of it. */
#ifndef FSTAPE_ACTS_H
#define FSTAPE_ACTS_H

#include "twin.h"

#define STEP(name, weight, uses, choices) void act_##name(struct world *w, const struct step *s);
#include "steps.def"
#undef STEP

/* The /proc/self/fd entry of a slot's descriptor, below world.proc_fd. */
struct fd_name {
	char text[16];
};
struct fd_name fd_name(const struct world *w, unsigned int slot);

/* An O_PATH descriptor of a removed file: see twin.h. Says so when it is one. */
bool act_is_ghost(struct world *w, unsigned int slot);

/* Whether a file has set-id bits, or capabilities: see twin.h. -1 and path, or a descriptor. */
bool act_has_setid(int fd, const char *path);
bool act_has_capability(int fd, const char *path);

/* A directory's entries, sorted, with their types and whether their numbers are those of the inodes. */
void say_listing(struct world *w, int fd);

#endif
