/* SPDX-License-Identifier: MIT */
/*
 * table_fit.c - makes the columns of a text table fit the terminal. Left to itself libsmartcols cuts the end off whatever is
 * long, names of operations and of files alike, and rows can no longer be told apart.
 *
 * Only text that is long is cut, in the middle, as the ends of a path say most; no column that is at most NAMES wide, in
 * which every operation and phase has room, and none below LEAST. Where two texts of a column would look the same then, it
 * is wrapped instead. Numbers are left alone: a table that still does not fit is continued by the terminal on its next line.
 */
#include <langinfo.h>
#include <limits.h>
#include <string.h>
#include <wchar.h>

#include "table_internal.h"

#define NAMES 24u
#define LEAST 16u

/* One character, or byte that is none, as libsmartcols shows it: its bytes, and its columns at the terminal. */
struct unit {
	size_t bytes, width;
};

static struct unit unit_at(const char *text)
{
	mbstate_t state = {};
	wchar_t c;
	size_t len = mbrtowc(&c, text, MB_LEN_MAX, &state);
	int width = len && len < (size_t)-2 ? wcwidth(c) : -1;

	if (len >= (size_t)-2)
		len = 1;
	if (width < 0 || (text[0] == '\\' && text[1] == 'x'))
		return (struct unit){ len ?: 1, 4 * (len ?: 1) }; /* \xNN for each byte */
	return (struct unit){ len, (size_t)width };
}

static size_t width_of(const char *text)
{
	size_t width = 0;

	for (struct unit unit; *text; text += unit.bytes) {
		unit = unit_at(text);
		width += unit.width;
	}
	return width;
}

/* `text`, which is wider than that, in `room` columns: the first third, a mark, and the end. NULL: no memory. */
static char *cut(const char *text, size_t room)
{
	bool utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	size_t marked = room - (utf8 ? 1 : 3), head = marked / 3, width = width_of(text), at = 0;
	const char *head_end = text, *tail = text;
	char *result;

	for (const char *p = text; *p && width - at > marked - head;) {
		struct unit unit = unit_at(p);

		at += unit.width;
		p += unit.bytes;
		if (at <= head)
			head_end = p;
		tail = p;
	}
	return asprintf(&result, "%.*s%s%s", (int)(head_end - text), text, utf8 ? "…" : "...", tail) < 0 ? NULL : result;
}

/*
 * `text` in lines of `room` columns; a newline of its own becomes "\n" here, as libsmartcols takes it for ours (and escapes
 * the backslash of "\x0a").
 */
static char *wrap(const char *text, size_t room)
{
	struct strbuf lines = {};
	size_t at = 0;

	strbuf_add(&lines, "", 0);
	for (struct unit unit; *text; text += unit.bytes) {
		unit = unit_at(text);
		if (at && at + unit.width > room) {
			strbuf_add(&lines, "\n", 1);
			at = 0;
		}
		if (*text == '\n')
			strbuf_addf(&lines, "\\n");
		else
			strbuf_add(&lines, text, unit.bytes);
		at += unit.width;
	}
	if (lines.failed)
		strbuf_free(&lines);
	return lines.buf;
}

static struct libscols_cell *cell_at(const struct table *table, size_t row, size_t column)
{
	struct libscols_line *line = scols_table_get_line(table->text, row);

	return line ? scols_line_get_cell(line, column) : NULL;
}

static const char *text_at(const struct table *table, size_t row, size_t column)
{
	struct libscols_cell *cell = cell_at(table, row, column);

	return (cell ? scols_cell_get_data(cell) : NULL) ?: "";
}

struct pair {
	const char *text;
	char *cut;
};

static int compare_pairs(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;

	return strcmp(x->cut, y->cut) ?: strcmp(x->text, y->text);
}

/* Whether texts of the column that differ look the same when they are cut; -ENOMEM. */
static int is_ambiguous(const struct table *table, size_t column, size_t room)
{
	auto_free struct pair *pairs = calloc(table->rows, sizeof(*pairs));
	size_t count = 0;
	int result = pairs ? 0 : -ENOMEM;

	for (size_t row = 0; row < table->rows && result == 0; row++) {
		const char *text = text_at(table, row, column);

		if (width_of(text) <= room)
			continue;
		pairs[count] = (struct pair){ text, cut(text, room) };
		if (!pairs[count].cut)
			result = -ENOMEM;
		else
			count++;
	}
	if (result == 0)
		array_sort(pairs, count, sizeof(*pairs), compare_pairs);
	for (size_t i = 1; i < count && result == 0; i++)
		result = strcmp(pairs[i].cut, pairs[i - 1].cut) == 0 && strcmp(pairs[i].text, pairs[i - 1].text) != 0;
	for (size_t i = 0; i < count; i++)
		free(pairs[i].cut);
	return result;
}

static int narrow(struct table *table, struct libscols_column *column, size_t index, size_t room)
{
	int ambiguous = is_ambiguous(table, index, room);

	if (ambiguous < 0)
		return ambiguous;
	if (ambiguous) {
		scols_column_set_flags(column, SCOLS_FL_WRAP);
		scols_column_set_safechars(column, "\n");
		scols_column_set_wrapfunc(column, scols_wrapnl_chunksize, scols_wrapnl_nextchunk, NULL);
	}
	for (size_t row = 0; row < table->rows; row++) {
		const char *text = text_at(table, row, index);
		auto_free char *fitting = NULL;

		if (width_of(text) <= room && !(ambiguous && strchr(text, '\n')))
			continue;
		fitting = ambiguous ? wrap(text, room) : cut(text, room);
		if (!fitting || scols_cell_set_data(cell_at(table, row, index), fitting) != 0)
			return -ENOMEM;
	}
	return 0;
}

/* The natural widths of the columns that are shown, and their sum with the gaps. */
static size_t measure(const struct table *table, size_t *widths)
{
	size_t total = 0, shown = 0;

	for (size_t i = 0; i < table->n_columns; i++) {
		size_t *width = &widths[shown];

		if (table->columns[i].hidden)
			continue;
		*width = width_of(table->columns[i].title);
		for (size_t row = 0; row < table->rows; row++) {
			size_t cell = width_of(text_at(table, row, shown));

			*width = cell > *width ? cell : *width;
		}
		total += *width + (shown > 0);
		shown++;
	}
	return total;
}

/* The widest of the columns that may be narrower; NULL: none is wider than `least`. */
static size_t *widest(const struct table *table, size_t *widths, const size_t *natural, size_t least)
{
	size_t *found = NULL, shown = 0;

	for (size_t i = 0; i < table->n_columns; i++) {
		const struct table_column *column = &table->columns[i];
		size_t *width = &widths[shown];

		if (column->hidden)
			continue;
		if (table_text_may_be_cut(column) && natural[shown] > NAMES && *width > least &&
			*width > width_of(column->title) && (!found || *width > *found))
			found = width;
		shown++;
	}
	return found;
}

int table_text_fit(struct table *table, size_t width)
{
	auto_free size_t *widths = calloc(table->n_columns, 2 * sizeof(*widths));
	size_t total, *most, shown = 0, *natural = widths + table->n_columns;
	int err = 0;

	if (!widths)
		return -ENOMEM;
	total = measure(table, widths);
	memcpy(natural, widths, table->n_columns * sizeof(*widths));
	for (; total > width && ((most = widest(table, widths, natural, NAMES)) ||
					(most = widest(table, widths, natural, LEAST))); total--)
		(*most)--;
	for (size_t i = 0; i < table->n_columns && err == 0; i++) {
		if (table->columns[i].hidden)
			continue;
		if (widths[shown] < natural[shown])
			err = narrow(table, table->columns[i].text, shown, widths[shown]);
		shown++;
	}
	/* it would cut what is too wide still */
	scols_table_set_termwidth(table->text, total > width ? total : width);
	return err;
}
