/* SPDX-License-Identifier: MIT */
/* attribute.c - one pass over a run's operations. */
#include "attribute.h"

#include <stdlib.h>
#include <string.h>

#include "attribute_internal.h"
#include "base.h"

#define BATCH 200000
#define AFTERWARDS_NS 1000000 /* a process may still do something after it has told its end */
#define DEEPEST 64	  /* of programs that start programs */

/* A row of git_range; ids are 0 where there is none. */
struct range {
	int64_t process, command, region;
	int phase; /* 0: no row yet */
};

struct who {
	int64_t id, pid, ppid;
	struct range range; /* that its operations are in by now */
	bool git;  /* by its name */
	bool hook; /* a hook, or started by one */
	struct git_command **commands; /* of its pid, by start */
	size_t n_commands;
};

struct attribution {
	struct trace *trace;
	int64_t run;
	struct git_story story;
	struct who *who; /* by id */
	size_t n_who;
	struct range stray; /* of operations whose process is not there */
	unsigned char *path_phase; /* by path id */
	int64_t n_paths;
};

static int compare_pid(const void *key, const void *item)
{
	int64_t pid = *(const int64_t *)key, other = (*(struct git_command *const *)item)->pid;

	return (pid > other) - (pid < other);
}

static void find_commands(const struct git_story *story, struct who *who)
{
	struct git_command **end = story->by_pid + story->n_commands;
	struct git_command **found =
		array_find(&who->pid, story->by_pid, story->n_commands, sizeof(struct git_command *), compare_pid);

	if (!found)
		return;
	while (found > story->by_pid && found[-1]->pid == who->pid)
		found--;
	who->commands = found;
	while (found < end && (*found)->pid == who->pid)
		found++;
	who->n_commands = (size_t)(found - who->commands);
}

static bool is_hook(const struct git_story *story, int64_t pid)
{
	for (size_t i = 0; i < story->n_hooks; i++)
		if (story->hooks[i].pid == pid)
			return true;
	return false;
}

/* Up the line of parents, as far as they were seen. */
static void find_hooks(struct attribution *a)
{
	for (size_t i = 0; a->story.n_hooks && i < a->n_who; i++) {
		int64_t pid = a->who[i].pid;

		for (int depth = 0; pid > 1 && depth < DEEPEST && !a->who[i].hook; depth++) {
			size_t k = 0;

			a->who[i].hook = is_hook(&a->story, pid);
			while (k < a->n_who && a->who[k].pid != pid)
				k++;
			pid = k < a->n_who ? a->who[k].ppid : 0;
		}
	}
}

static int load_who(struct attribution *a)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	size_t size = 0;
	int err = prepare_for_run(a->trace, a->run,
		"SELECT id, pid, ppid, comm GLOB 'git*' OR comm = 'scalar' OR coalesce(exe, '') GLOB '*/git'"
		" FROM process WHERE run = ? ORDER BY id", &stmt);

	while (err == 0 && (err = trace_step(stmt)) == 1) {
		struct who *who;

		if (a->n_who == size) {
			struct who *grown = reallocarray(a->who, size = size * 2 + 64, sizeof(*grown));

			if (!grown)
				return -ENOMEM;
			a->who = grown;
		}
		who = &a->who[a->n_who++];
		*who = (struct who){
			.id = trace_column_int(stmt, 0),
			.pid = trace_column_int(stmt, 1),
			.ppid = trace_column_int(stmt, 2),
			.git = trace_column_int(stmt, 3),
		};
		find_commands(&a->story, who);
		err = 0;
	}
	find_hooks(a);
	return err < 0 ? err : 0;
}

static int load_paths(struct attribution *a)
{
	struct trace_stmt auto_stmt *count = NULL, auto_stmt *stmt = NULL;
	int err = prepare_for_run(a->trace, a->run, "SELECT max(id) FROM path WHERE run = ?", &count);

	err = err ?: trace_step(count);
	if (err < 0)
		return err;
	a->n_paths = trace_column_int(count, 0) + 1;
	/* ids are counted from 1 and have 32 bits in the spool */
	if (a->n_paths < 1 || a->n_paths > UINT32_MAX)
		return -EUCLEAN;
	a->path_phase = calloc((size_t)a->n_paths, 1);
	if (!a->path_phase)
		return -ENOMEM;
	err = prepare_for_run(a->trace, a->run, "SELECT id, phase FROM path_phase WHERE run = ?", &stmt);
	while (err == 0 && (err = trace_step(stmt)) == 1) {
		int64_t id = trace_column_int(stmt, 0);

		if (id >= 0 && id < a->n_paths)
			a->path_phase[id] = (unsigned char)trace_column_int(stmt, 1);
		err = 0;
	}
	return err < 0 ? err : 0;
}

static int compare_who(const void *key, const void *item)
{
	int64_t id = *(const int64_t *)key, other = ((const struct who *)item)->id;

	return (id > other) - (id < other);
}

/*
 * The command that had the process then: a process may become another command (exec), and its pid another process's.
 * What a git program does before its command told its start, and after it told its end, is that command's, too.
 */
static struct git_command *command_at(const struct who *who, int64_t time)
{
	struct git_command *found = NULL;

	for (size_t i = 0; i < who->n_commands && who->commands[i]->start_ns <= time; i++)
		found = who->commands[i];
	if (who->git)
		return found ?: who->n_commands ? who->commands[0] : NULL;
	return found && time <= found->end_ns + AFTERWARDS_NS ? found : NULL;
}

/* A row only where something changes: most operations of a process belong where the one before does. */
static int begin_range(struct attribution *a, struct trace_stmt *insert, int64_t seq, const struct range *range,
	struct range *current)
{
	int err;

	if (current->phase == range->phase && current->command == range->command && current->region == range->region &&
		current->process == range->process)
		return 0;
	*current = *range;
	trace_reset(insert);
	err = trace_bind_int(insert, 1, a->run);
	err = err ?: trace_bind_int(insert, 2, range->process);
	err = err ?: trace_bind_int(insert, 3, seq);
	if (range->command)
		err = err ?: trace_bind_int(insert, 4, range->command);
	if (range->region)
		err = err ?: trace_bind_int(insert, 5, range->region);
	err = err ?: trace_bind_int(insert, 6, range->phase);
	return err ?: trace_step(insert);
}

static int attribute_op(struct attribution *a, const struct trace_stmt *op, struct trace_stmt *insert)
{
	int64_t process = trace_column_int(op, 2), time = trace_column_int(op, 1), path = trace_column_int(op, 3);
	struct who *who = array_find(&process, a->who, a->n_who, sizeof(*a->who), compare_who);
	struct git_command *command = who ? command_at(who, time) : NULL;
	struct git_region *region = command ? git_region_at(command, time) : NULL;
	int phase = git_phase_of(command, region);

	if (command && !region)
		region = command->inherited;
	if (!phase && (command || (who && who->git)))
		phase = path >= 0 && path < a->n_paths ? a->path_phase[path] : PHASE_NONE;
	if (phase == PHASE_WORKTREE && command && command->worktree_phase)
		phase = command->worktree_phase;
	if (!phase)
		phase = command || (who && who->git) ? PHASE_GIT :
			who && who->pid == 0	     ? PHASE_KERNEL :
			who && who->hook	     ? PHASE_HOOKS :
						       PHASE_OTHER_PROGRAMS;
	return begin_range(a, insert, trace_column_int(op, 0),
		&(struct range){ process, command ? command->id : 0, region ? region->id : 0, phase },
		who ? &who->range : &a->stray);
}

/* Up to BATCH operations after *seq, in the caller's transaction. 1: there may be more; 0: that was all. */
static int attribute_batch(struct attribution *a, struct trace_stmt *ops, struct trace_stmt *insert, int64_t *seq)
{
	int count = 0, err;

	trace_reset(ops);
	err = trace_bind_int(ops, 1, a->run);
	err = err ?: trace_bind_int(ops, 2, *seq);
	err = err ?: trace_bind_int(ops, 3, BATCH);
	while (err == 0 && (err = trace_step(ops)) == 1) {
		*seq = trace_column_int(ops, 0);
		err = attribute_op(a, ops, insert);
		count++;
	}
	trace_reset(ops);
	return err < 0 ? err : count == BATCH;
}

static int attribute_ops(struct attribution *a)
{
	struct trace_stmt auto_stmt *ops = NULL, auto_stmt *insert = NULL;
	int64_t seq = -1;
	int more = trace_prepare(a->trace,
		"SELECT seq, start_ns, process, coalesce(path, -1) FROM op WHERE run = ? AND seq > ?"
		" ORDER BY run, seq LIMIT ?", &ops, NULL);

	more = more ?: trace_prepare(a->trace,
			       "INSERT INTO git_range (run, process, seq, command, region, phase) VALUES (?, ?, ?, ?, ?, ?)",
			       &insert, NULL);
	while (more >= 0 && (more = attribute_batch(a, ops, insert, &seq)) == 1) {
		/* recorders of other runs get at the database in between */
		trace_reset(insert);
		more = trace_commit(a->trace);
		more = more ?: trace_begin(a->trace);
	}
	return more;
}

static int clear(struct attribution *a)
{
	struct trace_stmt auto_stmt *ranges = NULL, auto_stmt *spans = NULL;
	int err = prepare_for_run(a->trace, a->run, "DELETE FROM git_range WHERE run = ?", &ranges);

	err = err ?: trace_step(ranges);
	err = err ?: prepare_for_run(a->trace, a->run, "DELETE FROM git_span WHERE run = ?", &spans);
	return err ?: trace_step(spans);
}

static int attribute(struct attribution *a)
{
	int err = clear(a);

	err = err ?: git_story_load(a->trace, a->run, &a->story);
	err = err ?: load_who(a);
	err = err ?: load_paths(a);
	err = err ?: attribute_ops(a);
	return err ?: git_span_make(a->trace, a->run, &a->story);
}

int attribute_run(struct trace *trace, int64_t run)
{
	struct attribution a = { .trace = trace, .run = run };
	int err = trace_begin(trace);

	err = err ?: attribute(&a);
	err = err ?: trace_commit(trace);
	trace_rollback(trace);
	git_story_free(&a.story);
	free(a.who);
	free(a.path_phase);
	return err;
}
