/* SPDX-License-Identifier: MIT */
/*
 * replay_dirs.h - descriptors (O_PATH) of the directories below TARGET that a replay works in, by object.
 *
 * A directory is opened when it is first worked in, by its name in the one above it, and kept; when there are as many as
 * may be open, those that nobody is using are closed again. Names are followed by beneath.h alone, so nothing outside
 * TARGET is reached whatever lies there. Thread-safe; the usual case takes no lock.
 */
#ifndef FSTAPE_REPLAY_DIRS_H
#define FSTAPE_REPLAY_DIRS_H

#include "replay_plan.h"

struct dirs;

/* At most `limit` open at once, as long as that many suffice. `root_fd` stays the caller's. */
int dirs_new(const struct plan *plan, int root_fd, uint32_t limit, struct dirs **ret_dirs);
void dirs_free(struct dirs *dirs);

/*
 * Opens those that were there when the recording began, as far as the limit allows, so that it is done before the clock runs.
 * One that cannot be opened now is opened, or fails, when it is worked in.
 */
void dirs_open_ahead(struct dirs *dirs);

/* The descriptor, which stays open until dirs_put(); or -errno. */
int dirs_get(struct dirs *dirs, uint32_t object);
void dirs_put(struct dirs *dirs, uint32_t object);

/* Where it is from now on. Nobody may be using what is below it meanwhile. */
void dirs_moved(struct dirs *dirs, uint32_t object, uint32_t dir, uint32_t name);

/* Its name may be anybody's from now on: a later use of it, if there is one, gets an error instead. */
void dirs_removed(struct dirs *dirs, uint32_t object);

/* Descriptors have run out elsewhere: closes some that are not in use. Whether there were any. */
bool dirs_relieve(struct dirs *dirs);

#endif
