/* SPDX-License-Identifier: MIT */
/*
 * trace_events.c - operations into the database, many in one statement.
 *
 * A statement that binds 15 values and runs once for each row spends most of its time on everything but the row: on
 * starting, ending, and finding the way down the tree to its right edge. So the events of a batch are shown to SQLite as
 * a virtual table, and one statement copies it: values are fetched where they are, and the cursor stays at the edge.
 */
#include <string.h>

#include "base.h"
#include "op.h"
#include "trace_internal.h"

/* In the order of the columns of `op`: what a batch has in column N is insert_sql's Nth. */
enum column {
	RUN, SEQ, START_NS, DUR_NS, FS_NS, OP, PROCESS, PATH, NODE, PARENT, FH, OFFSET, LENGTH, RESULT, EXTRA
};

static const char table_sql[] = "CREATE TABLE x (run, seq, start_ns, dur_ns, fs_ns, op, process, path, node, parent, fh,"
				" offset, length, result, extra)";
static const char insert_sql[] = "INSERT INTO op (run, seq, start_ns, dur_ns, fs_ns, op, process, path, node, parent, fh,"
				 " offset, length, result, extra) SELECT * FROM event_batch";

struct batch {
	int64_t run;
	const struct event_ref *events;
	const int64_t *extra_ids; /* of each: of op_extra, or 0 */
	size_t count;
};

struct event_sink {
	struct batch batch;
	struct extras *extras;
	int64_t *extra_ids;
	size_t room; /* in it */
	sqlite3_stmt *insert;
};

struct batch_table {
	sqlite3_vtab base;
	const struct batch *batch;
};

struct batch_cursor {
	sqlite3_vtab_cursor base;
	const struct batch *batch;
	size_t at;
};

static int table_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **ret_table, char **error)
{
	struct batch_table *table = sqlite3_malloc(sizeof(*table));

	(void)argc, (void)argv, (void)error;
	if (!table)
		return SQLITE_NOMEM;
	*table = (struct batch_table){ .batch = aux };
	*ret_table = &table->base;
	return sqlite3_declare_vtab(db, table_sql);
}

static int table_disconnect(sqlite3_vtab *table)
{
	sqlite3_free(table);
	return SQLITE_OK;
}

static int table_best_index(sqlite3_vtab *table, sqlite3_index_info *info)
{
	(void)table;
	info->estimatedCost = info->estimatedRows = 1000;
	return SQLITE_OK;
}

static int cursor_open(sqlite3_vtab *table, sqlite3_vtab_cursor **ret_cursor)
{
	struct batch_cursor *cursor = sqlite3_malloc(sizeof(*cursor));

	if (!cursor)
		return SQLITE_NOMEM;
	*cursor = (struct batch_cursor){ .batch = ((struct batch_table *)table)->batch };
	*ret_cursor = &cursor->base;
	return SQLITE_OK;
}

static int cursor_close(sqlite3_vtab_cursor *cursor)
{
	sqlite3_free(cursor);
	return SQLITE_OK;
}

static int cursor_filter(sqlite3_vtab_cursor *cursor, int number, const char *text, int argc, sqlite3_value **argv)
{
	(void)number, (void)text, (void)argc, (void)argv;
	((struct batch_cursor *)cursor)->at = 0;
	return SQLITE_OK;
}

static int cursor_next(sqlite3_vtab_cursor *cursor)
{
	((struct batch_cursor *)cursor)->at++;
	return SQLITE_OK;
}

static int cursor_eof(sqlite3_vtab_cursor *base)
{
	const struct batch_cursor *cursor = (struct batch_cursor *)base;

	return cursor->at >= cursor->batch->count;
}

static int cursor_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *ret_id)
{
	*ret_id = (sqlite3_int64)((struct batch_cursor *)cursor)->at;
	return SQLITE_OK;
}

static void value_if(sqlite3_context *context, bool present, int64_t value)
{
	if (present)
		sqlite3_result_int64(context, value);
}

/* What an operation does not have stays NULL: ids of 0, and columns that are not among its own in ops.def. */
static int cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
	const struct batch_cursor *cursor = (struct batch_cursor *)base;
	const struct event *e = cursor->batch->events[cursor->at].event;
	const struct op_desc *desc = op_get(e->op); /* NULL: the spool was cut off under us (busguard.h) */
	uint32_t cols = desc ? desc->cols : 0;

	switch ((enum column)column) {
	case RUN: sqlite3_result_int64(context, cursor->batch->run); break;
	case SEQ: sqlite3_result_int64(context, (sqlite3_int64)e->seq); break;
	case START_NS: sqlite3_result_int64(context, e->start_ns); break;
	case DUR_NS: sqlite3_result_int64(context, e->dur_ns); break;
	case FS_NS: sqlite3_result_int64(context, e->fs_ns); break;
	case OP: sqlite3_result_int64(context, e->op); break;
	case PROCESS: sqlite3_result_int64(context, e->process); break;
	case PATH: value_if(context, e->path, e->path); break;
	case NODE: value_if(context, e->node, (int64_t)e->node); break;
	case PARENT: value_if(context, e->parent, (int64_t)e->parent); break;
	case FH: value_if(context, e->fh, (int64_t)e->fh); break;
	case OFFSET: value_if(context, cols & COL_OFFSET, e->offset); break;
	case LENGTH: value_if(context, cols & COL_LENGTH, e->length); break;
	case RESULT: sqlite3_result_int64(context, e->result); break;
	case EXTRA: value_if(context, cursor->batch->extra_ids[cursor->at], cursor->batch->extra_ids[cursor->at]); break;
	}
	return SQLITE_OK;
}

/* Without xCreate it is there without being made, and is in no schema. */
static const sqlite3_module batch_module = {
	.iVersion = 1,
	.xConnect = table_connect,
	.xBestIndex = table_best_index,
	.xDisconnect = table_disconnect,
	.xDestroy = table_disconnect,
	.xOpen = cursor_open,
	.xClose = cursor_close,
	.xFilter = cursor_filter,
	.xNext = cursor_next,
	.xEof = cursor_eof,
	.xColumn = cursor_column,
	.xRowid = cursor_rowid,
};

static int prepare(struct trace *trace)
{
	struct event_sink *sink = trace->sink ?: calloc(1, sizeof(*sink));
	int err;

	if (!sink)
		return -ENOMEM;
	trace->sink = sink;
	if (sink->insert)
		return 0;
	err = sink->extras ? 0 : trace_extras_new(&sink->extras);
	err = err ?: trace_fail(trace, sqlite3_create_module(trace->db, "event_batch", &batch_module, &sink->batch));
	return err ?: trace_fail(trace, sqlite3_prepare_v3(trace->db, insert_sql, -1, SQLITE_PREPARE_PERSISTENT,
					&sink->insert, NULL));
}

void trace_events_undone(struct trace *trace)
{
	if (trace->sink && trace->sink->extras)
		trace_extras_forget(trace->sink->extras);
}

void trace_events_end(struct trace *trace)
{
	struct event_sink *sink = trace->sink;

	if (!sink)
		return;
	sqlite3_finalize(sink->insert);
	free(sink->extras);
	free(sink->extra_ids);
	free(sink);
	trace->sink = NULL;
}

/* Into op_extra first: while the batch's statement runs no other one may. */
static int add_extras(struct trace *trace, int64_t run, const struct event_ref *events, size_t count)
{
	struct event_sink *sink = trace->sink;
	int err = 0;

	if (count > sink->room) {
		int64_t *grown = reallocarray(sink->extra_ids, count, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		sink->extra_ids = grown;
		sink->room = count;
	}
	for (size_t i = 0; i < count && err == 0; i++)
		err = trace_extra_id(trace, sink->extras, run, &events[i], &sink->extra_ids[i]);
	return err;
}

static int insert(struct trace *trace, int64_t run, const struct event_ref *events, const int64_t *extra_ids, size_t count)
{
	trace->sink->batch = (struct batch){ run, events, extra_ids, count };
	return insert_end(trace, trace->sink->insert);
}

int trace_add_events(struct trace *trace, int64_t run, const struct event_ref *events, size_t count, size_t *ret_added)
{
	int err = prepare(trace);

	*ret_added = 0;
	for (size_t i = 0; i < count; i++)
		if (!op_get(events[i].event->op))
			return -EINVAL;
	err = err ?: add_extras(trace, run, events, count);
	err = err ?: insert(trace, run, events, trace->sink->extra_ids, count);
	if (err == 0)
		*ret_added = count;
	if (err != -EEXIST || count == 1)
		return err;
	/* A statement that fails has inserted nothing: one by one, up to the one that is there already. */
	while ((err = insert(trace, run, &events[*ret_added], &trace->sink->extra_ids[*ret_added], 1)) == 0)
		++*ret_added;
	return err;
}

int trace_add_event(struct trace *trace, int64_t run, const struct event *event, const char *args)
{
	size_t added;

	return trace_add_events(trace, run, &(struct event_ref){ event, args }, 1, &added);
}
