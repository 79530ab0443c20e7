/* SPDX-License-Identifier: MIT */
/*
 * feed.c - a long recording in a short time: the recorder of the shim, its spool, its loader and its database, with
 * operations made up here instead of requests of the kernel. What a mount adds is the kernel's part of each request;
 * memory, size of the database and rate of the loader are the recorder's, and the same.
 *
 * Each thread writes what a git checkout makes of a file: two lookups that fail, create, write, getattr, flush, release,
 * with a path of its own.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fs.h"
#include "mountinfo.h"
#include "recorder.h"

#define REPORTS 10

struct feed {
	struct fs fs;
	uint64_t files; /* per thread */
	_Atomic uint64_t done;
};

static const enum op_id life[] = { OP_lookup, OP_lookup, OP_create, OP_write, OP_getattr, OP_flush, OP_release };

static void feed_file(struct recorder *recorder, uint32_t process, uint64_t number)
{
	char path[64];
	size_t len = (size_t)snprintf(path, sizeof(path), "src/d%" PRIu64 "/s%" PRIu64 "/file-%" PRIu64 ".c", number % 97,
		number % 7, number);
	uint32_t id = recorder_path(recorder, 0, path, len);

	for (size_t i = 0; i < ARRAY_SIZE(life); i++) {
		int64_t start = recorder_now(recorder);
		struct event event = {
			.seq = recorder_request(recorder),
			.start_ns = start,
			.dur_ns = 21000 + (int64_t)(number % 5000),
			.fs_ns = 9000 + (int64_t)(number % 3000),
			.parent = 1 + number % 679,
			.node = i < 2 ? 0 : number + 1000,
			.fh = i < 2 ? 0 : number,
			.length = life[i] == OP_write ? 4096 : 0,
			.result = i < 2 ? -ENOENT : life[i] == OP_write ? 4096 : 0,
			.process = process,
			.path = id,
			.mode = life[i] == OP_create ? 0100644 : 0,
			.op = (uint16_t)life[i],
		};

		recorder_event(recorder, &event, NULL);
	}
}

static void *feed_thread(void *arg)
{
	struct feed *feed = arg;
	struct recorder *recorder = feed->fs.recorder;
	struct process_record process = { .tid = gettid(), .tgid = getpid(), .ppid = 1, .start_ticks = 1 };
	uint32_t id = recorder_process(recorder, &process, "feed", "", 0, "feed", 5);

	for (uint64_t i = 0; i < feed->files; i++) {
		feed_file(recorder, id, (uint64_t)id << 40 | i);
		if (i % 128 == 127)
			atomic_fetch_add(&feed->done, 128 * ARRAY_SIZE(life));
	}
	recorder_thread_end();
	return NULL;
}

/* A line of /proc/self/status, proc(5), in KiB. */
static int64_t memory_kib(const char *key)
{
	struct strbuf auto_strbuf text = {};
	const char *at = read_file_at(AT_FDCWD, "/proc/self/status", 16384, &text) < 0 ? NULL : strstr(text.buf, key);

	return at ? strtoll(at + strlen(key), NULL, 10) : -1;
}

/* Peaks of anonymous memory are not kept by the kernel, so it is looked at while threads work. */
static void report(struct feed *feed, uint64_t total, int64_t start_ns)
{
	struct stat st = {};
	double seconds = (double)(clock_ns(CLOCK_MONOTONIC) - start_ns) / 1e9;
	uint64_t done = atomic_load(&feed->done);

	stat(feed->fs.options.db, &st);
	printf("%12" PRIu64 " of %" PRIu64 " operations  %7.1f s  %8.0f/s  resident %6.1f MiB (its own %5.1f)  database %8.1f MiB\n",
		done, total, seconds, (double)done / seconds, (double)memory_kib("\nVmRSS:") / 1024,
		(double)memory_kib("\nRssAnon:") / 1024, (double)st.st_size / 1048576);
	fflush(stdout);
}

static int feed_all(struct feed *feed, unsigned int threads)
{
	uint64_t total = feed->files * threads * ARRAY_SIZE(life);
	int64_t start = clock_ns(CLOCK_MONOTONIC), finish;
	pthread_t ids[64];
	struct stat st = {};
	int err;

	for (unsigned int i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, feed_thread, feed) != 0)
			return -EAGAIN;
	for (uint64_t part = 1; part < REPORTS; part++) {
		while (atomic_load(&feed->done) < total / REPORTS * part && atomic_load(&feed->done) + 100000 < total)
			usleep(20000);
		report(feed, total, start);
	}
	for (unsigned int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	atomic_store(&feed->done, total);
	finish = clock_ns(CLOCK_MONOTONIC);
	err = recorder_finish(feed->fs.recorder);
	report(feed, total, start);
	stat(feed->fs.options.db, &st);
	printf("finishing took %.1f s; peak resident memory %.1f MiB; %.1f bytes of database per operation\n",
		(double)(clock_ns(CLOCK_MONOTONIC) - finish) / 1e9, (double)memory_kib("\nVmHWM:") / 1024,
		(double)st.st_size / (double)total);
	return err;
}

int main(int argc, char **argv)
{
	struct feed feed = { .fs.options = {
		.source = "/", .mountpoint = "/", .label = "feed", .mount_text = "", .cache = CACHE_ALWAYS,
		.spool_size = 32 << 20, .ready_fd = -1,
	} };
	struct options *o = &feed.fs.options;
	uint64_t operations = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	int err;

	log_set_program("feed");
	o->threads = argc > 3 ? (unsigned int)atoi(argv[3]) : 2;
	if (!operations || !o->threads || o->threads > 64) {
		fprintf(stderr, "usage: feed DB OPERATIONS [THREADS]\nRecords that many made-up operations into DB, and prints what"
				" that takes.\n");
		return 2;
	}
	o->db = argv[1];
	feed.files = operations / ARRAY_SIZE(life) / o->threads + 1;
	feed.fs.source_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	feed.fs.source_mounts = mountinfo_read();
	err = recorder_open(&feed.fs, &feed.fs.recorder);
	err = err ?: recorder_start(feed.fs.recorder);
	err = err ?: feed_all(&feed, o->threads);
	recorder_free(feed.fs.recorder);
	mountinfo_free(feed.fs.source_mounts);
	return err < 0;
}
