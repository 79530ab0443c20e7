/* SPDX-License-Identifier: MIT */
/*
 * load - what an event costs behind the handlers: to put it into the spool, and to move it into the database.
 *
 *   load [EVENTS]     prints ns of CPU time per event for both, events per second of the loader, and bytes per event
 *
 * The events are like those of a clone: seven of eight about a new file, 25 us apart.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base.h"
#include "loader.h"
#include "op.h"
#include "spool.h"
#include "trace.h"

#define BATCH 20000
#define PER_FILE 8 /* operations */

static const enum op_id life[PER_FILE] = { OP_lookup, OP_lookup, OP_create, OP_getxattr, OP_write, OP_getattr, OP_flush,
	OP_release };

static bool put(struct spool_writer *writer, enum record_kind kind, const void *record, size_t size, const char *text,
	size_t len)
{
	char *room = spool_reserve(writer, size + len);

	if (!room)
		return false;
	memcpy(room, record, size);
	if (len)
		memcpy(room + size, text, len);
	spool_publish(writer, kind, size + len);
	return true;
}

static bool put_path(struct spool_writer *writer, uint32_t file)
{
	char text[64];
	int len = snprintf(text, sizeof(text), "clone/d%02u/s%02u/file-%u.c", file % 12, file / 12 % 20, file);
	struct path_record path = { .id = file, .parent = file % 240, .text_len = (uint32_t)len };

	return put(writer, RECORD_PATH, &path, sizeof(path), text, (size_t)len);
}

static bool put_event(struct spool_writer *writer, uint64_t seq)
{
	uint32_t file = (uint32_t)(seq / PER_FILE + 1);
	enum op_id op = life[seq % PER_FILE];
	bool open = op == OP_create || op == OP_write || op == OP_flush || op == OP_release;
	static const char args[] = "{\"name\":\"security.capability\"}";
	struct event event = {
		.seq = seq,
		.start_ns = (int64_t)seq * 25000,
		.dur_ns = 9000 + (int64_t)(seq * 7919 % 5000),
		.fs_ns = 6000 + (int64_t)(seq * 7919 % 5000),
		.node = seq % PER_FILE < 2 ? 0 : file,
		.parent = file % 240 + 1,
		.fh = open ? file : 0,
		.length = 5000,
		.result = op == OP_lookup ? -ENOENT : op == OP_write ? 5000 : op == OP_getxattr ? -ENODATA : 0,
		.process = 1,
		.path = file,
		.flags = 0100101,
		.mode = S_IFREG | 0644,
		.op = (uint16_t)op,
		.args_len = op == OP_getxattr ? sizeof(args) - 1 : 0,
	};

	if (seq % PER_FILE == 0 && !put_path(writer, file))
		return false;
	return put(writer, RECORD_EVENT, &event, sizeof(event), args, event.args_len);
}

static int64_t load_all(struct loader *loader)
{
	int64_t got, start = clock_ns(CLOCK_PROCESS_CPUTIME_ID);

	do
		got = loader_step(loader, BATCH);
	while (got > 0);
	return got < 0 ? got : clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start;
}

/* In portions, as the spool and the loader share the processor's caches then like in a recording. */
static int measure(struct loader *loader, struct spool_writer *writer, uint64_t count, int64_t *ret_put, int64_t *ret_load)
{
	*ret_put = *ret_load = 0;
	for (uint64_t seq = 1; seq <= count;) {
		int64_t start = clock_ns(CLOCK_PROCESS_CPUTIME_ID), load;

		for (uint64_t i = 0; i < 2 * BATCH && seq <= count; i++, seq++)
			if (!put_event(writer, seq))
				return log_errno(ENOSPC, "the spool");
		*ret_put += clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start;
		load = load_all(loader);
		if (load < 0)
			return log_msg("%s", trace_error(loader->trace)), (int)load;
		*ret_load += load;
	}
	return 0;
}

static int run(const char *dir, uint64_t count)
{
	auto_free char *db = NULL, *root = NULL;
	struct loader loader = {};
	struct spool_writer *writer;
	int64_t put_ns, load_ns;
	struct stat st;
	int err;

	if (asprintf(&db, "%s/load.db", dir) < 0 || !(root = trace_spool_root(db)))
		return -ENOMEM;
	err = trace_open(db, TRACE_CREATE, &loader.trace);
	err = err ?: trace_run_create(loader.trace, "load", &loader.run);
	err = err ?: spool_create(root, loader.run, trace_uuid(loader.trace), 64u << 20, &loader.spool);
	if (err < 0)
		return log_errno(err, "%s", dir);
	writer = spool_writer_new(loader.spool);
	err = writer ? measure(&loader, writer, count, &put_ns, &load_ns) : -ENOMEM;
	spool_writer_free(writer);
	spool_remove(loader.spool);
	spool_free(loader.spool);
	trace_settle(loader.trace);
	trace_close(loader.trace);
	if (err == 0 && stat(db, &st) == 0)
		printf("{\"events\": %" PRIu64 ", \"spool_ns\": %" PRId64 ", \"load_ns\": %" PRId64
		       ", \"loaded_per_second\": %" PRId64 ", \"bytes\": %.1f}\n",
			count, put_ns / (int64_t)count, load_ns / (int64_t)count,
			(int64_t)((double)count * 1e9 / (double)(load_ns ?: 1)), (double)st.st_size / (double)count);
	unlink(db);
	return err;
}

int main(int argc, char **argv)
{
	uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 400000;
	const char *base = getenv("TMPDIR") ?: "/tmp";
	auto_free char *dir = NULL;
	int err;

	log_set_program("load");
	if (asprintf(&dir, "%s/fstape-load-XXXXXX", base) < 0 || !mkdtemp(dir))
		return log_errno(errno, "%s", base), 1;
	err = run(dir, count);
	rmdir(dir);
	return err < 0;
}
