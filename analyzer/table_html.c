/* SPDX-License-Identifier: MIT */
/* table_html.c - a table of a page. Cells whose text does not sort like their value carry it as data-v. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "html.h"
#include "table_internal.h"

#define LONG_CELL 24 /* bytes; longer ones are broken into lines */

/* The first row is held back: whether a heading stands at the right depends on it. */
void table_html_begin(struct table *table)
{
	table->first = open_memstream(&table->first_text, &table->first_len);
	if (!table->first)
		table_fail(table, -ENOMEM);
}

void table_html_free(struct table *table)
{
	if (table->first)
		fclose(table->first);
	table->first = NULL;
	free(table->first_text);
	table->first_text = NULL;
}

/* Where the next cell goes. */
static FILE *stream(const struct table *table)
{
	return table->first ?: table->out;
}

static void write_heading(struct table *table)
{
	fputs("<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>", table->out);
	for (size_t i = 0; i < table->n_columns; i++) {
		const struct table_column *column = &table->columns[i];

		if (column->hidden)
			continue;
		fprintf(table->out, "<th scope=\"col\"%s>", column->number ? " class=\"n\"" : "");
		html_str(table->out, column->title);
		fputs("</th>", table->out);
	}
	fputs("</tr></thead>\n<tbody>\n", table->out);
}

static void end_first_row(struct table *table)
{
	if (!table->first)
		return;
	write_heading(table);
	if (fclose(table->first) == 0)
		fwrite(table->first_text, 1, table->first_len, table->out);
	else
		table_fail(table, -ENOMEM);
	table->first = NULL;
}

/* `class` and `value` are markup of ours. */
static void begin_cell(struct table *table, const char *class, const char *value)
{
	fputs(table->shown == 1 ? "<tr><td" : "<td", stream(table));
	if (class)
		fprintf(stream(table), " class=\"%s\"", class);
	if (value)
		fprintf(stream(table), " data-v=\"%s\"", value);
	fputc('>', stream(table));
}

void table_html_text(struct table *table, const char *text, size_t len)
{
	begin_cell(table, len > LONG_CELL ? "l" : NULL, NULL);
	html_text(stream(table), text, len);
	fputs("</td>", stream(table));
}

void table_html_int(struct table *table, struct table_column *column, int64_t value)
{
	char sort[24], text[40];

	column->number = column->kind != COLUMN_BOOL;
	snprintf(sort, sizeof(sort), "%" PRId64, value);
	switch (column->kind) {
	case COLUMN_DURATION:
		begin_cell(table, "n", sort);
		fputs(format_duration(value, text), stream(table));
		break;
	case COLUMN_TIME:
		begin_cell(table, "n", sort);
		fputs(format_time(value, true, text), stream(table));
		break;
	case COLUMN_SHARE:
	case COLUMN_RATIO:
		table_html_real(table, column, (double)value);
		return;
	case COLUMN_BOOL:
		begin_cell(table, NULL, NULL);
		fputs(value ? "yes" : "no", stream(table));
		break;
	default:
		begin_cell(table, "n", NULL);
		fputs(sort, stream(table));
	}
	fputs("</td>", stream(table));
}

void table_html_real(struct table *table, struct table_column *column, double value)
{
	char sort[40], text[40];

	column->number = true;
	snprintf(sort, sizeof(sort), "%.9g", value);
	if (!isfinite(value)) {
		begin_cell(table, "n", NULL);
		fputs("</td>", stream(table));
		return;
	}
	begin_cell(table, "n", sort);
	if (column->kind == COLUMN_DURATION)
		fputs(format_duration(fabs(value) < 9e18 ? llrint(value) : 0, text), stream(table));
	else if (column->kind == COLUMN_SHARE)
		fprintf(stream(table), "%.1f%%", value * 100);
	else if (column->kind == COLUMN_RATIO)
		fprintf(stream(table), "%.2f", value);
	else
		fprintf(stream(table), "%.6g", value);
	fputs("</td>", stream(table));
}

void table_html_end_row(struct table *table)
{
	fputs("</tr>\n", stream(table));
	end_first_row(table);
}

int table_html_print(struct table *table)
{
	end_first_row(table); /* there was none */
	fputs("</tbody></table></div>\n", table->out);
	return ferror(table->out) ? -EIO : 0; /* whoever opened it knows why: sink.h */
}
