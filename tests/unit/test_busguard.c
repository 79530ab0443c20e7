/* SPDX-License-Identifier: MIT */
/* The guard against SIGBUS: files cut off below a mapping, by one thread and by many at once. */
#include "unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "busguard.h"

#define PAGES 8
#define PAGE 4096
#define THREADS 8
#define ADDS 20000

static void *map_and_cut(const struct scratch *scratch, const char *name)
{
	auto_free char *path = path_in(scratch->dir, name);
	int auto_close fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *map;

	assert_int_equal(ftruncate(fd, PAGES * PAGE), 0);
	map = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(map != MAP_FAILED);
	memset(map, 1, PAGES * PAGE);
	assert_int_equal(ftruncate(fd, PAGE), 0);
	return map;
}

/* In a child, as the handler is the process's. Its exit status says what failed. */
static void in_child(const struct scratch *scratch, int (*action)(const struct scratch *), int expected)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(action(scratch));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, expected);
}

static int write_and_read(const struct scratch *scratch)
{
	char *map = map_and_cut(scratch, "cut");

	if (busguard_install() < 0)
		return 1;
	if (map[PAGE * 2] != 0) /* read first: zeros */
		return 2;
	strcpy(map + PAGE * 2 + 10, "kept");
	strcpy(map + PAGE * 5, "kept");
	if (strcmp(map + PAGE * 2 + 10, "kept") != 0 || strcmp(map + PAGE * 5, "kept") != 0)
		return 3;
	if (map[0] != 1 || map[PAGE - 1] != 1)
		return 4;
	return busguard_pages() == 2 ? 0 : 5;
}

static int unguarded(const struct scratch *scratch)
{
	char *map = map_and_cut(scratch, "cut");

	signal(SIGBUS, SIG_DFL); /* cmocka has its own */
	map[PAGE] = 2;
	return 0;
}

/* Mapped, cut and unmapped again and again: the address is the same each time, the fault a new one. */
static int same_place(const struct scratch *scratch)
{
	void *first = NULL;

	if (busguard_install() < 0)
		return 1;
	for (int i = 0; i < 5; i++) {
		char *map = map_and_cut(scratch, "again");

		first = first ?: map;
		map[PAGE] = (char)i;
		if (map[PAGE] != i)
			return 2;
		munmap(map, PAGES * PAGE);
	}
	return 0;
}

static void *add(void *arg)
{
	atomic_uint *counter = arg;

	busguard_unblock();
	for (int i = 0; i < ADDS; i++)
		atomic_fetch_add(counter, 1);
	return NULL;
}

static int many_threads(const struct scratch *scratch)
{
	sigset_t all;

	if (busguard_install() < 0)
		return 1;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	for (int round = 0; round < 20; round++) {
		char *map = map_and_cut(scratch, "crowd");
		atomic_uint *counter = (void *)(map + PAGE * 3);
		pthread_t threads[THREADS];

		for (int i = 0; i < THREADS; i++)
			if (pthread_create(&threads[i], NULL, add, counter) != 0)
				return 2;
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		if (atomic_load(counter) != THREADS * ADDS)
			return 3;
		munmap(map, PAGES * PAGE);
	}
	return 0;
}

static int told_to_end(const struct scratch *scratch)
{
	(void)scratch;
	if (busguard_install() < 0)
		return 1;
	raise(SIGBUS);
	return 2;
}

static void without_the_guard_it_is_death(void **state)
{
	in_child(*state, unguarded, SIGBUS);
}

static void what_is_written_is_kept(void **state)
{
	in_child(*state, write_and_read, 0);
}

static void the_same_address_again(void **state)
{
	in_child(*state, same_place, 0);
}

static void many_threads_at_once_lose_nothing(void **state)
{
	in_child(*state, many_threads, 0);
}

static void a_signal_that_was_sent_still_kills(void **state)
{
	in_child(*state, told_to_end, SIGBUS);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		scratch_test(without_the_guard_it_is_death),
		scratch_test(what_is_written_is_kept),
		scratch_test(the_same_address_again),
		scratch_test(many_threads_at_once_lose_nothing),
		scratch_test(a_signal_that_was_sent_still_kills),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
