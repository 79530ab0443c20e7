/* SPDX-License-Identifier: MIT */
/* chart_time.c - what lies on an axis of time: stacked series, and spans in lanes. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base.h"
#include "chart_internal.h"
#include "html.h"

#define AREA_HEIGHT 150.0
#define AXIS_HEIGHT 24
#define UNITS	    1000 /* of the height, in paths */
#define LANE_HEIGHT 18
#define MAX_LANES   24

static double at(const struct matrix *matrix, size_t row, size_t column)
{
	return chart_value(matrix->values[row * matrix->columns + column]);
}

/* One series: along its upper edge from left to right, back along its lower one. `lower` becomes the upper one. */
static void area(FILE *out, const struct matrix *matrix, size_t row, double max, double *lower)
{
	int last = -1;

	fprintf(out, "<path class=\"s%u\" d=\"M0,%.0f", chart_slot(row), UNITS - lower[0] / max * UNITS);
	for (size_t i = 0; i < matrix->columns; i++) {
		int y = (int)lrint(UNITS - (lower[i] + at(matrix, row, i)) / max * UNITS);

		if (y != last)
			fprintf(out, "H%zuV%d", i, y);
		last = y;
	}
	fprintf(out, "H%zu", matrix->columns);
	last = -1;
	for (size_t i = matrix->columns; i--;) {
		int y = (int)lrint(UNITS - lower[i] / max * UNITS);

		if (y != last)
			fprintf(out, "H%zuV%d", i + 1, y);
		last = y;
		lower[i] += at(matrix, row, i);
	}
	fputs("H0Z\"/>\n", out);
}

/* A transparent column over each interval says what is in it. */
static void area_notes(FILE *out, const struct chart *chart, const struct matrix *matrix, struct chart_time time)
{
	double width = 100.0 / (double)matrix->columns, step = (double)time.length_ns / (double)matrix->columns;
	char text[40];

	for (size_t i = 0; i < matrix->columns; i++) {
		double sum = 0;

		for (size_t row = 0; row < matrix->rows; row++)
			sum += at(matrix, row, i);
		if (sum <= 0)
			continue;
		fprintf(out, "<rect class=\"hit\" x=\"%.2f%%\" width=\"%.2f%%\" height=\"%.0f\"><title>at %s: %s",
			(double)i * width, width, AREA_HEIGHT,
			chart_number(UNIT_NS, (double)time.begin_ns + (double)i * step, text),
			chart_number(chart->unit, sum, (char[40]){}));
		for (size_t row = 0; row < matrix->rows; row++) {
			if (at(matrix, row, i) < sum / 200)
				continue;
			fputs("\n", out);
			html_str(out, matrix->row_names[row]);
			fprintf(out, " %s", chart_number(chart->unit, at(matrix, row, i), text));
		}
		fputs("</title></rect>\n", out);
	}
}

static double highest(const struct matrix *matrix)
{
	double max = 0;

	for (size_t i = 0; i < matrix->columns; i++) {
		double sum = 0;

		for (size_t row = 0; row < matrix->rows; row++)
			sum += at(matrix, row, i);
		max = fmax(max, sum);
	}
	return max;
}

void chart_area(FILE *out, const struct chart *chart, const struct matrix *matrix, struct chart_time time, int axis)
{
	auto_free double *lower = calloc(matrix->columns + 1, sizeof(*lower));
	auto_free char *skip = calloc(matrix->rows + 1, 1);
	double max = highest(matrix);

	if (!lower || !skip)
		return;
	for (size_t row = 0; row < matrix->rows; row++) {
		skip[row] = 1;
		for (size_t i = 0; i < matrix->columns; i++)
			skip[row] &= at(matrix, row, i) <= 0;
	}
	chart_begin(out, chart);
	chart_legend(out, matrix->row_names, matrix->rows, NULL, skip);
	chart_svg(out, chart, "plot", AREA_HEIGHT + (axis ? AXIS_HEIGHT : 2));
	chart_value_axis(out, chart->unit, max, AREA_HEIGHT);
	chart_time_axis(out, time, AREA_HEIGHT, axis);
	fprintf(out, "<svg width=\"100%%\" height=\"%.0f\" viewBox=\"0 0 %zu %d\" preserveAspectRatio=\"none\">\n",
		AREA_HEIGHT, matrix->columns, UNITS);
	for (size_t row = 0; row < matrix->rows && max > 0; row++) {
		if (!skip[row])
			area(out, matrix, row, max, lower);
	}
	fputs("</svg>\n", out);
	area_notes(out, chart, matrix, time);
	chart_end(out);
}

/* --- lanes ------------------------------------------------------------------------------------------------------ */

/* The first lane of a span's level that is free when it begins; a new one when there is none. */
struct lane {
	unsigned int level;
	int64_t free_ns;
};

static int by_level(const void *a, const void *b)
{
	const struct chart_span *x = *(const struct chart_span *const *)a, *y = *(const struct chart_span *const *)b;

	if (x->level != y->level)
		return x->level < y->level ? -1 : 1;
	if (x->begin_ns != y->begin_ns)
		return x->begin_ns < y->begin_ns ? -1 : 1;
	return (x->end_ns < y->end_ns) - (x->end_ns > y->end_ns);
}

static size_t find_lane(struct lane *lanes, size_t *count, const struct chart_span *span)
{
	size_t i;

	for (i = 0; i < *count; i++) {
		if (lanes[i].level == span->level && lanes[i].free_ns <= span->begin_ns)
			break;
	}
	if (i == *count && i < MAX_LANES)
		lanes[(*count)++] = (struct lane){ .level = span->level };
	if (i < *count)
		lanes[i].free_ns = span->end_ns;
	return i;
}

static void draw_span(FILE *out, const struct chart_span *span, size_t lane, struct chart_time time)
{
	double length = (double)time.length_ns, begin = (double)(span->begin_ns - time.begin_ns) / length * 100;
	double width = (double)(span->end_ns - span->begin_ns) / length * 100;
	char from[40], took[40];

	begin = fmin(fmax(begin, 0), 100);
	width = fmin(fmax(width, 0.1), 100 - begin + 0.1);
	fprintf(out,
		"<svg x=\"%.3f%%\" y=\"%zu\" width=\"%.3f%%\" height=\"%d\"><rect class=\"s%u span\" width=\"100%%\" "
		"height=\"100%%\"><title>",
		begin, lane * LANE_HEIGHT, width, LANE_HEIGHT - 2, chart_slot(span->series));
	html_str(out, span->name);
	if (span->note) {
		fputc('\n', out);
		html_str(out, span->note);
	}
	fprintf(out, "\nfrom %s, took %s</title></rect>",
		chart_number(UNIT_NS, (double)span->begin_ns, from),
		chart_number(UNIT_NS, (double)(span->end_ns - span->begin_ns), took));
	if (width > 2.5) {
		fputs("<text class=\"in\" x=\"4\" y=\"12\">", out);
		html_str(out, span->name);
		fputs("</text>", out);
	}
	fputs("</svg>\n", out);
}

void chart_lanes(FILE *out, const struct chart *chart, const struct chart_span *spans, size_t count,
	const char *const *series, size_t n_series, struct chart_time time)
{
	auto_free const struct chart_span **sorted = calloc(count + 1, sizeof(*sorted));
	auto_free size_t *place = calloc(count + 1, sizeof(*place));
	struct lane lanes[MAX_LANES] = {};
	size_t n_lanes = 0;

	if (!sorted || !place || time.length_ns <= 0)
		return;
	for (size_t i = 0; i < count; i++)
		sorted[i] = &spans[i];
	array_sort(sorted, count, sizeof(*sorted), by_level);
	for (size_t i = 0; i < count; i++)
		place[i] = find_lane(lanes, &n_lanes, sorted[i]);
	chart_begin(out, chart);
	chart_legend(out, series, n_series, NULL, NULL);
	chart_svg(out, chart, "plot", (double)n_lanes * LANE_HEIGHT + AXIS_HEIGHT);
	chart_time_axis(out, time, (double)n_lanes * LANE_HEIGHT, 1);
	for (size_t i = 0; i < count; i++) {
		if (place[i] < n_lanes)
			draw_span(out, sorted[i], place[i], time);
	}
	chart_end(out);
}
