/* SPDX-License-Identifier: MIT */
/*
 * trace_extras.c - the table op_extra: what operations have besides, once for all that have the same.
 *
 * Which id has what is remembered for a while only: what comes again later gets another row, which costs space and
 * nothing else. So do rows whose operations did not get into the database.
 */
#include <string.h>

#include <xxhash.h>

#include "base.h"
#include "op.h"
#include "trace_internal.h"

#define PLACES 1024
#define LONGEST 100 /* of args that are remembered: longer ones hardly ever come again */

struct extra {
	int64_t id; /* 0: a free place */
	uint32_t path2, flags, mode;
	bool has_flags;
	uint16_t args_len;
	char args[LONGEST];
};

struct extras {
	int64_t run; /* whose they are; 0: nobody's */
	int64_t last_id;
	struct extra places[PLACES];
};

int trace_extras_new(struct extras **ret_extras)
{
	*ret_extras = calloc(1, sizeof(**ret_extras));
	return *ret_extras ? 0 : -ENOMEM;
}

void trace_extras_forget(struct extras *extras)
{
	*extras = (struct extras){};
}

/* Other runs have rows of their own; of this one's, ids may have been taken by a loader before. */
static int begin_run(struct trace *trace, struct extras *extras, int64_t run)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace, "SELECT max(id) FROM op_extra WHERE run = ?", &stmt, NULL);

	trace_extras_forget(extras);
	err = err ?: trace_bind_int(stmt, 1, run);
	err = err ?: trace_step(stmt);
	if (err < 0)
		return err;
	extras->last_id = trace_column_int(stmt, 0);
	if (extras->last_id < 0 || extras->last_id > INT64_MAX / 2)
		return -EUCLEAN; /* not of our making */
	extras->run = run;
	return 0;
}

static int add_row(struct trace *trace, int64_t run, const struct extra *extra, const char *args)
{
	int err;
	sqlite3_stmt *stmt = insert_begin(trace, INSERT_EXTRA, &err);

	if (err < 0)
		return err;
	sqlite3_bind_int64(stmt, 1, run);
	sqlite3_bind_int64(stmt, 2, extra->id);
	if (extra->path2)
		sqlite3_bind_int64(stmt, 3, extra->path2);
	if (extra->has_flags)
		sqlite3_bind_int64(stmt, 4, extra->flags);
	if (extra->mode)
		sqlite3_bind_int64(stmt, 5, extra->mode);
	if (extra->args_len)
		sqlite3_bind_text(stmt, 6, args, extra->args_len, SQLITE_STATIC);
	return insert_end(trace, stmt);
}

static struct extra *place_of(struct extras *extras, const struct extra *extra, const char *args)
{
	uint64_t seed = extra->flags ^ (uint64_t)extra->mode << 32 ^ (uint64_t)extra->path2 << 16;

	return &extras->places[XXH3_64bits_withSeed(args, extra->args_len, seed) % PLACES];
}

static bool is_same(const struct extra *a, const struct extra *b, const char *args)
{
	return a->id && a->path2 == b->path2 && a->has_flags == b->has_flags && a->flags == b->flags && a->mode == b->mode &&
	       a->args_len == b->args_len && memcmp(a->args, args, a->args_len) == 0;
}

int trace_extra_id(struct trace *trace, struct extras *extras, int64_t run, const struct event_ref *ref, int64_t *ret_id)
{
	const struct event *e = ref->event;
	const struct op_desc *desc = op_get(e->op); /* NULL: the spool was cut off under us (busguard.h) */
	uint32_t cols = desc ? desc->cols : 0;
	struct extra extra = {
		.path2 = e->path2,
		.has_flags = cols & COL_FLAGS,
		.flags = cols & COL_FLAGS ? e->flags : 0,
		.mode = cols & COL_MODE ? e->mode : 0,
		.args_len = e->args_len,
	};
	const char *args = extra.args_len ? ref->args : "";
	struct extra *place;
	int err = 0;

	*ret_id = 0;
	if (!extra.path2 && !extra.has_flags && !extra.mode && !extra.args_len)
		return 0;
	if (extras->run != run)
		err = begin_run(trace, extras, run);
	if (err < 0)
		return err;
	place = place_of(extras, &extra, args);
	if (is_same(place, &extra, args)) {
		*ret_id = place->id;
		return 0;
	}
	extra.id = extras->last_id + 1;
	err = add_row(trace, run, &extra, args);
	if (err < 0)
		return err;
	*ret_id = extras->last_id = extra.id;
	if (extra.args_len > LONGEST)
		return 0;
	memcpy(extra.args, args, extra.args_len);
	*place = extra;
	return 0;
}
