/* SPDX-License-Identifier: MIT */
/* table_text.c - a table at a terminal, by libsmartcols. */
#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>

#include "table_internal.h"

#define BOLD "\033[1m"

const char *format_duration(int64_t ns, char buf[static 24])
{
	static const struct {
		double unit;
		const char *name;
	} units[] = { { 1e9, "s" }, { 1e6, "ms" }, { 1e3, "us" } };
	double magnitude = ns < 0 ? -(double)ns : (double)ns;

	if (magnitude >= 599.5e9) {
		int64_t s = (int64_t)(magnitude / 1e9 + 0.5); /* at most 11 digits */

		snprintf(buf, 24, "%s%" PRId64 " min %d s", ns < 0 ? "-" : "", s / 60 % 1000000000,
			(int)(s % 60));
		return buf;
	}
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		double value = magnitude / units[i].unit;

		if (value < 0.9995)
			continue;
		snprintf(buf, 24, "%s%.*f %s", ns < 0 ? "-" : "",
			value < 9.995   ? 2
			: value < 99.95 ? 1
					: 0,
			value, units[i].name);
		return buf;
	}
	snprintf(buf, 24, "%" PRId64 " ns", ns);
	return buf;
}

const char *format_time(int64_t real_ns, bool local, char buf[static 40])
{
	time_t seconds = real_ns / NSEC_PER_SEC - (real_ns % NSEC_PER_SEC < 0);
	struct tm tm;
	size_t len;

	if (!(local ? localtime_r(&seconds, &tm) : gmtime_r(&seconds, &tm))) {
		buf[0] = '\0';
		return buf;
	}
	len = strftime(buf, 40, local ? "%Y-%m-%dT%H:%M:%S%z" : "%Y-%m-%dT%H:%M:%SZ", &tm);
	if (local && len > 2 && len < 39) { /* strftime has no colon in its offset */
		memmove(buf + len - 1, buf + len - 2, 3);
		buf[len - 2] = ':';
	}
	return buf;
}

static bool right_aligned(const struct table_column *column)
{
	switch (column->kind) {
	case COLUMN_INT:
	case COLUMN_DURATION:
	case COLUMN_SHARE:
	case COLUMN_RATIO:
		return true;
	case COLUMN_ANY:
		return column->numbers;
	default:
		return false;
	}
}

/* Only what people read may be cut off: a number without its end would be another number. */
bool table_text_may_be_cut(const struct table_column *column)
{
	return column->kind == COLUMN_TEXT || column->kind == COLUMN_JSON ||
	       (column->kind == COLUMN_ANY && !column->numbers);
}

void table_text_begin(struct table *table)
{
	table->text = scols_new_table();
	if (!table->text) {
		table_fail(table, -ENOMEM);
		return;
	}
	for (size_t i = 0; i < table->n_columns; i++) {
		struct table_column *column = &table->columns[i];

		if (column->hidden)
			continue;
		column->text = scols_table_new_column(table->text, column->title, 0, 0);
		if (!column->text)
			table_fail(table, -ENOMEM);
	}
}

static bool text_row(struct table *table)
{
	if (table->err)
		return false;
	if (!table->text_row)
		table->text_row = scols_table_new_line(table->text, NULL);
	if (!table->text_row)
		table_fail(table, -ENOMEM);
	return table->text_row;
}

void table_text_cell(struct table *table, const char *text, size_t len)
{
	auto_free char *copy = NULL;

	if (!text_row(table))
		return;
	copy = strndup(text, len); /* ends at a NUL, which only a text of somebody else's SQL can hold */
	if (!copy || scols_line_set_data(table->text_row, table->shown - 1, copy) != 0)
		table_fail(table, -ENOMEM);
}

void table_text_int(struct table *table, const struct table_column *column, int64_t value)
{
	char text[40];

	switch (column->kind) {
	case COLUMN_DURATION:
		format_duration(value, text);
		break;
	case COLUMN_TIME:
		format_time(value, true, text);
		break;
	case COLUMN_BOOL:
		snprintf(text, sizeof(text), value ? "yes" : "no");
		break;
	default:
		snprintf(text, sizeof(text), "%" PRId64, value);
	}
	table_text_cell(table, text, strlen(text));
}

void table_text_real(struct table *table, const struct table_column *column, double value)
{
	char text[64];

	switch (column->kind) {
	case COLUMN_DURATION:
		format_duration((int64_t)value, text);
		break;
	case COLUMN_SHARE:
		snprintf(text, sizeof(text), "%.1f%%", value * 100);
		break;
	case COLUMN_RATIO:
		snprintf(text, sizeof(text), "%.2f", value);
		break;
	default:
		snprintf(text, sizeof(text), "%.6g", value);
	}
	table_text_cell(table, text, strlen(text));
}

void table_text_end_row(struct table *table)
{
	if (text_row(table)) /* also a row of hidden cells */
		table->text_row = NULL;
}

/* The terminal's width, or 0 when `out` is none. Of standard output only we know the descriptor: see sink.h. */
static size_t terminal_width(FILE *out)
{
	int fd = out == stdout ? STDOUT_FILENO : fileno(out);
	struct winsize size;

	if (!isatty(fd))
		return 0;
	if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col)
		return size.ws_col;
	return 80;
}

/* smartcols prints nothing for a table without rows; its columns still say what was asked. */
static int print_header(struct table *table)
{
	auto_free char *text = NULL;

	if (!scols_table_new_line(table->text, NULL) || scols_print_table_to_string(table->text, &text) != 0)
		return -ENOMEM;
	if (fprintf(table->out, "%.*s\n", (int)strcspn(text, "\n"), text) < 0)
		return errno ? -errno : -EIO;
	return 0;
}

int table_text_print(struct table *table)
{
	size_t width = terminal_width(table->out);

	if (!table->text)
		return -ENOMEM;
	scols_table_set_termforce(table->text, width ? SCOLS_TERMFORCE_ALWAYS : SCOLS_TERMFORCE_NEVER);
	scols_table_enable_colors(table->text, width && table->color);
	scols_table_set_stream(table->text, table->out);
	for (size_t i = 0; i < table->n_columns; i++) {
		struct table_column *column = &table->columns[i];

		if (column->hidden)
			continue;
		scols_column_set_flags(column->text, right_aligned(column) ? SCOLS_FL_RIGHT : 0);
		if (width && table->color)
			scols_cell_set_color(scols_column_get_header(column->text), BOLD);
	}
	if (!table->rows)
		return print_header(table);
	if (width && table_text_fit(table, width) < 0)
		return -ENOMEM;
	if (scols_print_table(table->text) != 0 || ferror(table->out))
		return errno ? -errno : -EIO;
	return 0;
}

void table_text_free(struct table *table)
{
	scols_unref_table(table->text);
}
