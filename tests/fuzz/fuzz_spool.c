/* SPDX-License-Identifier: MIT */
/*
 * fuzz_spool.c - a libFuzzer target: the input is what a dead recorder has left. First records of any kind and length with
 * any contents, whose checksums are right, so that they get as far as the database; then changes of the files' bytes, which
 * make them wrong. Recovery must end, say what it could not read, and leave a database that SQLite finds in order; a second
 * recovery must find nothing to do.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"
#include "loader.h"
#include "spool.h"

struct record {
	uint8_t kind;
	uint16_t size;
} __attribute__((packed));

struct change {
	uint8_t file;
	uint32_t offset;
	uint8_t len;
} __attribute__((packed));

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Up to 255 records, each perhaps at the start of a new segment. */
static void write_records(struct spool *spool, struct fuzz_input *in)
{
	struct spool_writer *writer = spool_writer_new(spool);
	unsigned int count = fuzz_byte(in);
	struct record record;

	while (writer && count-- && fuzz_take(in, &record, sizeof(record))) {
		size_t len = record.size < in->size ? record.size : in->size;
		void *room = spool_reserve(writer, len);

		if (!room)
			break;
		fuzz_take(in, room, len);
		spool_publish(writer, (enum record_kind)(record.kind & 15), len);
		if (record.kind & 128) {
			spool_writer_free(writer);
			writer = spool_writer_new(spool);
		}
	}
	spool_writer_free(writer);
}

static void write_state(struct spool_state *state, struct fuzz_input *in)
{
	uint64_t numbers[4] = {};

	fuzz_take(in, numbers, sizeof(numbers));
	atomic_store(&state->requests, numbers[0]);
	atomic_store(&state->dropped[numbers[1] % OP_COUNT], numbers[1]);
	atomic_store(&state->first_loss_ns, (int64_t)numbers[2]);
	atomic_store(&state->last_loss_ns, (int64_t)numbers[3]);
	atomic_store(&state->loss_errno, (uint32_t)numbers[3]);
	atomic_store(&state->complete, (uint32_t)numbers[0] & 1);
}

static void change_files(const char *dir, struct fuzz_input *in)
{
	static const char *const names[] = { "state", "segment-000000", "segment-000001", "segment-000002" };
	struct change change;
	unsigned char bytes[256];

	while (fuzz_take(in, &change, sizeof(change))) {
		char path[512];
		size_t len = change.len < in->size ? change.len : in->size;
		int fd;

		snprintf(path, sizeof(path), "%s/%s", dir, names[change.file & 3]);
		fuzz_take(in, bytes, len);
		fd = open(path, O_WRONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (change.file & 64 ? ftruncate(fd, change.offset % (2 * SPOOL_SEGMENT_SIZE)) < 0 :
				       pwrite(fd, bytes, len, change.offset % SPOOL_SEGMENT_SIZE) < 0)
			abort();
		close(fd);
	}
}

static void leave_spool(const struct fuzz_place *place, struct fuzz_input *in)
{
	auto_free char *root = trace_spool_root(place->db), *dir = NULL;
	struct spool *spool;
	struct trace *trace;
	int64_t run;

	fuzz_database(place);
	if (trace_open(place->db, TRACE_WRITE, &trace) < 0 || trace_run_create(trace, "fuzz", &run) < 0 ||
		spool_create(root, run, trace_uuid(trace), 4 * SPOOL_SEGMENT_SIZE, &spool) < 0)
		abort();
	write_records(spool, in);
	write_state(spool_state(spool), in);
	dir = strdup(spool_dir(spool));
	spool_free(spool);
	trace_close(trace);
	if (dir)
		change_files(dir, in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct fuzz_place *place = fuzz_place();
	struct fuzz_input in = { data, size };
	struct trace *trace;

	leave_spool(place, &in);
	if (trace_open(place->db, TRACE_WRITE, &trace) < 0)
		abort();
	if (recover_all(trace, NULL, NULL) < 0 && trace_error(trace)[0] == '\0')
		abort();
	if (recover_all(trace, NULL, NULL) > 0) /* what was done is done */
		abort();
	trace_close(trace);
	if (trace_open(place->db, TRACE_READ, &trace) < 0)
		abort();
	if (!fuzz_is_intact(trace))
		abort();
	trace_close(trace);
	fuzz_clear(place);
	return 0;
}
