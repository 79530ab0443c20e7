/* SPDX-License-Identifier: MIT */
/* trace2.c - from lines to commands with their regions and children. */
#include "trace2.h"

#include <fcntl.h>
#include <search.h>
#include <stdio.h>
#include <string.h>

#include "trace2_internal.h"

int story_append(void *array, size_t *count, void *item)
{
	void **items = *(void ***)array, **grown;

	if ((*count & (*count - 1)) == 0) {
		grown = reallocarray(items, *count ? *count * 2 : 1, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		*(void ***)array = items = grown;
	}
	items[(*count)++] = item;
	return 0;
}

static int compare_sid(const void *a, const void *b)
{
	return strcmp(((const struct command *)a)->sid, ((const struct command *)b)->sid);
}

static struct command *find_command(struct story *story, const char *sid)
{
	const struct command key = { .sid = (char *)sid };
	struct command **found;

	if (story->last && strcmp(story->last->sid, sid) == 0)
		return story->last;
	found = tfind(&key, &story->by_sid, compare_sid);
	return found ? story->last = *found : NULL;
}

/* The command of a session, made when it is met for the first time. */
static int get_command(struct story *story, const char *sid, struct command **ret_command)
{
	struct command *command = find_command(story, sid);

	if (!command) {
		command = calloc(1, sizeof(*command));
		if (!command || !(command->sid = strdup(sid)) ||
			story_append(&story->commands, &story->n_commands, command) < 0) {
			free(command ? command->sid : NULL);
			free(command);
			return -ENOMEM;
		}
		command->id = (int64_t)story->n_commands;
		command->pid = trace2_sid_pid(sid);
		command->start_ns = command->end_ns = OPEN_END;
		command->exit_code = -1;
		if (!tsearch(command, &story->by_sid, compare_sid))
			return -ENOMEM;
		story->last = command;
	}
	*ret_command = command;
	return 0;
}

/* The place of a text that is to be kept. 0 or -ENOMEM. */
static int keep(char **place, const char *text)
{
	char *copy;

	if (!text || *place)
		return 0;
	copy = strdup(text);
	if (!copy)
		return -ENOMEM;
	*place = copy;
	return 0;
}

static int keep_words(char **place, const struct trace2_line *line, const char *name)
{
	struct strbuf auto_strbuf text = {};

	return trace2_words(line, name, &text) ? text.failed ? -ENOMEM : keep(place, text.buf) : 0;
}

/*
 * When the event was. Since the process began git counts on a monotonic clock: that is preferred, as the wall clock may
 * be set meanwhile.
 */
static int64_t event_time(struct story *story, struct command *command, const struct trace2_line *line)
{
	int64_t time = command->last_ns;

	if (line->abs_ns != NO_TIME && command->start_ns != OPEN_END)
		time = command->start_ns + line->abs_ns;
	else if (line->real_ns != NO_TIME)
		time = clockmap_run_ns(story->map, line->real_ns);
	else
		story->counts.timeless++;
	if (command->start_ns == OPEN_END && line->real_ns != NO_TIME)
		command->start_ns = time;
	if (time > command->last_ns)
		command->last_ns = time;
	return time;
}

static int on_start(struct story *story, struct command *command, const struct trace2_line *line, int64_t time)
{
	/* the process began a little before its first event */
	if (line->abs_ns != NO_TIME && line->real_ns != NO_TIME)
		command->start_ns = clockmap_run_ns(story->map, line->real_ns) - line->abs_ns;
	return keep_words(&command->argv, line, "argv") ?: story_store_event(story, command, line, time);
}

static int on_version(struct story *story, struct command *command, const struct trace2_line *line, int64_t time)
{
	(void)story, (void)time;
	return keep(&command->version, trace2_text(line, "exe"));
}

static int on_name(struct story *story, struct command *command, const struct trace2_line *line, int64_t time)
{
	(void)story, (void)time;
	return keep(&command->name, trace2_text(line, "name")) ?:
		       keep(&command->hierarchy, trace2_text(line, "hierarchy"));
}

static int on_repo(struct story *story, struct command *command, const struct trace2_line *line, int64_t time)
{
	return keep(&command->worktree, trace2_text(line, "worktree")) ?: story_store_event(story, command, line, time);
}

/* exit and atexit: the latter comes last, after the work of atexit(3) handlers such as removing locks. */
static int on_exit_code(struct story *story, struct command *command, const struct trace2_line *line, int64_t time)
{
	(void)story;
	command->exit_code = trace2_int(line, "code", -1);
	command->end_ns = time;
	return 0;
}

static int on_signal(struct story *story, struct command *command, const struct trace2_line *line, int64_t time)
{
	command->exit_code = 128 + trace2_int(line, "signo", 0);
	command->end_ns = time;
	return story_store_event(story, command, line, time);
}

static struct region *innermost(const struct command *command, const char *thread)
{
	for (size_t i = command->n_open; i-- > 0;)
		if (strcmp(command->open[i]->thread, thread) == 0)
			return command->open[i];
	return NULL;
}

static int on_enter(struct story *story, struct command *command, const struct trace2_line *line, int64_t time)
{
	struct region *region = calloc(1, sizeof(*region));
	int err;

	if (!region || story_append(&command->regions, &command->n_regions, region) < 0) {
		free(region);
		return -ENOMEM;
	}
	region->id = ++story->n_regions;
	region->command = command;
	region->parent = innermost(command, line->thread);
	region->nesting = trace2_int(line, "nesting", 1);
	region->start_ns = time;
	region->end_ns = OPEN_END;
	err = keep(&region->thread, line->thread);
	err = err ?: keep(&region->category, trace2_text(line, "category") ?: "");
	err = err ?: keep(&region->label, trace2_text(line, "label") ?: "");
	err = err ?: keep(&region->message, trace2_text(line, "msg"));
	return err ?: story_append(&command->open, &command->n_open, region);
}

/* Regions inside it that git forgot to leave end with it. A leave without its enter is nothing. */
static int on_leave(struct story *story, struct command *command, const struct trace2_line *line, int64_t time)
{
	const char *category = trace2_text(line, "category") ?: "", *label = trace2_text(line, "label") ?: "";
	struct region *left = NULL;
	size_t kept = 0;

	(void)story;
	for (size_t i = command->n_open; i-- > 0 && !left;) {
		struct region *region = command->open[i];

		if (strcmp(region->thread, line->thread) == 0 && strcmp(region->category, category) == 0 &&
			strcmp(region->label, label) == 0)
			left = region;
	}
	if (!left)
		return 0;
	left->end_ns = line->rel_ns != NO_TIME ? left->start_ns + line->rel_ns : time;
	for (size_t i = 0; i < command->n_open; i++) {
		struct region *region = command->open[i];

		if (strcmp(region->thread, line->thread) == 0 && region->id >= left->id)
			region->end_ns = left->end_ns;
		else
			command->open[kept++] = region;
	}
	command->n_open = kept;
	return 0;
}

static int on_child(struct story *story, struct command *command, const struct trace2_line *line, int64_t time)
{
	struct child *child = calloc(1, sizeof(*child));

	if (!child || story_append(&command->children, &command->n_children, child) < 0) {
		free(child);
		return -ENOMEM;
	}
	*child = (struct child){
		.id = ++story->n_children,
		.command = command,
		.child_id = trace2_int(line, "child_id", -1),
		.pid = -1,
		.start_ns = time,
		.end_ns = OPEN_END,
		.exit_code = -1,
	};
	return keep(&child->class, trace2_text(line, "child_class")) ?:
	       keep(&child->hook, trace2_text(line, "hook_name")) ?: keep_words(&child->argv, line, "argv");
}

/* child_exit, and child_ready, which tells the pid of one that goes on in the background. */
static int on_child_end(struct story *story, struct command *command, const struct trace2_line *line, int64_t time)
{
	int64_t id = trace2_int(line, "child_id", -1);

	(void)story;
	for (size_t i = command->n_children; i-- > 0;) {
		struct child *child = command->children[i];

		if (child->child_id != id)
			continue;
		child->pid = trace2_int(line, "pid", -1);
		child->exit_code = trace2_int(line, "code", -1);
		child->end_ns = line->rel_ns != NO_TIME ? child->start_ns + line->rel_ns : time;
		break;
	}
	return 0;
}

static int on_other(struct story *story, struct command *command, const struct trace2_line *line, int64_t time)
{
	return story_store_event(story, command, line, time);
}

static const struct handler {
	const char *event;
	int (*handle)(struct story *, struct command *, const struct trace2_line *, int64_t time);
} handlers[] = {
	{ "region_enter", on_enter },
	{ "region_leave", on_leave },
	{ "child_start", on_child },
	{ "child_exit", on_child_end },
	{ "child_ready", on_child_end },
	{ "version", on_version },
	{ "start", on_start },
	{ "cmd_name", on_name },
	{ "def_repo", on_repo },
	{ "exit", on_exit_code },
	{ "atexit", on_exit_code },
	{ "signal", on_signal },
};

static bool is_foreign(const struct story *story, const char *sid)
{
	size_t len = story->ancestor ? strlen(story->ancestor) : 0;

	return len && !(strncmp(sid, story->ancestor, len) == 0 && sid[len] == '/');
}

static int take_line(struct story *story, const char *text, size_t len)
{
	struct trace2_line line;
	struct command *command = NULL;
	const struct handler *handler = handlers;
	int err = trace2_line_parse(text, len, &line);

	story->counts.lines++;
	if (err == -EBADMSG) {
		story->counts.bad++;
		return 0;
	}
	if (err < 0)
		return err;
	if (is_foreign(story, line.sid)) {
		story->counts.foreign++;
	} else {
		err = get_command(story, line.sid, &command);
		while (handler < handlers + ARRAY_SIZE(handlers) && strcmp(handler->event, line.event) != 0)
			handler++;
		if (err == 0)
			err = (handler < handlers + ARRAY_SIZE(handlers) ? handler->handle : on_other)(
				story, command, &line, event_time(story, command, &line));
	}
	trace2_line_free(&line);
	return err;
}

int story_read(struct story *story, int dirfd, const char *path, off_t from)
{
	int auto_close fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	auto_free char *line = NULL;
	size_t size = 0;
	ssize_t len;
	FILE *file;
	int err = 0;

	if (fd < 0 || !(file = fdopen(fd, "r")))
		return -errno;
	steal_fd(&fd);
	if (from && fseeko(file, from, SEEK_SET) < 0)
		err = -errno;
	while (err == 0 && (errno = 0, len = getline(&line, &size, file)) > 0)
		err = take_line(story, line, (size_t)len - (line[len - 1] == '\n'));
	if (err == 0 && ferror(file))
		err = -(errno ?: EIO);
	fclose(file);
	return err;
}

static int clear_run(struct trace *trace, int64_t run)
{
	static const char *const tables[] = { "git_command", "git_region", "git_child", "git_event" };
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(tables) && err == 0; i++) {
		struct trace_stmt auto_stmt *stmt = NULL;
		char sql[64];

		snprintf(sql, sizeof(sql), "DELETE FROM %s WHERE run = ?", tables[i]);
		err = trace_prepare(trace, sql, &stmt, NULL);
		err = err ?: trace_bind_int(stmt, 1, run);
		err = err ?: trace_step(stmt);
	}
	return err;
}

int story_begin(struct trace *trace, int64_t run, const struct clockmap *map, const char *ancestor,
	struct story **ret_story)
{
	struct story *story = calloc(1, sizeof(*story));
	int err;

	if (!story || (ancestor && !(story->ancestor = strdup(ancestor)))) {
		free(story);
		return -ENOMEM;
	}
	story->trace = trace;
	story->run = run;
	story->map = map;
	err = clear_run(trace, run);
	if (err < 0)
		story_free(story);
	else
		*ret_story = story;
	return err;
}

/* The innermost region of the main thread at `time`, or what the command itself was started in. */
static struct region *region_at(struct command *command, int64_t time)
{
	struct region *found = command->region;

	for (size_t i = 0; i < command->n_regions && command->regions[i]->start_ns <= time; i++)
		if (command->regions[i]->end_ns > time && strcmp(command->regions[i]->thread, "main") == 0)
			found = command->regions[i];
	return found;
}

/* A session's id is its parent's, '/', and its own part. The parent may be one that told nothing: then its parent. */
static void join_parent(struct story *story, struct command *command)
{
	auto_free char *sid = strdup(command->sid);
	char *slash;

	while (sid && !command->parent && (slash = strrchr(sid, '/'))) {
		*slash = '\0';
		command->parent = find_command(story, sid);
	}
	if (command->parent)
		command->region = region_at(command->parent, command->start_ns);
}

static int make_path(struct region *region)
{
	const struct region *outer = region->parent ?: region->command->region;
	int len = asprintf(&region->path, "%s%s%s/%s", outer ? outer->path : "", outer ? " > " : "", region->category,
		region->label);

	if (len < 0)
		region->path = NULL;
	return len < 0 ? -ENOMEM : 0;
}

/* Longer ids are of descendants, so that each parent is complete before its children. */
static int compare_depth(const void *a, const void *b)
{
	const struct command *x = *(struct command *const *)a, *y = *(struct command *const *)b;
	size_t len_x = strlen(x->sid), len_y = strlen(y->sid);

	return len_x != len_y ? (len_x > len_y) - (len_x < len_y) : (x->id > y->id) - (x->id < y->id);
}

int story_end(struct story *story, struct story_counts *ret_counts)
{
	int err = story_find_ends(story);

	if (story->n_commands)
		array_sort(story->commands, story->n_commands, sizeof(*story->commands), compare_depth);
	for (size_t i = 0; i < story->n_commands && err == 0; i++) {
		struct command *command = story->commands[i];

		join_parent(story, command);
		for (size_t k = 0; k < command->n_regions && err == 0; k++)
			err = make_path(command->regions[k]);
	}
	story->counts.commands = (int64_t)story->n_commands;
	err = err ?: story_store(story);
	if (err == 0)
		*ret_counts = story->counts;
	return err;
}

static void free_command(struct command *command)
{
	for (size_t i = 0; i < command->n_regions; i++) {
		struct region *region = command->regions[i];

		free(region->thread), free(region->category), free(region->label);
		free(region->message), free(region->path);
		free(region);
	}
	for (size_t i = 0; i < command->n_children; i++) {
		struct child *child = command->children[i];

		free(child->class), free(child->hook), free(child->argv);
		free(child);
	}
	free(command->regions), free(command->open), free(command->children);
	free(command->sid), free(command->name), free(command->hierarchy);
	free(command->argv), free(command->version), free(command->worktree);
	free(command);
}

static void keep_it(void *command)
{
	(void)command;
}

void story_free(struct story *story)
{
	if (!story)
		return;
	for (int i = 0; i < STORY_INSERTS; i++)
		trace_finalize(story->inserts[i]);
	tdestroy(story->by_sid, keep_it);
	for (size_t i = 0; i < story->n_commands; i++)
		free_command(story->commands[i]);
	free(story->commands);
	free(story->ancestor);
	free(story);
}
