/* SPDX-License-Identifier: MIT */
/* The spool between a writer and a loader that are alive: publishing, limits, recycling, threads, a killed writer. */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define UUID "01234567-89ab-4cde-8f01-23456789abcd"
#define LIMIT (64u * SPOOL_SEGMENT_SIZE)

static struct spool *create(const struct scratch *scratch, uint64_t limit)
{
	struct spool *spool = NULL;

	assert_int_equal(spool_create(scratch->root, 1, UUID, limit, &spool), 0);
	return spool;
}

/* Reads everything unread; appends to `sb` when it is not NULL. Returns the number of records, or -EUCLEAN. */
static int drain(struct spool *spool, struct strbuf *sb)
{
	struct segment *list[256];
	size_t n = spool_segments(spool, list, ARRAY_SIZE(list));
	int count = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t end = segment_published(list[i]);
		struct spool_record record;
		int got;

		while ((got = segment_read(list[i], &list[i]->loaded, end, &record)) == 1) {
			count++;
			if (sb)
				strbuf_add(sb, record.data, record.size);
		}
		if (got < 0)
			return got;
		spool_recycle(spool, list[i]);
	}
	return count;
}

static void what_is_published_is_read(void **state)
{
	struct spool *spool = create(*state, LIMIT);
	struct spool_writer *writer = spool_writer_new(spool);
	static const size_t sizes[] = { 1, 7, 8, 9, 104, 4096, 100000 };
	struct segment *list[4];
	struct spool_record record;
	uint64_t offset = 0;

	assert_int_equal(spool_segments(spool, list, 4), 0);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		unsigned char *data = spool_reserve(writer, sizes[i]);

		assert_non_null(data);
		assert_int_equal((uintptr_t)data % 8, 0);
		memset(data, (int)i + 1, sizes[i]);
		spool_publish(writer, (enum record_kind)(1 + i % 4), sizes[i]);
	}
	assert_int_equal(spool_segments(spool, list, 4), 1);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		const unsigned char *data;

		assert_int_equal(segment_read(list[0], &offset, segment_published(list[0]), &record), 1);
		data = record.data;
		assert_int_equal(record.kind, 1 + i % 4);
		assert_int_equal(record.size, (sizes[i] + 7) / 8 * 8);
		for (size_t j = 0; j < record.size; j++) /* padding is zero, whatever the segment held before */
			assert_int_equal(data[j], j < sizes[i] ? i + 1 : 0);
	}
	assert_int_equal(segment_read(list[0], &offset, segment_published(list[0]), &record), 0);
	spool_writer_free(writer);
	spool_free(spool);
}

static void a_reservation_alone_is_nothing(void **state)
{
	struct spool *spool = create(*state, LIMIT);
	struct spool_writer *writer = spool_writer_new(spool);
	char *first = spool_reserve(writer, 100), *again = spool_reserve(writer, 100);

	assert_ptr_equal(first, again);
	memset(first, 'x', 100);
	assert_int_equal(drain(spool, NULL), 0);
	spool_publish(writer, RECORD_PATH, 100);
	assert_int_equal(drain(spool, NULL), 1);
	spool_writer_free(writer);
	spool_free(spool);
}

static void record_size_has_a_limit(void **state)
{
	struct spool *spool = create(*state, LIMIT);
	struct spool_writer *writer = spool_writer_new(spool);
	const size_t most = SPOOL_RECORD_MAX - 16; /* less the record's header */

	assert_null(spool_reserve(writer, SPOOL_RECORD_MAX));
	assert_null(spool_reserve(writer, most + 1));
	for (int i = 0; i < 20; i++) { /* crosses segments */
		char *data = spool_reserve(writer, most);

		assert_non_null(data);
		memset(data, i, most);
		spool_publish(writer, RECORD_PATH, most);
	}
	assert_int_equal(drain(spool, NULL), 20);
	spool_writer_free(writer);
	spool_free(spool);
}

/* At the limit a writer gets nothing; what it had published stays; loading makes room again. */
static void a_full_spool_refuses_and_recovers(void **state)
{
	struct scratch *scratch = *state;
	const uint64_t limit = 4 * SPOOL_SEGMENT_SIZE;
	struct spool *spool = create(scratch, limit);
	struct spool_writer *writer = spool_writer_new(spool);
	uint64_t written = 0;

	while (put_event(writer, written + 1)) {
		written++;
		assert_true(spool_used(spool) <= limit);
		assert_true(written < limit / 100);
	}
	assert_true(written > limit / 2 / (sizeof(struct event) + 16));
	assert_false(put_event(writer, 0));
	assert_int_equal(spool_limit(spool), limit);
	assert_int_equal(count_entries(spool_dir(spool), "segment-"), 4);
	assert_int_equal(drain(spool, NULL), written);
	assert_int_equal(spool_used(spool), 0);
	assert_true(put_event(writer, 1));
	assert_int_equal(drain(spool, NULL), 1);
	assert_int_equal(count_entries(spool_dir(spool), "segment-"), 4); /* no new file: recycled */
	spool_writer_free(writer);
	spool_free(spool);
}

/* Writers that have written little hold whole segments; what is to be loaded is little. */
static void only_records_count_as_unloaded(void **state)
{
	struct spool *spool = create(*state, LIMIT);
	struct spool_writer *writers[3];
	const uint64_t least = sizeof(struct event), most = 3 * (sizeof(struct event) + 512);

	assert_int_equal(spool_unloaded(spool), 0);
	for (size_t i = 0; i < ARRAY_SIZE(writers); i++) {
		writers[i] = spool_writer_new(spool);
		assert_true(put_event(writers[i], i + 1));
	}
	assert_int_equal(spool_used(spool), 3 * SPOOL_SEGMENT_SIZE);
	assert_in_range(spool_unloaded(spool), 3 * least, most);
	assert_int_equal(drain(spool, NULL), 3);
	assert_int_equal(spool_unloaded(spool), 0); /* though the writers keep their segments */
	assert_int_equal(spool_used(spool), 3 * SPOOL_SEGMENT_SIZE);
	assert_true(put_event(writers[1], 4));
	assert_in_range(spool_unloaded(spool), least, most);
	for (size_t i = 0; i < ARRAY_SIZE(writers); i++)
		spool_writer_free(writers[i]);
	assert_int_equal(drain(spool, NULL), 1);
	assert_int_equal(spool_unloaded(spool), 0);
	spool_free(spool);
}

static void a_small_limit_is_raised(void **state)
{
	struct spool *spool = create(*state, 1);

	assert_int_equal(spool_limit(spool), 4 * SPOOL_SEGMENT_SIZE);
	assert_int_equal(spool_prepare(spool, 100), 0);
	assert_int_equal(count_entries(spool_dir(spool), "segment-"), 4);
	assert_int_equal(spool_used(spool), 0);
	spool_free(spool);
}

static void recycling_starts_a_generation(void **state)
{
	struct spool *spool = create(*state, LIMIT);
	struct spool_writer *writer = spool_writer_new(spool);
	struct segment *list[4];
	struct spool_record record;
	uint64_t offset = 0;

	for (uint64_t generation = 1; generation < 6; generation++) {
		assert_true(put_event(writer, generation));
		assert_true(put_event(writer, generation + 100));
		assert_int_equal(spool_segments(spool, list, 4), 1);
		assert_int_equal(list[0]->generation, generation);
		spool_recycle(spool, list[0]); /* a writer has it: nothing happens */
		assert_int_equal(spool_segments(spool, list, 4), 1);
		spool_writer_free(writer);
		offset = 0;
		assert_int_equal(segment_read(list[0], &offset, segment_published(list[0]), &record), 1);
		assert_int_equal(((const struct event *)record.data)->seq, generation);
		list[0]->loaded = offset;
		spool_recycle(spool, list[0]); /* half of it is loaded: nothing happens */
		assert_int_equal(spool_segments(spool, list, 4), 1);
		assert_int_equal(drain(spool, NULL), 1);
		assert_int_equal(spool_segments(spool, list, 4), 0);
		writer = spool_writer_new(spool);
	}
	assert_int_equal(count_entries(spool_dir(spool), "segment-"), 1);
	spool_writer_free(writer);
	spool_free(spool);
}

static void a_burst_does_not_keep_its_files(void **state)
{
	struct spool *spool = create(*state, LIMIT);
	struct spool_writer *writer = spool_writer_new(spool);
	int before;

	for (uint64_t i = 0; i < 30 * (SPOOL_SEGMENT_SIZE / 120); i++)
		assert_true(put_event(writer, i + 1));
	before = count_entries(spool_dir(spool), "segment-");
	assert_true(before >= 29);
	assert_true(drain(spool, NULL) > 0);
	assert_true(count_entries(spool_dir(spool), "segment-") < before / 2);
	for (uint64_t i = 0; i < 30 * (SPOOL_SEGMENT_SIZE / 120); i++) /* new slots, not those that went */
		assert_true(put_event(writer, i + 1));
	assert_int_equal(drain(spool, NULL), 30 * (SPOOL_SEGMENT_SIZE / 120));
	spool_writer_free(writer);
	spool_free(spool);
}

static void *recycle_soon(void *arg)
{
	usleep(50000);
	assert_true(drain(arg, NULL) > 0);
	return NULL;
}

static void waiting_for_room(void **state)
{
	struct spool *spool = create(*state, 1);
	struct spool_writer *writer = spool_writer_new(spool);
	int64_t start = clock_ns(CLOCK_MONOTONIC);
	pthread_t thread;

	while (put_event(writer, 1))
		;
	assert_false(spool_wait_free(spool, 30000000));
	assert_true(clock_ns(CLOCK_MONOTONIC) - start >= 30000000);
	assert_int_equal(pthread_create(&thread, NULL, recycle_soon, spool), 0);
	assert_true(spool_wait_free(spool, 30 * NSEC_PER_SEC));
	assert_true(clock_ns(CLOCK_MONOTONIC) - start < 20 * NSEC_PER_SEC);
	pthread_join(thread, NULL);
	assert_true(put_event(writer, 1));
	spool_writer_free(writer);
	spool_free(spool);
}

static void files_are_private(void **state)
{
	struct scratch *scratch = *state;
	mode_t before = umask(0);
	struct spool *spool = create(scratch, LIMIT), *second = NULL;
	auto_free char *file = path_in(spool_dir(spool), "state");
	struct stat st;

	umask(before);
	assert_int_equal(stat(scratch->root, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(stat(spool_dir(spool), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(spool_create(scratch->root, 1, UUID, LIMIT, &second), -EEXIST);
	assert_null(second);
	assert_int_equal(spool_create(scratch->root, 2, UUID, LIMIT, &second), 0);
	assert_int_equal(spool_remove(second), 0);
	spool_free(second);
	assert_int_equal(count_entries(scratch->root, "run-"), 1);
	assert_int_equal(spool_remove(spool), 0);
	spool_free(spool);
	assert_int_equal(count_entries(scratch->root, ""), -1); /* the last run takes the root along */
}

#define THREADS 4
#define EACH 40000u

struct crowd {
	struct spool *spool;
	atomic_uint next;
	atomic_int running;
};

static void *crowd_writer(void *arg)
{
	struct crowd *crowd = arg;
	struct spool_writer *writer = spool_writer_new(crowd->spool);
	uint64_t base = atomic_fetch_add(&crowd->next, 1) * (uint64_t)EACH;

	for (uint64_t i = 0; i < EACH; i++)
		while (!put_event(writer, base + i))
			spool_wait_free(crowd->spool, 1000000);
	spool_writer_free(writer);
	atomic_fetch_sub(&crowd->running, 1);
	return NULL;
}

/* Several writers through a spool that is much too small, against one loader: each record once, none torn. */
static void many_writers_one_loader(void **state)
{
	struct crowd crowd = { .spool = create(*state, 8 * SPOOL_SEGMENT_SIZE), .running = THREADS };
	unsigned char *seen = calloc(THREADS, EACH);
	struct strbuf auto_strbuf sb = {};
	pthread_t threads[THREADS];
	bool more = true;

	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, crowd_writer, &crowd), 0);
	while (more) {
		more = atomic_load(&crowd.running) > 0; /* before the last look, or its records could be missed */
		sb.len = 0;
		assert_true(drain(crowd.spool, &sb) >= 0);
		for (size_t at = 0; at < sb.len; at += sizeof(struct event)) {
			uint64_t seq = ((const struct event *)(sb.buf + at))->seq;

			assert_in_range(seq, 0, THREADS * EACH - 1);
			assert_int_equal(seen[seq]++, 0);
		}
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_null(memchr(seen, 0, THREADS * EACH));
	free(seen);
	spool_free(crowd.spool);
}

struct start {
	struct spool *spool;
	pthread_barrier_t barrier;
	atomic_uint refused;
};

static void *one_record(void *arg)
{
	struct start *start = arg;
	struct spool_writer *writer = spool_writer_new(start->spool);

	pthread_barrier_wait(&start->barrier);
	if (!put_event(writer, 1))
		atomic_fetch_add(&start->refused, 1);
	spool_writer_free(writer);
	return NULL;
}

/* There is a segment for each, so none may hear that the spool is full, whoever gets what another has made. */
static void writers_that_start_together_all_get_room(void **state)
{
	struct start start = {};
	pthread_t threads[8];

	pthread_barrier_init(&start.barrier, NULL, ARRAY_SIZE(threads));
	for (int round = 0; round < 100; round++) {
		start.spool = create(*state, ARRAY_SIZE(threads) * SPOOL_SEGMENT_SIZE);
		for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
			assert_int_equal(pthread_create(&threads[i], NULL, one_record, &start), 0);
		for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
			pthread_join(threads[i], NULL);
		assert_int_equal(atomic_load(&start.refused), 0);
		assert_int_equal(drain(start.spool, NULL), ARRAY_SIZE(threads));
		assert_int_equal(spool_remove(start.spool), 0);
		spool_free(start.spool);
	}
	pthread_barrier_destroy(&start.barrier);
}

/* Publishes for ever; tells through shared memory what it has published. */
static void doomed_writer(const struct scratch *scratch, atomic_ullong *acknowledged)
{
	struct spool *spool = create(scratch, LIMIT);
	struct spool_writer *writer = spool_writer_new(spool);

	for (uint64_t seq = 1;; seq++) {
		if (!put_event(writer, seq))
			pause();
		atomic_store(acknowledged, seq);
	}
}

static void kill_and_count(const struct scratch *scratch, atomic_ullong *acknowledged, useconds_t delay)
{
	auto_free char *dir = path_in(scratch->root, "run-1");
	struct strbuf auto_strbuf sb = {};
	struct spool *spool = NULL;
	uint64_t sum = 0;
	int status, count;
	pid_t pid = fork();

	if (pid == 0)
		doomed_writer(scratch, acknowledged);
	while (atomic_load(acknowledged) == 0)
		sched_yield();
	usleep(delay);
	assert_int_equal(spool_open(dir, &spool), -EWOULDBLOCK); /* the recorder is alive */
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(spool_open(dir, &spool), 0);
	count = drain(spool, &sb);
	assert_true(count >= (int)atomic_load(acknowledged));
	assert_true(count <= (int)atomic_load(acknowledged) + 1); /* published, and killed before it could say so */
	for (size_t at = 0; at < sb.len; at += sizeof(struct event))
		sum += ((const struct event *)(sb.buf + at))->seq;
	assert_int_equal(sum, (uint64_t)count * ((uint64_t)count + 1) / 2);
	assert_int_equal(spool_remove(spool), 0);
	spool_free(spool);
}

static void a_killed_writer_loses_nothing_published(void **state)
{
	atomic_ullong *acknowledged = mmap(NULL, sizeof(*acknowledged), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(acknowledged != MAP_FAILED);
	for (unsigned int round = 0; round < 25; round++) {
		atomic_store(acknowledged, 0);
		kill_and_count(*state, acknowledged, round * 397 % 5000);
	}
	munmap(acknowledged, sizeof(*acknowledged));
}

/* In a child with mounts of its own. Exit status 0: as it should be; 77: no mounting here; else the failed check. */
static int full_disk_child(const char *dir)
{
	auto_free char *root = path_in(dir, "spool");
	struct spool *spool;
	struct spool_writer *writer;
	uint64_t written = 0;

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("none", dir, "tmpfs", 0, "size=3500k") < 0)
		return 77;
	if (spool_create(root, 1, UUID, LIMIT, &spool) < 0)
		return 1;
	if (spool_prepare(spool, 10) != -ENOSPC)
		return 2;
	if (count_entries(spool_dir(spool), "segment-") != 3) /* no half-made fourth */
		return 3;
	writer = spool_writer_new(spool);
	while (put_event(writer, written + 1))
		written++;
	if (written < 3 * (SPOOL_SEGMENT_SIZE / 128))
		return 4;
	if (drain(spool, NULL) != (int)written)
		return 5;
	return put_event(writer, 1) ? 0 : 6;
}

static void a_full_disk_is_an_error_and_no_signal(void **state)
{
	struct scratch *scratch = *state;
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(full_disk_child(scratch->dir));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		print_message("skipped: a small file system cannot be mounted without root\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

static long minor_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

/* Where the scratch directory is on a disk: on tmpfs there are none in any case. */
static void writing_takes_no_page_faults(void **state)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool can_be_avoided = madvise(page, 4096, MADV_POPULATE_WRITE) == 0;
	struct spool *spool = create(*state, LIMIT);
	struct spool_writer *writer = spool_writer_new(spool);
	long before;

	munmap(page, 4096);
	assert_int_equal(spool_prepare(spool, 1), 0);
	assert_true(put_event(writer, 1)); /* what is touched for the first time */
	before = minor_faults();
	for (uint64_t seq = 2; seq < 7000; seq++) /* less than a segment */
		put_event(writer, seq);
	if (can_be_avoided)
		assert_in_range(minor_faults() - before, 0, 100);
	spool_writer_free(writer);
	spool_remove(spool);
	spool_free(spool);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		scratch_test(what_is_published_is_read),
		scratch_test(a_reservation_alone_is_nothing),
		scratch_test(record_size_has_a_limit),
		scratch_test(a_full_spool_refuses_and_recovers),
		scratch_test(only_records_count_as_unloaded),
		scratch_test(a_small_limit_is_raised),
		scratch_test(recycling_starts_a_generation),
		scratch_test(a_burst_does_not_keep_its_files),
		scratch_test(waiting_for_room),
		scratch_test(files_are_private),
		scratch_test(writing_takes_no_page_faults),
		scratch_test(many_writers_one_loader),
		scratch_test(writers_that_start_together_all_get_room),
		scratch_test(a_killed_writer_loses_nothing_published),
		scratch_test(a_full_disk_is_an_error_and_no_signal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
