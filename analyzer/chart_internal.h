/* SPDX-License-Identifier: MIT */
/* chart_internal.h - what the files chart*.c share; for nobody else. */
#ifndef FSTAPE_CHART_INTERNAL_H
#define FSTAPE_CHART_INTERNAL_H

#include "chart.h"

/* <figure>, caption, and <svg> with title and description; `class` is added to the svg's. Closed by chart_end(). */
void chart_begin(FILE *out, const struct chart *chart);
void chart_svg(FILE *out, const struct chart *chart, const char *class, double height);
void chart_end(FILE *out);

/* What the colours mean; `skip[i]` leaves a series out. `colours` and `skip` may be NULL. */
void chart_legend(
	FILE *out, const char *const *names, size_t count, const unsigned char *colours, const char *skip);

/* A row's name, and its note behind it, on the line `y`. */
void chart_row_label(FILE *out, const struct matrix *matrix, size_t row, const char *class, double y);

/* A value that can be drawn: finite and not negative. */
double chart_value(double value);

/* The least of 1, 2 and 5 times a power of ten that cuts `max` into at most `parts`. */
double chart_step(double max, unsigned int parts);

/* "1.5 s" where format_duration() has "1.50 s": for axes, whose numbers are round. */
const char *chart_tick_ns(double ns, char buf[static 40]);

/* Lines at round times over the height; with numbers below it when `numbers`. */
void chart_time_axis(FILE *out, struct chart_time time, double height, int numbers);

/* Lines at round values, numbers left of them; `max` is at the top. */
void chart_value_axis(FILE *out, enum chart_unit unit, double max, double height);

/* The colour of a series. */
static inline unsigned int chart_slot(size_t series)
{
	return series < CHART_SERIES ? (unsigned int)series : CHART_SERIES - 1;
}

#endif
