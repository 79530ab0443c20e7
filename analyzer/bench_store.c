/* SPDX-License-Identifier: MIT */
#include "bench_store.h"

#include <string.h>
#include <sys/utsname.h>

#include "trace.h"

/* Closes the trace; says what failed. */
static int done(struct trace *trace, const char *db, int err, const char *what)
{
	if (err < 0)
		log_msg("%s: cannot %s: %s", db, what, trace_error(trace)[0] ? trace_error(trace) : strerror(-err));
	else
		trace_settle(trace);
	trace_close(trace);
	return err;
}

/* One number from a query; `value` is bound when it has a parameter. */
static int query_int(struct trace *trace, const char *sql, int64_t value, int64_t *ret_value)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace, sql, &stmt, NULL);

	if (err == 0 && strchr(sql, '?'))
		err = trace_bind_int(stmt, 1, value);
	err = err ?: trace_step(stmt);
	if (err <= 0)
		return err ?: -ENOENT;
	*ret_value = trace_column_int(stmt, 0);
	return 0;
}

/* A statement that returns nothing. */
static int finish_step(struct trace_stmt *stmt)
{
	int err = trace_step(stmt);

	return err > 0 ? 0 : err;
}

static int insert_bench(struct trace *trace, const char *words, int64_t rounds, struct bench_row *row)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = query_int(trace, "SELECT coalesce(max(id), 0) + 1 FROM bench", 0, &row->id);

	err = err ?: query_int(trace,
		"SELECT 1 + max(coalesce((SELECT max(round) FROM run), 0),"
		" coalesce((SELECT max(first_round + rounds - 1) FROM bench), 0))", 0, &row->first_round);
	err = err ?: trace_prepare(trace,
		"INSERT INTO bench (id, words, first_round, rounds, start_real_ns, finished) VALUES (?, ?, ?, ?, ?, 0)",
		&stmt, NULL);
	err = err ?: trace_bind_int(stmt, 1, row->id);
	err = err ?: trace_bind_text(stmt, 2, words);
	err = err ?: trace_bind_int(stmt, 3, row->first_round);
	err = err ?: trace_bind_int(stmt, 4, rounds);
	err = err ?: trace_bind_int(stmt, 5, clock_ns(CLOCK_REALTIME));
	return err ?: finish_step(stmt);
}

int bench_begin(const char *db, const char *words, int64_t rounds, struct bench_row *ret_row)
{
	struct bench_row row = {};
	struct trace *trace;
	int err = trace_open(db, TRACE_CREATE, &trace);

	if (err < 0)
		return err;
	err = insert_bench(trace, words, rounds, &row);
	if (err == 0)
		*ret_row = row;
	return done(trace, db, err, "begin a benchmark");
}

static int read_words(struct trace *trace, const char *json, char ***ret_words)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	char **words = calloc(1, sizeof(*words));
	size_t count = 0;
	int err = words ? trace_prepare(trace, "SELECT value FROM json_each(?) ORDER BY key", &stmt, NULL) : -ENOMEM;

	err = err ?: trace_bind_text(stmt, 1, json);
	while (err == 0 && (err = trace_step(stmt)) == 1) {
		char **grown = reallocarray(words, count + 2, sizeof(*words));

		err = grown ? 0 : -ENOMEM;
		if (!grown)
			break;
		words = grown;
		words[count] = strdup(trace_column_text(stmt, 0) ?: "");
		err = words[count] ? 0 : -ENOMEM;
		words[++count] = NULL;
	}
	if (err < 0)
		bench_words_free(words);
	else
		*ret_words = words;
	return err;
}

static int find_bench(struct trace *trace, struct bench_row *row, bool *ret_finished)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace, "SELECT id, first_round, words, finished FROM bench ORDER BY id DESC LIMIT 1", &stmt,
		NULL);

	err = err ?: trace_step(stmt);
	if (err <= 0)
		return err ?: -ENOENT;
	row->id = trace_column_int(stmt, 0);
	row->first_round = trace_column_int(stmt, 1);
	row->words = strdup(trace_column_text(stmt, 2) ?: "[]");
	*ret_finished = trace_column_int(stmt, 3);
	return row->words ? 0 : -ENOMEM;
}

int bench_find(const char *db, struct bench_row *ret_row, char ***ret_options)
{
	struct bench_row row = {};
	bool finished = false;
	struct trace *trace;
	int err = trace_open(db, TRACE_WRITE, &trace);

	if (err < 0)
		return err;
	err = find_bench(trace, &row, &finished);
	if (err == -ENOENT || (err == 0 && finished)) {
		log_msg(finished ? "%s: the last benchmark is complete, there is nothing to resume"
				 : "%s: there is no benchmark to resume",
			db);
		free(row.words);
		trace_close(trace);
		return finished ? -EALREADY : -ENOENT;
	}
	err = err ?: read_words(trace, row.words, ret_options);
	if (err < 0)
		free(row.words);
	else
		*ret_row = row;
	return done(trace, db, err, "read the benchmark");
}

void bench_words_free(char **words)
{
	for (size_t i = 0; words && words[i]; i++)
		free(words[i]);
	free(words);
}

int bench_finish(const char *db, int64_t bench)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	struct trace *trace;
	int err = trace_open(db, TRACE_WRITE, &trace);

	if (err < 0)
		return err;
	err = trace_prepare(trace, "UPDATE bench SET finished = 1 WHERE id = ?", &stmt, NULL);
	err = err ?: trace_bind_int(stmt, 1, bench);
	err = err ?: finish_step(stmt);
	trace_finalize(stmt);
	stmt = NULL;
	return done(trace, db, err, "finish the benchmark");
}

/* What a recorder writes of itself, for a run that had none. */
static int store_native(struct trace *trace, const struct measurement *m, int64_t *ret_run)
{
	struct strbuf auto_strbuf command = {};
	struct utsname host;
	int64_t run;
	int err = trace_run_create(trace, m->label, &run);

	uname(&host);
	for (size_t i = 0; m->words[i]; i++) {
		strbuf_addf(&command, i ? "," : "[");
		strbuf_add_json(&command, m->words[i], strlen(m->words[i]));
	}
	strbuf_addf(&command, "]");
	if (command.failed)
		return -ENOMEM;
	const struct { const char *column, *value; } texts[] = {
		{ "state", "native" },
		{ "source", m->source },
		{ "fs_type", m->target->type ? m->target->type->name : NULL },
		{ "kernel", host.release },
		{ "machine", host.machine },
		{ "version", FSTAPE_VERSION },
		{ "command", command.buf },
	};
	const struct { const char *column; int64_t value; } numbers[] = {
		{ "cpus", sysconf(_SC_NPROCESSORS_ONLN) },
		{ "exit_status", m->status },
		{ "start_real_ns", m->start_real_ns },
		{ "real_ns", m->real_ns },
		{ "user_ns", m->user_ns },
		{ "sys_ns", m->sys_ns },
	};
	for (size_t i = 0; i < ARRAY_SIZE(texts) && err == 0; i++)
		err = trace_run_set_text(trace, run, texts[i].column, texts[i].value);
	for (size_t i = 0; i < ARRAY_SIZE(numbers) && err == 0; i++)
		err = trace_run_set_int(trace, run, numbers[i].column, numbers[i].value);
	if (err == 0)
		*ret_run = run;
	return err;
}

static int store_counters(struct trace *trace, int64_t run, const struct counters *counters)
{
	int err = 0;

	for (size_t i = 0; i < counters->count && err == 0; i++) {
		struct trace_stmt auto_stmt *stmt = NULL;

		err = trace_prepare(trace, "INSERT INTO run_counter (run, name, value) VALUES (?, ?, ?)", &stmt, NULL);
		err = err ?: trace_bind_int(stmt, 1, run);
		err = err ?: trace_bind_text(stmt, 2, counters->items[i].name);
		err = err ?: trace_bind_int(stmt, 3, counters->items[i].value);
		err = err ?: finish_step(stmt);
	}
	return err;
}

static int store(struct trace *trace, int64_t bench, const struct measurement *m)
{
	int64_t run = m->run;
	int err = trace_begin(trace);

	if (err == 0 && !m->variant->shim)
		err = store_native(trace, m, &run);
	err = err ?: trace_run_set_int(trace, run, "bench", bench);
	err = err ?: trace_run_set_text(trace, run, "workload", m->workload->name);
	err = err ?: trace_run_set_text(trace, run, "target", m->target->name);
	err = err ?: trace_run_set_int(trace, run, "round", m->round);
	err = err ?: trace_run_set_text(trace, run, "caches", m->variant->cold ? "cold" : "warm");
	err = err ?: trace_run_set_text(trace, run, "setup", m->setup);
	err = err ?: store_counters(trace, run, &m->counters);
	err = err ?: trace_commit(trace);
	trace_rollback(trace);
	return err;
}

int measurement_store(const char *db, int64_t bench, const struct measurement *measurement)
{
	struct trace *trace;
	int err = trace_open(db, TRACE_WRITE, &trace);

	if (err < 0)
		return err;
	return done(trace, db, store(trace, bench, measurement), "store a result");
}

static int find_measurement(struct trace *trace, int64_t bench, const struct measurement *m)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace,
		"SELECT 1 FROM run WHERE bench = ?1 AND workload = ?2 AND target = ?3 AND round = ?4 AND caches = ?5"
		" AND (state <> 'native') = ?6 AND (?7 < 0 OR coalesce(dir_readahead, 0) = ?7) LIMIT 1", &stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, bench);
	err = err ?: trace_bind_text(stmt, 2, m->workload->name);
	err = err ?: trace_bind_text(stmt, 3, m->target->name);
	err = err ?: trace_bind_int(stmt, 4, m->round);
	err = err ?: trace_bind_text(stmt, 5, m->variant->cold ? "cold" : "warm");
	err = err ?: trace_bind_int(stmt, 6, m->variant->shim);
	err = err ?: trace_bind_int(stmt, 7, m->variant->dir_readahead);
	return err ?: trace_step(stmt);
}

int measurement_exists(const char *db, int64_t bench, const struct measurement *measurement)
{
	struct trace *trace;
	int err = trace_open(db, TRACE_READ, &trace);

	if (err < 0)
		return err;
	return done(trace, db, find_measurement(trace, bench, measurement), "look for a result");
}

int measurement_count(const char *db, int64_t bench, int64_t *ret_count)
{
	struct trace *trace;
	int err = trace_open(db, TRACE_READ, &trace);

	if (err < 0)
		return err;
	err = query_int(trace, "SELECT count(*) FROM run WHERE bench = ?", bench, ret_count);
	return done(trace, db, err, "count the results");
}
