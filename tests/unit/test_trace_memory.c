/* SPDX-License-Identifier: MIT */
/* What SQLite takes again and again, by a thread that stores, is not asked of malloc(), whose locks others wait for. */
#include "unit.h"

#include <pthread.h>
#include <sqlite3.h>
#include <string.h>

#include "trace.h"

#define ROUNDS 100
#define PAGE 4400     /* bytes, about what a page of the database takes */
#define SCRATCH 10000 /* about what a page takes that is being split */

/* All calls of the code under test come here: -Wl,--wrap. */
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void __real_free(void *memory);
void __wrap_free(void *memory);

static _Thread_local unsigned int taken, freed;

void *__wrap_malloc(size_t size)
{
	taken++;
	return __real_malloc(size);
}

void __wrap_free(void *memory)
{
	freed++;
	__real_free(memory);
}

static void split_pages(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		char *scratch = sqlite3_malloc(SCRATCH + i % 7 * 100), *page = sqlite3_malloc(PAGE);

		assert_non_null(scratch);
		assert_non_null(page);
		memset(scratch, 1, SCRATCH + i % 7 * 100);
		memset(page, 2, PAGE);
		sqlite3_free(scratch);
		sqlite3_free(page);
	}
}

static void test_a_thread_that_stores_keeps_its_memory(void **state)
{
	(void)state;
	trace_memory_keep();
	split_pages();
	taken = freed = 0;
	split_pages();
	assert_int_equal(taken, 0);
	assert_int_equal(freed, 0);
	trace_memory_end();
	assert_true(freed > 0);
}

static void test_others_do_not(void **state)
{
	(void)state;
	taken = freed = 0;
	split_pages();
	assert_int_equal(taken, 2 * ROUNDS);
	assert_int_equal(freed, 2 * ROUNDS);
}

/* Many at once, such as the pages of a database that is closed, go back but for a few; and so do these. */
static void test_it_keeps_few(void **state)
{
	void *pages[ROUNDS];
	unsigned int kept;

	(void)state;
	trace_memory_keep();
	taken = freed = 0;
	for (int i = 0; i < ROUNDS; i++)
		pages[i] = sqlite3_malloc(PAGE);
	for (int i = 0; i < ROUNDS; i++)
		sqlite3_free(pages[i]);
	kept = taken - freed;
	assert_in_range(kept, 1, 10);
	trace_memory_release();
	assert_int_equal(taken, freed);
	trace_memory_end();
}

static void *free_it(void *arg)
{
	trace_memory_keep();
	sqlite3_free(arg);
	trace_memory_end();
	return NULL;
}

/* A size that grows, one that is too small and too big to keep, and memory that another thread frees. */
static void test_all_sizes(void **state)
{
	pthread_t thread;
	char *memory;

	(void)state;
	trace_memory_keep();
	for (int size = 1; size < 40000; size += 97) {
		memory = sqlite3_malloc(size);
		memset(memory, 3, (size_t)size);
		memory = sqlite3_realloc(memory, size + 600);
		assert_true(sqlite3_msize(memory) >= (sqlite3_uint64)size + 600);
		assert_int_equal(memory[size - 1], 3);
		memset(memory, 4, (size_t)size + 600);
		sqlite3_free(memory);
	}
	memory = sqlite3_malloc(PAGE);
	assert_int_equal(pthread_create(&thread, NULL, free_it, memory), 0);
	pthread_join(thread, NULL);
	trace_memory_end();
}

static int setup(void **state)
{
	(void)state;
	return trace_memory_setup();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_thread_that_stores_keeps_its_memory),
		cmocka_unit_test(test_others_do_not),
		cmocka_unit_test(test_it_keeps_few),
		cmocka_unit_test(test_all_sizes),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
