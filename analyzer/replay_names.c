/* SPDX-License-Identifier: MIT */
#include "replay_names.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base.h"
#include "beneath.h"

#define FUSE_ROOT_NODE 1

int names_init(
	struct names *names, struct plan *plan, struct trace *trace, const struct paths *paths, struct survey *survey)
{
	uint32_t root;
	int err;

	*names = (struct names){ .plan = plan, .trace = trace, .paths = paths, .survey = survey };
	names->object_of_path = calloc(paths->count, sizeof(*names->object_of_path));
	if (!names->object_of_path)
		return -ENOMEM;
	err = names_new_object(names, OBJECT_DIR, &root);
	return err ?: idmap_set(&names->object_of_node, FUSE_ROOT_NODE, root);
}

void names_free(struct names *names)
{
	idmap_free(&names->object_of_node);
	idmap_free(&names->slot_of_name);
	free(names->object_of_path);
	free(names->slots);
	free(names->lives);
}

int names_new_object(struct names *names, enum object_type type, uint32_t *ret_object)
{
	struct plan *plan = names->plan;
	uint32_t object = plan->n_objects + 1;
	int err = plan_grow(&plan->objects, &plan->objects_room, object, sizeof(*plan->objects));

	err = err ?: plan_grow(&names->lives, &names->lives_room, object, sizeof(*names->lives));
	if (err < 0)
		return err;
	plan->objects[object] = (struct object){ .type = (uint8_t)type };
	names->lives[object] = (struct live){};
	plan->n_objects = object;
	*ret_object = object;
	return 0;
}

int names_slot(struct names *names, uint32_t dir, uint32_t name, uint32_t *ret_slot)
{
	uint64_t key = (uint64_t)dir << 32 | name;
	uint32_t slot = idmap_get(&names->slot_of_name, key);
	int err = 0;

	if (!slot) {
		slot = names->n_slots + 1;
		err = plan_grow(&names->slots, &names->slots_room, slot, sizeof(*names->slots));
		err = err ?: idmap_set(&names->slot_of_name, key, slot);
		if (err < 0)
			return err;
		names->slots[slot] = (struct slot){ .dir = dir, .name = name };
		names->n_slots = slot;
	}
	*ret_slot = slot;
	return 0;
}

void names_put(struct names *names, uint32_t slot, uint32_t object)
{
	struct slot *s = &names->slots[slot];
	struct object *o = &names->plan->objects[object];

	if (s->state == SLOT_PRESENT && s->object == object)
		return;
	names_take(names, slot);
	s->state = SLOT_PRESENT;
	s->object = object;
	s->next = names->lives[object].slot;
	s->former = 0;
	if (s->next)
		names->slots[s->next].former = slot;
	names->lives[object].slot = slot;
	if (!o->dir && object != PLAN_ROOT) {
		o->dir = s->dir;
		o->name = s->name;
	}
}

void names_take(struct names *names, uint32_t slot)
{
	struct slot *s = &names->slots[slot];

	if (s->state == SLOT_PRESENT) {
		if (s->next)
			names->slots[s->next].former = s->former;
		if (s->former)
			names->slots[s->former].next = s->next;
		else
			names->lives[s->object].slot = s->next;
	}
	s->state = SLOT_ABSENT;
	s->object = 0;
}

int names_learn(struct names *names, uint64_t node, uint32_t path, uint32_t object)
{
	if (path && path < names->paths->count)
		names->object_of_path[path] = object;
	return node ? idmap_set(&names->object_of_node, node, object) : 0;
}

bool names_made_later(const struct names *names, uint64_t node)
{
	return idmap_get(&names->survey->made, node) == 1;
}

int names_was_made(struct names *names, uint64_t node)
{
	return node ? idmap_set(&names->survey->made, node, 2) : 0;
}

/* What the recorder found there at the start. */
static int initial_type(struct names *names, uint32_t path, enum object_type *ret_type)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(names->trace, "SELECT mode FROM initial WHERE run = ? AND path = ?", &stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, names->plan->run);
	err = err ?: trace_bind_int(stmt, 2, path);
	err = err ?: trace_step(stmt);
	if (err < 0)
		return trace_said(names->trace, err), err;
	*ret_type = !err ? OBJECT_UNKNOWN : S_ISDIR(trace_column_int(stmt, 0)) ? OBJECT_DIR : OBJECT_OTHER;
	return 0;
}

/* The object called `path`, whose directory is known. */
static int find_in(struct names *names, uint32_t dir, uint32_t path, uint32_t *ret_object)
{
	enum object_type type;
	uint32_t slot;
	int err = names_slot(names, dir, names->paths->name[path], &slot);

	if (err < 0)
		return err;
	if (names->slots[slot].state != SLOT_PRESENT) {
		err = initial_type(names, path, &type);
		err = err ?: names_new_object(names, type, ret_object);
		if (err < 0)
			return err;
		names_put(names, slot, *ret_object);
	}
	*ret_object = names->slots[slot].object;
	names->object_of_path[path] = *ret_object;
	return 0;
}

/* Down from the nearest directory that is known. A path without a name is the root, or nothing that can be used. */
static int find_path(struct names *names, uint32_t path, uint32_t *ret_object)
{
	const struct paths *paths = names->paths;
	uint32_t chain[BENEATH_DEPTH_MAX], depth = 0, object;
	int err = 0;

	*ret_object = 0;
	for (object = 0; !object; path = paths->parent[path]) {
		if (path == 0 || path >= paths->count || depth == ARRAY_SIZE(chain))
			return 0;
		object = names->object_of_path[path];
		if (!object && paths->parent[path] == 0 && paths->name[path] == NO_NAME)
			object = PLAN_ROOT;
		if (!object && paths->name[path] == NO_NAME)
			return 0;
		if (!object)
			chain[depth++] = path;
	}
	while (err == 0 && depth-- > 0) {
		names->plan->objects[object].type = OBJECT_DIR;
		err = find_in(names, object, chain[depth], &object);
	}
	*ret_object = object;
	return err;
}

int names_object(struct names *names, uint64_t node, uint32_t path, uint32_t *ret_object)
{
	int err;

	*ret_object = node ? idmap_get(&names->object_of_node, node) : 0;
	if (*ret_object)
		return 0;
	err = find_path(names, path, ret_object);
	if (err == 0 && *ret_object && node)
		err = idmap_set(&names->object_of_node, node, *ret_object);
	return err;
}
