/* SPDX-License-Identifier: MIT */
/* table.c - columns and cells of a result set, and its CSV and JSON; table_text.c has the terminal's,
 * table_html.c a page's. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "table_internal.h"

struct table *table_new(enum table_format format, bool color, FILE *out)
{
	struct table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->format = format;
	table->color = color;
	table->out = out;
	return table;
}

void table_free(struct table *table)
{
	if (!table)
		return;
	table_text_free(table);
	table_html_free(table);
	for (size_t i = 0; i < table->n_columns; i++) {
		free(table->columns[i].name);
		free(table->columns[i].title);
	}
	free(table->columns);
	strbuf_free(&table->line);
	free(table);
}

void table_fail(struct table *table, int err)
{
	if (!table->err)
		table->err = err;
}

static bool for_people(const struct table *table)
{
	return table->format == TABLE_TEXT || table->format == TABLE_HTML;
}

void table_add_column(
	struct table *table, const char *name, const char *title, enum column_kind kind, unsigned int flags)
{
	struct table_column *columns = reallocarray(table->columns, table->n_columns + 1, sizeof(*columns));
	struct table_column *column;

	if (!columns) {
		table_fail(table, -ENOMEM);
		return;
	}
	table->columns = columns;
	column = &columns[table->n_columns++];
	*column = (struct table_column){
		.name = strdup(name),
		.title = strdup(title ?: name),
		.kind = kind,
		.numbers = true,
		.hidden = flags & (for_people(table) ? COLUMN_DATA_ONLY : COLUMN_TEXT_ONLY),
	};
	if (!column->name || !column->title)
		table_fail(table, -ENOMEM);
}

void table_add_columns(struct table *table, const struct table_heading *headings, size_t count)
{
	for (size_t i = 0; i < count; i++)
		table_add_column(table, headings[i].name, headings[i].title, headings[i].kind, headings[i].flags);
}

/* RFC 4180: quoted when it holds what separates fields or lines; quotes are doubled. */
static void csv_field(struct strbuf *line, const char *text, size_t len)
{
	bool quote = false;

	for (size_t i = 0; i < len && !quote; i++)
		quote = text[i] == ',' || text[i] == '"' || text[i] == '\r' || text[i] == '\n';
	if (!quote) {
		strbuf_add(line, text, len);
		return;
	}
	strbuf_add(line, "\"", 1);
	for (size_t i = 0; i < len; i++)
		strbuf_add(line, text[i] == '"' ? "\"\"" : &text[i], text[i] == '"' ? 2 : 1);
	strbuf_add(line, "\"", 1);
}

static void write_line(struct table *table)
{
	if (table->line.failed)
		table_fail(table, -ENOMEM);
	else if (table->line.len && fwrite(table->line.buf, 1, table->line.len, table->out) < table->line.len)
		table_fail(table, errno ? -errno : -EIO);
	table->line.len = 0;
}

static bool is_json(const struct table *table)
{
	return table->format == TABLE_JSON || table->format == TABLE_NDJSON;
}

/* What stands before the first row. */
static void begin_rows(struct table *table)
{
	if (table->begun)
		return;
	table->begun = true;
	if (table->format == TABLE_TEXT) {
		table_text_begin(table);
		return;
	}
	if (table->format == TABLE_HTML) {
		table_html_begin(table);
		return;
	}
	if (is_json(table)) {
		strbuf_addf(&table->line, table->format == TABLE_JSON ? "[" : "");
		return;
	}
	for (size_t i = 0, n = 0; i < table->n_columns; i++) {
		if (table->columns[i].hidden)
			continue;
		if (n++)
			strbuf_addf(&table->line, ",");
		csv_field(&table->line, table->columns[i].name, strlen(table->columns[i].name));
	}
	strbuf_addf(&table->line, "\r\n");
	write_line(table);
}

/* The column that the next cell belongs to, with what stands before the cell; NULL: none that is shown. */
static struct table_column *next_cell(struct table *table)
{
	struct table_column *column;

	begin_rows(table);
	if (table->cell >= table->n_columns) {
		table_fail(table, -EOVERFLOW);
		return NULL;
	}
	column = &table->columns[table->cell++];
	if (column->hidden)
		return NULL;
	if (table->format == TABLE_CSV && table->shown)
		strbuf_addf(&table->line, ",");
	if (is_json(table)) {
		if (!table->shown && table->format == TABLE_JSON)
			strbuf_addf(&table->line, table->rows ? ",\n" : "\n");
		strbuf_addf(&table->line, table->shown ? "," : "{");
		strbuf_add_json(&table->line, column->name, strlen(column->name));
		strbuf_addf(&table->line, ":");
	}
	table->shown++;
	return column;
}

void table_null(struct table *table)
{
	struct table_column *column = next_cell(table);

	if (!column)
		return;
	if (table->format == TABLE_TEXT)
		table_text_cell(table, "", 0);
	else if (table->format == TABLE_HTML)
		table_html_text(table, "", 0);
	else if (is_json(table))
		strbuf_addf(&table->line, "null");
}

static void data_int(struct table *table, const struct table_column *column, int64_t value)
{
	char time[40];

	if (column->kind == COLUMN_BOOL && is_json(table))
		strbuf_addf(&table->line, value ? "true" : "false");
	else if (column->kind == COLUMN_TIME && is_json(table))
		strbuf_addf(&table->line, "\"%s\"", format_time(value, false, time));
	else if (column->kind == COLUMN_TIME)
		strbuf_addf(&table->line, "%s", format_time(value, false, time));
	else
		strbuf_addf(&table->line, "%" PRId64, value);
}

void table_int(struct table *table, int64_t value)
{
	struct table_column *column = next_cell(table);

	if (!column)
		return;
	if (table->format == TABLE_TEXT)
		table_text_int(table, column, value);
	else if (table->format == TABLE_HTML)
		table_html_int(table, column, value);
	else
		data_int(table, column, value);
}

/* The shortest of two lengths that reads back as the same number; a locale never changes the point: LC_CTYPE only. */
static void add_real(struct strbuf *line, double value)
{
	char text[40];

	snprintf(text, sizeof(text), "%.15g", value);
	if (strtod(text, NULL) != value)
		snprintf(text, sizeof(text), "%.17g", value);
	strbuf_addf(line, "%s", text);
}

void table_real(struct table *table, double value)
{
	struct table_column *column = next_cell(table);

	if (!column)
		return;
	if (table->format == TABLE_TEXT)
		table_text_real(table, column, value);
	else if (table->format == TABLE_HTML)
		table_html_real(table, column, value);
	else if (is_json(table) && !isfinite(value))
		strbuf_addf(&table->line, "null");
	else
		add_real(&table->line, value);
}

void table_text(struct table *table, const char *text)
{
	if (text)
		table_bytes(table, text, strlen(text));
	else
		table_null(table);
}

void table_bytes(struct table *table, const char *text, size_t len)
{
	struct table_column *column = next_cell(table);

	if (!column)
		return;
	column->numbers = false;
	if (table->format == TABLE_TEXT)
		table_text_cell(table, text, len);
	else if (table->format == TABLE_HTML)
		table_html_text(table, text, len);
	else if (table->format == TABLE_CSV)
		csv_field(&table->line, text, len);
	else if (column->kind == COLUMN_JSON)
		strbuf_add(&table->line, text, len);
	else
		strbuf_add_json(&table->line, text, len);
}

void table_blob(struct table *table, const void *data, size_t len)
{
	const unsigned char *bytes = data;
	struct strbuf auto_strbuf hex = {};

	if (table->format == TABLE_CSV) {
		table_bytes(table, data, len);
		return;
	}
	strbuf_add(&hex, "", 0);
	for (size_t i = 0; i < len; i++)
		strbuf_addf(&hex, "%02x", bytes[i]);
	if (hex.failed)
		table_fail(table, -ENOMEM);
	table_bytes(table, hex.buf ?: "", hex.len);
}

void table_end_row(struct table *table)
{
	if (table->cell != table->n_columns)
		table_fail(table, -EOVERFLOW);
	if (table->format == TABLE_TEXT)
		table_text_end_row(table);
	else if (table->format == TABLE_HTML)
		table_html_end_row(table);
	else
		strbuf_addf(&table->line, table->format == TABLE_JSON ? "}" : is_json(table) ? "}\n" : "\r\n");
	table->cell = table->shown = 0;
	table->rows++;
	if (table->line.len >= 1 << 16)
		write_line(table);
}

int table_print(struct table *table)
{
	begin_rows(table);
	if (table->format == TABLE_TEXT) {
		if (!table->err)
			table_fail(table, table_text_print(table));
		return table->err;
	}
	if (table->format == TABLE_HTML)
		table_fail(table, table_html_print(table));
	if (table->format == TABLE_JSON)
		strbuf_addf(&table->line, table->rows ? "\n]\n" : "]\n");
	write_line(table);
	return table->err;
}
