/* SPDX-License-Identifier: MIT */
/*
 * chart.h - charts as SVG inside HTML. They know relations of names and numbers, not what those are about.
 *
 * A chart is a <figure> with a caption, a legend where there are several series, and an <svg role="img"> that has a
 * <title> and a <desc>. Colours are classes (s0, s1, ... for series, h1 ... h7 for shades), so that a style sheet
 * decides on them; there is no script, and no style in the markup. Places are percentages of the width, so text
 * keeps its size on a phone. What belongs to a mark is in its own <title>.
 *
 * Names may be any bytes; title, subtitle and description are markup of ours. Values that are negative or no
 * numbers are drawn as 0. Size of the output: bound by the size of the relation. Not for threads.
 */
#ifndef FSTAPE_CHART_H
#define FSTAPE_CHART_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CHART_SERIES 12 /* colours; further series share the last */
#define CHART_SHADES 7

enum chart_unit {
	UNIT_COUNT, /* 12,345 */
	UNIT_NS,    /* durations in words */
	UNIT_RATE,  /* counts per second */
	UNIT_PARTS, /* 0..1 or more: how many at once */
};

struct chart {
	const char *id; /* unique on the page, a word of ours */
	const char *title;
	const char *subtitle; /* NULL: none */
	const char *description;
	enum chart_unit unit;
};

/* "12,345", "1.20 ms", "12,345/s", "1.35" */
const char *chart_number(enum chart_unit unit, double value, char buf[static 40]);

/* Values by row and column; either may have names. */
struct matrix {
	size_t rows, columns;
	const char *const *row_names;
	const char *const *row_notes; /* NULL: none. Stands behind the row's name */
	const char *const *column_names;
	const unsigned char *colours;  /* of the columns of chart_stack(); NULL: 0, 1, ... */
	const double *values;          /* [row * columns + column] */
	const double *low, *high;      /* intervals around the values; NULL: none. Not a number: not for this one */
};

/* From `begin_ns`; the columns of a matrix, or spans, lie on it. */
struct chart_time {
	int64_t begin_ns, length_ns;
};

/* Bars side by side: a group for each row, in it a bar for each column, with its interval. */
void chart_bars(FILE *out, const struct chart *chart, const struct matrix *matrix);

/* A bar for each row, made up of the columns' values. */
void chart_stack(FILE *out, const struct chart *chart, const struct matrix *matrix);

/*
 * Series over time on top of each other, rows are series and columns intervals of time of the same length.
 * `axis` 0: without numbers below, for charts that share those of the next one.
 */
void chart_area(FILE *out, const struct chart *chart, const struct matrix *matrix, struct chart_time time, int axis);

/*
 * Bins of a logarithmic axis of durations: BINS_PER_OCTAVE from BIN_LOWEST_NS on. What is shorter or longer belongs
 * to the first and the last.
 */
#define BIN_OCTAVES	30
#define BINS_PER_OCTAVE 4
#define BIN_COUNT	(BIN_OCTAVES * BINS_PER_OCTAVE)
#define BIN_LOWEST_OCTAVE 6
#define BIN_LOWEST_NS	(1 << BIN_LOWEST_OCTAVE)
size_t bin_of(int64_t ns);
double bin_edge_ns(size_t bin); /* where it begins */

/* A hill for each row over its durations: columns are bins; each row is as high as the others. */
void chart_ridges(FILE *out, const struct chart *chart, const struct matrix *matrix);

/* Durations over time: rows are bins, columns intervals of time, darker is more. */
void chart_heat(FILE *out, const struct chart *chart, const struct matrix *matrix, struct chart_time time);

struct chart_span {
	const char *name;
	const char *note; /* for the tooltip, or NULL */
	int64_t begin_ns, end_ns;
	unsigned int level;  /* lower ones contain higher ones */
	unsigned int series; /* its colour */
};

/*
 * What went on when: spans in lanes by level, those that overlap below each other. `series` are the names of the
 * colours. What does not fit into 24 lanes is left out: give the most important spans first.
 */
void chart_lanes(FILE *out, const struct chart *chart, const struct chart_span *spans, size_t count,
	const char *const *series, size_t n_series, struct chart_time time);

/* A node of a tree that lies in an array, parents before children; nodes[0] is the root. */
struct chart_node {
	const char *name;
	const char *note; /* for the tooltip, or NULL */
	double value;	  /* of it and all below it */
	double shade;	  /* 0..1 */
	size_t parent;	  /* index */
};

/* Rectangles in rectangles, areas as values. Nodes too small to be seen are left out. */
void chart_tree(FILE *out, const struct chart *chart, const struct chart_node *nodes, size_t count);

#endif
