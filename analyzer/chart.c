/* SPDX-License-Identifier: MIT */
/* chart.c - frames, legends, axes and numbers of all charts. */
#include "chart_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base.h"
#include "html.h"
#include "table.h"

void chart_begin(FILE *out, const struct chart *chart)
{
	fprintf(out, "<figure id=\"%s\"><figcaption><h3>%s</h3>", chart->id, chart->title);
	if (chart->subtitle)
		fprintf(out, "<p>%s</p>", chart->subtitle);
	fputs("</figcaption>\n", out);
}

void chart_svg(FILE *out, const struct chart *chart, const char *class, double height)
{
	fprintf(out,
		"<svg class=\"%s\" role=\"img\" width=\"100%%\" height=\"%.0f\" aria-labelledby=\"%s-t %s-d\">"
		"<title id=\"%s-t\">%s</title><desc id=\"%s-d\">%s</desc>\n",
		class, height, chart->id, chart->id, chart->id, chart->title, chart->id, chart->description);
}

void chart_end(FILE *out)
{
	fputs("</svg></figure>\n", out);
}

void chart_legend(
	FILE *out, const char *const *names, size_t count, const unsigned char *colours, const char *skip)
{
	fputs("<ul class=\"legend\">", out);
	for (size_t i = 0; i < count; i++) {
		if (skip && skip[i])
			continue;
		fprintf(out,
			"<li><svg width=\"12\" height=\"12\" aria-hidden=\"true\">"
			"<rect width=\"12\" height=\"12\" rx=\"2\" class=\"s%u\"/></svg>",
			chart_slot(colours ? colours[i] : i));
		html_str(out, names[i]);
		fputs("</li>", out);
	}
	fputs("</ul>\n", out);
}

double chart_value(double value)
{
	return isfinite(value) && value > 0 ? value : 0;
}

/* Thousands apart. */
static void format_count(double value, char buf[static 40])
{
	char digits[32];
	size_t len, n = 0;

	snprintf(digits, sizeof(digits), "%.0f", value < 1e15 ? value : 1e15);
	len = strlen(digits);
	for (size_t i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			buf[n++] = ',';
		buf[n++] = digits[i];
	}
	buf[n] = '\0';
}

void chart_row_label(FILE *out, const struct matrix *matrix, size_t row, const char *class, double y)
{
	fprintf(out, "<text class=\"%s\" x=\"0\" y=\"%.0f\">", class, y);
	html_str(out, matrix->row_names[row]);
	if (matrix->row_notes && matrix->row_notes[row]) {
		fputs("<tspan class=\"note\" dx=\"8\">", out);
		html_str(out, matrix->row_notes[row]);
		fputs("</tspan>", out);
	}
	fputs("</text>", out);
}

const char *chart_number(enum chart_unit unit, double value, char buf[static 40])
{
	value = chart_value(value);
	switch (unit) {
	case UNIT_NS:
		return format_duration(value < 9e18 ? llrint(value) : INT64_MAX, buf);
	case UNIT_PARTS:
		snprintf(buf, 40, "%.3g", value);
		return buf;
	case UNIT_RATE:
		format_count(value, buf);
		strcat(buf, "/s");
		return buf;
	default:
		format_count(value, buf);
		return buf;
	}
}

double chart_step(double max, unsigned int parts)
{
	static const double steps[] = { 1, 2, 5, 10 };
	double least = max / parts, power;

	if (!(least > 0) || !isfinite(least))
		return 1;
	power = pow(10, floor(log10(least)));
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		if (steps[i] * power >= least * (1 - 1e-9))
			return steps[i] * power;
	}
	return 10 * power;
}

const char *chart_tick_ns(double ns, char buf[static 40])
{
	static const struct {
		double unit;
		const char *name;
	} units[] = { { 3600e9, "h" }, { 60e9, "min" }, { 1e9, "s" }, { 1e6, "ms" }, { 1e3, "us" }, { 1, "ns" } };

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		double limit = i < 2 ? 2 * units[i].unit : units[i].unit;

		if (ns < limit * (1 - 1e-9) && i + 1 < ARRAY_SIZE(units))
			continue;
		snprintf(buf, 40, "%.4g %s", ns / units[i].unit, units[i].name);
		break;
	}
	return ns > 0 ? buf : strcpy(buf, "0");
}

void chart_time_axis(FILE *out, struct chart_time time, double height, int numbers)
{
	double step = chart_step((double)time.length_ns, 6), begin = (double)time.begin_ns;
	char text[40];

	if (time.length_ns <= 0)
		return;
	for (double t = ceil(begin / step) * step; t <= begin + (double)time.length_ns; t += step) {
		double x = (t - begin) / (double)time.length_ns * 100;

		fprintf(out, "<line class=\"grid\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"0\" y2=\"%.0f\"/>", x, x, height);
		if (numbers)
			fprintf(out, "<text class=\"tick %s\" x=\"%.2f%%\" y=\"%.0f\">%s</text>",
				x < 2 ? "" : x > 96 ? "end" : "mid", x, height + 15, chart_tick_ns(t, text));
	}
	fputc('\n', out);
}

void chart_value_axis(FILE *out, enum chart_unit unit, double max, double height)
{
	double step = chart_step(max, height < 100 ? 2 : 4);
	char text[40];

	if (!(max > 0))
		return;
	for (double v = 0; v <= max * (1 + 1e-9); v += step) {
		double y = height - v / max * height;

		fprintf(out,
			"<line class=\"grid\" x1=\"0\" x2=\"100%%\" y1=\"%.1f\" y2=\"%.1f\"/>"
			"<text class=\"tick end\" x=\"-6\" y=\"%.1f\">%s</text>",
			y, y, y + 4, unit == UNIT_NS ? chart_tick_ns(v, text) : chart_number(unit, v, text));
	}
	fputc('\n', out);
}
