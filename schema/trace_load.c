/* SPDX-License-Identifier: MIT */
/* trace_load.c - what the loader inserts: beside operations (trace_events.c). */
#include <string.h>
#include <sys/stat.h>

#include "base.h"
#include "op.h"
#include "trace_internal.h"

static const char *const insert_sql[INSERT_COUNT] = {
	[INSERT_PATH] = "INSERT INTO path (run, id, parent, path) VALUES (?, ?, ?, ?)",
	[INSERT_PROCESS] = "INSERT INTO process (run, id, tid, pid, ppid, uid, gid, start_ticks, first_ns, comm, exe,"
			   " cmdline) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	/* An object that the kernel forgot and asked for again is found twice: the first finding counts. */
	[INSERT_INITIAL] = "INSERT INTO initial (run, path, seq, node, parent, dev, ino, mode, size, mtime_ns, nlink,"
			   " uid, gid, rdev, blocks, target)"
			   " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
			   " ON CONFLICT (run, path) DO UPDATE SET seq = excluded.seq, node = excluded.node,"
			   " parent = excluded.parent, dev = excluded.dev, ino = excluded.ino,"
			   " rdev = excluded.rdev, blocks = excluded.blocks,"
			   " mode = excluded.mode, size = excluded.size, mtime_ns = excluded.mtime_ns,"
			   " nlink = excluded.nlink, uid = excluded.uid, gid = excluded.gid,"
			   " target = excluded.target WHERE excluded.seq < initial.seq",
	/* Twice is no mistake: recorders forget what they have sent. */
	[INSERT_CONTENT] = "INSERT OR IGNORE INTO content (hash, length, packed, bytes) VALUES (?, ?, ?, ?)",
	[INSERT_DATA] = "INSERT OR IGNORE INTO data (run, seq, offset, length, hash) VALUES (?, ?, ?, ?, ?)",
	[INSERT_CPU] = "INSERT INTO client_cpu (run, seq, cpu_ns, delay_ns) VALUES (?, ?, ?, ?)",
	/* The nodes are kept in any case: what was found in a directory refers to it as it was called then. */
	[INSERT_ALIAS] = "INSERT OR IGNORE INTO node_alias (run, node, dev, ino)"
			 " SELECT run, ?3, ?4, ?5 FROM initial WHERE run = ?1 AND path = ?2 AND node <> ?3"
			 " UNION ALL SELECT run, node, dev, ino FROM initial WHERE run = ?1 AND path = ?2 AND node <> ?3",
	[INSERT_EXTRA] = "INSERT INTO op_extra (run, id, path2, flags, mode, args) VALUES (?, ?, ?, ?, ?, ?)",
	[INSERT_MARK] = "INSERT OR REPLACE INTO spool_mark (run, slot, generation, loaded) VALUES (?, ?, ?, ?)",
};

sqlite3_stmt *insert_begin(struct trace *trace, enum insert which, int *ret_err)
{
	sqlite3_stmt **stmt = &trace->inserts[which];

	*ret_err = 0;
	if (!*stmt)
		*ret_err = trace_fail(trace, sqlite3_prepare_v3(trace->db, insert_sql[which], -1,
							     SQLITE_PREPARE_PERSISTENT, stmt, NULL));
	else
		sqlite3_clear_bindings(*stmt);
	return *stmt;
}

int insert_end(struct trace *trace, sqlite3_stmt *stmt)
{
	int err = trace_fail(trace, sqlite3_step(stmt));

	sqlite3_reset(stmt);
	return err;
}

/* Texts live in the spool's mapping until the statement has run: no copy is needed. */
static void bind_text(sqlite3_stmt *stmt, int index, const char *text, size_t len)
{
	sqlite3_bind_text64(stmt, index, text, len, SQLITE_STATIC, SQLITE_UTF8);
}

/* Ids start at 1: 0 is "none" and stored as NULL. */
static void bind_id(sqlite3_stmt *stmt, int index, uint64_t id)
{
	if (id)
		sqlite3_bind_int64(stmt, index, (sqlite3_int64)id);
}

int trace_add_path(struct trace *trace, int64_t run, const struct path_record *path, const char *text)
{
	int err;
	sqlite3_stmt *stmt = insert_begin(trace, INSERT_PATH, &err);

	if (err < 0)
		return err;
	sqlite3_bind_int64(stmt, 1, run);
	sqlite3_bind_int64(stmt, 2, path->id);
	sqlite3_bind_int64(stmt, 3, path->parent);
	bind_text(stmt, 4, text, path->text_len);
	return insert_end(trace, stmt);
}

int trace_add_process(struct trace *trace, int64_t run, const struct process_record *process, const char *text)
{
	auto_free char *cmdline = malloc(process->cmdline_len + 1);
	uint32_t len = process->cmdline_len;
	int err;
	sqlite3_stmt *stmt = insert_begin(trace, INSERT_PROCESS, &err);

	if (err < 0 || !cmdline)
		return err ?: -ENOMEM;
	memcpy(cmdline, text + process->comm_len + process->exe_len, len);
	while (len > 0 && cmdline[len - 1] == '\0')
		len--;
	for (uint32_t i = 0; i < len; i++)
		if (cmdline[i] == '\0')
			cmdline[i] = ' ';
	sqlite3_bind_int64(stmt, 1, run);
	sqlite3_bind_int64(stmt, 2, process->id);
	sqlite3_bind_int64(stmt, 3, process->tid);
	sqlite3_bind_int64(stmt, 4, process->tgid);
	sqlite3_bind_int64(stmt, 5, process->ppid);
	sqlite3_bind_int64(stmt, 6, process->uid);
	sqlite3_bind_int64(stmt, 7, process->gid);
	sqlite3_bind_int64(stmt, 8, (sqlite3_int64)process->start_ticks);
	sqlite3_bind_int64(stmt, 9, process->first_ns);
	bind_text(stmt, 10, text, process->comm_len);
	if (process->exe_len)
		bind_text(stmt, 11, text + process->comm_len, process->exe_len);
	if (len)
		bind_text(stmt, 12, cmdline, len);
	return insert_end(trace, stmt);
}

/* Before a row that may take another's place, or may not be taken. */
static int add_alias(struct trace *trace, int64_t run, const struct initial_record *initial)
{
	int err;
	sqlite3_stmt *stmt = insert_begin(trace, INSERT_ALIAS, &err);

	if (err < 0)
		return err;
	sqlite3_bind_int64(stmt, 1, run);
	sqlite3_bind_int64(stmt, 2, initial->path);
	sqlite3_bind_int64(stmt, 3, (sqlite3_int64)initial->node);
	sqlite3_bind_int64(stmt, 4, (sqlite3_int64)initial->dev);
	sqlite3_bind_int64(stmt, 5, (sqlite3_int64)initial->ino);
	return insert_end(trace, stmt);
}

int trace_add_initial(struct trace *trace, int64_t run, const struct initial_record *initial, const char *target)
{
	int err = initial->node ? add_alias(trace, run, initial) : 0;
	sqlite3_stmt *stmt = err < 0 ? NULL : insert_begin(trace, INSERT_INITIAL, &err);

	if (err < 0)
		return err;
	sqlite3_bind_int64(stmt, 1, run);
	sqlite3_bind_int64(stmt, 2, initial->path);
	sqlite3_bind_int64(stmt, 3, (sqlite3_int64)initial->seq);
	bind_id(stmt, 4, initial->node);
	bind_id(stmt, 5, initial->parent);
	sqlite3_bind_int64(stmt, 6, (sqlite3_int64)initial->dev);
	sqlite3_bind_int64(stmt, 7, (sqlite3_int64)initial->ino);
	sqlite3_bind_int64(stmt, 8, initial->mode);
	sqlite3_bind_int64(stmt, 9, initial->size);
	sqlite3_bind_int64(stmt, 10, initial->mtime_ns);
	sqlite3_bind_int64(stmt, 11, initial->nlink);
	sqlite3_bind_int64(stmt, 12, initial->uid);
	sqlite3_bind_int64(stmt, 13, initial->gid);
	if (S_ISCHR(initial->mode) || S_ISBLK(initial->mode))
		sqlite3_bind_int64(stmt, 14, (sqlite3_int64)initial->rdev);
	sqlite3_bind_int64(stmt, 15, (sqlite3_int64)initial->blocks);
	if (initial->target_len)
		bind_text(stmt, 16, target, initial->target_len);
	return insert_end(trace, stmt);
}

int trace_add_cpu(struct trace *trace, int64_t run, const struct cpu_record *cpu)
{
	int err;
	sqlite3_stmt *stmt = insert_begin(trace, INSERT_CPU, &err);

	if (err < 0)
		return err;
	sqlite3_bind_int64(stmt, 1, run);
	sqlite3_bind_int64(stmt, 2, (sqlite3_int64)cpu->seq);
	sqlite3_bind_int64(stmt, 3, cpu->cpu_ns);
	sqlite3_bind_int64(stmt, 4, cpu->delay_ns);
	return insert_end(trace, stmt);
}

int trace_set_mark(struct trace *trace, int64_t run, uint32_t slot, uint64_t generation, uint64_t loaded)
{
	int err;
	sqlite3_stmt *stmt = insert_begin(trace, INSERT_MARK, &err);

	if (err < 0)
		return err;
	sqlite3_bind_int64(stmt, 1, run);
	sqlite3_bind_int64(stmt, 2, slot);
	sqlite3_bind_int64(stmt, 3, (sqlite3_int64)generation);
	sqlite3_bind_int64(stmt, 4, (sqlite3_int64)loaded);
	return insert_end(trace, stmt);
}

int trace_mark(struct trace *trace, int64_t run, uint32_t slot, uint64_t *ret_generation, uint64_t *ret_loaded)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace, "SELECT generation, loaded FROM spool_mark WHERE run = ? AND slot = ?", &stmt,
		NULL);

	err = err ?: trace_bind_int(stmt, 1, run);
	err = err ?: trace_bind_int(stmt, 2, slot);
	err = err ?: trace_step(stmt);
	if (err < 0)
		return err;
	*ret_generation = err ? (uint64_t)trace_column_int(stmt, 0) : 0;
	*ret_loaded = err ? (uint64_t)trace_column_int(stmt, 1) : 0;
	return 0;
}

int trace_clear_marks(struct trace *trace, int64_t run)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace, "DELETE FROM spool_mark WHERE run = ?", &stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, run);
	return err ?: trace_step(stmt);
}

int trace_add_anchor(struct trace *trace, int64_t run, int64_t before_ns, int64_t real_ns, int64_t after_ns)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace, "INSERT OR REPLACE INTO clock_anchor VALUES (?, ?, ?, ?)", &stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, run);
	err = err ?: trace_bind_int(stmt, 2, before_ns);
	err = err ?: trace_bind_int(stmt, 3, real_ns);
	err = err ?: trace_bind_int(stmt, 4, after_ns);
	return err ?: trace_step(stmt);
}
