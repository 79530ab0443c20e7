/* SPDX-License-Identifier: MIT */
/* table_html.c - a table of a page. Cells whose text does not sort like their value carry it as data-v. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "html.h"
#include "table_internal.h"

#define LONG_CELL 24 /* bytes; longer ones are broken into lines */

static bool numeric(const struct table_column *column)
{
	return column->kind != COLUMN_TEXT && column->kind != COLUMN_JSON && column->kind != COLUMN_ANY;
}

void table_html_begin(struct table *table)
{
	fputs("<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>", table->out);
	for (size_t i = 0; i < table->n_columns; i++) {
		const struct table_column *column = &table->columns[i];

		if (column->hidden)
			continue;
		fprintf(table->out, "<th scope=\"col\"%s>", numeric(column) ? " class=\"n\"" : "");
		html_str(table->out, column->title);
		fputs("</th>", table->out);
	}
	fputs("</tr></thead>\n<tbody>\n", table->out);
}

/* `class` and `value` are markup of ours. */
static void begin_cell(struct table *table, const char *class, const char *value)
{
	fputs(table->shown == 1 ? "<tr><td" : "<td", table->out);
	if (class)
		fprintf(table->out, " class=\"%s\"", class);
	if (value)
		fprintf(table->out, " data-v=\"%s\"", value);
	fputc('>', table->out);
}

void table_html_text(struct table *table, const char *text, size_t len)
{
	begin_cell(table, len > LONG_CELL ? "l" : NULL, NULL);
	html_text(table->out, text, len);
	fputs("</td>", table->out);
}

void table_html_int(struct table *table, const struct table_column *column, int64_t value)
{
	char sort[24], text[40];

	snprintf(sort, sizeof(sort), "%" PRId64, value);
	switch (column->kind) {
	case COLUMN_DURATION:
		begin_cell(table, "n", sort);
		fputs(format_duration(value, text), table->out);
		break;
	case COLUMN_TIME:
		begin_cell(table, "n", sort);
		fputs(format_time(value, true, text), table->out);
		break;
	case COLUMN_SHARE:
	case COLUMN_RATIO:
		table_html_real(table, column, (double)value);
		return;
	case COLUMN_BOOL:
		begin_cell(table, NULL, NULL);
		fputs(value ? "yes" : "no", table->out);
		break;
	default:
		begin_cell(table, "n", NULL);
		fputs(sort, table->out);
	}
	fputs("</td>", table->out);
}

void table_html_real(struct table *table, const struct table_column *column, double value)
{
	char sort[40], text[40];

	snprintf(sort, sizeof(sort), "%.9g", value);
	if (!isfinite(value)) {
		begin_cell(table, "n", NULL);
		fputs("</td>", table->out);
		return;
	}
	begin_cell(table, "n", sort);
	if (column->kind == COLUMN_DURATION)
		fputs(format_duration(fabs(value) < 9e18 ? llrint(value) : 0, text), table->out);
	else if (column->kind == COLUMN_SHARE)
		fprintf(table->out, "%.1f%%", value * 100);
	else if (column->kind == COLUMN_RATIO)
		fprintf(table->out, "%.2f", value);
	else
		fprintf(table->out, "%.6g", value);
	fputs("</td>", table->out);
}

void table_html_end_row(struct table *table)
{
	fputs("</tr>\n", table->out);
}

int table_html_print(struct table *table)
{
	fputs("</tbody></table></div>\n", table->out);
	return ferror(table->out) ? -EIO : 0;
}
