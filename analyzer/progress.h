/* SPDX-License-Identifier: MIT */
/* progress.h - a line on standard error that is written over, when that is a terminal; nothing otherwise. */
#ifndef FSTAPE_PROGRESS_H
#define FSTAPE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base.h"

struct progress {
	bool on;
	bool shown;
	int64_t last_ns;
};

/* `wanted` false: stays silent, as with --quiet. */
struct progress progress_begin(bool wanted);

/* At most ten times a second; "fstape: TEXT". */
void progress_show(struct progress *progress, const char *fmt, ...) PRINTF(2, 3);

/* Takes the line away. Before any other message. */
void progress_end(struct progress *progress);

#endif
