/* SPDX-License-Identifier: MIT */
/* replay_compile_op.c - what one operation is about, uses, and changes; replay_compile_name.c has those on names. */
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

/* --- objects ----------------------------------------------------------------------------------------------------- */

static uint32_t handle_of(const struct compile *c, uint64_t fh)
{
	return fh ? idmap_get(&c->handle_of_fh, fh) : 0;
}

int compile_open_handle(struct compile *c, const struct row *row, struct action *a)
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

int compile_use_dir(struct compile *c, uint32_t dir, enum use listing)
{
	struct object *object = &c->plan->objects[dir];
	int err;

	object->type = OBJECT_DIR;
	object->used_after_removal |= object->removed;
	err = order_use(c->order, &live(c, dir)->exists, USE_SHARED, RULE_OBJECT);
	return err ?: order_use(c->order, &live(c, dir)->listing, listing, RULE_LISTING);
}

int compile_use_slot(struct compile *c, uint32_t slot, enum use use)
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
		return compile_use_dir(c, a->object, USE_NONE);
	if (l->slot) {
		const struct slot *slot = &c->names.slots[l->slot];

		a->dir = slot->dir;
		a->name = slot->name;
		return compile_use_dir(c, slot->dir, USE_NONE) ?: compile_use_slot(c, l->slot, USE_SHARED);
	}
	a->handle = l->handle;
	a->by_handle = true;
	if (!a->handle)
		a->how = ACTION_UNREACHABLE;
	return a->handle ? order_use(c->order, &c->handles[a->handle].resource, USE_SHARED, RULE_HANDLE) : 0;
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

/*
 * Locks of a process on a file are one set, through whichever of its open files they were taken. The replay takes them
 * all through the one that was used first.
 */
static int use_owner(struct compile *c, const struct row *row, struct action *a, uint32_t object)
{
	bool owned;
	uint64_t owner = (uint64_t)plan_arg(c->plan, a, ARG_OWNER, &owned), key = (uint64_t)object << 40 ^ owner;
	uint32_t handle;

	if (!owned || row->op == OP_flock)
		return 0;
	handle = idmap_get(&c->lock_handles, key);
	/* The kernel's names of owners recur, too. */
	if (handle && c->handles[handle].object == object && !c->handles[handle].closed)
		a->handle2 = handle;
	return a->handle2 || row->op != OP_setlk ? 0 : idmap_set(&c->lock_handles, key, a->handle);
}

/* Closing a file gives up locks, which somebody else may have got thereupon. */
static int use_locks(struct compile *c, const struct row *row, struct action *a, struct open_handle *h)
{
	int err = h->object ? use_owner(c, row, a, h->object) : 0;

	if (row->op == OP_setlk || row->op == OP_flock)
		h->locked = true;
	if ((row->op == OP_flush || row->op == OP_release) && (h->locked || a->handle2) && h->object) {
		a->drops_locks = row->op == OP_flush && a->handle2; /* the owner's, not those of whoever else has it open */
		return err ?: order_use(c->order, &live(c, h->object)->locks, USE_EXCLUSIVE, RULE_LOCK);
	}
	if (!h->object)
		return err;
	return err ?: order_use(c->order, &live(c, h->object)->locks, uses[row->op].locks, RULE_LOCK);
}

static int use_handle(struct compile *c, const struct row *row, struct action *a)
{
	struct open_handle *h = &c->handles[a->handle];
	int err = order_use(c->order, &h->resource, uses[row->op].handle, RULE_HANDLE);

	err = err ?: use_locks(c, row, a, h);
	if (row->op == OP_readdir || row->op == OP_readdirplus)
		compile_listing(h, c, row, a);
	if (row->op == OP_release || row->op == OP_releasedir) {
		h->closed = true;
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
		err = compile_open_handle(c, row, a);
		err = err ?: order_use(c->order, &c->handles[a->handle].resource, USE_EXCLUSIVE, RULE_HANDLE);
	}
	return err;
}

int compile_action(struct compile *c, const struct row *row, struct action *a)
{
	if (!op_get(row->op)->replay) {
		a->how = ACTION_FORGET;
		return 0;
	}
	return op_get(row->op)->cols & COL_PARENT ? compile_name(c, row, a) : compile_object(c, row, a);
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
