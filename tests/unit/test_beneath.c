/* SPDX-License-Identifier: MIT */
/* Paths of strangers: what is refused as text, what is refused by the kernel, and what must work. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "beneath.h"
#include "unit.h"

static int check(const char *path)
{
	return beneath_check(path, strlen(path));
}

static void test_text(void **state)
{
	static const char *const good[] = { "", "a", "a/b", "...", "..a", "a..", ".a", " ", "a\nb/\xff\xfe", "-", "~" };
	static const char *const bad[] = { "/", "/a", "..", ".", "a/..", "../a", "a/../b", "a//b", "a/", "a/.", "./a", "//" };
	char name[BENEATH_NAME_MAX + 2] = "";

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_int_equal(check(good[i]), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(check(bad[i]), -EXDEV);
	assert_int_equal(beneath_check("a\0b", 3), -EINVAL);
	memset(name, 'x', BENEATH_NAME_MAX + 1);
	assert_int_equal(check(name), -ENAMETOOLONG);
	assert_int_equal(check(name + 1), 0);
	assert_true(beneath_name_ok("a"));
	assert_true(beneath_name_ok(name + 1));
	assert_false(beneath_name_ok(name));
	assert_false(beneath_name_ok(""));
	assert_false(beneath_name_ok("a/b"));
	assert_false(beneath_name_ok(".."));
}

/* "a/a/a/..." of `depth` components. */
static char *deep(size_t depth)
{
	char *path = malloc(depth * 2);

	for (size_t i = 0; i < depth; i++)
		memcpy(path + 2 * i, i + 1 < depth ? "a/" : "a", 2);
	return path;
}

static void test_depth(void **state)
{
	auto_free char *fits = deep(BENEATH_DEPTH_MAX), *over = deep(BENEATH_DEPTH_MAX + 1), *huge = deep(1000000);

	(void)state;
	assert_int_equal(check(fits), 0);
	assert_int_equal(check(over), -ENAMETOOLONG);
	assert_int_equal(check(huge), -ENAMETOOLONG);
}

static int parent_of(int root, const char *path, char name[static BENEATH_NAME_MAX + 1])
{
	int fd = -1, err = beneath_parent(root, path, strlen(path), &fd, name);

	return err < 0 ? err : fd;
}

static int dir_of(int root, const char *path)
{
	int fd = -1, err = beneath_dir(root, path, strlen(path), &fd);

	return err < 0 ? err : fd;
}

static void test_links(void **state)
{
	struct scratch *scratch = *state;
	auto_free char *root_path = path_in(scratch->dir, "root"), *outside = path_in(scratch->dir, "outside");
	char name[BENEATH_NAME_MAX + 1];
	int root = -1, fd = -1;
	size_t len;
	auto_free char *text = NULL, *victim = path_in(outside, "f");

	assert_int_equal(mkdir(root_path, 0755), 0);
	assert_int_equal(mkdir(outside, 0755), 0);
	write_file(victim, "kept", 4);
	assert_int_equal(beneath_root(root_path, true, &root), 0);
	assert_int_equal(symlinkat("../outside", root, "rel"), 0);
	assert_int_equal(symlinkat(outside, root, "abs"), 0);
	assert_int_equal(symlinkat("../outside/f", root, "file"), 0);
	assert_int_equal(symlinkat("/proc/self/root", root, "magic"), 0);
	assert_int_equal(mkdirat(root, "d", 0755), 0);
	assert_int_equal(dir_of(root, "rel"), -ELOOP);
	assert_int_equal(dir_of(root, "abs"), -ELOOP);
	assert_int_equal(dir_of(root, "magic"), -ELOOP);
	assert_int_equal(parent_of(root, "rel/f", name), -ELOOP);
	assert_int_equal(parent_of(root, "abs/f", name), -ELOOP);
	assert_int_equal(parent_of(root, "../outside/f", name), -EXDEV);
	assert_int_equal(parent_of(root, "", name), -EINVAL);
	assert_int_equal(dir_of(root, "d/none"), -ENOENT);
	/* a link is never opened, written through or made anew through */
	assert_int_equal(beneath_open(root, "file", O_WRONLY | O_TRUNC, 0, &fd), -ELOOP);
	assert_int_equal(beneath_open(root, "file", O_WRONLY | O_CREAT, 0644, &fd), -ELOOP);
	assert_int_equal(beneath_open(root, "../outside/f", O_WRONLY | O_TRUNC, 0, &fd), -EXDEV);
	text = slurp(victim, &len);
	assert_int_equal(len, 4);
	close(root);
	assert_int_equal(beneath_root(root_path, true, &root), -ENOTEMPTY);
	assert_int_equal(beneath_root(root_path, false, &root), 0);
	close(root);
	assert_int_equal(beneath_root(victim, false, &root), -ENOTDIR);
}

static void test_use(void **state)
{
	struct scratch *scratch = *state;
	char name[BENEATH_NAME_MAX + 1];
	int root = -1, dir, fd = -1;
	struct stat st;

	assert_int_equal(beneath_root(scratch->dir, true, &root), 0);
	assert_int_equal(mkdirat(root, "a", 0755), 0);
	assert_int_equal(mkdirat(root, "a/b", 0755), 0);
	dir = parent_of(root, "a/b/c\n\xff", name);
	assert_true(dir >= 0);
	assert_string_equal(name, "c\n\xff");
	/* 0x20 is the kernel's mark of a file that is executed: recordings have it */
	assert_int_equal(beneath_open(dir, name, O_WRONLY | O_CREAT | O_EXCL | 0x20, 0640, &fd), 0);
	assert_int_equal(write(fd, "x", 1), 1);
	close(fd);
	assert_int_equal(lstat(beneath_at(dir, name).text, &st), 0);
	assert_int_equal(st.st_size, 1);
	close(dir);
	dir = parent_of(root, "top", name);
	assert_true(dir >= 0);
	assert_string_equal(name, "top");
	assert_int_equal(mkfifoat(dir, "pipe", 0600), 0);
	assert_int_equal(beneath_open(dir, "pipe", O_WRONLY, 0, &fd), -ENXIO); /* and does not wait for a reader */
	close(dir);
	dir = dir_of(root, "");
	assert_int_equal(fstatat(dir, "a/b", &st, 0), 0);
	close(dir);
	close(root);
}

/* Longer than PATH_MAX: taken in pieces. */
static void test_long(void **state)
{
	struct scratch *scratch = *state;
	struct strbuf auto_strbuf path = {};
	char name[BENEATH_NAME_MAX + 1];
	int root = -1, dir;

	memset(name, 'n', 200);
	name[200] = '\0';
	assert_int_equal(beneath_root(scratch->dir, true, &root), 0);
	dir = root;
	for (int i = 0; i < 60; i++) {
		int next;

		assert_int_equal(mkdirat(dir, name, 0755), 0);
		next = openat(dir, name, O_PATH);
		assert_true(next >= 0);
		if (dir != root)
			close(dir);
		dir = next;
		strbuf_addf(&path, "%s%s", i ? "/" : "", name);
	}
	assert_true(path.len > 8192);
	close(dir);
	dir = dir_of(root, path.buf);
	assert_true(dir >= 0);
	assert_int_equal(mkdirat(dir, "end", 0755), 0);
	close(dir);
	strbuf_addf(&path, "/end");
	dir = parent_of(root, path.buf, name);
	assert_true(dir >= 0);
	assert_string_equal(name, "end");
	close(dir);
	while (path.len) { /* the teardown could not: it has whole paths only */
		dir = parent_of(root, path.buf, name);
		assert_int_equal(unlinkat(dir, name, AT_REMOVEDIR), 0);
		close(dir);
		path.len -= path.len > strlen(name) ? strlen(name) + 1 : strlen(name);
		path.buf[path.len] = '\0';
	}
	close(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_depth),
		scratch_test(test_links),
		scratch_test(test_use),
		scratch_test(test_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
