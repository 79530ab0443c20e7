/* SPDX-License-Identifier: MIT */
/*
 * base.h - ownership, errors, clocks and growing strings for every module.
 *
 * Nothing here knows of recordings. Functions return 0 (or a count) or -errno; results go through a last `ret_*`
 * parameter that is written on success only.
 */
#ifndef FSTAPE_BASE_H
#define FSTAPE_BASE_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define NSEC_PER_SEC 1000000000LL

/* A local that frees, or closes, what it holds when it goes out of scope; steal_*() hands it on. */
#define auto_free __attribute__((cleanup(cleanup_free)))
#define auto_close __attribute__((cleanup(cleanup_close)))

static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_close(int *fd)
{
	if (*fd >= 0) {
		int saved = errno;

		close(*fd);
		errno = saved;
	}
}

static inline int steal_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

static inline void *steal_ptr(void *pp)
{
	void *taken = *(void **)pp;

	*(void **)pp = NULL;
	return taken;
}

/* For sums of what a database of a stranger says: stops at the ends of the range. */
static inline int64_t add_clamped(int64_t a, int64_t b)
{
	int64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? (b < 0 ? INT64_MIN : INT64_MAX) : sum;
}

static inline int64_t timespec_ns(struct timespec ts)
{
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

static inline int64_t timeval_ns(struct timeval tv)
{
	return tv.tv_sec * NSEC_PER_SEC + tv.tv_usec * 1000;
}

/* Nanoseconds on a clock of clock_gettime(2). */
static inline int64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return timespec_ns(ts);
}

/* The name that messages start with; set once, before threads exist. Default "fstape". */
void log_set_program(const char *name);

/* From now on messages go to syslog(3): for a daemon, whose standard error leads nowhere. */
void log_use_syslog(void);

/* Messages on standard error, "PROGRAM: TEXT\n", each in one write(2). Thread-safe. */
void log_msg(const char *fmt, ...) PRINTF(1, 2);

/* The same with ": STRERROR" added; `err` may have either sign. Returns -|err|, for `return log_errno(...)`. */
int log_errno(int err, const char *fmt, ...) PRINTF(2, 3);

/* "ENOENT" for 2 or -2; "E1234" for numbers that no name is known for, in `buf`. */
const char *errno_name(int err, char buf[static 16]);

typedef int compare_fn(const void *, const void *);

/* qsort(3), qsort_r(3) and bsearch(3) for arrays that may be NULL when they are empty, which those do not allow. */
static inline void array_sort(void *array, size_t n, size_t size, compare_fn *compare)
{
	if (n)
		qsort(array, n, size, compare);
}

static inline void array_sort_r(void *array, size_t n, size_t size, int (*compare)(const void *, const void *, void *),
	void *arg)
{
	if (n)
		qsort_r(array, n, size, compare, arg);
}

static inline void *array_find(const void *key, const void *array, size_t n, size_t size, compare_fn *compare)
{
	return n ? (bsearch)(key, array, n, size, compare) : NULL; /* not the macro that hands on const */
}

/*
 * A growing byte string; `buf` is NUL-terminated whenever it is not NULL.
 * An allocation that fails sets `failed` and later additions do nothing, so that callers check once, at the end.
 */
struct strbuf {
	char *buf;
	size_t len, size;
	bool failed;
};

void strbuf_add(struct strbuf *sb, const void *data, size_t len);
void strbuf_addf(struct strbuf *sb, const char *fmt, ...) PRINTF(2, 3);
void strbuf_free(struct strbuf *sb);
#define auto_strbuf __attribute__((cleanup(strbuf_free)))

/* The length of the valid UTF-8 sequence at `s`, or 0 (RFC 3629: no overlong forms, no surrogates, <= U+10FFFF). */
size_t utf8_sequence(const unsigned char *s, size_t len);

/*
 * Adds `len` bytes as a JSON string with its quotes. Bytes that are not valid UTF-8 become U+FFFD, as JSON
 * has no way to carry them.
 */
void strbuf_add_json(struct strbuf *sb, const char *data, size_t len);

/* Adds text with U+FFFD for each byte that is not valid UTF-8. */
void strbuf_add_utf8(struct strbuf *sb, const char *data, size_t len);

/* Reads a file of unknown size, such as those in /proc, NUL-terminated; up to `max` bytes. */
int read_file_at(int dirfd, const char *path, size_t max, struct strbuf *ret_text);

/* The absolute path of a file that may not exist yet; its directory must. To be freed; NULL, with errno, if not. */
char *path_resolve_new(const char *path);

#endif
