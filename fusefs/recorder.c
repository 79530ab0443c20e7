/* SPDX-License-Identifier: MIT */
/* recorder.c - the workers' side: from events to records in the spool. */
#include "recorder_internal.h"

#include <string.h>

#include "busguard.h"
#include "content.h"

#define HURRY_NS (3 * NSEC_PER_SEC) /* less than what main.c grants a mount to end by itself */
#define GROW_TRIES 4
#define WAIT_STEP_NS (50 * 1000000LL)

static _Thread_local struct spool_writer *thread_writer;
static _Thread_local bool thread_guarded;
static _Thread_local bool thread_incomplete; /* something of the request at hand has found no room */

int64_t recorder_run(const struct recorder *recorder)
{
	return recorder->run;
}

int64_t recorder_now(const struct recorder *recorder)
{
	return clock_ns(CLOCK_MONOTONIC) - recorder->start_mono_ns;
}

bool recorder_is_older(const struct recorder *recorder, int64_t btime_ns, int64_t ctime_ns)
{
	/* Filesystems stamp with the coarse clock, so that is what the start is compared on. */
	return (btime_ns ?: ctime_ns) < recorder->start_coarse_ns;
}

uint64_t recorder_request(struct recorder *recorder)
{
	if (!thread_guarded) {
		busguard_unblock(); /* threads start with all signals blocked */
		thread_guarded = true;
	}
	thread_incomplete = false;
	return atomic_fetch_add_explicit(&recorder->state->requests, 1, memory_order_relaxed) + 1;
}

/*
 * The mount is to end, and nobody shall lose an operation over that: the spool may grow. What it grows by may go to
 * another worker, who looked a moment later, so one attempt is not enough, even when no time is left for waiting.
 */
static void *reserve_in_a_hurry(struct recorder *recorder, size_t size)
{
	void *room = NULL;

	for (int tries = 0; !room && tries < GROW_TRIES; tries++) {
		spool_raise_limit(recorder->spool, SPOOL_SEGMENT_SIZE);
		room = spool_reserve(thread_writer, size);
	}
	return room;
}

static void *reserve(struct recorder *recorder, size_t size)
{
	void *room;

	if (loss_is_final(&recorder->loss))
		return NULL;
	if (!thread_writer) {
		thread_writer = spool_writer_new(recorder->spool);
		if (!thread_writer)
			return NULL;
	}
	while (!(room = spool_reserve(thread_writer, size))) {
		if (recorder->drop || size > SPOOL_RECORD_MAX / 2 || loss_is_due(&recorder->loss))
			return NULL;
		if (atomic_load(&recorder->hurry_until_ns)) {
			room = reserve_in_a_hurry(recorder, size);
			if (room || clock_ns(CLOCK_MONOTONIC) > atomic_load(&recorder->hurry_until_ns))
				return room;
		}
		recorder_press_loader(recorder);
		spool_wait_free(recorder->spool, WAIT_STEP_NS);
	}
	return room;
}

void recorder_add_writer(struct recorder *recorder)
{
	spool_raise_limit(recorder->spool, SPOOL_SEGMENT_SIZE);
}

/* What an operation refers to: without room for that it is lost as a whole, and counted, though it might find some. */
static void *reserve_for_event(struct recorder *recorder, size_t size)
{
	void *room = reserve(recorder, size);

	thread_incomplete |= !room;
	return room;
}

void recorder_event(struct recorder *recorder, const struct event *event, const char *args)
{
	size_t size = sizeof(*event) + event->args_len;
	/* one that had to wait for a lock may have begun in another thread */
	bool whole = !thread_incomplete && event->path && event->process;
	char *room = whole ? reserve(recorder, size) : NULL;

	if (!room) {
		loss_count(&recorder->loss, recorder->state, event->op, recorder_now(recorder));
		return;
	}
	memcpy(room, event, sizeof(*event));
	if (event->args_len)
		memcpy(room + sizeof(*event), args, event->args_len);
	spool_publish(thread_writer, RECORD_EVENT, size);
}

uint32_t recorder_path(struct recorder *recorder, uint32_t parent, const char *text, size_t len)
{
	struct path_record path = { .parent = parent, .text_len = (uint32_t)len };
	char *room = reserve_for_event(recorder, sizeof(path) + len);

	if (!room)
		return 0;
	path.id = atomic_fetch_add_explicit(&recorder->state->paths, 1, memory_order_relaxed) + 1;
	memcpy(room, &path, sizeof(path));
	memcpy(room + sizeof(path), text, len);
	spool_publish(thread_writer, RECORD_PATH, sizeof(path) + len);
	return path.id;
}

uint32_t recorder_process(struct recorder *recorder, struct process_record *process, const char *comm, const char *exe,
	size_t exe_len, const char *cmdline, size_t cmdline_len)
{
	size_t comm_len = strlen(comm), size = sizeof(*process) + comm_len + exe_len + cmdline_len;
	char *room = reserve_for_event(recorder, size);

	if (!room)
		return 0;
	process->id = atomic_fetch_add_explicit(&recorder->state->processes, 1, memory_order_relaxed) + 1;
	process->first_ns = recorder_now(recorder);
	process->comm_len = (uint16_t)comm_len;
	process->exe_len = (uint16_t)exe_len;
	process->cmdline_len = (uint32_t)cmdline_len;
	memcpy(room, process, sizeof(*process));
	memcpy(room + sizeof(*process), comm, comm_len);
	memcpy(room + sizeof(*process) + comm_len, exe, exe_len);
	if (cmdline_len)
		memcpy(room + sizeof(*process) + comm_len + exe_len, cmdline, cmdline_len);
	spool_publish(thread_writer, RECORD_PROCESS, size);
	return process->id;
}

void recorder_initial(struct recorder *recorder, struct initial_record *initial, const char *target, size_t len)
{
	char *room = reserve_for_event(recorder, sizeof(*initial) + len);

	if (!room)
		return;
	initial->target_len = (uint32_t)len;
	memcpy(room, initial, sizeof(*initial));
	if (len)
		memcpy(room + sizeof(*initial), target, len);
	spool_publish(thread_writer, RECORD_INITIAL, sizeof(*initial) + len);
}

void recorder_cpu(struct recorder *recorder, const struct cpu_record *cpu)
{
	char *room = reserve(recorder, sizeof(*cpu));

	if (!room)
		return;
	memcpy(room, cpu, sizeof(*cpu));
	spool_publish(thread_writer, RECORD_CPU, sizeof(*cpu));
}

void recorder_hurry(struct recorder *recorder)
{
	atomic_store(&recorder->hurry_until_ns, clock_ns(CLOCK_MONOTONIC) + HURRY_NS);
}

/* --- contents ------------------------------------------------------------------------------------------------------ */

static bool put_content(struct recorder *recorder, const struct content_hash *hash, const void *bytes, size_t len)
{
	struct content_record record = { .hash = *hash, .length = (uint32_t)len };
	char *room = reserve(recorder, sizeof(record) + len);

	if (!room)
		return false;
	memcpy(room, &record, sizeof(record));
	memcpy(room + sizeof(record), bytes, len);
	spool_publish(thread_writer, RECORD_CONTENT, sizeof(record) + len);
	return true;
}

static bool put_piece(struct recorder *recorder, uint64_t seq, int64_t offset, const void *bytes, size_t len)
{
	struct data_record data = { .seq = seq, .offset = offset, .length = (uint32_t)len };
	_Atomic uint64_t *place;
	uint64_t low;
	void *room;

	content_hash(bytes, len, &data.hash);
	memcpy(&low, data.hash.bytes, sizeof(low));
	place = &recorder->sent->hashes[low & ((1u << SENT_BITS) - 1)];
	if (atomic_load_explicit(place, memory_order_relaxed) != low) {
		if (!put_content(recorder, &data.hash, bytes, len))
			return false;
		atomic_store_explicit(place, low, memory_order_relaxed);
	}
	room = reserve(recorder, sizeof(data));
	if (!room)
		return false;
	memcpy(room, &data, sizeof(data));
	spool_publish(thread_writer, RECORD_DATA, sizeof(data));
	return true;
}

void recorder_data(struct recorder *recorder, uint64_t seq, int64_t offset, const void *bytes, size_t len)
{
	const char *at = bytes;

	while (len) {
		size_t take = len < CONTENT_PIECE ? len : CONTENT_PIECE;

		if (!put_piece(recorder, seq, offset, at, take))
			atomic_fetch_add_explicit(&recorder->state->data_lost, 1, memory_order_relaxed);
		at += take;
		offset += (int64_t)take;
		len -= take;
	}
}

void recorder_thread_end(void)
{
	spool_writer_free(thread_writer);
	thread_writer = NULL;
}
