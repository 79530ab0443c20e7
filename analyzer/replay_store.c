/* SPDX-License-Identifier: MIT */
#include "replay_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base.h"
#include "map64.h"
#include "mountinfo.h"

/* --- rows that are taken over as they are ------------------------------------------------------------------------ */

static int copy_cell(struct trace_stmt *out, const struct trace_stmt *in, int column)
{
	switch (trace_column_type(in, column)) {
	case TRACE_INTEGER:
		return trace_bind_int(out, column + 1, trace_column_int(in, column));
	case TRACE_TEXT:
		return trace_bind_text(out, column + 1, trace_column_text(in, column));
	default:
		return 0; /* NULL, as it is after a reset */
	}
}

static int copy_row(struct trace_stmt *out, const struct trace_stmt *in, int run_column, int64_t run)
{
	int err = 0;

	trace_reset(out);
	for (int column = 0; column < trace_columns(in) && err == 0; column++)
		err = column == run_column ? trace_bind_int(out, column + 1, run) : copy_cell(out, in, column);
	return err ?: trace_step(out);
}

static int prepare_insert(
	struct trace *into, const char *table, const struct trace_stmt *in, struct trace_stmt **ret_out)
{
	struct strbuf auto_strbuf sql = {};

	strbuf_addf(&sql, "INSERT INTO %s (", table);
	for (int i = 0; i < trace_columns(in); i++)
		strbuf_addf(&sql, "%s%s", i ? ", " : "", trace_column_name(in, i));
	for (int i = 0; i < trace_columns(in); i++)
		strbuf_addf(&sql, "%s?", i ? ", " : ") VALUES (");
	strbuf_addf(&sql, ")");
	return sql.failed ? -ENOMEM : trace_prepare(into, sql.buf, ret_out, NULL);
}

/* All rows of the original run; `columns` begins with "run". */
static int copy_table(
	struct trace *from, struct trace *into, const char *table, const char *columns, int64_t original, int64_t run)
{
	struct trace_stmt auto_stmt *in = NULL, *out = NULL;
	char sql[400];
	int err;

	snprintf(sql, sizeof(sql), "SELECT %s FROM %s WHERE run = ?", columns, table);
	err = trace_prepare(from, sql, &in, NULL);
	err = err ?: trace_bind_int(in, 1, original);
	err = err ?: prepare_insert(into, table, in, &out);
	while (err == 0 && (err = trace_step(in)) == 1)
		err = copy_row(out, in, 0, run);
	return err;
}

static int copy_tables(struct trace *from, struct trace *into, int64_t original, int64_t run)
{
	static const struct {
		const char *table, *columns;
	} tables[] = {
		{ "process", "run, id, tid, pid, ppid, uid, gid, start_ticks, first_ns, comm, exe, cmdline" },
		{ "path", "run, id, parent, path" },
		{ "git_command", "run, id, parent, region, phase, sid, pid, name, hierarchy, argv, version, worktree,"
				 " start_ns, end_ns, exit_code" },
		{ "git_region", "run, id, command, parent, phase, thread, nesting, category, label, message, start_ns,"
				" end_ns, path" },
	};
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(tables) && err == 0; i++)
		err = copy_table(from, into, tables[i].table, tables[i].columns, original, run);
	return err;
}

/* --- operations -------------------------------------------------------------------------------------------------- */

/* A row of git_span, or of git_range; ids of -1: NULL. */
struct span {
	int64_t start_ns, command, region, phase; /* phase 0: none yet */
};

/* Statements for one operation after the other. */
struct copier {
	struct trace *from, *into;
	struct trace_stmt *row, *phase, *add_link, *add_phase, *add_span;
	int64_t original, run;
	struct span span; /* in the foreground now */
	struct map64 ranges; /* by process: the seq of the original's row of git_range that was copied last */
};

static int copier_open(struct copier *c)
{
	static const char row[] = "SELECT path, path2, node, parent, fh, offset, length, flags, mode, args FROM op"
				  " LEFT JOIN op_extra AS e ON e.run = op.run AND e.id = op.extra"
				  " WHERE op.run = ? AND seq = ?";
	const struct {
		struct trace *trace;
		const char *sql;
		struct trace_stmt **stmt;
	} all[] = {
		{ c->from, row, &c->row },
		{ c->from, "SELECT command, region, phase, seq FROM git_range WHERE run = ? AND process = ? AND seq <= ?"
			   " ORDER BY seq DESC LIMIT 1", &c->phase },
		{ c->into, "INSERT INTO replayed (run, seq, original, expected) VALUES (?, ?, ?, ?)", &c->add_link },
		{ c->into, "INSERT INTO git_range (run, process, seq, command, region, phase)"
			   " VALUES (?, ?, ?, ?, ?, ?)", &c->add_phase },
		{ c->into, "INSERT INTO git_span (run, start_ns, end_ns, command, region, phase)"
			   " VALUES (?, ?, ?, ?, ?, ?)", &c->add_span },
	};
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(all) && err == 0; i++)
		err = trace_prepare(all[i].trace, all[i].sql, all[i].stmt, NULL);
	return err;
}

static void copier_close(struct copier *c)
{
	trace_finalize(c->row);
	trace_finalize(c->phase);
	trace_finalize(c->add_link);
	trace_finalize(c->add_phase);
	trace_finalize(c->add_span);
	map64_free(&c->ranges);
}

static int add_op(struct copier *c, const struct action *a, const struct outcome *o, uint64_t seq)
{
	struct event e = { .seq = seq,
		.start_ns = o->start_ns,
		.dur_ns = o->dur_ns,
		.fs_ns = o->fs_ns,
		.op = a->op,
		.process = a->process,
		.result = o->result };
	const char *args;
	int err;

	trace_reset(c->row);
	err = trace_bind_int(c->row, 1, c->original);
	err = err ?: trace_bind_int(c->row, 2, a->seq);
	err = err ?: trace_step(c->row);
	if (err != 1)
		return err ?: -ENOENT;
	e.path = (uint32_t)trace_column_int(c->row, 0);
	e.path2 = (uint32_t)trace_column_int(c->row, 1);
	e.node = (uint64_t)trace_column_int(c->row, 2);
	e.parent = (uint64_t)trace_column_int(c->row, 3);
	e.fh = (uint64_t)trace_column_int(c->row, 4);
	e.offset = trace_column_int(c->row, 5);
	e.length = trace_column_int(c->row, 6);
	e.flags = (uint32_t)trace_column_int(c->row, 7);
	e.mode = (uint32_t)trace_column_int(c->row, 8);
	args = trace_column_text(c->row, 9);
	e.args_len = args && strlen(args) <= UINT16_MAX ? (uint16_t)strlen(args) : 0;
	return trace_add_event(c->into, c->run, &e, args);
}

static int add_link(struct copier *c, const struct action *a, uint64_t seq)
{
	int err;

	trace_reset(c->add_link);
	err = trace_bind_int(c->add_link, 1, c->run);
	err = err ?: trace_bind_int(c->add_link, 2, (int64_t)seq);
	err = err ?: trace_bind_int(c->add_link, 3, a->seq);
	err = err ?: trace_bind_int(c->add_link, 4, a->result);
	return err ?: trace_step(c->add_link);
}

static int bind_or_null(struct trace_stmt *stmt, int index, int64_t value)
{
	return value < 0 ? 0 : trace_bind_int(stmt, index, value);
}

/* `original`: where in the recording the process began with it. A row only where it goes on with something else. */
static int add_phase(struct copier *c, const struct span *span, int64_t process, int64_t original, uint64_t seq)
{
	uint64_t last;
	int err;

	if (map64_get(&c->ranges, (uint64_t)process, &last) && last == (uint64_t)original)
		return 0;
	trace_reset(c->add_phase);
	err = map64_set(&c->ranges, (uint64_t)process, (uint64_t)original);
	err = err ?: trace_bind_int(c->add_phase, 1, c->run);
	err = err ?: trace_bind_int(c->add_phase, 2, process);
	err = err ?: trace_bind_int(c->add_phase, 3, (int64_t)seq);
	err = err ?: bind_or_null(c->add_phase, 4, span->command);
	err = err ?: bind_or_null(c->add_phase, 5, span->region);
	err = err ?: trace_bind_int(c->add_phase, 6, span->phase);
	return err ?: trace_step(c->add_phase);
}

/* What was in the foreground until now, in git_span: what the operation that began last belongs to. */
static int end_span(struct copier *c, int64_t end_ns)
{
	const struct span *span = &c->span;
	int err;

	if (!span->phase || end_ns <= span->start_ns)
		return 0;
	trace_reset(c->add_span);
	err = trace_bind_int(c->add_span, 1, c->run);
	err = err ?: trace_bind_int(c->add_span, 2, span->start_ns);
	err = err ?: trace_bind_int(c->add_span, 3, end_ns);
	err = err ?: bind_or_null(c->add_span, 4, span->command);
	err = err ?: bind_or_null(c->add_span, 5, span->region);
	err = err ?: trace_bind_int(c->add_span, 6, span->phase);
	return err ?: trace_step(c->add_span);
}

static int64_t id_or_none(const struct trace_stmt *stmt, int column)
{
	return trace_column_type(stmt, column) == TRACE_NULL ? -1 : trace_column_int(stmt, column);
}

/* What git told of the original operation holds for this one. */
static int add_story(struct copier *c, const struct action *a, const struct outcome *o, uint64_t seq)
{
	struct span now = { .start_ns = c->span.phase ? o->start_ns : 0 };
	int err;

	trace_reset(c->phase);
	err = trace_bind_int(c->phase, 1, c->original);
	err = err ?: trace_bind_int(c->phase, 2, a->process);
	err = err ?: trace_bind_int(c->phase, 3, a->seq);
	err = err ?: trace_step(c->phase);
	if (err <= 0)
		return err; /* it has not been attributed */
	now.command = id_or_none(c->phase, 0);
	now.region = id_or_none(c->phase, 1);
	now.phase = trace_column_int(c->phase, 2);
	err = add_phase(c, &now, a->process, trace_column_int(c->phase, 3), seq);
	if (err < 0 || (now.command == c->span.command && now.region == c->span.region && now.phase == c->span.phase))
		return err;
	err = end_span(c, o->start_ns);
	c->span = now;
	return err;
}

static int by_start(const void *a, const void *b, void *arg)
{
	const struct outcome *outcomes = arg;
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	int64_t x = outcomes[i].start_ns, y = outcomes[j].start_ns;

	return x != y ? (x > y) - (x < y) : (i > j) - (i < j);
}

static int add_ops(struct copier *c, const struct plan *plan, const struct replay_result *result)
{
	auto_free uint32_t *order = calloc((size_t)plan->n_actions + 1, sizeof(*order));
	uint32_t n = 0;
	int err = order ? copier_open(c) : -ENOMEM;

	if (err < 0)
		return err;
	for (uint32_t i = 1; i <= plan->n_actions; i++)
		if (result->outcomes[i].state != OUTCOME_NONE)
			order[n++] = i;
	array_sort_r(order, n, sizeof(*order), by_start, result->outcomes);
	for (uint32_t i = 0; i < n && err == 0; i++) {
		const struct action *a = &plan->actions[order[i]];

		err = add_op(c, a, &result->outcomes[order[i]], i + 1);
		err = err ?: add_link(c, a, i + 1);
		err = err ?: add_story(c, a, &result->outcomes[order[i]], i + 1);
	}
	return err ?: end_span(c, result->wall_ns);
}

/* --- the run's row ----------------------------------------------------------------------------------------------- */

static int set_texts(
	struct trace *from, struct trace *into, int64_t run, const struct replay_store *store, bool stopped)
{
	struct mountinfo *mounts = mountinfo_read();
	const struct mountinfo *mount = mountinfo_of_fd(mounts, store->root_fd);
	struct utsname host = {};
	int err = 0;

	uname(&host);
	const struct {
		const char *column, *value;
	} texts[] = {
		{ "source", store->target },
		{ "fs_type", mount ? mount->fs_type : NULL },
		{ "fs_options", mount ? mount->options : NULL },
		{ "device", mount ? mount->device : NULL },
		{ "caches", store->cold ? "cold" : NULL },
		{ "note", stopped ? "the replay was stopped by a signal" : NULL },
		{ "kernel", host.release },
		{ "machine", host.machine },
		{ "sqlite", trace_sqlite_version() },
		{ "version", FSTAPE_VERSION },
		{ "replay_of", trace_uuid(from) },
	};
	for (size_t i = 0; i < ARRAY_SIZE(texts) && err == 0; i++)
		err = trace_run_set_text(into, run, texts[i].column, texts[i].value);
	mountinfo_free(mounts);
	return err;
}

static int set_numbers(struct trace *into, int64_t run, const struct plan *plan, const struct replay_result *result)
{
	const struct {
		const char *column;
		int64_t value;
	} numbers[] = {
		{ "clean_end", !result->stopped },
		{ "requests", (int64_t)result->done },
		{ "recorded", (int64_t)result->done },
		{ "dropped", 0 },
		{ "threads", plan->n_threads },
		{ "cpus", sysconf(_SC_NPROCESSORS_ONLN) },
		{ "start_real_ns", result->start_real_ns },
		{ "start_mono_ns", result->start_mono_ns },
		{ "end_ns", result->wall_ns },
		{ "real_ns", result->wall_ns },
		{ "replay_run", plan->run },
	};
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(numbers) && err == 0; i++)
		err = trace_run_set_int(into, run, numbers[i].column, numbers[i].value);
	return err;
}

/* The command whose load it is. */
static int set_command(struct trace *from, struct trace *into, int64_t original, int64_t run)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(from, "SELECT command FROM run WHERE id = ?", &stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, original);
	err = err ?: trace_step(stmt);
	return err < 0 ? err : trace_run_set_text(into, run, "command", err ? trace_column_text(stmt, 0) : NULL);
}

int replay_store(struct trace *from, struct trace *into, const struct plan *plan, const struct replay_result *result,
	const struct replay_store *store, int64_t *ret_run)
{
	struct copier c = { .from = from, .into = into, .original = plan->run };
	int err = trace_begin(into);

	err = err ?: trace_run_create(into, store->label, &c.run);
	err = err ?: copy_tables(from, into, plan->run, c.run);
	err = err ?: add_ops(&c, plan, result);
	copier_close(&c);
	err = err ?: set_texts(from, into, c.run, store, result->stopped);
	err = err ?: set_numbers(into, c.run, plan, result);
	err = err ?: set_command(from, into, plan->run, c.run);
	err = err ?: trace_run_set_text(into, c.run, "state", "done");
	err = err ?: trace_commit(into);
	trace_rollback(into);
	if (err < 0) {
		log_msg("%s: cannot store the replay: %s", trace_path(into),
			trace_error(into)[0] ? trace_error(into) : strerror(-err));
		return err;
	}
	*ret_run = c.run;
	return 0;
}
