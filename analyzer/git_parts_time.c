/* SPDX-License-Identifier: MIT */
/* git_parts_time.c - phases, and the anatomy of a checkout; declared in git_parts.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base.h"
#include "git_parts.h"

struct table *git_part_table(const struct git_part *part)
{
	struct table *table = context_table(part->context);

	if (table)
		table_add_column(table, "run", NULL, COLUMN_INT, COLUMN_DATA_ONLY);
	return table;
}

void git_part_heading(const struct git_part *part, const char *text)
{
	if (part->text)
		printf("\n%s\n", text);
}

/* --- phases ------------------------------------------------------------------------------------------------------ */

static void add_phase_row(struct table *table, const struct git_part *part, const char *name,
	const struct git_phase_view *sum)
{
	const struct git_view *view = part->view;

	table_int(table, view->run);
	table_text(table, name);
	table_int(table, sum->wall_ns);
	table_real(table, view->wall_ns ? (double)sum->wall_ns / (double)view->wall_ns : 0);
	table_int(table, sum->in_fs_ns);
	table_int(table, sum->in_shim_ns);
	table_int(table, sum->wall_ns - sum->in_fs_ns - sum->in_shim_ns);
	table_int(table, sum->count);
	table_int(table, sum->errors);
	table_int(table, sum->fs_ns);
	table_end_row(table);
}

static int compare_phases(const void *a, const void *b)
{
	const struct git_phase_view *x = *(const struct git_phase_view *const *)a;
	const struct git_phase_view *y = *(const struct git_phase_view *const *)b;

	return x->wall_ns != y->wall_ns ? (x->wall_ns < y->wall_ns) - (x->wall_ns > y->wall_ns) :
					  (x->fs_ns < y->fs_ns) - (x->fs_ns > y->fs_ns);
}

int git_print_phases(const struct git_part *part)
{
	const struct git_phase_view *order[GIT_PHASES];
	struct git_phase_view sum = {};
	struct table *table = git_part_table(part);

	if (!table)
		return -ENOMEM;
	table_add_column(table, "phase", NULL, COLUMN_TEXT, 0);
	table_add_column(table, "wall_ns", "wall", COLUMN_DURATION, 0);
	table_add_column(table, "share", NULL, COLUMN_SHARE, 0);
	table_add_column(table, "wall_fs_ns", "in fs", COLUMN_DURATION, 0);
	table_add_column(table, "wall_shim_ns", "shim", COLUMN_DURATION, 0);
	table_add_column(table, "wall_git_ns", "itself", COLUMN_DURATION, 0);
	table_add_column(table, "count", "ops", COLUMN_INT, 0);
	table_add_column(table, "errors", "errs", COLUMN_INT, 0);
	table_add_column(table, "fs_ns", "fs total", COLUMN_DURATION, COLUMN_DATA_ONLY);
	for (int p = 0; p < GIT_PHASES; p++)
		order[p] = &part->view->phases[p];
	array_sort(order, GIT_PHASES, sizeof(*order), compare_phases);
	for (int p = 0; p < GIT_PHASES; p++) {
		if (!order[p]->wall_ns && !order[p]->count)
			continue;
		add_phase_row(table, part, order[p]->name, order[p]);
		sum.wall_ns += order[p]->wall_ns, sum.fs_ns += order[p]->fs_ns;
		sum.in_fs_ns += order[p]->in_fs_ns, sum.in_shim_ns += order[p]->in_shim_ns;
		sum.count += order[p]->count, sum.errors += order[p]->errors;
	}
	if (part->text)
		add_phase_row(table, part, "all", &sum);
	git_part_heading(part, "Where the time went: in the filesystem, in the shim, in git itself");
	return context_print(table);
}

/* --- anatomy of a checkout ---------------------------------------------------------------------------------------- */

struct step {
	const char *op, *where;
	struct git_cell cell;
	bool error;
};

static int compare_steps(const void *a, const void *b)
{
	const struct step *x = a, *y = b;

	return (x->cell.fs_ns < y->cell.fs_ns) - (x->cell.fs_ns > y->cell.fs_ns);
}

static size_t collect_steps(const struct git_kind *kinds, struct step *steps)
{
	static const char *const places[GIT_PLACES] = { "worktree", "git" };
	size_t count = 0;

	for (unsigned int op = 0; op < OP_COUNT; op++) {
		if (!op_get(op))
			continue;
		for (int place = 0; place < GIT_PLACES; place++) {
			if (kinds[op].good[place].count)
				steps[count++] = (struct step){ op_get(op)->name, places[place], kinds[op].good[place], false };
			if (kinds[op].bad[place].count)
				steps[count++] = (struct step){ op_get(op)->name, places[place], kinds[op].bad[place], true };
		}
	}
	array_sort(steps, count, sizeof(*steps), compare_steps);
	return count;
}

static void add_step(struct table *table, const struct git_part *part, const struct step *step, int64_t files,
	int64_t all_ns)
{
	char name[64];

	snprintf(name, sizeof(name), "%s%s%s", step->op, step->error ? ", error" : "",
		strcmp(step->where, "git") == 0 ? " in .git" : "");
	table_int(table, part->view->run);
	table_text(table, name);
	table_text(table, step->op);
	table_text(table, step->where);
	table_int(table, step->error);
	table_int(table, step->cell.count);
	table_real(table, (double)step->cell.count / (double)files);
	table_int(table, step->cell.fs_ns / files);
	table_int(table, step->cell.dur_ns / files);
	table_real(table, all_ns ? (double)step->cell.fs_ns / (double)all_ns : 0);
	table_end_row(table);
}

static struct table *steps_table(const struct git_part *part)
{
	struct table *table = git_part_table(part);

	if (!table)
		return NULL;
	table_add_column(table, "step", NULL, COLUMN_TEXT, COLUMN_TEXT_ONLY);
	table_add_column(table, "op", NULL, COLUMN_TEXT, COLUMN_DATA_ONLY);
	table_add_column(table, "place", NULL, COLUMN_TEXT, COLUMN_DATA_ONLY);
	table_add_column(table, "error", NULL, COLUMN_BOOL, COLUMN_DATA_ONLY);
	table_add_column(table, "count", NULL, COLUMN_INT, 0);
	table_add_column(table, "per_file", "per file", COLUMN_RATIO, 0);
	table_add_column(table, "fs_per_file_ns", "fs per file", COLUMN_DURATION, 0);
	table_add_column(table, "dur_per_file_ns", "dur per file", COLUMN_DURATION, 0);
	table_add_column(table, "share", "share of fs", COLUMN_SHARE, 0);
	return table;
}

/* Files of the worktree that were made in the checkout, links included. */
static int64_t files_made(const struct git_kind *kinds)
{
	return kinds ? kinds[OP_create].good[GIT_WORKTREE].count + kinds[OP_symlink].good[GIT_WORKTREE].count : 0;
}

int git_print_anatomy(const struct git_part *part)
{
	const struct git_phase_view *checkout = &part->view->phases[GIT_CHECKOUT];
	struct step steps[OP_COUNT * GIT_PLACES * 2];
	int64_t files = files_made(checkout->kinds);
	size_t count = files ? collect_steps(checkout->kinds, steps) : 0;
	struct table *table;
	char wall[24], title[160];

	if (!files && part->text)
		return 0;
	table = steps_table(part);
	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		if (!part->text || steps[i].cell.fs_ns * 200 > checkout->fs_ns || steps[i].cell.count * 5 > files)
			add_step(table, part, &steps[i], files, checkout->fs_ns);
	snprintf(title, sizeof(title), "Anatomy of the checkout: %" PRId64 " files, %s of wall time for each", files,
		format_duration(files ? checkout->wall_ns / files : 0, wall));
	git_part_heading(part, title);
	return context_print(table);
}
