/* SPDX-License-Identifier: MIT */
#include "run.h"

#include <inttypes.h>
#include <string.h>

#include "base.h"
#include "mode.h"

static char *copy_text(const struct trace_stmt *stmt, int column)
{
	const char *text = trace_column_text(stmt, column);

	return text ? strdup(text) : NULL;
}

int run_load(struct trace *trace, int64_t id, struct run_info *ret_run)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace,
		"SELECT label, state, note, requests, recorded, dropped, damaged, clean_end, modes,"
		" command IS NOT NULL AND real_ns IS NULL FROM run WHERE id = ?",
		&stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, id);
	err = err ?: trace_step(stmt);
	if (err <= 0)
		return err ?: -ENOENT;
	*ret_run = (struct run_info){
		.id = id,
		.label = copy_text(stmt, 0),
		.state = copy_text(stmt, 1),
		.note = copy_text(stmt, 2),
		.requests = trace_column_int(stmt, 3),
		.recorded = trace_column_int(stmt, 4),
		.dropped = trace_column_int(stmt, 5),
		.damaged = trace_column_int(stmt, 6),
		.modes = copy_text(stmt, 8),
	};
	if (!ret_run->state) {
		run_free(ret_run);
		return -ENOMEM;
	}
	ret_run->native = strcmp(ret_run->state, "native") == 0;
	ret_run->finished = ret_run->native || strcmp(ret_run->state, "done") == 0 ||
			    strcmp(ret_run->state, "recovered") == 0;
	ret_run->clean = ret_run->native || trace_column_int(stmt, 7) == 1;
	ret_run->untimed = ret_run->finished && trace_column_int(stmt, 9);
	return 0;
}

void run_free(struct run_info *run)
{
	free(run->label);
	free(run->state);
	free(run->note);
	free(run->modes);
	*run = (struct run_info){};
}

static void add_name(const struct run_info *run, struct strbuf *text)
{
	strbuf_addf(text, "run %" PRId64, run->id);
	if (run->label)
		strbuf_addf(text, " (%s)", run->label);
}

void run_describe_gaps(const struct run_info *run, struct strbuf *text)
{
	if (run_complete(run))
		return;
	add_name(run, text);
	if (!run->finished)
		strbuf_addf(text, " has not ended yet (state '%s'): numbers are what is in the database by now",
			run->state);
	else
		strbuf_addf(text, " is partial: %" PRId64 " of %" PRId64 " requests recorded, %" PRId64 " dropped",
			run->recorded, run->requests, run->dropped);
	if (run->finished && run->note)
		strbuf_addf(text, "; %s", run->note);
	if (!run->finished)
		strbuf_addf(text, "; if its recorder has died, 'fstape recover' finishes it");
}

void run_describe_modes(const struct run_info *run, struct strbuf *text)
{
	if (!run->modes || !*run->modes)
		return;
	add_name(run, text);
	strbuf_addf(text, " does not have all that was done, by its modes: ");
	mode_explain(run->modes, text);
}

void run_describe_times(const struct run_info *run, struct strbuf *text)
{
	if (!run->untimed)
		return;
	add_name(run, text);
	strbuf_addf(text, ": how long its command took, and how it ended, is not known: 'fstape record' was killed before"
			" that; what the command did afterwards need not be in the recording");
}

void run_warn(const struct run_info *run)
{
	void (*const describe[])(const struct run_info *, struct strbuf *) = { run_describe_gaps, run_describe_modes,
		run_describe_times };

	for (size_t i = 0; i < ARRAY_SIZE(describe); i++) {
		struct strbuf auto_strbuf line = {};

		describe[i](run, &line);
		if (line.len && !line.failed)
			log_msg("%s", line.buf);
	}
}

int run_check(struct trace *trace, int64_t id)
{
	struct run_info run;
	int err = run_load(trace, id, &run);
	bool complete;

	if (err < 0)
		return err;
	run_warn(&run);
	complete = run_complete(&run);
	run_free(&run);
	return complete;
}
