/* SPDX-License-Identifier: MIT */
/*
 * table.h - one result set, for a person or for a program.
 *
 *   TABLE_TEXT  aligned columns by libsmartcols; fits the terminal where cutting long texts can do that,
 *               durations as "1.23 ms"; bytes that a terminal would obey, and those that are not UTF-8, are
 *               escaped as \xNN
 *   TABLE_CSV   RFC 4180 with a header line, bytes as they are, durations in ns
 *   TABLE_JSON  an array of objects, durations in ns; bytes that are not UTF-8 become U+FFFD
 *   TABLE_NDJSON  the same objects, one on each line, and no array around them
 *   TABLE_HTML  a <table> of a page, its cells as in TABLE_TEXT, escaped by html.h
 *
 * Make a table, add its columns, then for each row every column's cell in order and table_end_row(); print
 * it. CSV, JSON and HTML rows are written at once, so a table of any length needs no memory; text is kept until
 * table_print(). Failures stick: add on, and look at what table_print() returns. Not for threads.
 */
#ifndef FSTAPE_TABLE_H
#define FSTAPE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum table_format { TABLE_TEXT, TABLE_CSV, TABLE_JSON, TABLE_NDJSON, TABLE_HTML };

enum column_kind {
	COLUMN_ANY,      /* whatever its cells are; right-aligned when all are numbers */
	COLUMN_TEXT,     /* what is long may be cut in the middle, or wrapped, to fit the terminal: table_fit.c */
	COLUMN_INT,      /* a count, without separators */
	COLUMN_DURATION, /* ns */
	COLUMN_TIME,     /* ns since 1970; as text local time in ISO 8601, the same with Z in CSV and JSON */
	COLUMN_SHARE,    /* 0..1; as text in percent */
	COLUMN_RATIO,    /* a real number, two decimals as text */
	COLUMN_BOOL,     /* yes/no, true/false in JSON, 1/0 in CSV */
	COLUMN_JSON,     /* text that is JSON already, and goes into JSON as such */
};

enum column_flags {
	COLUMN_DATA_ONLY = 1 << 0, /* not in text tables */
	COLUMN_TEXT_ONLY = 1 << 1, /* only in text tables */
};

struct table;

/* `out` stays the caller's. Colours only when `color` and `out` is a terminal. NULL: no memory. */
struct table *table_new(enum table_format format, bool color, FILE *out);
void table_free(struct table *table);

/* `name` is the field's name in CSV and JSON, `title` the heading of text (NULL: `name`). Both are copied. */
void table_add_column(
	struct table *table, const char *name, const char *title, enum column_kind kind, unsigned int flags);

struct table_heading {
	const char *name, *title;
	enum column_kind kind;
	unsigned int flags;
};

/* The same for several. */
void table_add_columns(struct table *table, const struct table_heading *headings, size_t count);

/* The next cell of the row. Text is copied; NULL text is an empty cell. */
void table_null(struct table *table);
void table_int(struct table *table, int64_t value);
void table_real(struct table *table, double value);
void table_text(struct table *table, const char *text);
void table_bytes(struct table *table, const char *text, size_t len);
void table_blob(struct table *table, const void *data, size_t len); /* hexadecimal, but in CSV */
void table_end_row(struct table *table);

/* Writes all that is not written yet, and ends the table. 0 or -errno of the first failure (without a message). */
int table_print(struct table *table);

/* "812 ns", "24.1 us", "1.23 ms", "4.56 s", "3 min 20 s": at most 12 characters, three digits where it can be. */
const char *format_duration(int64_t ns, char buf[static 24]);

/* "2026-01-31T12:34:56Z", or local time with its offset, "2026-01-31T13:34:56+01:00". */
const char *format_time(int64_t real_ns, bool local, char buf[static 40]);

#endif
