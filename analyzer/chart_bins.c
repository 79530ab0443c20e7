/* SPDX-License-Identifier: MIT */
/* chart_bins.c - durations on a logarithmic axis: hills, and a heat map over time. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base.h"
#include "chart_internal.h"
#include "html.h"

#define HILL_HEIGHT  34.0
#define HILL_LABEL   18.0
#define HILL_GAP     6.0
#define CELL_HEIGHT  7.0
#define AXIS_HEIGHT  24
#define HEAT_BINS    2 /* bins of the relation in a row of the map */

double bin_edge_ns(size_t bin)
{
	return BIN_LOWEST_NS * exp2((double)bin / BINS_PER_OCTAVE);
}

size_t bin_of(int64_t ns)
{
	/* 2^63 times 2^(1/4), 2^(2/4), 2^(3/4): where the bins within the highest octave begin */
	static const uint64_t edges[] = { 10968499650544839024ULL, 13043817825332782213ULL, 15511800964685064949ULL };
	unsigned int shift;
	uint64_t place;
	size_t bin;

	if (ns < BIN_LOWEST_NS)
		return 0;
	shift = (unsigned int)__builtin_clzll((uint64_t)ns);
	place = (uint64_t)ns << shift;
	bin = (63 - shift - BIN_LOWEST_OCTAVE) * BINS_PER_OCTAVE;
	for (size_t i = 0; i < ARRAY_SIZE(edges) && place >= edges[i]; i++)
		bin++;
	return bin < BIN_COUNT ? bin : BIN_COUNT - 1;
}

/* Bins that anything is in, with one to spare on each side, in whole rows of a heat map. */
struct range {
	size_t first, end;
};

static struct range used_bins(const struct matrix *matrix, bool bins_are_rows)
{
	struct range range = { BIN_COUNT, 0 };

	for (size_t i = 0; i < matrix->rows * matrix->columns; i++) {
		size_t bin = bins_are_rows ? i / matrix->columns : i % matrix->columns;

		if (chart_value(matrix->values[i]) <= 0)
			continue;
		range.first = bin < range.first ? bin : range.first;
		range.end = bin + 1 > range.end ? bin + 1 : range.end;
	}
	if (range.end == 0)
		return (struct range){ 0, 4 };
	range.first -= range.first > 0;
	range.end += range.end < BIN_COUNT;
	range.first -= range.first % HEAT_BINS;
	range.end += range.end % HEAT_BINS; /* BIN_COUNT is a multiple */
	return range;
}

static double bin_at(double ns)
{
	return log2(ns / BIN_LOWEST_NS) * BINS_PER_OCTAVE;
}

static double next_decade(double ns)
{
	return pow(10, floor(log10(ns * (1 + 1e-9))) + 1);
}

static void ridge_axis(FILE *out, struct range range, double height)
{
	double span = (double)(range.end - range.first);
	char text[40];

	for (double ns = next_decade(bin_edge_ns(range.first)); bin_at(ns) < (double)range.end; ns *= 10) {
		double x = (bin_at(ns) - (double)range.first) / span * 100;

		fprintf(out,
			"<line class=\"grid\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"0\" y2=\"%.0f\"/>"
			"<text class=\"tick %s\" x=\"%.2f%%\" y=\"%.0f\">%s</text>\n",
			x, x, height, x > 94 ? "end" : "mid", x, height + 15, chart_tick_ns(ns, text));
	}
}

static void hill(FILE *out, const struct matrix *matrix, size_t row, struct range range, double y)
{
	const double *values = &matrix->values[row * matrix->columns];
	size_t width = range.end - range.first;
	double max = 0, sum = 0;

	for (size_t i = range.first; i < range.end; i++) {
		max = fmax(max, chart_value(values[i]));
		sum += chart_value(values[i]);
	}
	fprintf(out,
		"<svg y=\"%.0f\" width=\"100%%\" height=\"%.0f\" viewBox=\"0 0 %zu 100\" preserveAspectRatio=\"none\">"
		"<path class=\"s0\" d=\"M0,100",
		y, HILL_HEIGHT, width);
	for (size_t i = 0; i < width && max > 0; i++) {
		double value = chart_value(values[range.first + i]);
		double height = value > 0 ? fmax(100 * value / max, 1.5) : 0; /* a single one must be seen */

		fprintf(out, "H%zuV%.0f", i, 100 - height);
	}
	fprintf(out, "H%zuV100Z\"/>", width);
	for (size_t i = 0; i < width; i++) {
		double value = chart_value(values[range.first + i]);
		char from[40], to[40], count[40];

		if (value <= 0)
			continue;
		fprintf(out, "<rect class=\"hit\" x=\"%zu\" width=\"1\" height=\"100\"><title>", i);
		html_str(out, matrix->row_names[row]);
		fprintf(out, ", %s to %s: %s (%.2g%%)</title></rect>",
			chart_number(UNIT_NS, bin_edge_ns(range.first + i), from),
			chart_number(UNIT_NS, bin_edge_ns(range.first + i + 1), to),
			chart_number(UNIT_COUNT, value, count), value / sum * 100);
	}
	fputs("</svg>\n", out);
}

void chart_ridges(FILE *out, const struct chart *chart, const struct matrix *matrix)
{
	struct range range = used_bins(matrix, false);
	double step = HILL_LABEL + HILL_HEIGHT + HILL_GAP, height = step * (double)matrix->rows;

	chart_begin(out, chart);
	chart_svg(out, chart, "bars", height + AXIS_HEIGHT);
	ridge_axis(out, range, height);
	for (size_t row = 0; row < matrix->rows; row++) {
		double y = step * (double)row;

		chart_row_label(out, matrix, row, "label halo", y + 13);
		hill(out, matrix, row, range, y + HILL_LABEL);
	}
	chart_end(out);
}

/* --- heat map --------------------------------------------------------------------------------------------------- */

static double cell(const struct matrix *matrix, size_t bin, size_t column)
{
	double sum = 0;

	for (size_t i = bin; i < bin + HEAT_BINS; i++)
		sum += chart_value(matrix->values[i * matrix->columns + column]);
	return sum;
}

/* 0: nothing; a logarithmic scale up to the most that is in a cell. */
static unsigned int shade(double value, double max)
{
	double level = max > 1 ? ceil(CHART_SHADES * log1p(value) / log1p(max)) : CHART_SHADES;

	return value > 0 ? (unsigned int)fmin(fmax(level, 1), CHART_SHADES) : 0;
}

static void heat_cells(FILE *out, const struct matrix *matrix, struct range range, double max)
{
	size_t rows = (range.end - range.first) / HEAT_BINS;

	for (unsigned int level = 1; level <= CHART_SHADES; level++) {
		fprintf(out, "<path class=\"h%u\" d=\"", level);
		for (size_t row = 0; row < rows; row++) {
			for (size_t i = 0, n; i < matrix->columns; i += n) {
				n = 1;
				if (shade(cell(matrix, range.first + row * HEAT_BINS, i), max) != level)
					continue;
				while (i + n < matrix->columns &&
					shade(cell(matrix, range.first + row * HEAT_BINS, i + n), max) == level)
					n++;
				fprintf(out, "M%zu,%zuh%zuv1h-%zuz", i, rows - 1 - row, n, n);
			}
		}
		fputs("\"/>\n", out);
	}
}

/* How many in the column, and how long half of them and nearly all took. */
static void heat_notes(FILE *out, const struct matrix *matrix, struct range range, struct chart_time time,
	double height)
{
	double width = 100.0 / (double)matrix->columns, step = (double)time.length_ns / (double)matrix->columns;
	char when[40], count[40], half[40], most[40];

	for (size_t i = 0; i < matrix->columns; i++) {
		double total = 0, sum = 0;
		size_t p50 = range.end, p99 = range.end;

		for (size_t bin = range.first; bin < range.end; bin++)
			total += chart_value(matrix->values[bin * matrix->columns + i]);
		for (size_t bin = range.first; bin < range.end; bin++) {
			sum += chart_value(matrix->values[bin * matrix->columns + i]);
			if (p50 == range.end && sum >= total * 0.5)
				p50 = bin;
			if (p99 == range.end && sum >= total * 0.99)
				p99 = bin;
		}
		if (total <= 0)
			continue;
		fprintf(out,
			"<rect class=\"hit\" x=\"%.2f%%\" width=\"%.2f%%\" height=\"%.0f\"><title>at %s: %s operations"
			"\nhalf below %s, 99%% below %s</title></rect>\n",
			(double)i * width, width, height,
			chart_number(UNIT_NS, (double)time.begin_ns + (double)i * step, when),
			chart_number(UNIT_COUNT, total, count), chart_number(UNIT_NS, bin_edge_ns(p50 + 1), half),
			chart_number(UNIT_NS, bin_edge_ns(p99 + 1), most));
	}
}

static void heat_axis(FILE *out, struct range range, double height)
{
	double span = (double)(range.end - range.first);
	char text[40];

	for (double ns = next_decade(bin_edge_ns(range.first)); bin_at(ns) < (double)range.end; ns *= 10) {
		double y = height - (bin_at(ns) - (double)range.first) / span * height;

		fprintf(out,
			"<line class=\"grid\" x1=\"0\" x2=\"100%%\" y1=\"%.1f\" y2=\"%.1f\"/>"
			"<text class=\"tick end\" x=\"-6\" y=\"%.1f\">%s</text>\n",
			y, y, y + 4, chart_tick_ns(ns, text));
	}
}

static void heat_legend(FILE *out, double max)
{
	char text[40];

	fputs("<p class=\"legend\">1 <svg width=\"112\" height=\"12\" aria-hidden=\"true\">", out);
	for (unsigned int i = 0; i < CHART_SHADES; i++)
		fprintf(out, "<rect class=\"h%u\" x=\"%u\" width=\"16\" height=\"12\"/>", i + 1, i * 16);
	fprintf(out, "</svg> %s in a cell</p>\n", chart_number(UNIT_COUNT, max, text));
}

void chart_heat(FILE *out, const struct chart *chart, const struct matrix *matrix, struct chart_time time)
{
	struct range range = used_bins(matrix, true);
	size_t rows = (range.end - range.first) / HEAT_BINS;
	double height = (double)rows * CELL_HEIGHT, max = 0;

	for (size_t row = 0; row < rows; row++) {
		for (size_t i = 0; i < matrix->columns; i++)
			max = fmax(max, cell(matrix, range.first + row * HEAT_BINS, i));
	}
	chart_begin(out, chart);
	heat_legend(out, max);
	chart_svg(out, chart, "plot", height + AXIS_HEIGHT);
	chart_time_axis(out, time, height, 1);
	fprintf(out,
		"<svg width=\"100%%\" height=\"%.0f\" viewBox=\"0 0 %zu %zu\" preserveAspectRatio=\"none\" "
		"shape-rendering=\"crispEdges\">\n",
		height, matrix->columns, rows);
	heat_cells(out, matrix, range, max);
	fputs("</svg>\n", out);
	heat_axis(out, range, height);
	heat_notes(out, matrix, range, time, height);
	chart_end(out);
}
