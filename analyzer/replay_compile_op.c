/* SPDX-License-Identifier: MIT */
/* replay_compile_op.c - what one operation is about, uses, and changes. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base.h"
#include "replay_compile.h"

/* How an operation uses what it is about, when it succeeds; one that fails disturbs nobody. */
struct uses {
	enum use data, listing, handle, locks;
};

static const struct uses uses[OP_COUNT] = {
	[OP_setattr] = { .data = USE_EXCLUSIVE, .handle = USE_SHARED },
	[OP_getattr] = { .handle = USE_SHARED },
	[OP_open] = { .handle = USE_EXCLUSIVE },
	[OP_create] = { .handle = USE_EXCLUSIVE },
	[OP_read] = { .data = USE_SHARED, .handle = USE_SHARED },
	[OP_write] = { .data = USE_EXCLUSIVE, .handle = USE_SHARED },
	[OP_release] = { .handle = USE_EXCLUSIVE },
	[OP_fsync] = { .data = USE_SHARED, .handle = USE_SHARED },
	[OP_setxattr] = { .data = USE_EXCLUSIVE },
	[OP_getxattr] = { .data = USE_SHARED },
	[OP_listxattr] = { .data = USE_SHARED },
	[OP_removexattr] = { .data = USE_EXCLUSIVE },
	[OP_flush] = { .handle = USE_SHARED },
	[OP_opendir] = { .handle = USE_EXCLUSIVE },
	[OP_readdir] = { .handle = USE_SHARED, .listing = USE_SHARED },
	[OP_readdirplus] = { .handle = USE_SHARED, .listing = USE_SHARED },
	[OP_releasedir] = { .handle = USE_EXCLUSIVE },
	[OP_fsyncdir] = { .handle = USE_SHARED, .listing = USE_SHARED },
	[OP_getlk] = { .handle = USE_SHARED, .locks = USE_EXCLUSIVE },
	[OP_setlk] = { .handle = USE_SHARED, .locks = USE_EXCLUSIVE },
	[OP_flock] = { .handle = USE_SHARED, .locks = USE_EXCLUSIVE },
	[OP_ioctl] = { .data = USE_EXCLUSIVE, .handle = USE_SHARED },
	[OP_fallocate] = { .data = USE_EXCLUSIVE, .handle = USE_SHARED },
	[OP_lseek] = { .data = USE_SHARED, .handle = USE_SHARED },
	[OP_copy_file_range] = { .data = USE_SHARED, .handle = USE_SHARED },
};

static struct live *live(struct compile *c, uint32_t object)
{
	return &c->names.lives[object];
}

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

/* --- objects ----------------------------------------------------------------------------------------------------- */

static uint32_t handle_of(const struct compile *c, uint64_t fh)
{
	return fh ? idmap_get(&c->handle_of_fh, fh) : 0;
}

static int open_handle(struct compile *c, const struct row *row, struct action *a)
{
	struct plan *plan = c->plan;
	uint32_t handle = plan->n_handles + 1;
	int err = plan_grow(&c->handles, &c->handles_room, handle, sizeof(*c->handles));

	err = err ?: row->fh ? idmap_set(&c->handle_of_fh, row->fh, handle) : 0;
	if (err < 0)
		return err;
	c->handles[handle] = (struct open_handle){ .object = a->object, .process = row->process };
	plan->n_handles = handle;
	a->handle = handle;
	if (a->object)
		live(c, a->object)->handle = handle;
	return 0;
}

static int use_dir(struct compile *c, uint32_t dir, enum use listing)
{
	struct object *object = &c->plan->objects[dir];
	int err;

	object->type = OBJECT_DIR;
	object->used_after_removal |= object->removed;
	err = order_use(c->order, &live(c, dir)->exists, USE_SHARED, RULE_OBJECT);
	return err ?: order_use(c->order, &live(c, dir)->listing, listing, RULE_LISTING);
}

static int use_slot(struct compile *c, uint32_t slot, enum use use)
{
	return order_use(c->order, &c->names.slots[slot].resource, use, RULE_NAME);
}

/* How the object can be reached now: itself when it is a directory, by a name, through an open file; or not at all. */
static int reach(struct compile *c, struct action *a)
{
	struct live *l = live(c, a->object);

	if (a->handle) {
		a->by_handle = true;
		return 0;
	}
	if (action_is_dir(c->plan, a))
		return use_dir(c, a->object, USE_NONE);
	if (l->slot) {
		const struct slot *slot = &c->names.slots[l->slot];

		a->dir = slot->dir;
		a->name = slot->name;
		return use_dir(c, slot->dir, USE_NONE) ?: use_slot(c, l->slot, USE_SHARED);
	}
	a->handle = l->handle;
	a->by_handle = true;
	if (!a->handle)
		a->how = ACTION_UNREACHABLE;
	return a->handle ? order_use(c->order, &c->handles[a->handle].resource, USE_SHARED, RULE_HANDLE) : 0;
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
	int err = use_dir(c, a->dir, USE_NONE);

	err = err ?: use_slot(c, slot, USE_SHARED);
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
	int err = use_dir(c, a->dir, done ? USE_SHARED_ALSO : USE_NONE);

	err = err ?: use_slot(c, slot, done ? USE_EXCLUSIVE : USE_SHARED);
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
		err = use_dir(c, a->dir2, USE_NONE) ?: use_slot(c, from, USE_SHARED);
	} else {
		a->how = ACTION_UNREACHABLE;
	}
	err = err ?: use_dir(c, a->dir, done ? USE_SHARED_ALSO : USE_NONE);
	err = err ?: use_slot(c, slot, done ? USE_EXCLUSIVE : USE_SHARED);
	if (err == 0 && done) {
		names_put(&c->names, slot, a->object);
		err = names_learn(&c->names, 0, row->path, a->object);
	}
	return err;
}

static int compile_remove(struct compile *c, const struct row *row, struct action *a, uint32_t slot)
{
	bool done = row->result == 0;
	int err = use_dir(c, a->dir, done ? USE_SHARED_ALSO : USE_NONE);

	err = err ?: use_slot(c, slot, done ? USE_EXCLUSIVE : USE_SHARED);
	if (err < 0)
		return err;
	a->object = c->names.slots[slot].object;
	if (a->object && row->op == OP_rmdir) { /* after all that went on in it; ENOTEMPTY depends on that too */
		c->plan->objects[a->object].type = OBJECT_DIR;
		err = order_use(
			c->order, &live(c, a->object)->listing, done ? USE_EXCLUSIVE : USE_SHARED, RULE_LISTING);
		err = err   ?:
			      order_use(c->order, &live(c, a->object)->exists, done ? USE_EXCLUSIVE : USE_SHARED,
				      RULE_OBJECT);
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
	err = err ?: use_dir(c, a->dir, done ? USE_SHARED_ALSO : USE_NONE);
	err = err ?: use_dir(c, a->dir2, done ? USE_SHARED_ALSO : USE_NONE);
	err = err ?: use_slot(c, slot, done ? USE_EXCLUSIVE : USE_SHARED);
	err = err ?: use_slot(c, to, done ? USE_EXCLUSIVE : USE_SHARED);
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
	int err = use_dir(c, a->dir, done && !there ? USE_SHARED_ALSO : USE_NONE);

	err = err ?: use_slot(c, slot, done && !there ? USE_EXCLUSIVE : USE_SHARED);
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
	err = err ?: open_handle(c, row, a);
	return err ?: order_use(c->order, &c->handles[a->handle].resource, USE_EXCLUSIVE, RULE_HANDLE);
}

/* --- operations on objects and open files ------------------------------------------------------------------------ */

/* A listing is compared as a whole: from the first entry to the answer without any. */
static void compile_listing(struct open_handle *h, const struct compile *c, const struct row *row, struct action *a)
{
	bool named;
	int64_t sum = plan_arg(c->plan, a, ARG_NAMES, &named);

	a->flags = row->offset == 0;
	if (row->offset == 0)
		*h = (struct open_handle){ .object = h->object,
			.resource = h->resource,
			.process = h->process,
			.listing = true,
			.named = true };
	if (row->result < 0)
		h->listing = false;
	h->names_sum += (uint64_t)sum;
	h->entries += plan_arg(c->plan, a, ARG_ENTRIES, NULL);
	h->bytes += row->result;
	h->named &= named || row->result == 0;
	a->listing_end = h->listing && row->result == 0;
	if (a->listing_end) {
		a->mode = h->named;
		a->offset = h->named ? (int64_t)h->names_sum : h->bytes;
		a->length = h->entries;
		h->listing = false;
	}
}

static void count_bytes(struct plan *plan, const struct row *row)
{
	if (row->op == OP_write ||
		(row->op == OP_fallocate && !(row->mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_COLLAPSE_RANGE))))
		plan->counts.bytes_written += (uint64_t)row->length;
	if (row->op == OP_copy_file_range && row->result > 0)
		plan->counts.bytes_written += (uint64_t)row->result;
}

static int use_second_file(struct compile *c, struct action *a)
{
	uint32_t handle = handle_of(c, (uint64_t)plan_arg(c->plan, a, ARG_FH_OUT, NULL));
	int err;

	if (!handle) {
		a->how = ACTION_UNREACHABLE;
		return 0;
	}
	a->handle2 = handle;
	err = order_use(c->order, &c->handles[handle].resource, USE_SHARED, RULE_HANDLE);
	if (err == 0 && c->handles[handle].object)
		err = order_use(c->order, &live(c, c->handles[handle].object)->data, USE_EXCLUSIVE, RULE_DATA);
	return err;
}

/* Closing a file gives up locks, which somebody else may have got thereupon. */
static int use_locks(struct compile *c, const struct row *row, struct action *a, struct open_handle *h)
{
	if (row->op == OP_setlk || row->op == OP_flock)
		h->locked = true;
	if ((row->op == OP_flush || row->op == OP_release) && h->locked && h->object) {
		a->drops_locks = row->op == OP_flush;
		return order_use(c->order, &live(c, h->object)->locks, USE_EXCLUSIVE, RULE_LOCK);
	}
	return h->object ? order_use(c->order, &live(c, h->object)->locks, uses[row->op].locks, RULE_LOCK) : 0;
}

static int use_handle(struct compile *c, const struct row *row, struct action *a)
{
	struct open_handle *h = &c->handles[a->handle];
	int err = order_use(c->order, &h->resource, uses[row->op].handle, RULE_HANDLE);

	err = err ?: use_locks(c, row, a, h);
	if (row->op == OP_readdir || row->op == OP_readdirplus)
		compile_listing(h, c, row, a);
	if (row->op == OP_release || row->op == OP_releasedir) {
		if (h->object && live(c, h->object)->handle == a->handle)
			live(c, h->object)->handle = 0;
	}
	return err;
}

static int use_object(struct compile *c, const struct row *row, struct action *a)
{
	const struct uses *u = &uses[row->op];
	struct live *l = live(c, a->object);
	bool done = row->result >= 0;
	int err = order_use(c->order, &l->data, done || u->data != USE_EXCLUSIVE ? u->data : USE_SHARED, RULE_DATA);

	if (err == 0 && row->op == OP_open && row->flags & O_TRUNC && done)
		err = order_use(c->order, &l->data, USE_EXCLUSIVE, RULE_DATA);
	err = err ?: order_use(c->order, &l->listing, u->listing, RULE_LISTING);
	/* Modes and times of a directory depend on, and decide about, what goes on in it. */
	if (err == 0 && row->op == OP_setattr && done && action_is_dir(c->plan, a))
		err = order_use(c->order, &l->exists, USE_EXCLUSIVE, RULE_OBJECT);
	return err;
}

/* Attributes that are rights, or whose value we would have to make up although it means something. */
static void check_attribute(const struct compile *c, struct action *a)
{
	const char *name = plan_text(c->plan, (uint32_t)plan_arg(c->plan, a, ARG_NAME, NULL));
	bool user = strncmp(name, "user.", 5) == 0, acl = strncmp(name, "system.posix_acl_", 17) == 0, recorded;

	plan_arg(c->plan, a, ARG_VALUE, &recorded);
	if (!user && !acl && !c->options->allow_setid)
		a->how = ACTION_NOT_ALLOWED;
	else if (a->op == OP_setxattr && !user && !recorded)
		a->how = ACTION_NOT_RECORDED;
}

/* Those that read or set attributes of an inode and whose argument is recorded. */
static bool is_known_ioctl(uint32_t command)
{
	return command == FS_IOC_GETFLAGS || command == FS_IOC_SETFLAGS || command == FS_IOC_FSGETXATTR ||
	       command == FS_IOC_GETVERSION;
}

static int compile_object(struct compile *c, const struct row *row, struct action *a)
{
	bool opens = row->op == OP_open || row->op == OP_opendir;
	int err = 0;

	count_bytes(c->plan, row);
	a->handle = opens ? 0 : handle_of(c, row->fh);
	if (row->op == OP_setxattr || row->op == OP_removexattr)
		check_attribute(c, a);
	if (row->op == OP_ioctl && !is_known_ioctl(row->flags))
		a->how = ACTION_NOT_RECORDED;
	if (a->handle)
		a->object = c->handles[a->handle].object;
	if (!a->object)
		err = names_object(&c->names, row->node, row->path, &a->object);
	if (err < 0)
		return err;
	if (!a->object || (!a->handle && uses[row->op].handle == USE_EXCLUSIVE && !opens)) {
		a->how = ACTION_UNREACHABLE;
		return 0;
	}
	if (row->op == OP_opendir || row->op == OP_readdir || row->op == OP_readdirplus)
		c->plan->objects[a->object].type = OBJECT_DIR;
	err = names_learn(&c->names, row->node, row->path, a->object);
	err = err ?: reach(c, a);
	if (err == 0 && a->handle && !opens)
		err = use_handle(c, row, a);
	err = err ?: use_object(c, row, a);
	if (err == 0 && row->op == OP_copy_file_range)
		err = use_second_file(c, a);
	if (err == 0 && opens && row->result == 0) {
		a->handle2 = a->handle; /* of a file without a name: another open file of it */
		err = open_handle(c, row, a);
		err = err ?: order_use(c->order, &c->handles[a->handle].resource, USE_EXCLUSIVE, RULE_HANDLE);
	}
	return err;
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

int compile_action(struct compile *c, const struct row *row, struct action *a)
{
	uint32_t slot;
	int err;

	if (!op_get(row->op)->replay) {
		a->how = ACTION_FORGET;
		return 0;
	}
	if (!name_compilers[row->op])
		return compile_object(c, row, a);
	err = named(c, row, a, &slot);
	return err ?: name_compilers[row->op](c, row, a, slot);
}

/* --- what the kernel does by itself ------------------------------------------------------------------------------ */

static bool same_name(const struct action *lookup, uint32_t dir, uint32_t name)
{
	return lookup->dir == dir && lookup->name == name;
}

/*
 * Before it makes a name, or moves something to it, the kernel asks whether it is there, even when it knows; the
 * filesystem below is asked so within the one system call. Likewise for a capability to be removed before a file is
 * changed.
 */
void compile_fold(struct compile *c, const struct row *row, struct action *a)
{
	uint32_t last = c->survey.threads[idmap_get(&c->survey.thread_of, row->process)].last;
	struct action *before = last ? &c->plan->actions[last] : NULL;
	bool makes = row->op == OP_create || row->op == OP_mkdir || row->op == OP_mknod || row->op == OP_symlink ||
		     row->op == OP_link;

	if (!before || before->how != ACTION_ISSUED)
		return;
	if (before->op == OP_lookup && before->result == -ENOENT &&
		((makes && same_name(before, a->dir, a->name)) ||
			(row->op == OP_rename && same_name(before, a->dir2, a->name2))))
		before->how = ACTION_DUPLICATE;
	if (before->op == OP_getxattr && before->object == a->object &&
		(row->op == OP_write || row->op == OP_setattr || row->op == OP_fallocate ||
			row->op == OP_copy_file_range) &&
		strcmp(plan_text(c->plan, (uint32_t)plan_arg(c->plan, before, ARG_NAME, NULL)),
			"security.capability") == 0)
		before->how = ACTION_KERNEL;
}
