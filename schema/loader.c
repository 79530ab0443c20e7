/* SPDX-License-Identifier: MIT */
#include "loader.h"

#include <inttypes.h>
#include <string.h>

#include "base.h"
#include "op.h"

#define MAX_SEGMENTS 4096
#define EVENTS_AT_ONCE 512

/*
 * A record that is not as a recorder writes them is -EBADMSG here, whatever is wrong with it; -EUCLEAN is the
 * database's own damage, for which no spool must be given up.
 */

/* The text after the fixed part, when the record is long enough for both. */
static const char *record_text(const struct spool_record *record, size_t fixed, size_t text)
{
	return record->size >= fixed + text ? (const char *)record->data + fixed : NULL;
}

/* Events of one segment on their way into the database together, and where each begins in it. */
struct batch {
	struct event_ref events[EVENTS_AT_ONCE];
	uint64_t offsets[EVENTS_AT_ONCE];
	size_t count;
};

static int check_event(const struct spool_record *record, struct event_ref *ret_event)
{
	const struct event *event = record->data;
	const char *args = record->size < sizeof(*event) ? NULL :
							   record_text(record, sizeof(*event), event->args_len);

	if (!args || !op_get(event->op))
		return -EBADMSG;
	*ret_event = (struct event_ref){ event, args };
	return 0;
}

/* -EBADMSG: the event at *reached, now, is there already; what came after it is taken off the *count. */
static int insert_batch(struct loader *loader, struct batch *batch, uint64_t *reached, int64_t *count)
{
	size_t added = 0, all = batch->count;
	int err = batch->count ? trace_add_events(loader->trace, loader->run, batch->events, batch->count, &added) : 0;

	loader->events += added;
	batch->count = 0;
	if (err != -EEXIST)
		return err;
	*reached = batch->offsets[added];
	*count -= (int64_t)(all - added);
	return -EBADMSG;
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

static int load_content(struct loader *loader, const struct spool_record *record)
{
	const struct content_record *content = record->data;
	const char *bytes =
		record->size < sizeof(*content) ? NULL : record_text(record, sizeof(*content), content->length);

	if (!bytes || content->length > CONTENT_PIECE)
		return -EBADMSG;
	return trace_add_content(loader->trace, &content->hash, bytes, content->length);
}

static int load_data(struct loader *loader, const struct spool_record *record)
{
	const struct data_record *data = record->data;

	if (record->size < sizeof(*data) || data->length > CONTENT_PIECE)
		return -EBADMSG;
	return trace_add_data(loader->trace, loader->run, data);
}

static int load_cpu(struct loader *loader, const struct spool_record *record)
{
	return record->size < sizeof(struct cpu_record) ? -EBADMSG :
							  trace_add_cpu(loader->trace, loader->run, record->data);
}

static int load_record(struct loader *loader, const struct spool_record *record)
{
	static int (*const load[])(struct loader *, const struct spool_record *) = {
		[RECORD_PATH] = load_path,
		[RECORD_PROCESS] = load_process,
		[RECORD_INITIAL] = load_initial,
		[RECORD_CONTENT] = load_content,
		[RECORD_DATA] = load_data,
		[RECORD_CPU] = load_cpu,
	};
	int err;

	if (record->kind >= ARRAY_SIZE(load) || !load[record->kind])
		return -EBADMSG;
	err = load[record->kind](loader, record);
	return err == -EEXIST ? -EBADMSG : err; /* an id twice */
}

/* One record: into the batch, or into the database. */
static int take_record(struct loader *loader, struct batch *batch, const struct spool_record *record, uint64_t offset)
{
	int err;

	if (record->kind != RECORD_EVENT)
		return load_record(loader, record);
	err = check_event(record, &batch->events[batch->count]);
	if (err == 0)
		batch->offsets[batch->count++] = offset;
	return err;
}

/* Loads what a segment has from *reached on, at most `max` records. Their number, or -errno. */
static int64_t load_segment(struct loader *loader, struct segment *segment, int64_t max, uint64_t *reached,
	bool *damaged)
{
	uint64_t end = segment_published(segment), start = *reached;
	struct batch batch = {};
	int64_t count = 0;
	int got = 1, err = 0;

	while (count < max && got == 1 && err == 0) {
		struct spool_record record;
		uint64_t next = *reached;

		got = segment_read(segment, &next, end, &record);
		if (got == 1)
			err = take_record(loader, &batch, &record, *reached);
		if (got == 1 && err == 0) {
			*reached = next;
			count++;
		}
		if (err == 0 && batch.count == EVENTS_AT_ONCE)
			err = insert_batch(loader, &batch, reached, &count);
	}
	if (err == 0 || err == -EBADMSG) { /* what came before the bad record is good */
		int last = insert_batch(loader, &batch, reached, &count);

		err = last < 0 ? last : err;
	}
	if (err < 0 && err != -EBADMSG)
		return err;
	got = err < 0 ? err : got;
	if (got < 0) {
		*damaged = true;
		log_msg("%s: slot %u is damaged at byte %" PRIu64 " of %" PRIu64 "; what follows there is lost",
			spool_dir(loader->spool), segment->slot, *reached, end);
	}
	got = *reached > start ? trace_set_mark(loader->trace, loader->run, segment->slot, segment->generation, *reached) : 0;
	return got < 0 ? got : count;
}

/*
 * Segments that are loaded whole, for new records. When a reader keeps the log from being emptied they are given back all
 * the same once writers need them: the log is as safe from the death of the process as they are.
 */
static void give_back(struct loader *loader, struct segment *const *segments, size_t n)
{
	uint64_t held = loader->hold == UINT64_MAX ? 0 : spool_held(loader->spool);
	bool tight = held && spool_is_tight(loader->spool);

	if (!held || (held <= loader->hold && !tight))
		return;
	if (loader->hold && trace_checkpoint(loader->trace) <= 0 && !tight && held <= 2 * loader->hold)
		return;
	for (size_t i = 0; i < n; i++)
		spool_recycle(loader->spool, segments[i]);
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
	}
	give_back(loader, segments, n);
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
