/* SPDX-License-Identifier: MIT */
/*
 * report.h - the named reports: reports/NAME.sql, each one SQL statement about one run.
 *
 * The build registers every file of the folder (embed_reports.py has the format): there is no list
 * to add to. Names of columns are stable, and say how their values read: see report_column(). Not
 * for threads.
 */
#ifndef FSTAPE_REPORT_H
#define FSTAPE_REPORT_H

#include "options.h"
#include "table.h"
#include "trace.h"

struct report_param {
	const char *name;   /* :NAME in the SQL */
	const char *preset; /* when it is a number, so must every other value be */
	const char *help;
};

struct report {
	const char *name, *title;
	const char *about; /* what its rows and columns are; paragraphs for people */
	const struct report_param *params; /* ended by a NULL name */
	const char *sql;
};

extern const struct report reports[]; /* by name; ended by a NULL name */

/* NULL: there is none of that name. */
const struct report *report_find(const char *name);

/*
 * The report's statement, ready to be stepped through, about `run`. `set` has "NAME=VALUE" for
 * parameters that are not to have their preset, or is NULL. -EDOM after a message: no such
 * parameter, or a value that it does not take; else -errno of trace.h without one.
 */
int report_prepare(struct trace *trace, const struct report *report, int64_t run,
	const struct text_list *set, struct trace_stmt **ret_stmt);

#define REPORT_TITLE_LEN 64

/*
 * What a column of that name holds, and its heading for people in `title`: NAME_ns are durations,
 * NAME_share shares, NAME_per_FOO and NAME_ratio real numbers; '_' reads as ' '.
 */
enum column_kind report_column(const char *name, char title[static REPORT_TITLE_LEN]);

/* Adds the statement's columns to a table. */
void report_add_columns(struct table *table, const struct trace_stmt *stmt);

#endif
