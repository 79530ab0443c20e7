/* SPDX-License-Identifier: MIT */
/* loader_finish.c - the end of a run: what of it is there, what is not, and why. Declared in loader.h. */
#include <inttypes.h>

#include "attribute.h"
#include "base.h"
#include "initial.h"
#include "loader.h"
#include "op.h"

/* How a run came out. Counts are of requests. */
struct outcome {
	bool complete; /* the mount ended by itself */
	bool timed;    /* and its recorder got the time of that into the database, which a full disk prevents */
	int64_t requests, rows, dropped, damaged, data_lost;
	int64_t last_ns; /* of the last operation's end */
	int64_t threads;
	int64_t first_loss_ns, last_loss_ns;
	uint32_t loss_errno;
};

const char *loss_text(uint32_t loss_errno)
{
	switch (loss_errno) {
	case 0:
		return "the spool was full";
	case EBUSY:
		return "another program kept the database locked until the spool was full";
	case ENOSPC:
	case EDQUOT:
		return "the database's disk was full, and the spool too";
	case EFBIG:
		return "the database had reached max_db, where recording stops";
	case ESTALE:
		return "the database was deleted while it was recorded into";
	default:
		return "the database could not be written, and the spool was full";
	}
}

/* What earlier loaders of this run loaded is in it too. */
static int count_rows(struct loader *loader, struct outcome *o)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(loader->trace,
		"SELECT count(*), max(start_ns + dur_ns), (SELECT threads FROM run WHERE id = ?1),"
		" (SELECT end_ns IS NOT NULL FROM run WHERE id = ?1) FROM op WHERE run = ?1",
		&stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, loader->run);
	err = err ?: trace_step(stmt);
	if (err < 0)
		return err;
	o->rows = trace_column_int(stmt, 0);
	o->last_ns = trace_column_int(stmt, 1);
	o->threads = trace_column_int(stmt, 2);
	o->timed = trace_column_int(stmt, 3);
	return 0;
}

/* Of a spool, which may be damaged, or a stranger's: small enough to be added and subtracted. */
static int64_t sane(uint64_t count)
{
	return count < INT64_MAX / 4 ? (int64_t)count : INT64_MAX / 4;
}

static int64_t dropped_json(struct spool_state *state, struct strbuf *json)
{
	int64_t total = 0;

	for (unsigned int code = 0; code < OP_COUNT; code++) {
		int64_t count = sane(atomic_load(&state->dropped[code]));

		if (!count || !op_get(code))
			continue;
		strbuf_addf(json, "%s\"%s\":%" PRId64, total ? "," : "{", op_get(code)->name, count);
		total = sane((uint64_t)(total + count));
	}
	if (total)
		strbuf_addf(json, "}");
	return total;
}

static void add_dropped(const struct outcome *o, struct strbuf *note)
{
	strbuf_addf(note, "%s%" PRId64 " operations", note->len ? "; " : "", o->dropped);
	if (o->first_loss_ns)
		strbuf_addf(note, " between %.3f s and %.3f s", (double)o->first_loss_ns / NSEC_PER_SEC,
			(double)o->last_loss_ns / NSEC_PER_SEC);
	strbuf_addf(note, " are missing: %s", loss_text(o->loss_errno));
}

/*
 * A recorder that is killed may have counted requests that it has not answered, one per worker at most. When more are
 * missing than that, something has been taken away behind its back.
 */
static void add_killed(const struct outcome *o, struct strbuf *note)
{
	int64_t missing = o->requests - o->rows - o->dropped;

	strbuf_addf(note, "the recorder was killed: ");
	if (missing <= 0)
		strbuf_addf(note, "no operation that it had taken up is missing");
	else if (missing <= (o->threads ?: 1) || o->damaged)
		strbuf_addf(note, "%" PRId64 " operations are missing that it had not answered", missing);
	else
		strbuf_addf(note,
			"%" PRId64 " operations are missing, more than it can have left unanswered: files of the spool"
			" or of the database are lost or cut off",
			missing);
}

/* Why the run is not whole, or an empty text. */
static void make_note(const struct outcome *o, struct strbuf *note)
{
	if (!o->complete)
		add_killed(o, note);
	if (o->damaged)
		strbuf_addf(note, "%sthe spool was damaged: what followed in %" PRId64 " of its segments is missing",
			note->len ? "; " : "", o->damaged);
	if (o->dropped)
		add_dropped(o, note);
	if (o->complete && !o->damaged && o->rows != o->requests - o->dropped)
		strbuf_addf(note, "%s%" PRId64 " operations are missing: files of the spool or of the database are lost or"
				  " cut off",
			note->len ? "; " : "", o->requests - o->dropped - o->rows);
}

static int write_outcome(struct loader *loader, const struct outcome *o)
{
	const struct { const char *column; int64_t value; } ints[] = {
		{ "requests", o->requests },
		{ "recorded", o->rows },
		{ "dropped", o->dropped },
		{ "damaged", o->damaged },
		{ "data_lost", o->data_lost },
		{ "clean_end", o->complete && !o->dropped && !o->damaged && o->rows == o->requests },
		{ "lost_from_ns", o->first_loss_ns },
		{ "lost_to_ns", o->last_loss_ns },
	};
	struct strbuf auto_strbuf note = {};
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(ints) - (o->first_loss_ns ? 0 : 2) && err == 0; i++)
		err = trace_run_set_int(loader->trace, loader->run, ints[i].column, ints[i].value);
	if (err == 0 && !(o->complete && o->timed))
		err = trace_run_set_int(loader->trace, loader->run, "end_ns", o->last_ns);
	make_note(o, &note);
	if (note.failed)
		return -ENOMEM;
	return err ?: note.len ? trace_run_set_text(loader->trace, loader->run, "note", note.buf) : 0;
}

static int write_end(struct loader *loader, const char *state_name)
{
	struct spool_state *state = spool_state(loader->spool);
	struct strbuf auto_strbuf json = {};
	struct outcome o = {
		.complete = atomic_load(&state->complete),
		.requests = sane(atomic_load(&state->requests)),
		.dropped = dropped_json(state, &json),
		.damaged = (int64_t)loader->damaged,
		.data_lost = (int64_t)atomic_load(&state->data_lost),
		.first_loss_ns = atomic_load(&state->first_loss_ns),
		.last_loss_ns = atomic_load(&state->last_loss_ns),
		.loss_errno = atomic_load(&state->loss_errno),
	};
	int err = json.failed ? -ENOMEM : count_rows(loader, &o);

	err = err ?: write_outcome(loader, &o);
	err = err ?: trace_run_set_text(loader->trace, loader->run, "dropped_by_op", json.buf);
	return err ?: trace_run_set_text(loader->trace, loader->run, "state", state_name);
}

/* Where git's own story is still to come, `record` or `recover` does it together with that. A failure loses nothing. */
static void attribute(struct loader *loader)
{
	auto_free char *story = trace_story_dir(trace_path(loader->trace), loader->run);

	if (story && access(story, F_OK) == 0)
		return;
	if (attribute_run(loader->trace, loader->run) < 0)
		log_msg("%s: run %" PRId64 ": cannot tell which command made which operation: %s",
			trace_path(loader->trace), loader->run, trace_error(loader->trace));
}

int loader_finish(struct loader *loader, const char *state)
{
	int err;

	attribute(loader);
	err = trace_begin(loader->trace);
	err = err ?: initial_settle(loader->trace, loader->run);
	err = err ?: write_end(loader, state);
	err = err ?: trace_clear_marks(loader->trace, loader->run);
	err = err ?: trace_commit(loader->trace);
	trace_rollback(loader->trace);
	if (err == 0)
		trace_checkpoint(loader->trace); /* the spool, which is removed next, was safer than the log is */
	return err;
}
