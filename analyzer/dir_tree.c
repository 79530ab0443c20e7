/* SPDX-License-Identifier: MIT */
/* dir_tree.c - the directories of a profile as a tree of names. Declared in profile.h. */
#include <inttypes.h>
#include <math.h>
#include <search.h>
#include <string.h>

#include "base.h"
#include "profile.h"
#include "table.h"

#define MAX_DEPTH 6

/* A directory while the tree is made. Parents come before their children. */
struct dir {
	char *path; /* the whole of it */
	size_t index, parent;
	double fs_ns; /* at first its own, then with all below */
	double count;
};

struct dirs {
	struct dir **items;
	size_t count, size;
	void *by_path; /* of tsearch(3) */
};

static int compare_paths(const void *a, const void *b)
{
	return strcmp(((const struct dir *)a)->path, ((const struct dir *)b)->path);
}

static int add_dir(struct dirs *dirs, char *path, size_t parent)
{
	struct dir *dir = malloc(sizeof(*dir));

	if (dirs->count == dirs->size) {
		size_t size = dirs->size ? dirs->size * 2 : 512;
		struct dir **items = reallocarray(dirs->items, size, sizeof(*items));

		dirs->items = items ?: dirs->items;
		dirs->size = items ? size : dirs->size;
	}
	if (!dir || !path || dirs->count == dirs->size) {
		free(dir);
		return -ENOMEM;
	}
	*dir = (struct dir){ .path = path, .index = dirs->count, .parent = parent };
	if (!tsearch(dir, &dirs->by_path, compare_paths)) {
		free(dir);
		return -ENOMEM;
	}
	dirs->items[dirs->count++] = dir;
	return 0;
}

/* The directory with that path, made when there is none yet. */
static int get_dir(struct dirs *dirs, const char *path, size_t len, size_t parent, size_t *ret_index)
{
	auto_free char *copy = strndup(path, len);
	struct dir *const *found = copy ? tfind(&(struct dir){ .path = copy }, &dirs->by_path, compare_paths) : NULL;
	int err;

	if (found) {
		*ret_index = (*found)->index;
		return 0;
	}
	err = add_dir(dirs, copy, parent);
	if (err < 0)
		return err;
	steal_ptr(&copy);
	*ret_index = dirs->count - 1;
	return 0;
}

static void free_dirs(struct dirs *dirs)
{
	for (size_t i = 0; i < dirs->count; i++) {
		tdelete(dirs->items[i], &dirs->by_path, compare_paths);
		free(dirs->items[i]->path);
		free(dirs->items[i]);
	}
	free(dirs->items);
}

static int add_path(struct dirs *dirs, const char *path, const struct profile_dir *dir)
{
	size_t index = 0, depth = 0, len = strlen(path);
	int err = 0;

	for (size_t end = 0; err == 0 && end < len && depth < MAX_DEPTH; depth++) {
		const char *slash = strchr(path + end, '/');

		end = slash ? (size_t)(slash - path) : len;
		err = get_dir(dirs, path, end, index, &index);
		end++;
	}
	if (err < 0)
		return err;
	dirs->items[index]->fs_ns += dir->fs_ns;
	dirs->items[index]->count += dir->count;
	return 0;
}

static int read_dirs(struct trace *trace, int64_t run, const struct profile *profile, struct dirs *dirs)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace, "SELECT path FROM path WHERE run = ? ORDER BY id", &stmt, NULL);
	size_t root;

	err = err ?: get_dir(dirs, "", 0, 0, &root);
	err = err ?: trace_bind_int(stmt, 1, run);
	for (size_t i = 0; err == 0 && i < profile->n_paths && (err = trace_step(stmt)) == 1; i++) {
		const char *path = trace_column_text(stmt, 0);

		err = path && profile->paths[i].count ? add_path(dirs, path, &profile->paths[i]) : 0;
	}
	return err < 0 ? err : 0;
}

/* Children come after their parents: what is below is added up from the end. */
static void add_up(struct dirs *dirs)
{
	for (size_t i = dirs->count; i-- > 1;) {
		dirs->items[dirs->items[i]->parent]->fs_ns += dirs->items[i]->fs_ns;
		dirs->items[dirs->items[i]->parent]->count += dirs->items[i]->count;
	}
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x < y) - (x > y);
}

/* The value that at most `max` directories exceed. */
static int find_threshold(const struct dirs *dirs, size_t max, double *ret_threshold)
{
	auto_free double *values = calloc(dirs->count, sizeof(*values));

	if (!values)
		return -ENOMEM;
	for (size_t i = 0; i < dirs->count; i++)
		values[i] = dirs->items[i]->fs_ns;
	array_sort(values, dirs->count, sizeof(*values), compare_doubles);
	*ret_threshold = dirs->count > max ? values[max] : 0;
	return 0;
}

static char *note_of(const struct dir *dir)
{
	char mean[24], *note;

	if (asprintf(&note, "%.0f operations, %s each", dir->count,
		    format_duration(dir->count > 0 ? llrint(dir->fs_ns / dir->count) : 0, mean)) < 0)
		return NULL;
	return note;
}

/* From the lowest to the highest mean time per operation, on a logarithmic scale. */
static void set_shades(struct dir_tree *tree, const double *means)
{
	double low = INFINITY, high = 0;

	for (size_t i = 0; i < tree->count; i++) {
		low = means[i] > 0 ? fmin(low, means[i]) : low;
		high = fmax(high, means[i]);
	}
	for (size_t i = 0; i < tree->count; i++)
		tree->nodes[i].shade = high > low && means[i] > 0 ? log(means[i] / low) / log(high / low) : 0;
}

static int make_tree(const struct dirs *dirs, size_t max, struct dir_tree *tree)
{
	auto_free size_t *place = calloc(dirs->count, sizeof(*place));
	auto_free double *means = calloc(max + 1, sizeof(*means));
	double threshold;
	int err = find_threshold(dirs, max, &threshold);

	tree->nodes = calloc(max + 1, sizeof(*tree->nodes));
	if (err < 0 || !place || !means || !tree->nodes)
		return -ENOMEM;
	for (size_t i = 0; i < dirs->count; i++) {
		const struct dir *dir = dirs->items[i];

		if (i && (dir->fs_ns <= threshold || tree->count > max))
			continue;
		place[i] = tree->count;
		means[tree->count] = dir->count > 0 ? dir->fs_ns / dir->count : 0;
		tree->nodes[tree->count] = (struct chart_node){ .name = strdup(i ? dir->path : "/"),
			.note = note_of(dir),
			.value = dir->fs_ns,
			.parent = place[dir->parent] };
		if (!tree->nodes[tree->count].name || !tree->nodes[tree->count++].note)
			return -ENOMEM;
	}
	set_shades(tree, means);
	return 0;
}

int dir_tree_read(
	struct trace *trace, int64_t run, const struct profile *profile, size_t max, struct dir_tree *ret_tree)
{
	struct dirs dirs = {};
	struct dir_tree tree = {};
	int err = read_dirs(trace, run, profile, &dirs);

	if (err == 0) {
		add_up(&dirs);
		err = make_tree(&dirs, max, &tree);
	}
	free_dirs(&dirs);
	if (err < 0) {
		dir_tree_free(&tree);
		return err;
	}
	*ret_tree = tree;
	return 0;
}

void dir_tree_free(struct dir_tree *tree)
{
	for (size_t i = 0; tree->nodes && i < tree->count; i++) {
		free((char *)tree->nodes[i].name);
		free((char *)tree->nodes[i].note);
	}
	free(tree->nodes);
	*tree = (struct dir_tree){};
}
