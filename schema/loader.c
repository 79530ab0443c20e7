/* SPDX-License-Identifier: MIT */
#include "loader.h"

#include <inttypes.h>
#include <string.h>

#include "base.h"
#include "op.h"

#define MAX_SEGMENTS 4096

/*
 * A record that is not as a recorder writes them is -EBADMSG here, whatever is wrong with it; -EUCLEAN is the
 * database's own damage, for which no spool must be given up.
 */

/* The text after the fixed part, when the record is long enough for both. */
static const char *record_text(const struct spool_record *record, size_t fixed, size_t text)
{
	return record->size >= fixed + text ? (const char *)record->data + fixed : NULL;
}

static int load_event(struct loader *loader, const struct spool_record *record)
{
	const struct event *event = record->data;
	const char *args = record->size < sizeof(*event) ? NULL :
							   record_text(record, sizeof(*event), event->args_len);
	int err;

	if (!args || !op_get(event->op))
		return -EBADMSG;
	err = trace_add_event(loader->trace, loader->run, event, args);
	loader->events += err == 0;
	return err;
}

static int load_path(struct loader *loader, const struct spool_record *record)
{
	const struct path_record *path = record->data;
	const char *text =
		record->size < sizeof(*path) ? NULL : record_text(record, sizeof(*path), path->text_len);

	return text ? trace_add_path(loader->trace, loader->run, path, text) : -EBADMSG;
}

static int load_process(struct loader *loader, const struct spool_record *record)
{
	const struct process_record *process = record->data;
	const char *text = record->size < sizeof(*process) ? NULL :
							     record_text(record, sizeof(*process),
								     (size_t)process->comm_len + process->exe_len +
									     process->cmdline_len);

	return text ? trace_add_process(loader->trace, loader->run, process, text) : -EBADMSG;
}

static int load_initial(struct loader *loader, const struct spool_record *record)
{
	const struct initial_record *initial = record->data;
	const char *target = record->size < sizeof(*initial) ?
		NULL :
		record_text(record, sizeof(*initial), initial->target_len);

	return target ? trace_add_initial(loader->trace, loader->run, initial, target) : -EBADMSG;
}

static int load_record(struct loader *loader, const struct spool_record *record)
{
	static int (*const load[])(struct loader *, const struct spool_record *) = {
		[RECORD_EVENT] = load_event,
		[RECORD_PATH] = load_path,
		[RECORD_PROCESS] = load_process,
		[RECORD_INITIAL] = load_initial,
	};
	int err;

	if (record->kind >= ARRAY_SIZE(load) || !load[record->kind])
		return -EBADMSG;
	err = load[record->kind](loader, record);
	return err == -EEXIST ? -EBADMSG : err; /* an id twice */
}

/* Loads what a segment has from *reached on, at most `max` records. Their number, or -errno. */
static int64_t load_segment(struct loader *loader, struct segment *segment, int64_t max, uint64_t *reached,
	bool *damaged)
{
	uint64_t end = segment_published(segment);
	int64_t count = 0;
	int got = 0;

	while (count < max) {
		struct spool_record record;
		uint64_t next = *reached;

		got = segment_read(segment, &next, end, &record);
		if (got == 1) {
			int err = load_record(loader, &record);

			if (err < 0 && err != -EBADMSG)
				return err;
			got = err < 0 ? err : 1;
		}
		if (got != 1)
			break;
		*reached = next;
		count++;
	}
	if (got < 0) {
		*damaged = true;
		log_msg("%s: slot %u is damaged at byte %" PRIu64 " of %" PRIu64 "; what follows there is lost",
			spool_dir(loader->spool), segment->slot, *reached, end);
	}
	got = count ? trace_set_mark(loader->trace, loader->run, segment->slot, segment->generation, *reached) : 0;
	return got < 0 ? got : count;
}

int64_t loader_step(struct loader *loader, int64_t max)
{
	static _Thread_local struct segment *segments[MAX_SEGMENTS];
	static _Thread_local uint64_t reached[MAX_SEGMENTS];
	static _Thread_local bool damaged[MAX_SEGMENTS];
	size_t n = spool_segments(loader->spool, segments, MAX_SEGMENTS);
	uint64_t events = loader->events;
	int64_t count = 0, got = 0;
	bool work = false;

	for (size_t i = 0; i < n; i++) {
		reached[i] = segments[i]->loaded;
		damaged[i] = segments[i]->damaged;
		work |= !damaged[i] && segment_published(segments[i]) > reached[i];
	}
	if (work) {
		got = trace_begin(loader->trace);
		for (size_t i = 0; i < n && got >= 0 && count < max; i++) {
			if (damaged[i])
				continue;
			got = load_segment(loader, segments[i], max - count, &reached[i], &damaged[i]);
			count += got > 0 ? got : 0;
		}
		if (got >= 0)
			got = trace_commit(loader->trace);
		if (got < 0) {
			trace_rollback(loader->trace);
			loader->events = events;
			return got;
		}
	}
	for (size_t i = 0; i < n; i++) {
		loader->damaged += damaged[i] && !segments[i]->damaged;
		segments[i]->loaded = reached[i];
		segments[i]->damaged = damaged[i];
		spool_recycle(loader->spool, segments[i]);
	}
	return count;
}

int loader_resume(struct loader *loader)
{
	static _Thread_local struct segment *segments[MAX_SEGMENTS];
	size_t n = spool_segments(loader->spool, segments, MAX_SEGMENTS);

	for (size_t i = 0; i < n; i++) {
		uint64_t generation, loaded;
		int err = trace_mark(loader->trace, loader->run, segments[i]->slot, &generation, &loaded);

		if (err < 0)
			return err;
		if (generation == segments[i]->generation)
			segments[i]->loaded = loaded;
		else if (generation > segments[i]->generation)
			segments[i]->loaded = segment_published(segments[i]); /* loaded in a former life */
	}
	return 0;
}

/* The counts as the database has them: what earlier loaders of this run loaded is in it too. */
static int count_rows(struct loader *loader, int64_t *ret_rows, int64_t *ret_last_ns)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(loader->trace, "SELECT count(*), max(start_ns + dur_ns) FROM op WHERE run = ?", &stmt,
		NULL);

	err = err ?: trace_bind_int(stmt, 1, loader->run);
	err = err ?: trace_step(stmt);
	if (err < 0)
		return err;
	*ret_rows = trace_column_int(stmt, 0);
	*ret_last_ns = trace_column_int(stmt, 1);
	return 0;
}

static uint64_t dropped_json(struct spool_state *state, struct strbuf *json)
{
	uint64_t total = 0;

	for (unsigned int code = 0; code < OP_COUNT; code++) {
		uint64_t count = atomic_load(&state->dropped[code]);

		if (!count || !op_get(code))
			continue;
		strbuf_addf(json, "%s\"%s\":%" PRIu64, total ? "," : "{", op_get(code)->name, count);
		total += count;
	}
	if (total)
		strbuf_addf(json, "}");
	return total;
}

static int write_counts(struct loader *loader, const char *state_name)
{
	struct spool_state *state = spool_state(loader->spool);
	int64_t requests = (int64_t)atomic_load(&state->requests), rows = 0, last_ns = 0;
	struct strbuf auto_strbuf json = {};
	int64_t dropped = (int64_t)dropped_json(state, &json);
	bool complete = atomic_load(&state->complete);
	const char *note;
	int err = count_rows(loader, &rows, &last_ns);
	struct { const char *column; int64_t value; } ints[] = {
		{ "requests", requests },
		{ "recorded", rows },
		{ "dropped", dropped },
		{ "damaged", (int64_t)loader->damaged },
		{ "clean_end", complete && dropped == 0 && loader->damaged == 0 && rows == requests },
	};

	for (size_t i = 0; i < ARRAY_SIZE(ints) && err == 0; i++)
		err = trace_run_set_int(loader->trace, loader->run, ints[i].column, ints[i].value);
	if (err == 0 && !complete)
		err = trace_run_set_int(loader->trace, loader->run, "end_ns", last_ns);
	err = err ?: trace_run_set_text(loader->trace, loader->run, "dropped_by_op", json.buf);
	note = !complete ? "the recorder was killed: operations that it had not answered are missing" :
	       loader->damaged ? "the spool was damaged: what followed in its segments is missing" :
	       dropped ? "the spool was full: what it had no room for is missing" : NULL;
	if (note)
		err = err ?: trace_run_set_text(loader->trace, loader->run, "note", note);
	return err ?: trace_run_set_text(loader->trace, loader->run, "state", state_name);
}

int loader_finish(struct loader *loader, const char *state)
{
	int err = trace_begin(loader->trace);

	err = err ?: write_counts(loader, state);
	err = err ?: trace_clear_marks(loader->trace, loader->run);
	err = err ?: trace_commit(loader->trace);
	trace_rollback(loader->trace);
	return err;
}
