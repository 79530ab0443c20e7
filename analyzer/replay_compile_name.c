/* SPDX-License-Identifier: MIT */
/* replay_compile_name.c - operations on a name in a directory: what their results say, what they use, what they change. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base.h"
#include "replay_compile.h"

/* --- results ----------------------------------------------------------------------------------------------------- */

static bool makes_name(const struct row *row)
{
	return row->op == OP_mkdir || row->op == OP_mknod || row->op == OP_symlink || row->op == OP_link ||
	       (row->op == OP_create && row->flags & O_EXCL);
}

static bool lookup_fits(struct compile *c, const struct row *row, const struct slot *slot)
{
	uint32_t known = idmap_get(&c->names.object_of_node, row->node);

	if (row->result == -ENOENT)
		return slot->state != SLOT_PRESENT;
	if (row->result < 0)
		return true;
	if (slot->state == SLOT_PRESENT)
		return known ? known == slot->object : !names_made_later(&c->names, row->node);
	return slot->state == SLOT_UNKNOWN && !names_made_later(&c->names, row->node);
}

int compile_fits(struct compile *c, const struct row *row)
{
	const struct slot *slot;
	uint32_t dir, number, name;
	int err;

	if (!(op_get(row->op)->cols & COL_PARENT) || row->path >= c->paths.count)
		return true;
	name = c->paths.name[row->path];
	if (name == NO_NAME)
		return true;
	err = names_object(&c->names, row->parent, c->paths.parent[row->path], &dir);
	if (err < 0 || !dir)
		return err ?: true;
	err = names_slot(&c->names, dir, name, &number);
	if (err < 0)
		return err;
	slot = &c->names.slots[number];
	if (row->op == OP_lookup)
		return lookup_fits(c, row, slot);
	if (makes_name(row))
		return row->result == 0       ? slot->state != SLOT_PRESENT :
		       row->result == -EEXIST ? slot->state != SLOT_ABSENT :
						true;
	return row->result == 0       ? slot->state != SLOT_ABSENT || row->op == OP_create :
	       row->result == -ENOENT ? slot->state != SLOT_PRESENT :
					true;
}

/* --- operations on names ----------------------------------------------------------------------------------------- */

static int named(struct compile *c, const struct row *row, struct action *a, uint32_t *ret_slot)
{
	uint32_t name = row->path < c->paths.count ? c->paths.name[row->path] : NO_NAME;
	int err;

	if (row->path == 0 || row->path >= c->paths.count)
		return refuse(row, "it has no path");
	if (name == NO_NAME)
		return refuse(row, "its path leads out of the directory, or nowhere");
	err = names_object(&c->names, row->parent, c->paths.parent[row->path], &a->dir);
	if (err < 0)
		return err;
	if (!a->dir)
		return refuse(row, "nothing before it has found its directory (node %" PRIu64 ")", row->parent);
	a->name = name;
	return names_slot(&c->names, a->dir, name, ret_slot);
}

static enum object_type type_of(uint32_t mode)
{
	return mode == 0 ? OBJECT_UNKNOWN : S_ISDIR(mode) ? OBJECT_DIR : OBJECT_OTHER;
}

static int put_new(struct compile *c, const struct row *row, struct action *a, uint32_t slot, enum object_type type)
{
	int err = names_new_object(&c->names, type, &a->object);

	if (err < 0)
		return err;
	names_put(&c->names, slot, a->object);
	err = names_learn(&c->names, row->node, row->path, a->object);
	return err ?: names_was_made(&c->names, row->node);
}

static int compile_lookup(struct compile *c, const struct row *row, struct action *a, uint32_t slot)
{
	uint32_t known = idmap_get(&c->names.object_of_node, row->node), there = c->names.slots[slot].object;
	int err = compile_use_dir(c, a->dir, USE_NONE);

	err = err ?: compile_use_slot(c, slot, USE_SHARED);
	if (err < 0)
		return err;
	if (row->result == -ENOENT && c->names.slots[slot].state == SLOT_UNKNOWN)
		names_take(&c->names, slot);
	if (row->result < 0)
		return 0;
	if (!known && !there)
		return put_new(c, row, a, slot, type_of(row->mode));
	a->object = known ?: there;
	names_put(&c->names, slot, a->object);
	if (c->plan->objects[a->object].type == OBJECT_UNKNOWN)
		c->plan->objects[a->object].type = (uint8_t)type_of(row->mode);
	return names_learn(&c->names, row->node, row->path, a->object);
}

static int compile_make(struct compile *c, const struct row *row, struct action *a, uint32_t slot)
{
	bool done = row->result == 0;
	int err = compile_use_dir(c, a->dir, done ? USE_SHARED_ALSO : USE_NONE);

	err = err ?: compile_use_slot(c, slot, done ? USE_EXCLUSIVE : USE_SHARED);
	if (err < 0)
		return err;
	if ((S_ISCHR(row->mode) || S_ISBLK(row->mode)) && row->op == OP_mknod) {
		c->plan->counts.devices++;
		if (!c->options->allow_devices)
			return log_msg("operation %" PRId64 " makes a device file; --allow-devices lets it", row->seq),
			       -EPERM;
	}
	if (!done)
		return 0;
	err = put_new(c, row, a, slot, row->op == OP_mkdir ? OBJECT_DIR : OBJECT_OTHER);
	if (err == 0 && row->op == OP_mkdir)
		err = order_use(c->order, &live(c, a->object)->exists, USE_EXCLUSIVE, RULE_OBJECT);
	return err;
}

static int compile_symlink(struct compile *c, const struct row *row, struct action *a, uint32_t slot)
{
	auto_free char *target = NULL;
	int err = path_text(c->names.trace, c->plan->run, row->path2, &target);

	if (err == -ENOENT)
		return refuse(row, "it does not say what the symlink says");
	err = err ?: plan_intern(c->plan, target, strlen(target), &a->name2);
	return err ?: compile_make(c, row, a, slot);
}

static int compile_link(struct compile *c, const struct row *row, struct action *a, uint32_t slot)
{
	bool done = row->result == 0;
	uint32_t from;
	int err = names_object(&c->names, row->node, row->path2, &a->object);

	if (err < 0)
		return err;
	if (!a->object)
		return refuse(row, "nothing before it has found what it links (node %" PRIu64 ")", row->node);
	from = live(c, a->object)->slot;
	if (from) {
		a->dir2 = c->names.slots[from].dir;
		a->name2 = c->names.slots[from].name;
		err = compile_use_dir(c, a->dir2, USE_NONE) ?: compile_use_slot(c, from, USE_SHARED);
	} else {
		a->how = ACTION_UNREACHABLE;
	}
	err = err ?: compile_use_dir(c, a->dir, done ? USE_SHARED_ALSO : USE_NONE);
	err = err ?: compile_use_slot(c, slot, done ? USE_EXCLUSIVE : USE_SHARED);
	if (err == 0 && done) {
		names_put(&c->names, slot, a->object);
		err = names_learn(&c->names, 0, row->path, a->object);
	}
	return err;
}

static int compile_remove(struct compile *c, const struct row *row, struct action *a, uint32_t slot)
{
	bool done = row->result == 0;
	enum use use = done ? USE_EXCLUSIVE : USE_SHARED;
	int err = compile_use_dir(c, a->dir, done ? USE_SHARED_ALSO : USE_NONE);

	err = err ?: compile_use_slot(c, slot, use);
	if (err < 0)
		return err;
	a->object = c->names.slots[slot].object;
	if (a->object && row->op == OP_rmdir) { /* after all that went on in it; ENOTEMPTY depends on that too */
		c->plan->objects[a->object].type = OBJECT_DIR;
		err = order_use(c->order, &live(c, a->object)->listing, use, RULE_LISTING);
		err = err ?: order_use(c->order, &live(c, a->object)->exists, use, RULE_OBJECT);
	}
	if (err == 0 && done) {
		if (a->object && row->op == OP_rmdir)
			c->plan->objects[a->object].removed = true;
		names_take(&c->names, slot);
	}
	return err;
}

/* Effects of a rename; what had the new name has lost it. */
static void move_names(struct compile *c, const struct row *row, uint32_t from, uint32_t to)
{
	struct names *names = &c->names;
	uint32_t moved = names->slots[from].object, other = names->slots[to].object;

	if (moved && moved == other)
		return; /* two names of one file: rename(2) leaves both */
	names_take(names, from);
	names_take(names, to);
	if (row->flags & RENAME_EXCHANGE && other)
		names_put(names, from, other);
	else if (other && c->plan->objects[other].type == OBJECT_DIR)
		c->plan->objects[other].removed = true;
	if (moved)
		names_put(names, to, moved);
}

/* A directory that loses its name is done with; what is moved, known or not, exists. */
static int rename_objects(struct compile *c, struct action *a, uint32_t from, uint32_t to)
{
	uint32_t other = c->names.slots[to].object, moved = c->names.slots[from].object;
	int err = 0;

	if (!moved) {
		err = names_new_object(&c->names, OBJECT_UNKNOWN, &moved);
		if (err == 0)
			names_put(&c->names, from, moved);
	}
	a->object = moved;
	a->handle2 = other;
	if (err == 0 && other && c->plan->objects[other].type == OBJECT_DIR)
		err = order_use(c->order, &live(c, other)->exists, USE_EXCLUSIVE, RULE_OBJECT) ?:
			      order_use(c->order, &live(c, other)->listing, USE_EXCLUSIVE, RULE_LISTING);
	return err;
}

static int compile_rename(struct compile *c, const struct row *row, struct action *a, uint32_t slot)
{
	bool done = row->result == 0;
	bool elsewhere;
	uint64_t parent2 = (uint64_t)plan_arg(c->plan, a, ARG_PARENT2, &elsewhere);
	uint32_t to;
	int err;

	if (row->path2 == 0 || row->path2 >= c->paths.count || c->paths.name[row->path2] == NO_NAME)
		return refuse(row, "its new path leads out of the directory, or nowhere");
	a->name2 = c->paths.name[row->path2];
	a->dir2 = a->dir;
	if (elsewhere || c->paths.parent[row->path2] != c->paths.parent[row->path])
		err = names_object(&c->names, elsewhere ? parent2 : 0, c->paths.parent[row->path2], &a->dir2);
	else
		err = 0;
	if (err < 0)
		return err;
	if (!a->dir2)
		return refuse(row, "nothing before it has found its new directory");
	err = names_slot(&c->names, a->dir2, a->name2, &to);
	err = err ?: compile_use_dir(c, a->dir, done ? USE_SHARED_ALSO : USE_NONE);
	err = err ?: compile_use_dir(c, a->dir2, done ? USE_SHARED_ALSO : USE_NONE);
	err = err ?: compile_use_slot(c, slot, done ? USE_EXCLUSIVE : USE_SHARED);
	err = err ?: compile_use_slot(c, to, done ? USE_EXCLUSIVE : USE_SHARED);
	if (err < 0 || !done)
		return err;
	err = rename_objects(c, a, slot, to);
	if (err == 0 && c->plan->objects[a->object].type != OBJECT_OTHER)
		err = order_barrier(c->order, RULE_DIR_RENAME);
	if (err < 0)
		return err;
	move_names(c, row, slot, to);
	return names_learn(&c->names, row->node, row->path2, a->object);
}

static int compile_create(struct compile *c, const struct row *row, struct action *a, uint32_t slot)
{
	bool done = row->result == 0, there = c->names.slots[slot].state == SLOT_PRESENT;
	int err = compile_use_dir(c, a->dir, done && !there ? USE_SHARED_ALSO : USE_NONE);

	err = err ?: compile_use_slot(c, slot, done && !there ? USE_EXCLUSIVE : USE_SHARED);
	if (err < 0 || !done)
		return err;
	if (there) { /* somebody else was quicker, and O_EXCL was not asked for */
		a->object = c->names.slots[slot].object;
		err = names_learn(&c->names, row->node, row->path, a->object);
		if (err == 0 && row->flags & O_TRUNC)
			err = order_use(c->order, &live(c, a->object)->data, USE_EXCLUSIVE, RULE_DATA);
	} else {
		err = put_new(c, row, a, slot, OBJECT_OTHER);
	}
	err = err ?: compile_open_handle(c, row, a);
	return err ?: order_use(c->order, &c->handles[a->handle].resource, USE_EXCLUSIVE, RULE_HANDLE);
}

static int (*const name_compilers[OP_COUNT])(struct compile *, const struct row *, struct action *, uint32_t) = {
	[OP_lookup] = compile_lookup,
	[OP_symlink] = compile_symlink,
	[OP_mknod] = compile_make,
	[OP_mkdir] = compile_make,
	[OP_unlink] = compile_remove,
	[OP_rmdir] = compile_remove,
	[OP_rename] = compile_rename,
	[OP_link] = compile_link,
	[OP_create] = compile_create,
};

/* FUSE passes names of up to 1024 bytes on, and the filesystem below refuses what is longer than its 255. */
static bool is_too_long(const struct compile *c, const struct row *row)
{
	const uint32_t *names = c->paths.name;

	return row->result == -ENAMETOOLONG && row->path < c->paths.count && row->path2 < c->paths.count &&
	       (names[row->path] == NO_NAME || (row->op == OP_rename && names[row->path2] == NO_NAME));
}

int compile_name(struct compile *c, const struct row *row, struct action *a)
{
	uint32_t slot;
	int err;

	if (is_too_long(c, row)) {
		a->how = ACTION_TOO_LONG;
		return 0;
	}
	err = named(c, row, a, &slot);
	return err ?: name_compilers[row->op](c, row, a, slot);
}
