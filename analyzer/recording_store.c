/* SPDX-License-Identifier: MIT */
/* recording_store.c - what the run's row says of the command. */
#include <string.h>

#include "base.h"
#include "git_story.h"
#include "loader.h"
#include "recording_internal.h"
#include "run.h"
#include "scan.h"

static void command_json(char *const *argv, struct strbuf *json)
{
	strbuf_addf(json, "[");
	for (char *const *arg = argv; *arg; arg++) {
		strbuf_addf(json, arg == argv ? "" : ",");
		strbuf_add_json(json, *arg, strlen(*arg));
	}
	strbuf_addf(json, "]");
}

/* The command again: where it should have been written down before, somebody may have had the database locked. */
static int write_columns(struct trace *trace, const struct recording *rec)
{
	const struct recording_result *result = &rec->result;
	const int64_t values[] = { result->run, result->status, result->real_ns, result->user_ns, result->sys_ns,
		rec->launch->start_ns };
	struct strbuf auto_strbuf json = {};
	struct trace_stmt auto_stmt *stmt = NULL;
	int err;

	command_json(rec->argv, &json);
	if (json.failed)
		return -ENOMEM;
	err = trace_prepare(trace, "UPDATE run SET exit_status = ?2, real_ns = ?3, user_ns = ?4, sys_ns = ?5,"
		" command_ns = ?6 - start_mono_ns, command = ?7 WHERE id = ?1", &stmt, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(values) && err == 0; i++)
		err = trace_bind_int(stmt, (int)i + 1, values[i]);
	err = err ?: trace_bind_text(stmt, ARRAY_SIZE(values) + 1, json.buf);
	return err ?: trace_step(stmt);
}

void recording_store_command(const struct recording *rec)
{
	struct strbuf auto_strbuf json = {};
	struct trace *trace;

	command_json(rec->argv, &json);
	if (json.failed || trace_open(rec->db, TRACE_WRITE, &trace) < 0)
		return;
	if (trace_run_set_text(trace, rec->result.run, "command", json.buf) < 0)
		log_msg("%s: cannot write down the command: %s", rec->options->db, trace_error(trace));
	trace_close(trace);
}

static int read_start(struct trace *trace, int64_t run, int64_t *ret_mono_ns)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace, "SELECT start_mono_ns FROM run WHERE id = ?", &stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, run);
	err = err ?: trace_step(stmt);
	if (err <= 0)
		return err ?: -ENOENT;
	*ret_mono_ns = trace_column_int(stmt, 0);
	return 0;
}

/* Before git's story: the clock readings among the samples place it in time. */
static void store_samples(struct trace *trace, struct recording *rec)
{
	int64_t start_ns = 0;
	int err;

	if (!rec->host)
		return;
	err = trace_begin(trace);
	err = err ?: read_start(trace, rec->result.run, &start_ns);
	err = err ?: host_store(rec->host, trace, rec->result.run, start_ns);
	err = err ?: trace_commit(trace);
	trace_rollback(trace);
	if (err < 0)
		log_msg("%s: cannot store what the machine counted meanwhile: %s", rec->options->db, trace_error(trace));
}

/* Git's story of this run, and those that dead recordings left. Without it the recording is still one. */
static void load_stories(struct trace *trace, struct recording *rec)
{
	if (!rec->result.detached)
		recording_git_load(rec, trace);
	git_story_recover(trace);
}

/* All that came through the mount is there, but not all that the command did. A recorder that died has a note by now. */
static int mark_unmounted(struct trace *trace, const struct recording *rec)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err;

	if (!rec->unmounted_early)
		return 0;
	err = trace_prepare(trace, "UPDATE run SET clean_end = 0, note = coalesce(note || '; ', '') ||"
		" 'the directory was unmounted while the command ran: what that did afterwards is not recorded' WHERE id = ?",
		&stmt, NULL);
	err = err ?: trace_bind_int(stmt, 1, rec->result.run);
	err = err ?: trace_step(stmt);
	if (err < 0)
		log_msg("%s: cannot mark the run as partial: %s", rec->options->db, trace_error(trace));
	return err;
}

static int read_complete(struct trace *trace, int64_t id, bool *ret_complete)
{
	struct run_info run;
	int err = run_load(trace, id, &run);

	if (err < 0)
		return err;
	*ret_complete = run_complete(&run);
	run_free(&run);
	return 0;
}

int recording_store(struct recording *rec)
{
	struct trace *trace;
	int recovered;
	int err = trace_open(rec->db, TRACE_WRITE, &trace);

	if (err < 0)
		return err;
	err = write_columns(trace, rec);
	if (err < 0)
		log_msg("%s: cannot write down the command's times: %s", rec->options->db,
			trace_error(trace));
	/* whatever has died left its spool, ours or an earlier one; a shim that lives has it locked */
	recovered = rec->result.detached ? 0 : recover_all(trace, NULL, NULL);
	if (recovered > 0 && !rec->options->quiet)
		log_msg("%s: recovered %d %s whose recorder had died", rec->options->db, recovered,
			recovered == 1 ? "run" : "runs");
	err = err ?: mark_unmounted(trace, rec);
	store_samples(trace, rec);
	load_stories(trace, rec);
	if (err == 0)
		err = read_complete(trace, rec->result.run, &rec->result.complete);
	if (!rec->result.detached)
		trace_settle(trace);
	trace_close(trace);
	return err;
}

static bool is_interrupted(void *arg)
{
	struct recording *rec = arg;

	return recording_wait(rec, false, 0, false) != 0;
}

void recording_scan(struct recording *rec)
{
	struct scan_options options = {
		.contents = rec->options->data,
		.progress = !rec->options->quiet,
		.stop = is_interrupted,
		.stop_arg = rec,
	};
	bool walk = rec->options->scan && !rec->result.detached;
	struct trace *trace;

	if (trace_open(rec->db, TRACE_WRITE, &trace) < 0)
		return;
	if (walk)
		scan_tree(trace, rec->result.run, rec->source, &options);
	else if (trace_run_set_text(trace, rec->result.run, "scan", rec->options->scan ? "partial" : "off") < 0)
		log_msg("%s: %s", rec->options->db, trace_error(trace));
	if (!rec->result.detached)
		trace_settle(trace);
	trace_close(trace);
}
