/* SPDX-License-Identifier: MIT */
/* Spools that are not as a recorder wrote them: torn and corrupt records, foreign, cut off and missing files. */
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define UUID "01234567-89ab-4cde-8f01-23456789abcd"
#define OTHER_UUID "ffffffff-89ab-4cde-8f01-23456789abcd"

/* The format on disk, on purpose not taken from spool.c: a change of it must change SPOOL_VERSION and this. */
enum { AT_VERSION = 8, AT_SLOT = 12, AT_RUN = 16, AT_UUID = 24, AT_GENERATION = 64, AT_PUBLISHED = 72,
	AT_RECORDS = 4096, RECORD_SIZE = 16 + sizeof(struct event) };

static void poke(const char *path, off_t offset, const void *data, size_t len)
{
	int auto_close fd = open(path, O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, data, len, offset), len);
}

/* A spool with one segment of `count` events, whose recorder is dead. The segment's file name is to be freed. */
static char *dead_spool(const struct scratch *scratch, int64_t run, const char *uuid, int count)
{
	struct spool_writer *writer;
	struct spool *spool;
	char *path;

	assert_int_equal(spool_create(scratch->root, run, uuid, 1, &spool), 0);
	writer = spool_writer_new(spool);
	for (int i = 1; i <= count; i++)
		assert_true(put_event(writer, (uint64_t)i));
	path = path_in(spool_dir(spool), "segment-000000");
	spool_writer_free(writer);
	spool_free(spool);
	assert_int_equal(access(path, F_OK), 0);
	return path;
}

/* Opens run 1 and reads its only segment. Records that are whole, with how the reading ended in *ret_end. */
static int read_run(const struct scratch *scratch, int *ret_end)
{
	auto_free char *dir = path_in(scratch->root, "run-1");
	struct spool_record record;
	struct segment *list[4];
	struct spool *spool;
	uint64_t offset = 0;
	int count = 0, got;

	assert_int_equal(spool_open(dir, &spool), 0);
	assert_int_equal(spool_segments(spool, list, 4), 1);
	while ((got = segment_read(list[0], &offset, segment_published(list[0]), &record)) == 1)
		count++;
	*ret_end = got;
	spool_free(spool);
	return count;
}

static void a_whole_spool_reads_to_its_end(void **state)
{
	int end;

	free(dead_spool(*state, 1, UUID, 10));
	assert_int_equal(read_run(*state, &end), 10);
	assert_int_equal(end, 0);
}

/* A changed bit anywhere in a record, header or payload, ends the reading before it. */
static void corrupt_records_are_noticed(void **state)
{
	auto_free char *segment = dead_spool(*state, 1, UUID, 3);
	const off_t second = AT_RECORDS + RECORD_SIZE;
	auto_free char *whole = slurp(segment, NULL);

	for (off_t i = 0; i < RECORD_SIZE; i++) {
		char flipped = whole[second + i] ^ 0x10;
		int end, count;

		poke(segment, second + i, &flipped, 1);
		count = read_run(*state, &end);
		if (i >= 12 && i < 16) { /* reserved bytes mean nothing */
			assert_int_equal(count, 3);
		} else {
			assert_int_equal(count, 1);
			assert_int_equal(end, -EUCLEAN);
		}
		poke(segment, second + i, &whole[second + i], 1);
	}
}

static void impossible_sizes_are_noticed(void **state)
{
	auto_free char *segment = dead_spool(*state, 1, UUID, 3);
	static const uint32_t sizes[] = { 0, 1, 8, 15, RECORD_SIZE + 1, 3 * RECORD_SIZE, SPOOL_SEGMENT_SIZE,
		0x80000000u, UINT32_MAX, UINT32_MAX - 7 };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		int end;

		poke(segment, AT_RECORDS + RECORD_SIZE, &sizes[i], sizeof(sizes[i]));
		assert_int_equal(read_run(*state, &end), 1);
		assert_int_equal(end, -EUCLEAN);
	}
}

static void published_too_far_reads_no_nonsense(void **state)
{
	auto_free char *segment = dead_spool(*state, 1, UUID, 3);
	static const uint64_t lengths[] = { 3 * RECORD_SIZE + 8, 4 * RECORD_SIZE, SPOOL_SEGMENT_SIZE, UINT64_MAX };

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		int end;

		poke(segment, AT_PUBLISHED, &lengths[i], sizeof(lengths[i]));
		assert_int_equal(read_run(*state, &end), 3);
		assert_int_equal(end, -EUCLEAN);
	}
}

/* Records of a former generation lie behind the new ones; a wrong length must not bring them back. */
static void a_former_generation_is_not_read(void **state)
{
	auto_free char *segment = dead_spool(*state, 1, UUID, 3);
	int end;

	poke(segment, AT_GENERATION, &(uint64_t){ 2 }, sizeof(uint64_t));
	assert_int_equal(read_run(*state, &end), 0);
	assert_int_equal(end, -EUCLEAN);
}

static void expect_left_out(const struct scratch *scratch, const char *why)
{
	auto_free char *dir = path_in(scratch->root, "run-1");
	struct scratch messages = *scratch;
	auto_free char *text = NULL;
	struct segment *list[4];
	struct spool *spool = NULL;
	int err;

	capture_begin(&messages);
	err = spool_open(dir, &spool);
	text = capture_end(&messages);
	if (err != 0 || spool_segments(spool, list, 4) != 1)
		fail_msg("%s: open gave %d", why, err);
	assert_non_null(strstr(text, "1 spool segments are damaged or foreign, and left out"));
	spool_free(spool);
}

/* Whoever made it was killed before it was ready: no damage, and nothing to tell. */
static void half_made_segments_are_nothing(void **state)
{
	struct scratch *scratch = *state;
	auto_free char *segment = dead_spool(scratch, 1, UUID, 3);
	auto_free char *dir = path_in(scratch->root, "run-1");
	auto_free char *other = path_in(dir, "segment-000007");
	static const size_t sizes[] = { 0, 4096, SPOOL_SEGMENT_SIZE };
	auto_free char *zeros = calloc(1, SPOOL_SEGMENT_SIZE);

	assert_non_null(segment);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		auto_free char *text = NULL;
		struct segment *list[4];
		struct spool *spool = NULL;

		write_file(other, zeros, sizes[i]);
		capture_begin(scratch);
		assert_int_equal(spool_open(dir, &spool), 0);
		text = capture_end(scratch);
		assert_string_equal(text, "");
		assert_int_equal(spool_segments(spool, list, 4), 1);
		if (sizes[i] != SPOOL_SEGMENT_SIZE) {
			spool_free(spool);
			continue;
		}
		assert_int_equal(spool_remove(spool), 0); /* they go with the rest */
		assert_int_equal(access(dir, F_OK), -1);
		spool_free(spool);
	}
}

/* One good segment and one that is not this spool's, in several ways. */
static void foreign_segments_are_left_out(void **state)
{
	struct scratch *scratch = *state;
	auto_free char *segment = dead_spool(scratch, 1, UUID, 3);
	auto_free char *dir = path_in(scratch->root, "run-1");
	auto_free char *other = path_in(dir, "segment-000007");
	size_t len;
	auto_free char *bytes = slurp(segment, &len);

	assert_int_equal(len, SPOOL_SEGMENT_SIZE);
	write_file(other, bytes, len - 1);
	expect_left_out(scratch, "cut off");
	write_file(other, bytes, len);
	poke(other, 0, "fstapeXX", 8);
	expect_left_out(scratch, "magic");
	write_file(other, bytes, len);
	poke(other, AT_VERSION, &(uint32_t){ SPOOL_VERSION + 1 }, 4);
	expect_left_out(scratch, "version");
	write_file(other, bytes, len);
	poke(other, AT_RUN, &(int64_t){ 2 }, 8);
	expect_left_out(scratch, "run");
	write_file(other, bytes, len);
	poke(other, AT_UUID, OTHER_UUID, SPOOL_UUID_LEN);
	expect_left_out(scratch, "uuid");
	unlink(other);
	assert_int_equal(symlink(segment, other), 0);
	expect_left_out(scratch, "symlink");
}

static void expect_open(const struct scratch *scratch, int expected)
{
	auto_free char *dir = path_in(scratch->root, "run-1");
	struct spool *spool = NULL;

	assert_int_equal(spool_open(dir, &spool), expected);
	if (expected < 0)
		assert_null(spool);
	spool_free(spool);
}

static void a_state_of_another_kind_is_refused(void **state)
{
	struct scratch *scratch = *state;
	auto_free char *file = path_in(scratch->root, "run-1/state");
	auto_free char *bytes = NULL;
	size_t len;

	free(dead_spool(scratch, 1, UUID, 3));
	bytes = slurp(file, &len);
	assert_int_equal(len, sizeof(struct spool_state));
	expect_open(scratch, 0);
	poke(file, 0, "SQLite f", 8);
	expect_open(scratch, -EUCLEAN);
	write_file(file, bytes, len);
	poke(file, 8, &(uint32_t){ SPOOL_VERSION + 1 }, 4);
	expect_open(scratch, -EUCLEAN);
	write_file(file, bytes, len - 1);
	expect_open(scratch, -EUCLEAN);
	write_file(file, bytes, 0);
	expect_open(scratch, -EUCLEAN);
	write_file(file, bytes, len);
	expect_open(scratch, 0);
	unlink(file);
	expect_open(scratch, -ENOENT);
}

static void what_is_no_spool_is_refused(void **state)
{
	struct scratch *scratch = *state;
	auto_free char *file = path_in(scratch->dir, "file");
	struct spool *spool = NULL;

	write_file(file, "x", 1);
	assert_int_equal(spool_open(scratch->root, &spool), -ENOENT);
	assert_int_equal(spool_open(file, &spool), -ENOTDIR);
	assert_int_equal(spool_create(file, 1, UUID, 1, &spool), -ENOTDIR);
	assert_null(spool);
}

/* One recovery at a time: the second is told so, and after the first has removed everything there is nothing. */
static void the_lock_lets_one_in(void **state)
{
	struct scratch *scratch = *state;
	auto_free char *dir = path_in(scratch->root, "run-1");
	struct spool *first;

	free(dead_spool(scratch, 1, UUID, 3));
	assert_int_equal(spool_open(dir, &first), 0);
	expect_open(scratch, -EWOULDBLOCK);
	assert_int_equal(spool_remove(first), 0);
	expect_open(scratch, -ENOENT);
	spool_free(first);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		scratch_test(a_whole_spool_reads_to_its_end),
		scratch_test(corrupt_records_are_noticed),
		scratch_test(impossible_sizes_are_noticed),
		scratch_test(published_too_far_reads_no_nonsense),
		scratch_test(a_former_generation_is_not_read),
		scratch_test(half_made_segments_are_nothing),
		scratch_test(foreign_segments_are_left_out),
		scratch_test(a_state_of_another_kind_is_refused),
		scratch_test(what_is_no_spool_is_refused),
		scratch_test(the_lock_lets_one_in),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
