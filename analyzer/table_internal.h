/* SPDX-License-Identifier: MIT */
/* table_internal.h - what table*.c share; for nobody else. */
#ifndef FSTAPE_TABLE_INTERNAL_H
#define FSTAPE_TABLE_INTERNAL_H

#include <libsmartcols/libsmartcols.h>

#include "base.h"
#include "table.h"

struct table_column {
	char *name, *title;
	enum column_kind kind;
	bool hidden;  /* not in this format */
	bool numbers; /* no cell of it was text so far */
	bool number;  /* HTML: the first row has a number in it */
	struct libscols_column *text;
};

struct table {
	enum table_format format;
	bool color;
	FILE *out;
	struct table_column *columns;
	size_t n_columns;
	size_t cell;  /* the row's next one, hidden ones too */
	size_t shown; /* cells of this row that are not hidden */
	size_t rows;
	bool begun;
	int err;            /* the first failure */
	struct strbuf line; /* CSV and JSON that is not written yet */
	FILE *first; /* HTML: the first row, while the heading waits for what it shows */
	char *first_text;
	size_t first_len;
	struct libscols_table *text;
	struct libscols_line *text_row;
};

/* Keeps the first failure. */
void table_fail(struct table *table, int err);

/* The cell that next_cell() just went past; `shown` counts it. */
void table_text_begin(struct table *table);
void table_text_cell(struct table *table, const char *text, size_t len);
void table_text_int(struct table *table, const struct table_column *column, int64_t value);
void table_text_real(struct table *table, const struct table_column *column, double value);
void table_text_end_row(struct table *table);
bool table_text_may_be_cut(const struct table_column *column);
int table_text_fit(struct table *table, size_t width); /* before it is printed; 0 or -ENOMEM */
int table_text_print(struct table *table);
void table_text_free(struct table *table);

void table_html_begin(struct table *table);
void table_html_text(struct table *table, const char *text, size_t len);
void table_html_int(struct table *table, struct table_column *column, int64_t value);
void table_html_real(struct table *table, struct table_column *column, double value);
void table_html_end_row(struct table *table);
int table_html_print(struct table *table);
void table_html_free(struct table *table);

#endif
