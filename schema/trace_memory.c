/* SPDX-License-Identifier: MIT */
/*
 * trace_memory.c - memory for SQLite that a thread keeps to itself between uses; declared in trace.h.
 *
 * malloc() has few arenas, and a lock on each. SQLite takes and gives back blocks of some KiB for each few rows, more than
 * what malloc() keeps for each thread without a lock. A thread that stores rows for seconds would so hold the lock for part
 * of that time; when it loses the processor with the lock held, all that share the arena wait until it has one again.
 */
#include "trace.h"

#include <errno.h>
#include <malloc.h>
#include <sqlite3.h>
#include <stdlib.h>

#define STEP 512u      /* bytes, from one size to the next */
#define LEAST 1024u    /* malloc() itself keeps smaller ones */
#define MOST 16384u
#define SIZES (MOST / STEP + 1)
#define KEPT_MOST 4u   /* blocks of each size */

/* Blocks that malloc() has given, of a size or a little more. */
struct trace_memory {
	struct block {
		struct block *next;
	} *blocks[SIZES];
	unsigned int count[SIZES];
};

static _Thread_local struct trace_memory *mine; /* NULL: this thread keeps none */

static int round_up(int size)
{
	unsigned int step = size > (int)LEAST && size <= (int)MOST ? STEP : 8;

	return (int)(((unsigned int)size + step - 1) / step * step);
}

static void *take(int size)
{
	size_t full = (size_t)round_up(size), i = full / STEP; /* SQLite rounds up only when it counts what it takes */
	struct block *block;

	if (!mine || full <= LEAST || full > MOST || !mine->blocks[i])
		return malloc(full);
	block = mine->blocks[i];
	mine->blocks[i] = block->next;
	mine->count[i]--;
	return block;
}

static void give_back(void *memory)
{
	size_t size = malloc_usable_size(memory), i = size / STEP;
	struct block *block = memory;

	if (!mine || size <= LEAST || i >= SIZES || mine->count[i] == KEPT_MOST) {
		free(memory);
		return;
	}
	block->next = mine->blocks[i];
	mine->blocks[i] = block;
	mine->count[i]++;
}

static void *resize(void *memory, int size)
{
	return realloc(memory, (size_t)size);
}

static int size_of(void *memory)
{
	return (int)malloc_usable_size(memory);
}

static int nothing_to_start(void *arg)
{
	(void)arg;
	return SQLITE_OK;
}

static void nothing_to_end(void *arg)
{
	(void)arg;
}

int trace_memory_setup(void)
{
	static const struct sqlite3_mem_methods methods = {
		.xMalloc = take,
		.xFree = give_back,
		.xRealloc = resize,
		.xSize = size_of,
		.xRoundup = round_up,
		.xInit = nothing_to_start,
		.xShutdown = nothing_to_end,
	};

	return sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) == SQLITE_OK ? 0 : -EBUSY;
}

void trace_memory_keep(void)
{
	if (!mine)
		mine = calloc(1, sizeof(*mine));
}

void trace_memory_release(void)
{
	for (size_t i = 0; mine && i < SIZES; i++) {
		while (mine->blocks[i]) {
			struct block *block = mine->blocks[i];

			mine->blocks[i] = block->next;
			free(block);
		}
		mine->count[i] = 0;
	}
}

void trace_memory_end(void)
{
	trace_memory_release();
	free(mine);
	mine = NULL;
}
