/* SPDX-License-Identifier: MIT */
/* base.c: growing strings, JSON strings, errno names, messages, files of unknown size. */
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void strbuf_grows_and_stays_terminated(void **state)
{
	struct strbuf auto_strbuf sb = {};

	(void)state;
	for (int i = 0; i < 10000; i++) {
		strbuf_addf(&sb, "%d,", i % 10);
		assert_int_equal(sb.len, 2 * (i + 1));
		assert_int_equal(sb.buf[sb.len], '\0');
		assert_true(sb.size > sb.len);
	}
	assert_memory_equal(sb.buf, "0,1,2,3,", 8);
	assert_false(sb.failed);
}

static void strbuf_takes_nothing_and_nul(void **state)
{
	struct strbuf auto_strbuf sb = {};

	(void)state;
	strbuf_add(&sb, NULL, 0);
	assert_non_null(sb.buf);
	assert_string_equal(sb.buf, "");
	strbuf_add(&sb, "a\0b", 3);
	assert_int_equal(sb.len, 3);
	assert_memory_equal(sb.buf, "a\0b", 4);
}

static void strbuf_failure_sticks(void **state)
{
	struct strbuf auto_strbuf sb = {};

	(void)state;
	strbuf_add(&sb, "kept", 4);
	sb.failed = true;
	strbuf_add(&sb, "lost", 4);
	strbuf_addf(&sb, "%s", "lost");
	assert_int_equal(sb.len, 4);
	assert_string_equal(sb.buf, "kept");
}

static void json_strings(void **state)
{
#define BAD "\xef\xbf\xbd"
	static const struct { const char *in; size_t len; const char *out; } cases[] = {
		{ "", 0, "\"\"" },
		{ "plain", 5, "\"plain\"" },
		{ "q\"b\\s/", 6, "\"q\\\"b\\\\s/\"" },
		{ "\n\t\r\x01\x1f\x7f", 6, "\"\\u000a\\u0009\\u000d\\u0001\\u001f\\u007f\"" },
		{ "a\0b", 3, "\"a\\u0000b\"" },
		{ "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 9, "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"" },
		{ "\x80", 1, "\"" BAD "\"" },				/* a continuation alone */
		{ "a\xff\xfe" "b", 4, "\"a" BAD BAD "b\"" },
		{ "\xc0\xaf", 2, "\"" BAD BAD "\"" },			/* overlong '/' */
		{ "\xe0\x80\xaf", 3, "\"" BAD BAD BAD "\"" },		/* overlong, three bytes */
		{ "\xf0\x80\x80\xaf", 4, "\"" BAD BAD BAD BAD "\"" },	/* overlong, four bytes */
		{ "\xed\xa0\x80", 3, "\"" BAD BAD BAD "\"" },		/* a surrogate */
		{ "\xf4\x90\x80\x80", 4, "\"" BAD BAD BAD BAD "\"" },	/* above U+10FFFF */
		{ "\xf4\x8f\xbf\xbf", 4, "\"\xf4\x8f\xbf\xbf\"" },	/* U+10FFFF itself */
		{ "\xe2\x82", 2, "\"" BAD BAD "\"" },			/* cut off at the end */
		{ "\xe2\x82\"", 3, "\"" BAD BAD "\\\"\"" },		/* cut off by a quote, which must be escaped */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct strbuf auto_strbuf sb = {};

		strbuf_add_json(&sb, cases[i].in, cases[i].len);
		assert_string_equal(sb.buf, cases[i].out);
		assert_int_equal(sb.len, strlen(cases[i].out));
	}
}

static void errno_names(void **state)
{
	char buf[16];

	(void)state;
	assert_string_equal(errno_name(ENOENT, buf), "ENOENT");
	assert_string_equal(errno_name(-ENOENT, buf), "ENOENT");
	assert_string_equal(errno_name(-EUCLEAN, buf), "EUCLEAN");
	assert_string_equal(errno_name(1234, buf), "E1234");
	assert_string_equal(errno_name(-9999, buf), "E9999");
}

static void messages(void **state)
{
	struct scratch *scratch = *state;
	int first, second;
	char *text;

	capture_begin(scratch);
	log_msg("%s has %d", "x", 3);
	first = log_errno(-ENOENT, "%s", "/no/such");
	second = log_errno(EACCES, "%s", "/root");
	log_set_program("fstapefs");
	log_msg("named");
	log_set_program("fstape");
	text = capture_end(scratch);
	assert_string_equal(text, "fstape: x has 3\n"
				  "fstape: /no/such: No such file or directory\n"
				  "fstape: /root: Permission denied\n"
				  "fstapefs: named\n");
	assert_int_equal(first, -ENOENT);
	assert_int_equal(second, -EACCES);
	free(text);
}

static void read_file_reads_what_has_no_size(void **state)
{
	struct strbuf auto_strbuf sb = {}, missing = {};
	struct stat st;

	(void)state;
	assert_int_equal(stat("/proc/self/status", &st), 0);
	assert_int_equal(st.st_size, 0);
	assert_int_equal(read_file_at(AT_FDCWD, "/proc/self/status", 1 << 20, &sb), 0);
	assert_non_null(strstr(sb.buf, "\nPid:\t"));
	assert_int_equal(read_file_at(AT_FDCWD, "/proc/self/no-such", 10, &missing), -ENOENT);
	assert_int_equal(read_file_at(AT_FDCWD, "/proc", 10, &missing), -EISDIR);
}

static void read_file_keeps_to_the_limit(void **state)
{
	struct scratch *scratch = *state;
	static const size_t limits[] = { 0, 1, 10, 4095, 4096, 4097, 9000, 10000, 20000 };
	auto_free char *path = path_in(scratch->dir, "f");
	char data[10000];

	memset(data, 'x', sizeof(data));
	write_file(path, data, sizeof(data));
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		struct strbuf auto_strbuf sb = {};

		assert_int_equal(read_file_at(AT_FDCWD, path, limits[i], &sb), 0);
		assert_int_equal(sb.len, limits[i] < sizeof(data) ? limits[i] : sizeof(data));
		assert_int_equal(sb.buf[sb.len], '\0');
	}
}

static void ownership_moves(void **state)
{
	char *text = strdup("x"), *taken;
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), number;

	(void)state;
	number = fd;
	assert_int_equal(steal_fd(&fd), number);
	assert_int_equal(fd, -1);
	{
		int auto_close owned = number;

		assert_true(fcntl(owned, F_GETFD) >= 0);
		errno = EXDEV;
	}
	assert_int_equal(errno, EXDEV); /* the clean-up must not hide why a function failed */
	assert_int_equal(fcntl(number, F_GETFD), -1);
	taken = steal_ptr(&text);
	assert_null(text);
	assert_string_equal(taken, "x");
	free(taken);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(strbuf_grows_and_stays_terminated),
		cmocka_unit_test(strbuf_takes_nothing_and_nul),
		cmocka_unit_test(strbuf_failure_sticks),
		cmocka_unit_test(json_strings),
		cmocka_unit_test(errno_names),
		scratch_test(messages),
		cmocka_unit_test(read_file_reads_what_has_no_size),
		scratch_test(read_file_keeps_to_the_limit),
		cmocka_unit_test(ownership_moves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
