/* SPDX-License-Identifier: MIT */
/*
 * page.h - `fstape report`: runs as one HTML page that needs nothing else, neither network nor script.
 *
 * Its size depends on the number of runs, not on the number of operations. Whatever names and commands in the database
 * contain is text on the page (html.h), and a Content-Security-Policy lets no script but ours run.
 */
#ifndef FSTAPE_PAGE_H
#define FSTAPE_PAGE_H

#include <stdint.h>
#include <stdio.h>

#include "progress.h"
#include "trace.h"

#define PAGE_MAX_RUNS 6 /* that are shown in full; of more, the summary has all */

struct page {
	FILE *out;
	struct trace *trace;
	const char *db; /* as the user calls it */
	struct progress *progress;
	/* Whether to give up; NULL: never. */
	int (*stopped)(void);
};

/* Writes the page about the runs, in that order. 0, -EINTR when stopped, or -errno of trace.h or stdio. */
int page_write(const struct page *page, const int64_t *runs, size_t count);

#endif
