/* SPDX-License-Identifier: MIT */
/* Start states: made as recorded, and what hostile recordings ask for refused with nothing outside TARGET touched. */
#include "unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "beneath.h"
#include "content.h"
#include "start_state.h"

#define T 1500000000000000007 /* ns */

static const struct start_options plain = { .mode = START_BUILD, .filler = { .seed = 1, .compressible = 50 } };

struct box {
	struct trace *trace;
	char *target, *outside;
	int fd;
	uint32_t paths;
};

/* `number`: of the box in this test. */
static void box_open(struct scratch *scratch, int number, struct box *box)
{
	auto_free char *top = NULL, *db = NULL;
	int64_t run;

	assert_true(asprintf(&top, "%s/box%d", scratch->dir, number) > 0);
	assert_int_equal(mkdir(top, 0755), 0);
	*box = (struct box){ .target = path_in(top, "target"), .outside = path_in(top, "outside") };
	db = path_in(top, "t.db");
	assert_int_equal(mkdir(box->target, 0755), 0);
	assert_int_equal(mkdir(box->outside, 0755), 0);
	assert_int_equal(trace_open(db, TRACE_CREATE, &box->trace), 0);
	assert_int_equal(trace_run_create(box->trace, "start", &run), 0);
	assert_int_equal(beneath_root(box->target, true, &box->fd), 0);
}

static void box_close(struct box *box)
{
	trace_close(box->trace);
	close(box->fd);
	assert_int_equal(count_entries(box->outside, ""), 0);
	free(box->target);
	free(box->outside);
}

/* A row of `initial`; the id of its path. */
static uint32_t add(struct box *box, const char *path, struct initial_record initial, const char *target)
{
	struct path_record record = { .id = ++box->paths, .text_len = (uint32_t)strlen(path) };

	initial.path = box->paths;
	initial.mtime_ns = initial.mtime_ns ?: T;
	initial.ino = initial.ino ?: box->paths + 1000;
	initial.node = initial.node ?: box->paths;
	initial.target_len = target ? (uint32_t)strlen(target) : 0;
	if (!initial.blocks)
		initial.blocks = (uint64_t)(initial.size + 511) / 512;
	assert_int_equal(trace_add_path(box->trace, 1, &record, path), 0);
	assert_int_equal(trace_add_initial(box->trace, 1, &initial, target), 0);
	return box->paths;
}

#define DIR_ROW(bits)       ((struct initial_record){ .mode = S_IFDIR | (bits) })
#define FILE_ROW(bits, ...) ((struct initial_record){ .mode = S_IFREG | (bits), __VA_ARGS__ })

static struct stat stat_of(const struct box *box, const char *path)
{
	struct stat st;

	if (fstatat(box->fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		fail_msg("%s: %s", path, strerror(errno));
	return st;
}

static int build(struct scratch *scratch, struct box *box, const struct start_options *options,
	struct start_result *ret_result, char **ret_messages)
{
	int err;

	capture_begin(scratch);
	err = start_state_build(box->trace, 1, box->fd, "TARGET", options, NULL, ret_result);
	*ret_messages = capture_end(scratch);
	return err;
}

static void a_tree_is_made_again(void **state)
{
	struct box box;
	struct start_result result;
	auto_free char *said = NULL;
	char link[16] = "";
	struct stat st;

	box_open(*state, 0, &box);
	add(&box, "", DIR_ROW(0711), NULL);
	add(&box, "d/e/f", FILE_ROW(0440, .size = 100000, .ino = 7, .nlink = 2), NULL);
	add(&box, "d", DIR_ROW(0555), NULL);
	add(&box, "d/e", DIR_ROW(01777), NULL);
	add(&box, "d-", FILE_ROW(0644), NULL);
	add(&box, "g", FILE_ROW(0440, .size = 100000, .ino = 7, .nlink = 2), NULL);
	add(&box, "hole", FILE_ROW(0644, .size = 1ll << 40, .blocks = 8), NULL);
	add(&box, "l", (struct initial_record){ .mode = S_IFLNK | 0777, .size = 9 }, "/no/where");
	add(&box, "pipe\n\xff", (struct initial_record){ .mode = S_IFIFO | 0620 }, NULL);
	add(&box, "lost/its/row", FILE_ROW(0644, .size = 3, .mtime_ns = -1), NULL);
	assert_int_equal(build(*state, &box, &plain, &result, &said), 0);
	assert_string_equal(said, "");
	st = stat_of(&box, "d/e/f");
	assert_int_equal(st.st_size, 100000);
	assert_int_equal(st.st_mode, S_IFREG | 0440);
	assert_int_equal(timespec_ns(st.st_mtim), T);
	assert_int_equal(st.st_nlink, 2);
	assert_int_equal(st.st_ino, stat_of(&box, "g").st_ino);
	st = stat_of(&box, "d");
	assert_int_equal(st.st_mode, S_IFDIR | 0555);
	assert_int_equal(timespec_ns(st.st_mtim), T);
	assert_int_equal(stat_of(&box, "d/e").st_mode, S_IFDIR | 01777);
	assert_int_equal(stat_of(&box, ".").st_mode, S_IFDIR | 0711);
	assert_int_equal(stat_of(&box, ".").st_mtim.tv_nsec, 7);
	st = stat_of(&box, "hole");
	assert_int_equal(st.st_size, 1ll << 40);
	assert_in_range(st.st_blocks, 1, 1000);
	assert_int_equal(readlinkat(box.fd, "l", link, sizeof(link)), 9);
	assert_string_equal(link, "/no/where");
	assert_int_equal(stat_of(&box, "l").st_mtim.tv_nsec, 7);
	assert_int_equal(stat_of(&box, "pipe\n\xff").st_mode, S_IFIFO | 0620);
	st = stat_of(&box, "lost/its/row");
	assert_int_equal(st.st_mtim.tv_sec, -1);
	assert_int_equal(st.st_mtim.tv_nsec, NSEC_PER_SEC - 1);
	assert_int_equal(result.dirs, 2);
	assert_int_equal(result.files, 4);
	assert_int_equal(result.links, 1);
	assert_int_equal(result.symlinks, 1);
	assert_int_equal(result.others, 1);
	assert_int_equal(result.bytes, 100000 + 4096 + 3);
	box_close(&box);
}

static void contents_are_made_of_what_there_is(void **state)
{
	struct box box;
	struct start_result result;
	auto_free char *said = NULL, *path = NULL;
	size_t len;
	uint32_t file;
	struct data_record data = { .seq = 5, .offset = 6, .length = 5 };
	struct event event = { .seq = 5, .op = OP_read, .node = 77, .result = 5, .process = 1 };
	struct event later = { .seq = 6, .op = OP_read, .node = 78, .result = 5, .process = 1 };
	struct content_hash hash;
	char sql[200];

	box_open(*state, 0, &box);
	add(&box, "a", FILE_ROW(0644, .size = 12, .node = 77, .ino = 9), NULL);
	file = add(&box, "f", FILE_ROW(0644, .size = 12, .node = 77, .ino = 9), NULL); /* its contents are under this name */
	add(&box, "made", FILE_ROW(0644, .size = 5000), NULL);
	content_hash("hello after the run", 19, &hash);
	assert_int_equal(trace_add_content(box.trace, &hash, "hello after the run", 19), 0);
	snprintf(sql, sizeof(sql), "INSERT INTO initial_data SELECT 1, %u, 0, 19, hash FROM content", file);
	assert_int_equal(trace_exec(box.trace, sql), 0);
	content_hash("world", 5, &data.hash);
	assert_int_equal(trace_add_content(box.trace, &data.hash, "world", 5), 0);
	assert_int_equal(trace_add_data(box.trace, 1, &data), 0);
	assert_int_equal(trace_add_event(box.trace, 1, &event, NULL), 0);
	/* by another number of the same inode, after the run had written: the earlier counts */
	data.seq = 6;
	content_hash("WRONG", 5, &data.hash);
	assert_int_equal(trace_add_content(box.trace, &data.hash, "WRONG", 5), 0);
	assert_int_equal(trace_add_data(box.trace, 1, &data), 0);
	assert_int_equal(trace_add_event(box.trace, 1, &later, NULL), 0);
	assert_int_equal(trace_exec(box.trace, "INSERT INTO node_alias VALUES (1, 78, 77, 0, 9)"), 0);
	assert_int_equal(build(*state, &box, &plain, &result, &said), 0);
	path = path_in(box.target, "f");
	free(said);
	said = slurp(path, &len);
	assert_int_equal(len, 12);
	assert_memory_equal(said, "hello world ", 12);
	assert_int_equal(result.recorded_bytes, 12 + 5 + 5);
	assert_int_equal(stat_of(&box, "made").st_size, 5000);
	box_close(&box);
}

static void set_ids_and_devices_are_for_those_who_ask(void **state)
{
	struct start_options trusting = plain;

	if (geteuid() != 0)
		skip();
	for (int i = 0; i < 2; i++) {
		struct box box;
		struct start_result result;
		auto_free char *said = NULL;
		char value[8];

		box_open(*state, i, &box);
		add(&box, "s", FILE_ROW(06755), NULL);
		add(&box, "d", DIR_ROW(02755), NULL);
		add(&box, "null", (struct initial_record){ .mode = S_IFCHR | 0666, .rdev = 0x103 }, NULL);
		assert_int_equal(trace_exec(box.trace, "INSERT INTO initial_xattr VALUES (1, 1, 'trusted.t', x'01'),"
						       " (1, 1, 'user.u', x'0203')"), 0);
		trusting.allow_devices = trusting.allow_setid = i;
		assert_int_equal(build(*state, &box, &trusting, &result, &said), 0);
		assert_int_equal(stat_of(&box, "s").st_mode, S_IFREG | (i ? 06755 : 0755));
		assert_int_equal(stat_of(&box, "d").st_mode, S_IFDIR | 02755);
		assert_int_equal(faccessat(box.fd, "null", F_OK, 0), i ? 0 : -1);
		assert_int_equal(result.setid_left_out, !i);
		assert_int_equal(result.devices_left_out, !i);
		assert_int_equal(result.xattrs_left_out, !i);
		if (!result.xattrs_failed)
			assert_int_equal(lgetxattr(beneath_at(box.fd, "s").text, "user.u", value, sizeof(value)), 2);
		box_close(&box);
	}
}

/* A path that leads nowhere good, or a row that no recorder writes: -errno, words, and nothing made outside. */
static void the_hostile_are_refused(void **state)
{
	auto_free char *deep = malloc(2000000);
	struct { const char *path; struct initial_record row; const char *words; } cases[] = {
		{ "../outside/x", FILE_ROW(0644), "refused" },
		{ "/tmp/fstape-start-state", FILE_ROW(0644), "refused" },
		{ "a/../../outside/x", FILE_ROW(0644), "refused" },
		{ ".", FILE_ROW(0644), "refused" },
		{ "a//b", FILE_ROW(0644), "refused" },
		{ "out/x", FILE_ROW(0644), "cannot reach" }, /* through the symlink that the recording has as well */
		{ "big", FILE_ROW(0644, .size = 1ll << 62), "refused" },
		{ "negative", FILE_ROW(0644, .size = -1), "refused" },
		{ "big", FILE_ROW(0644, .size = 1ll << 49), "more than the limit" },
		{ "big", FILE_ROW(0644, .size = 1ll << 49, .blocks = ~0ull), "more than the limit" },
		{ "odd", { .mode = 0170000 }, "refused" },
		{ "link", { .mode = S_IFLNK | 0777 }, "refused" },
		{ deep, FILE_ROW(0644), "refused" },
	};

	for (int i = 0; i < 1000000; i++)
		memcpy(deep + 2 * i, i < 999999 ? "d/" : "d", 2);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct start_result result;
		auto_free char *said = NULL;
		struct box box;

		box_open(*state, (int)i, &box);
		add(&box, "out", (struct initial_record){ .mode = S_IFLNK | 0777 }, "../outside");
		add(&box, cases[i].path, cases[i].row, NULL);
		if (build(*state, &box, &plain, &result, &said) >= 0 || !strstr(said, cases[i].words))
			fail_msg("%.40s: not refused: %s", cases[i].path, said);
		unlinkat(box.fd, "out", 0); /* "out" may have been made before "out/x" was refused */
		assert_int_equal(count_entries(box.target, ""), 0);
		box_close(&box);
	}
	assert_int_equal(access("/tmp/fstape-start-state", F_OK), -1);
}

/* Two rows of one path: the second finds the first in its way. */
static void a_path_twice_is_an_error(void **state)
{
	auto_free char *said = NULL;
	struct start_result result;
	struct box box;

	box_open(*state, 0, &box);
	add(&box, "a", FILE_ROW(0644), NULL);
	add(&box, "a", FILE_ROW(0600), NULL);
	assert_int_equal(build(*state, &box, &plain, &result, &said), -EEXIST);
	assert_non_null(strstr(said, "TARGET: start state: \"a\": cannot be made: File exists"));
	box_close(&box);
}

static void limits_hold(void **state)
{
	struct start_options options = plain;
	struct start_result result;
	auto_free char *said = NULL, *again = NULL;
	uint64_t objects, bytes;
	struct box box;

	box_open(*state, 0, &box);
	add(&box, "a", FILE_ROW(0644, .size = 600000, .ino = 5, .nlink = 2), NULL);
	add(&box, "b", FILE_ROW(0644, .size = 600000, .ino = 5, .nlink = 2), NULL);
	add(&box, "c", FILE_ROW(0644, .size = 600000), NULL);
	assert_int_equal(start_state_size(box.trace, 1, &objects, &bytes), 0);
	assert_int_equal(objects, 3);
	assert_int_equal(bytes, 1200000);
	options.max_bytes = 1199999;
	assert_int_equal(build(*state, &box, &options, &result, &said), -EDQUOT);
	assert_non_null(strstr(said, "1172 KiB"));
	options.max_bytes = 0;
	options.max_objects = 2;
	assert_int_equal(build(*state, &box, &options, &result, &again), -EDQUOT);
	assert_non_null(strstr(again, "3 objects, more than the limit of 2"));
	assert_int_equal(count_entries(box.target, ""), 0);
	options.max_objects = 3;
	options.max_bytes = 1200000;
	free(again);
	assert_int_equal(build(*state, &box, &options, &result, &again), 0);
	box_close(&box);
}

static void other_modes_make_nothing(void **state)
{
	struct start_options options = plain;
	struct start_result result;
	auto_free char *said = NULL;
	struct box box;

	box_open(*state, 0, &box);
	add(&box, "a", FILE_ROW(0644), NULL);
	options.mode = START_KEEP;
	assert_int_equal(build(*state, &box, &options, &result, &said), 0);
	assert_int_equal(count_entries(box.target, ""), 0);
	box_close(&box);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(a_tree_is_made_again),
		scratch_test(contents_are_made_of_what_there_is),
		scratch_test(set_ids_and_devices_are_for_those_who_ask),
		scratch_test(the_hostile_are_refused),
		scratch_test(a_path_twice_is_an_error),
		scratch_test(limits_hold),
		scratch_test(other_modes_make_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
