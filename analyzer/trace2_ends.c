/* SPDX-License-Identifier: MIT */
/*
 * trace2_ends.c - ends that commands have not told themselves, as when they were killed: from the command that started
 * them, from their last operation, or else from their last event.
 */
#include <string.h>

#include "trace2_internal.h"

static int compare_pid(const void *a, const void *b)
{
	const struct command *x = *(struct command *const *)a, *y = *(struct command *const *)b;

	return x->pid != y->pid ? (x->pid > y->pid) - (x->pid < y->pid) :
				  (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* The last command of the process that began by `time`, when its end has not been told. */
static struct command *open_command(struct command **by_pid, size_t count, int64_t pid, int64_t time)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct command *command = by_pid[middle];

		if (command->pid < pid || (command->pid == pid && command->start_ns <= time))
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || by_pid[low - 1]->pid != pid || by_pid[low - 1]->end_ns != OPEN_END)
		return NULL;
	return by_pid[low - 1];
}

static void ask_parents(struct story *story, struct command **by_pid)
{
	for (size_t i = 0; i < story->n_commands; i++) {
		const struct command *parent = story->commands[i];

		for (size_t k = 0; k < parent->n_children; k++) {
			const struct child *child = parent->children[k];
			struct command *command = child->end_ns == OPEN_END ? NULL :
									      open_command(by_pid, story->n_commands,
										      child->pid, child->end_ns);

			if (!command || command->start_ns < child->start_ns)
				continue;
			command->end_ns = child->end_ns;
			command->exit_code = child->exit_code;
		}
	}
}

/* One pass over the operations, only when somebody's end is missing. */
static int ask_operations(struct story *story, struct command **by_pid)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(story->trace,
		"SELECT w.pid, max(o.last_ns) FROM (SELECT process, max(start_ns + dur_ns) AS last_ns FROM op WHERE run = ?1"
		" GROUP BY process) AS o JOIN process AS w ON w.run = ?1 AND w.id = o.process GROUP BY w.pid",
		&stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, story->run);
	while (err == 0 && (err = trace_step(stmt)) == 1) {
		int64_t last_ns = trace_column_int(stmt, 1);
		struct command *command = open_command(by_pid, story->n_commands, trace_column_int(stmt, 0), last_ns);

		if (command && last_ns > command->last_ns)
			command->last_ns = last_ns;
		err = 0;
	}
	return err;
}

static void close_command(struct command *command)
{
	if (command->end_ns == OPEN_END || command->end_ns < command->start_ns)
		command->end_ns = command->last_ns > command->start_ns ? command->last_ns : command->start_ns;
	for (size_t i = 0; i < command->n_regions; i++) {
		struct region *region = command->regions[i];

		if (region->start_ns < command->start_ns)
			region->start_ns = command->start_ns;
		if (region->end_ns == OPEN_END)
			region->end_ns = command->end_ns;
		if (region->end_ns < region->start_ns)
			region->end_ns = region->start_ns;
	}
}

int story_find_ends(struct story *story)
{
	auto_free struct command **by_pid = calloc(story->n_commands + 1, sizeof(struct command *));
	bool open = false;
	int err = 0;

	if (!by_pid)
		return -ENOMEM;
	for (size_t i = 0; i < story->n_commands; i++) {
		by_pid[i] = story->commands[i];
		if (by_pid[i]->start_ns == OPEN_END)
			by_pid[i]->start_ns = by_pid[i]->last_ns;
		open |= by_pid[i]->end_ns == OPEN_END;
	}
	array_sort(by_pid, story->n_commands, sizeof(struct command *), compare_pid);
	if (open) {
		ask_parents(story, by_pid);
		err = ask_operations(story, by_pid);
	}
	for (size_t i = 0; i < story->n_commands; i++)
		close_command(story->commands[i]);
	return err;
}
