/* SPDX-License-Identifier: MIT */
/*
 * mode.h - modes of recording in which requests never arrive, so that no recording has them. They are the user's choice;
 * the run's row names them (run.modes), and whatever shows numbers of the run says so (analyzer/run.h).
 */
#ifndef FSTAPE_MODE_H
#define FSTAPE_MODE_H

#include "base.h"

/* A row of mode_table[] each. */
enum mode {
	MODE_NOFLUSH,
	MODE_WRITEBACK,
	MODE_DATA_PASSTHROUGH,
	MODE_COUNT,
};

#define MODE_BIT(mode) (1u << (mode))

/* The names of a set of MODE_BIT()s joined by ' ', as run.modes has them, to be freed; NULL: none, or no memory. */
char *mode_names(unsigned int set);

/* Adds what names of run.modes stand for: "noflush (...), other". A name that this version does not know stands alone. */
void mode_explain(const char *names, struct strbuf *text);

#endif
