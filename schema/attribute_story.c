/* SPDX-License-Identifier: MIT */
/* attribute_story.c - git's commands and regions, in memory, with the phases that views.sql gives them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attribute_internal.h"
#include "base.h"

#define DEEPEST 64 /* of commands that start commands; more is no story of git's */

int prepare_for_run(struct trace *trace, int64_t run, const char *sql, struct trace_stmt **ret_stmt)
{
	int err = trace_prepare(trace, sql, ret_stmt, NULL);

	return err ?: trace_bind_int(*ret_stmt, 1, run);
}

static int count_rows(struct trace *trace, int64_t run, const char *sql, size_t *ret_count)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = prepare_for_run(trace, run, sql, &stmt);

	err = err ?: trace_step(stmt);
	if (err < 0)
		return err;
	*ret_count = (size_t)trace_column_int(stmt, 0);
	return 0;
}

static int load_commands(struct trace *trace, int64_t run, struct git_story *story)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	size_t count = 0;
	int err = count_rows(trace, run, "SELECT count(*) FROM git_command WHERE run = ?", &count);

	err = err ?: prepare_for_run(trace, run,
			     "SELECT c.id, c.pid, c.start_ns, c.end_ns, c.parent, c.region, r.phase, r.worktree_phase"
			     " FROM git_command AS c JOIN git_command_rule AS r ON r.run = c.run AND r.id = c.id WHERE c.run = ? ORDER BY c.id",
			     &stmt);
	if (err < 0)
		return err;
	story->commands = calloc(count + 1, sizeof(*story->commands));
	story->by_pid = calloc(count + 1, sizeof(struct git_command *));
	if (!story->commands || !story->by_pid)
		return -ENOMEM;
	while (story->n_commands < count && (err = trace_step(stmt)) == 1) {
		struct git_command *command = &story->commands[story->n_commands];

		*command = (struct git_command){
			.id = trace_column_int(stmt, 0),
			.pid = trace_column_int(stmt, 1),
			.start_ns = trace_column_int(stmt, 2),
			.end_ns = trace_column_int(stmt, 3),
			.parent_id = trace_column_int(stmt, 4),
			.region_id = trace_column_int(stmt, 5),
			.phase = (int)trace_column_int(stmt, 6),
			.worktree_phase = (int)trace_column_int(stmt, 7),
		};
		story->by_pid[story->n_commands++] = command;
	}
	return err < 0 ? err : 0;
}

static int compare_id(const void *key, const void *item)
{
	int64_t a = *(const int64_t *)key, b = *(const int64_t *)item; /* id is the first member */

	return (a > b) - (a < b);
}

static struct git_command *command_by_id(const struct git_story *story, int64_t id)
{
	return array_find(&id, story->commands, story->n_commands, sizeof(*story->commands), compare_id);
}

static struct git_region *region_by_id(const struct git_story *story, int64_t id)
{
	return array_find(&id, story->regions, story->n_regions, sizeof(*story->regions), compare_id);
}

static int load_regions(struct trace *trace, int64_t run, struct git_story *story)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	size_t count = 0;
	int err = count_rows(trace, run, "SELECT count(*) FROM git_region WHERE run = ?", &count);

	err = err ?: prepare_for_run(trace, run,
			     "SELECT g.id, g.start_ns, g.end_ns, g.parent, r.phase FROM git_region AS g"
			     " JOIN git_region_rule AS r ON r.run = g.run AND r.id = g.id WHERE g.run = ? ORDER BY g.id",
			     &stmt);
	if (err < 0)
		return err;
	story->regions = calloc(count + 1, sizeof(*story->regions));
	story->slots = calloc(count + 1, sizeof(struct git_region *));
	if (!story->regions || !story->slots)
		return -ENOMEM;
	while (story->n_regions < count && (err = trace_step(stmt)) == 1)
		story->regions[story->n_regions++] = (struct git_region){
			.id = trace_column_int(stmt, 0),
			.start_ns = trace_column_int(stmt, 1),
			.end_ns = trace_column_int(stmt, 2),
			.parent_id = trace_column_int(stmt, 3),
			.phase = (int)trace_column_int(stmt, 4),
		};
	return err < 0 ? err : 0;
}

/* Each command's list of its main thread's regions, one after the other in `slots`. */
static int list_regions(struct trace *trace, int64_t run, struct git_story *story)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	struct git_command *command = NULL;
	size_t used = 0;
	int err = prepare_for_run(trace, run,
		"SELECT command, id FROM git_region WHERE run = ? AND thread = 'main' ORDER BY command, start_ns, id", &stmt);

	while (err == 0 && used < story->n_regions && (err = trace_step(stmt)) == 1) {
		struct git_region *region = region_by_id(story, trace_column_int(stmt, 1));

		err = 0;
		if (!command || command->id != trace_column_int(stmt, 0)) {
			command = command_by_id(story, trace_column_int(stmt, 0));
			if (command)
				command->regions = story->slots + used;
		}
		if (!command || !region)
			continue;
		story->slots[used++] = region;
		command->n_regions++;
	}
	return err < 0 ? err : 0;
}

static int load_hooks(struct trace *trace, int64_t run, struct git_story *story)
{
	static const char from[] = " FROM git_child WHERE run = ? AND class = 'hook' AND end_ns IS NOT NULL";
	struct trace_stmt auto_stmt *stmt = NULL;
	char count_sql[128], sql[160];
	size_t count = 0;
	int err;

	snprintf(count_sql, sizeof(count_sql), "SELECT count(*)%s", from);
	snprintf(sql, sizeof(sql), "SELECT pid, start_ns, end_ns, command%s", from);
	err = count_rows(trace, run, count_sql, &count);
	err = err ?: prepare_for_run(trace, run, sql, &stmt);
	if (err < 0)
		return err;
	story->hooks = calloc(count + 1, sizeof(*story->hooks));
	if (!story->hooks)
		return -ENOMEM;
	while (story->n_hooks < count && (err = trace_step(stmt)) == 1)
		story->hooks[story->n_hooks++] = (struct git_hook){
			.pid = trace_column_int(stmt, 0),
			.start_ns = trace_column_int(stmt, 1),
			.end_ns = trace_column_int(stmt, 2),
			.command = command_by_id(story, trace_column_int(stmt, 3)),
		};
	return err < 0 ? err : 0;
}

/* A region begins after the one around it, so ids of parents are smaller: that also keeps a damaged story from circling. */
static void join(struct git_story *story)
{
	for (size_t i = 0; i < story->n_regions; i++) {
		struct git_region *region = &story->regions[i];

		region->parent = region->parent_id < region->id ? region_by_id(story, region->parent_id) : NULL;
		if (!region->phase && region->parent)
			region->phase = region->parent->phase;
	}
	for (size_t i = 0; i < story->n_commands; i++) {
		struct git_command *command = &story->commands[i];

		command->parent = command_by_id(story, command->parent_id);
		command->inherited = region_by_id(story, command->region_id);
	}
	for (size_t i = 0; i < story->n_commands; i++) {
		const struct git_command *ancestor = &story->commands[i];

		for (int depth = 0; ancestor && depth < DEEPEST; depth++, ancestor = ancestor->parent)
			story->commands[i].serving |= ancestor->phase == PHASE_SERVING;
	}
}

/* The rules' answers, for everybody who asks the tables. */
static int write_phases(struct trace *trace, int64_t run, const char *table, int64_t id, int phase,
	struct trace_stmt **stmt)
{
	char sql[96];
	int err = 0;

	if (!phase)
		return 0;
	if (!*stmt) {
		snprintf(sql, sizeof(sql), "UPDATE %s SET phase = ?3 WHERE run = ?1 AND id = ?2", table);
		err = trace_prepare(trace, sql, stmt, NULL);
	} else {
		trace_reset(*stmt);
	}
	err = err ?: trace_bind_int(*stmt, 1, run);
	err = err ?: trace_bind_int(*stmt, 2, id);
	err = err ?: trace_bind_int(*stmt, 3, phase);
	return err ?: trace_step(*stmt);
}

static int store_phases(struct trace *trace, int64_t run, const struct git_story *story)
{
	struct trace_stmt auto_stmt *region = NULL, auto_stmt *command = NULL;
	int err = 0;

	for (size_t i = 0; i < story->n_regions && err == 0; i++)
		err = write_phases(
			trace, run, "git_region", story->regions[i].id, story->regions[i].phase, &region);
	for (size_t i = 0; i < story->n_commands && err == 0; i++)
		err = write_phases(
			trace, run, "git_command", story->commands[i].id, story->commands[i].phase, &command);
	return err;
}

static int compare_pid(const void *a, const void *b)
{
	const struct git_command *x = *(struct git_command *const *)a, *y = *(struct git_command *const *)b;

	return x->pid != y->pid ? (x->pid > y->pid) - (x->pid < y->pid) :
				  (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

int git_story_load(struct trace *trace, int64_t run, struct git_story *ret_story)
{
	struct git_story story = {};
	int err = load_commands(trace, run, &story);

	err = err ?: load_regions(trace, run, &story);
	err = err ?: list_regions(trace, run, &story);
	err = err ?: load_hooks(trace, run, &story);
	if (err == 0) {
		join(&story);
		array_sort(story.by_pid, story.n_commands, sizeof(struct git_command *), compare_pid);
		err = store_phases(trace, run, &story);
	}
	if (err < 0)
		git_story_free(&story);
	else
		*ret_story = story;
	return err;
}

void git_story_free(struct git_story *story)
{
	free(story->commands);
	free(story->by_pid);
	free(story->regions);
	free(story->slots);
	free(story->hooks);
	*story = (struct git_story){};
}

/* Regions of one thread nest: what `time` is in is the last that began before it, or one of those around that. */
struct git_region *git_region_at(const struct git_command *command, int64_t time)
{
	size_t low = 0, high = command->n_regions;
	struct git_region *region;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (command->regions[middle]->start_ns <= time)
			low = middle + 1;
		else
			high = middle;
	}
	region = low ? command->regions[low - 1] : NULL;
	while (region && region->end_ns <= time)
		region = region->parent;
	return region;
}

int git_phase_of(const struct git_command *command, const struct git_region *region)
{
	int phase = region ? region->phase : PHASE_NONE;

	for (int depth = 0; !phase && command && depth < DEEPEST; depth++) {
		phase = command->phase;
		if (!phase && command->inherited)
			phase = command->inherited->phase;
		command = command->inherited ? command->parent : NULL;
	}
	return phase;
}
