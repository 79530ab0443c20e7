/* SPDX-License-Identifier: MIT */
#include "replay_doubles.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base.h"
#include "replay_plan.h"

#define TIMES 501
#define PAGE  4096
#define PAGES 16 /* in one call: what the call itself takes is little beside them */

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Median of the times of `call`, for which `before` makes things ready. */
#define MEDIAN(before, call)                                                  \
	({                                                                    \
		int64_t times[TIMES];                                         \
		for (int time = 0; time < TIMES; time++) {                    \
			int64_t start;                                        \
			before;                                               \
			start = clock_ns(CLOCK_MONOTONIC);                    \
			call;                                                 \
			times[time] = clock_ns(CLOCK_MONOTONIC) - start;      \
		}                                                             \
		qsort(times, TIMES, sizeof(*times), by_value);                \
		times[TIMES / 2];                                             \
	})

static int64_t beside_call(const struct doubles *d, int64_t ns)
{
	return ns > d->call_ns ? ns - d->call_ns : 0;
}

/* In a file in memory: pages are new when they are written, as those of new files are. */
static void measure_pages(struct doubles *d)
{
	int auto_close fd = memfd_create("fstape", MFD_CLOEXEC);
	static const size_t size = (size_t)PAGE * PAGES;
	auto_free char *buf = calloc(1, size);
	bool good = true;
	int64_t written, got;

	if (fd < 0 || !buf)
		return;
	written = MEDIAN(good &= ftruncate(fd, 0) == 0, good &= pwrite(fd, buf, size, 0) == (ssize_t)size);
	got = MEDIAN(, good &= pread(fd, buf, size, 0) == (ssize_t)size);
	if (!good)
		return;
	d->write_page_ns = beside_call(d, written) / PAGES;
	d->read_page_ns = beside_call(d, got) / PAGES;
}

struct doubles doubles_measure(void)
{
	struct doubles d = { .call_ns = MEDIAN(, syscall(SYS_getppid)) };
	struct stat st;
	bool good = true;
	int64_t name = MEDIAN(, good &= fstatat(AT_FDCWD, "/proc", &st, AT_SYMLINK_NOFOLLOW) == 0);

	if (good)
		d.name_ns = beside_call(&d, name);
	measure_pages(&d);
	return d;
}

int64_t doubles_of(const struct doubles *d, const struct action *a, int64_t calls, int64_t result)
{
	int64_t ns = calls * d->call_ns;

	if (a->op == OP_lookup && result == 0)
		ns += d->name_ns;
	if (a->op == OP_write && result > 0)
		ns += result * d->write_page_ns / PAGE;
	if (a->op == OP_read && result > 0)
		ns += result * d->read_page_ns / PAGE;
	return ns;
}
