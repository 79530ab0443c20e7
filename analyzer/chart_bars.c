/* SPDX-License-Identifier: MIT */
/* chart_bars.c - horizontal bars: beside each other with intervals, or stacked. */
#include <math.h>

#include "base.h"
#include "chart_internal.h"
#include "html.h"

#define LABEL_HEIGHT 20 /* the line above a row's bars */
#define BAR_HEIGHT   13
#define BAR_GAP	     2
#define ROW_GAP	     10
#define LONGEST	     78 /* percent of the width: beside the longest bar stands its value */

static double value_at(const struct matrix *matrix, size_t row, size_t column)
{
	return chart_value(matrix->values[row * matrix->columns + column]);
}

static bool has_interval(const struct matrix *matrix, size_t i)
{
	return matrix->low && matrix->high && isfinite(matrix->low[i]) && isfinite(matrix->high[i]);
}

/* The interval as a whisker across the bar's end. */
static void whisker(FILE *out, double low, double high, double y)
{
	double middle = y + BAR_HEIGHT / 2.0;

	fprintf(out,
		"<g class=\"whisker\"><line x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"%.1f\" y2=\"%.1f\"/>"
		"<line x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"%.1f\" y2=\"%.1f\"/>"
		"<line x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"%.1f\" y2=\"%.1f\"/></g>",
		low, high, middle, middle, low, low, middle - 3, middle + 3, high, high, middle - 3, middle + 3);
}

static void bar(FILE *out, const struct chart *chart, const struct matrix *matrix, size_t row, size_t column,
	double y, double scale)
{
	size_t i = row * matrix->columns + column;
	double value = value_at(matrix, row, column), end = value * scale;
	char text[40], low[40], high[40];

	fprintf(out, "<g><title>");
	html_str(out, matrix->row_names[row]);
	fprintf(out, ", ");
	html_str(out, matrix->column_names[column]);
	fprintf(out, ": %s", chart_number(chart->unit, value, text));
	if (has_interval(matrix, i))
		fprintf(out, ", 95%% interval %s to %s", chart_number(chart->unit, matrix->low[i], low),
			chart_number(chart->unit, matrix->high[i], high));
	fprintf(out, "</title><rect class=\"s%u\" x=\"0\" y=\"%.1f\" width=\"%.2f%%\" height=\"%d\" rx=\"1\"/>",
		chart_slot(column), y, end, BAR_HEIGHT);
	if (has_interval(matrix, i)) {
		whisker(out, chart_value(matrix->low[i]) * scale, chart_value(matrix->high[i]) * scale, y);
		end = fmax(end, chart_value(matrix->high[i]) * scale);
	}
	fprintf(out, "<text class=\"tick\" x=\"%.2f%%\" dx=\"6\" y=\"%.1f\">%s</text></g>\n", end,
		y + BAR_HEIGHT - 2.5, text);
}

void chart_bars(FILE *out, const struct chart *chart, const struct matrix *matrix)
{
	double row_height = LABEL_HEIGHT + (double)matrix->columns * (BAR_HEIGHT + BAR_GAP) + ROW_GAP, max = 0;

	for (size_t i = 0; i < matrix->rows * matrix->columns; i++) {
		max = fmax(max, chart_value(matrix->values[i]));
		if (has_interval(matrix, i))
			max = fmax(max, chart_value(matrix->high[i]));
	}
	chart_begin(out, chart);
	chart_legend(out, matrix->column_names, matrix->columns, NULL, NULL);
	chart_svg(out, chart, "bars", row_height * (double)matrix->rows);
	for (size_t row = 0; row < matrix->rows; row++) {
		double y = row_height * (double)row;

		chart_row_label(out, matrix, row, "label", y + 14);
		for (size_t column = 0; column < matrix->columns; column++)
			bar(out, chart, matrix, row, column,
				y + LABEL_HEIGHT + (double)column * (BAR_HEIGHT + BAR_GAP),
				max > 0 ? LONGEST / max : 0);
	}
	chart_end(out);
}

static double row_sum(const struct matrix *matrix, size_t row)
{
	double sum = 0;

	for (size_t column = 0; column < matrix->columns; column++)
		sum += value_at(matrix, row, column);
	return sum;
}

static void stacked_row(FILE *out, const struct chart *chart, const struct matrix *matrix, size_t row, double y,
	double scale)
{
	double x = 0, sum = row_sum(matrix, row);
	char text[40];

	chart_row_label(out, matrix, row, "label", y + 14);
	for (size_t column = 0; column < matrix->columns; column++) {
		double value = value_at(matrix, row, column);

		if (value <= 0)
			continue;
		fprintf(out, "<rect class=\"s%u\" x=\"%.3f%%\" y=\"%.0f\" width=\"%.3f%%\" height=\"18\"><title>",
			chart_slot(matrix->colours ? matrix->colours[column] : column), x, y + LABEL_HEIGHT,
			value * scale);
		html_str(out, matrix->row_names[row]);
		fputs(", ", out);
		html_str(out, matrix->column_names[column]);
		fprintf(out, ": %s (%.1f%%)</title></rect>", chart_number(chart->unit, value, text), value / sum * 100);
		x += value * scale;
	}
	fprintf(out, "<text class=\"tick\" x=\"%.2f%%\" dx=\"6\" y=\"%.0f\">%s</text>\n", x, y + LABEL_HEIGHT + 13,
		chart_number(chart->unit, sum, text));
}

void chart_stack(FILE *out, const struct chart *chart, const struct matrix *matrix)
{
	double height = LABEL_HEIGHT + 18 + ROW_GAP, max = 0;
	auto_free char *skip = malloc(matrix->columns + 1);

	for (size_t column = 0; column < matrix->columns && skip; column++) {
		skip[column] = 1;
		for (size_t row = 0; row < matrix->rows; row++)
			skip[column] &= value_at(matrix, row, column) <= 0;
	}
	for (size_t row = 0; row < matrix->rows; row++)
		max = fmax(max, row_sum(matrix, row));
	chart_begin(out, chart);
	chart_legend(out, matrix->column_names, matrix->columns, matrix->colours, skip);
	chart_svg(out, chart, "bars", height * (double)matrix->rows);
	for (size_t row = 0; row < matrix->rows; row++)
		stacked_row(out, chart, matrix, row, height * (double)row, max > 0 ? LONGEST / max : 0);
	chart_end(out);
}
