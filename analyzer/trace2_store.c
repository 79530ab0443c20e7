/* SPDX-License-Identifier: MIT */
/* trace2_store.c - a story's rows. */
#include <string.h>

#include "trace2_internal.h"

static const char *const insert_sql[STORY_INSERTS] = {
	[STORY_COMMAND] = "INSERT INTO git_command (run, id, parent, region, sid, pid, name, hierarchy, argv, version,"
			  " worktree, start_ns, end_ns, exit_code) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[STORY_REGION] = "INSERT INTO git_region (run, id, command, parent, thread, nesting, category, label, message,"
			 " start_ns, end_ns, path) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[STORY_CHILD] = "INSERT INTO git_child (run, id, command, child_id, class, hook, argv, pid, start_ns, end_ns,"
			" exit_code) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[STORY_EVENT] = "INSERT INTO git_event (run, id, command, time_ns, event, thread, category, label, value, text)"
			" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
};

/* With run and id bound. */
static int insert_begin(struct story *story, enum story_insert which, int64_t id, struct trace_stmt **ret_stmt)
{
	struct trace_stmt **stmt = &story->inserts[which];
	int err = *stmt ? 0 : trace_prepare(story->trace, insert_sql[which], stmt, NULL);

	if (err < 0)
		return err;
	trace_reset(*stmt);
	*ret_stmt = *stmt;
	return trace_bind_int(*stmt, 1, story->run) ?: trace_bind_int(*stmt, 2, id);
}

static int bind_known(struct trace_stmt *stmt, int index, bool known, int64_t value)
{
	return known ? trace_bind_int(stmt, index, value) : 0;
}

static int store_command(struct story *story, const struct command *command)
{
	struct trace_stmt *stmt;
	int err = insert_begin(story, STORY_COMMAND, command->id, &stmt);

	if (err == 0 && command->parent)
		err = trace_bind_int(stmt, 3, command->parent->id);
	if (err == 0 && command->region)
		err = trace_bind_int(stmt, 4, command->region->id);
	err = err ?: trace_bind_text(stmt, 5, command->sid);
	err = err ?: trace_bind_int(stmt, 6, command->pid);
	err = err ?: trace_bind_text(stmt, 7, command->name);
	err = err ?: trace_bind_text(stmt, 8, command->hierarchy);
	err = err ?: trace_bind_text(stmt, 9, command->argv);
	err = err ?: trace_bind_text(stmt, 10, command->version);
	err = err ?: trace_bind_text(stmt, 11, command->worktree);
	err = err ?: trace_bind_int(stmt, 12, command->start_ns);
	err = err ?: trace_bind_int(stmt, 13, command->end_ns);
	err = err ?: bind_known(stmt, 14, command->exit_code >= 0, command->exit_code);
	return err ?: trace_step(stmt);
}

static int store_region(struct story *story, const struct region *region)
{
	struct trace_stmt *stmt;
	int err = insert_begin(story, STORY_REGION, region->id, &stmt);

	err = err ?: trace_bind_int(stmt, 3, region->command->id);
	if (err == 0 && region->parent)
		err = trace_bind_int(stmt, 4, region->parent->id);
	err = err ?: trace_bind_text(stmt, 5, region->thread);
	err = err ?: trace_bind_int(stmt, 6, region->nesting);
	err = err ?: trace_bind_text(stmt, 7, region->category);
	err = err ?: trace_bind_text(stmt, 8, region->label);
	err = err ?: trace_bind_text(stmt, 9, region->message);
	err = err ?: trace_bind_int(stmt, 10, region->start_ns);
	err = err ?: trace_bind_int(stmt, 11, region->end_ns);
	err = err ?: trace_bind_text(stmt, 12, region->path);
	return err ?: trace_step(stmt);
}

static int store_child(struct story *story, const struct child *child)
{
	struct trace_stmt *stmt;
	int err = insert_begin(story, STORY_CHILD, child->id, &stmt);

	err = err ?: trace_bind_int(stmt, 3, child->command->id);
	err = err ?: trace_bind_int(stmt, 4, child->child_id);
	err = err ?: trace_bind_text(stmt, 5, child->class);
	err = err ?: trace_bind_text(stmt, 6, child->hook);
	err = err ?: trace_bind_text(stmt, 7, child->argv);
	err = err ?: bind_known(stmt, 8, child->pid >= 0, child->pid);
	err = err ?: trace_bind_int(stmt, 9, child->start_ns);
	err = err ?: bind_known(stmt, 10, child->end_ns != OPEN_END, child->end_ns);
	err = err ?: bind_known(stmt, 11, child->exit_code >= 0, child->exit_code);
	return err ?: trace_step(stmt);
}

/* The first of the names that the line has, as text. */
static int bind_first(struct trace_stmt *stmt, int index, const struct trace2_line *line, const char *const *names)
{
	struct strbuf auto_strbuf text = {};

	for (; *names; names++)
		if (trace2_words(line, *names, &text))
			return text.failed ? -ENOMEM : trace_bind_text(stmt, index, text.buf);
	return 0;
}

int story_store_event(struct story *story, const struct command *command, const struct trace2_line *line, int64_t time_ns)
{
	static const char *const labels[] = { "key", "label", "param", "name", "fmt", "alias", "exec_id", NULL };
	static const char *const values[] = { "value", "count", "t_total", "msg", "argv", "code", "signo", "worktree",
		"ancestry", "t_rel", NULL };
	struct trace_stmt *stmt;
	int err = insert_begin(story, STORY_EVENT, ++story->n_events, &stmt);

	err = err ?: trace_bind_int(stmt, 3, command->id);
	err = err ?: trace_bind_int(stmt, 4, time_ns);
	err = err ?: trace_bind_text(stmt, 5, line->event);
	err = err ?: trace_bind_text(stmt, 6, line->thread);
	err = err ?: trace_bind_text(stmt, 7, trace2_text(line, "category"));
	err = err ?: bind_first(stmt, 8, line, labels);
	err = err ?: bind_first(stmt, 9, line, values);
	err = err ?: trace_bind_text(stmt, 10, line->text.buf);
	return err ?: trace_step(stmt);
}

int story_store(struct story *story)
{
	int err = 0;

	for (size_t i = 0; i < story->n_commands && err == 0; i++) {
		const struct command *command = story->commands[i];

		err = store_command(story, command);
		for (size_t k = 0; k < command->n_regions && err == 0; k++)
			err = store_region(story, command->regions[k]);
		for (size_t k = 0; k < command->n_children && err == 0; k++)
			err = store_child(story, command->children[k]);
	}
	return err;
}
