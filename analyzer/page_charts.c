/* SPDX-License-Identifier: MIT */
/* page_charts.c - the charts of one run: its profile as relations for chart.h. */
#include <inttypes.h>
#include <string.h>

#include "base.h"
#include "page_internal.h"
#include "table.h"

#define RIDGES	  12 /* operations that have a hill */
#define TREE_DIRS 400

const char *page_chart_id(const struct page_run *run, const char *name, char buf[static 48])
{
	snprintf(buf, 48, "run-%" PRId64 "-%s", run->info.id, name);
	return buf;
}

struct chart_time page_time(const struct page_run *run)
{
	return (struct chart_time){ run->profile->begin_ns, run->profile->end_ns - run->profile->begin_ns };
}

static int write_ridges(const struct page *page, const struct page_run *run)
{
	size_t rows = run->stats->n_ops < RIDGES ? run->stats->n_ops : RIDGES;
	auto_free double *values = calloc(rows + 1, sizeof(double) * BIN_COUNT);
	char notes[RIDGES][120], p50[24], p99[24], count[40], id[48];
	const char *names[RIDGES], *note_list[RIDGES];

	if (!values)
		return -ENOMEM;
	for (size_t i = 0; i < rows; i++) {
		const struct op_stats *op = &run->stats->ops[i];
		const struct time_stats *fs = &op->time[CLOCK_FS];

		memcpy(values + i * BIN_COUNT, run->profile->op_bins[op->code], sizeof(double) * BIN_COUNT);
		snprintf(notes[i], sizeof(notes[i]), "%s, median %s, 99%% < %s",
			chart_number(UNIT_COUNT, (double)op->count, count), format_duration(fs->p50_ns, p50),
			format_duration(fs->p99_ns, p99));
		names[i] = op->name;
		note_list[i] = notes[i];
	}
	chart_ridges(page->out,
		&(struct chart){ .id = page_chart_id(run, "latency", id),
			.title = "How long operations took",
			.subtitle = "Time in the filesystem, the costliest operations first. Two hills are two ways "
				    "through the filesystem, such as from its cache and from the device.",
			.description = "Histograms of the time in the filesystem by operation, on a logarithmic "
				       "axis." },
		&(struct matrix){ .rows = rows,
			.columns = BIN_COUNT,
			.row_names = names,
			.row_notes = note_list,
			.values = values });
	return 0;
}

static int write_timeline(const struct page *page, const struct page_run *run)
{
	const struct profile *profile = run->profile;
	struct chart_time time = page_time(run);
	double step = (double)time.length_ns / PROFILE_STEPS;
	auto_free double *values = calloc(CLASS_COUNT, sizeof(double) * PROFILE_STEPS);
	const char *names[CLASS_COUNT];
	struct matrix matrix = {
		.rows = CLASS_COUNT, .columns = PROFILE_STEPS, .row_names = names, .values = values
	};
	char id[48];

	if (!values)
		return -ENOMEM;
	for (size_t class = 0; class < CLASS_COUNT; class++) {
		names[class] = op_class_name(class);
		for (size_t i = 0; i < PROFILE_STEPS; i++)
			values[class * PROFILE_STEPS + i] = profile->class_count[class][i] / step * 1e9;
	}
	chart_area(page->out,
		&(struct chart){ .id = page_chart_id(run, "rate", id),
			.title = "Operations per second",
			.subtitle = "By kind of work, over the time of the run.",
			.description = "Stacked areas of operations per second by kind of work over time.",
			.unit = UNIT_RATE },
		&matrix, time, 1);
	for (size_t i = 0; i < CLASS_COUNT * PROFILE_STEPS; i++)
		values[i] = (&profile->class_fs_ns[0][0])[i] / step;
	chart_area(page->out,
		&(struct chart){ .id = page_chart_id(run, "busy", id),
			.title = "Time in the filesystem",
			.subtitle = "How many requests were inside the filesystem at once: at 1 programs did nothing "
				    "else, or one of several threads always waited for it.",
			.description = "Stacked areas of time in the filesystem by kind of work over time.",
			.unit = UNIT_PARTS },
		&matrix, time, 1);
	return 0;
}

static void write_heat(const struct page *page, const struct page_run *run)
{
	char id[48];

	chart_heat(page->out,
		&(struct chart){ .id = page_chart_id(run, "heat", id),
			.title = "When operations were slow",
			.subtitle = "Each cell counts operations by when they began and how long they were in the "
				    "filesystem. Clouds above the band are times at which the filesystem made programs "
				    "wait.",
			.description = "Heat map of operations by time of the run and by time in the filesystem.",
			.unit = UNIT_COUNT },
		&(struct matrix){
			.rows = BIN_COUNT, .columns = PROFILE_STEPS, .values = &run->profile->time_bins[0][0] },
		page_time(run));
}

static int write_tree(const struct page *page, const struct page_run *run)
{
	struct dir_tree tree;
	char id[48];
	int err = dir_tree_read(page->trace, run->info.id, run->profile, TREE_DIRS, &tree);

	if (err < 0)
		return err;
	chart_tree(page->out,
		&(struct chart){ .id = page_chart_id(run, "dirs", id),
			.title = "Directories",
			.subtitle = "The area is the time in the filesystem for names in a directory and below it, the "
				    "shade the time per operation.",
			.description = "Tree map of directories by time in the filesystem.",
			.unit = UNIT_NS },
		tree.nodes, tree.count);
	dir_tree_free(&tree);
	return 0;
}

int page_run_charts(const struct page *page, const struct page_run *run)
{
	int err = page_git_phases(page, run);

	err = err ?: write_timeline(page, run);
	err = err ?: page_git_lanes(page, run);
	err = err ?: page_host(page, run);
	if (err < 0)
		return err;
	write_heat(page, run);
	err = write_ridges(page, run);
	return err ?: write_tree(page, run);
}
