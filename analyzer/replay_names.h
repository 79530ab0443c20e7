/* SPDX-License-Identifier: MIT */
/*
 * replay_names.h - the recorded namespace, followed through the run: which object has which name at this point.
 *
 * A recorder's node ids name objects, but one object may have had several: the kernel forgot it and asked again. So
 * objects here are what names lead to, and a node id means the object that it was last seen for. A name is unknown until
 * the first operation on it tells whether it was there when the run began.
 */
#ifndef FSTAPE_REPLAY_NAMES_H
#define FSTAPE_REPLAY_NAMES_H

#include "replay_load.h"
#include "replay_plan.h"

enum slot_state { SLOT_UNKNOWN, SLOT_ABSENT, SLOT_PRESENT };

/* A name in a directory. */
struct slot {
	uint32_t dir, name;
	uint32_t object;   /* when present */
	uint32_t next, former; /* of the object's names */
	uint32_t resource; /* replay_order.h */
	uint8_t state;
};

/* What is known of an object at this point, beside what the plan keeps of it. */
struct live {
	uint32_t slot;	 /* its names that are known, the one used last first; 0: none */
	uint32_t handle; /* opened last; 0: none, or closed */
	uint32_t exists, listing, data, locks; /* resources */
};

struct names {
	struct plan *plan;
	struct trace *trace;
	const struct paths *paths;
	struct survey *survey;
	struct idmap object_of_node, slot_of_name;
	uint32_t *object_of_path; /* the last one that was called so */
	struct slot *slots; /* [1, n_slots] */
	uint32_t n_slots, slots_room;
	struct live *lives; /* by object */
	uint32_t lives_room;
};

int names_init(struct names *names, struct plan *plan, struct trace *trace, const struct paths *paths,
	struct survey *survey);
void names_free(struct names *names);

/* A new object without a name. */
int names_new_object(struct names *names, enum object_type type, uint32_t *ret_object);

/* The object of a node, or of a path when the node is 0 or new; *ret_object 0: there is no telling. */
int names_object(struct names *names, uint64_t node, uint32_t path, uint32_t *ret_object);

/* The slot of a name. */
int names_slot(struct names *names, uint32_t dir, uint32_t name, uint32_t *ret_slot);

/* What is called so from here on, and no more. A name that was unknown belongs to the start. */
void names_put(struct names *names, uint32_t slot, uint32_t object);
void names_take(struct names *names, uint32_t slot);

/* From now on the node, and the path, mean this object. */
int names_learn(struct names *names, uint64_t node, uint32_t path, uint32_t object);

/* Whether an operation of the run made the node, and has not been compiled yet; that it has been, 0 or -ENOMEM. */
bool names_made_later(const struct names *names, uint64_t node);
int names_was_made(struct names *names, uint64_t node);

#endif
