/* SPDX-License-Identifier: MIT */
/*
 * chart_tree.c - a tree as rectangles in rectangles: the squarified layout of Bruls, Huizing and van Wijk (2000),
 * which adds to a row of rectangles as long as that makes them squarer.
 */
#include <math.h>
#include <string.h>

#include "base.h"
#include "chart_internal.h"
#include "html.h"

#define TREE_WIDTH   1000.0 /* of the layout; drawn as percentages */
#define TREE_HEIGHT  440.0
#define HEADER	     17.0 /* a directory's name above what is in it */
#define LEAST_AREA   90.0
#define LEAST_PARENT 2200.0 /* smaller ones do not show what is in them */
#define GAP	     1.5

struct box {
	double x, y, w, h;
};

struct tree {
	FILE *out;
	const struct chart *chart;
	const struct chart_node *nodes;
	size_t *children; /* all nodes, those of one parent next to each other, largest first */
	size_t *first;	  /* by node: where its children begin; n + 1 of them */
};

static double value_of(const struct tree *tree, size_t node)
{
	return chart_value(tree->nodes[node].value);
}

static int by_parent_and_value(const void *a, const void *b, void *arg)
{
	const struct chart_node *nodes = arg, *x = &nodes[*(const size_t *)a], *y = &nodes[*(const size_t *)b];

	if (x->parent != y->parent)
		return x->parent < y->parent ? -1 : 1;
	return (x->value < y->value) - (x->value > y->value);
}

static int sort_children(struct tree *tree, size_t count)
{
	size_t n = count - 1;

	tree->children = calloc(count, sizeof(*tree->children));
	tree->first = calloc(count + 2, sizeof(*tree->first));
	if (!tree->children || !tree->first)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		tree->children[i] = i + 1;
		tree->first[tree->nodes[i + 1].parent + 1]++;
	}
	for (size_t i = 0; i <= count; i++)
		tree->first[i + 1] += tree->first[i];
	array_sort_r(tree->children, n, sizeof(*tree->children), by_parent_and_value, (void *)tree->nodes);
	return 0;
}

/* The worst ratio of sides when values that sum up to `sum`, the largest `max` and the least `min`, share a row. */
static double worst(double sum, double min, double max, double side, double scale)
{
	double length = sum * scale / side;

	return fmax(max * scale / (length * length), length * length / (min * scale));
}

static void draw_node(const struct tree *tree, size_t node, struct box box, int level);

/* Rows of rectangles along the shorter side, until the box is full. */
static void squarify(
	const struct tree *tree, const size_t *items, size_t count, struct box box, double total, int level)
{
	double scale = total > 0 ? box.w * box.h / total : 0;

	for (size_t begin = 0; begin < count && box.w > 0 && box.h > 0;) {
		double side = fmin(box.w, box.h), max = value_of(tree, items[begin]), sum = max, length, place = 0;
		bool upright = box.w >= box.h; /* the row is a column at the left */
		size_t end = begin + 1;

		if (max * scale < LEAST_AREA)
			return;
		for (; end < count; end++) {
			double value = value_of(tree, items[end]), last = value_of(tree, items[end - 1]);

			if (value <= 0 ||
				worst(sum + value, value, max, side, scale) > worst(sum, last, max, side, scale))
				break;
			sum += value;
		}
		length = sum * scale / side;
		for (size_t i = begin; i < end; i++) {
			double extent = value_of(tree, items[i]) * scale / length;

			draw_node(tree, items[i],
				upright ? (struct box){ box.x, box.y + place, length, extent }
					: (struct box){ box.x + place, box.y, extent, length },
				level);
			place += extent;
		}
		box = upright ? (struct box){ box.x + length, box.y, box.w - length, box.h }
			      : (struct box){ box.x, box.y + length, box.w, box.h - length };
		begin = end;
	}
}

static void rectangle(const struct tree *tree, size_t node, struct box box, bool label, bool parent)
{
	const struct chart_node *n = &tree->nodes[node];
	unsigned int shade = 1 + (unsigned int)lrint(fmin(chart_value(n->shade), 1) * (CHART_SHADES - 1));
	char text[40];

	fprintf(tree->out, "<svg x=\"%.2f%%\" y=\"%.1f\" width=\"%.2f%%\" height=\"%.1f\">"
			   "<rect width=\"100%%\" height=\"100%%\" class=\"%s%u\"><title>",
		box.x / TREE_WIDTH * 100, box.y, box.w / TREE_WIDTH * 100, box.h, parent ? "dir h" : "h", shade);
	html_str(tree->out, n->name);
	fprintf(tree->out, "\n%s", chart_number(tree->chart->unit, n->value, text));
	if (n->note) {
		fputs(", ", tree->out);
		html_str(tree->out, n->note);
	}
	fputs("</title></rect>", tree->out);
	if (label) {
		const char *slash = strrchr(n->name, '/');

		fprintf(tree->out, "<text class=\"%s\" x=\"4\" y=\"13\">",
			parent ? "in dir" : shade > CHART_SHADES / 2 ? "in deep" : "in pale");
		html_str(tree->out, slash && slash[1] ? slash + 1 : n->name);
		fputs("</text>", tree->out);
	}
	fputs("</svg>\n", tree->out);
}

/* One that is large enough shows what is in it; the part that is its own stays without a rectangle. */
static void draw_node(const struct tree *tree, size_t node, struct box box, int level)
{
	size_t first = tree->first[node], count = tree->first[node + 1] - first;
	bool parent = count && level < 6 && box.w * box.h >= LEAST_PARENT && box.h > 2.5 * HEADER && box.w > 40;
	bool label = box.w > 28 && box.h > 15;

	box.w -= GAP;
	box.h -= GAP;
	if (box.w <= 0.5 || box.h <= 0.5)
		return;
	rectangle(tree, node, box, label, parent);
	if (parent)
		squarify(tree, tree->children + first, count,
			(struct box){ box.x + 3, box.y + HEADER, box.w - 5, box.h - HEADER - 3 }, value_of(tree, node),
			level + 1);
}

static void tree_legend(FILE *out)
{
	fputs("<p class=\"legend\">fast <svg width=\"112\" height=\"12\" aria-hidden=\"true\">", out);
	for (unsigned int i = 0; i < CHART_SHADES; i++)
		fprintf(out, "<rect class=\"h%u\" x=\"%u\" width=\"16\" height=\"12\"/>", i + 1, i * 16);
	fputs("</svg> slow</p>\n", out);
}

void chart_tree(FILE *out, const struct chart *chart, const struct chart_node *nodes, size_t count)
{
	struct tree tree = { .out = out, .chart = chart, .nodes = nodes };

	chart_begin(out, chart);
	tree_legend(out);
	chart_svg(out, chart, "tree", TREE_HEIGHT);
	if (count && sort_children(&tree, count) == 0)
		draw_node(&tree, 0, (struct box){ 0, 0, TREE_WIDTH, TREE_HEIGHT }, 0);
	free(tree.children);
	free(tree.first);
	chart_end(out);
}
