/* SPDX-License-Identifier: MIT */
/* replay_compile.h - what the files replay_compile*.c share; for nobody else. */
#ifndef FSTAPE_REPLAY_COMPILE_H
#define FSTAPE_REPLAY_COMPILE_H

#include "replay_load.h"
#include "replay_names.h"
#include "replay_order.h"
#include "replay_plan.h"

/* An open file or directory of the recording. */
struct open_handle {
	uint64_t names_sum; /* of the listing so far */
	int64_t entries, bytes;
	uint32_t object, resource, process;
	bool listing; /* begun at the first entry */
	bool named;   /* names_sum and entries are there for all of it */
	bool locked;  /* somebody took a lock through it */
	bool closed;
};

struct compile {
	struct plan *plan;
	const struct plan_options *options;
	struct survey survey;
	struct paths paths;
	struct names names;
	struct order *order;
	struct idmap handle_of_fh;
	struct idmap lock_handles; /* by object and owner: the open file through which it locks */
	struct open_handle *handles; /* [1, plan.n_handles] */
	uint32_t handles_room;
	uint32_t *free_threads;
	uint32_t n_free_threads, max_threads;
	/* Operations whose results say that something which arrived later took effect before them. */
	struct row *pending;
	uint32_t n_pending;
};

/* Whether the result of an operation is possible with the namespace as it is. 1, 0 or -errno. */
int compile_fits(struct compile *c, const struct row *row);

/* The operation's objects and waits, into the action that has its thread and numbers; then its effects on names. */
int compile_action(struct compile *c, const struct row *row, struct action *a);

/* The part of it for operations that have a parent and a name. */
int compile_name(struct compile *c, const struct row *row, struct action *a);

/* The action works in a directory, and changes its entries or not. */
int compile_use_dir(struct compile *c, uint32_t dir, enum use listing);
int compile_use_slot(struct compile *c, uint32_t slot, enum use use);

/* The action opens its object. */
int compile_open_handle(struct compile *c, const struct row *row, struct action *a);

static inline struct live *live(struct compile *c, uint32_t object)
{
	return &c->names.lives[object];
}

/* Finds the action of the same thread just before that the kernel made as a part of this one, and marks it. */
void compile_fold(struct compile *c, const struct row *row, struct action *a);

#endif
