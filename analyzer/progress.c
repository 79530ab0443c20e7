/* SPDX-License-Identifier: MIT */
#include "progress.h"

#include <stdio.h>

#define INTERVAL_NS 100000000

struct progress progress_begin(bool wanted)
{
	return (struct progress){ .on = wanted && isatty(STDERR_FILENO) };
}

void progress_show(struct progress *progress, const char *fmt, ...)
{
	int64_t now = clock_ns(CLOCK_MONOTONIC);
	va_list ap;

	if (!progress->on || (progress->shown && now - progress->last_ns < INTERVAL_NS))
		return;
	va_start(ap, fmt);
	fputs("\rfstape: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputs("\033[K", stderr);
	va_end(ap);
	fflush(stderr);
	progress->shown = true;
	progress->last_ns = now;
}

void progress_end(struct progress *progress)
{
	if (progress->shown)
		fputs("\r\033[K", stderr);
	fflush(stderr);
	progress->shown = false;
}
