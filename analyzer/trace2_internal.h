/* SPDX-License-Identifier: MIT */
/* trace2_internal.h - what trace2*.c share; for nobody else. */
#ifndef FSTAPE_TRACE2_INTERNAL_H
#define FSTAPE_TRACE2_INTERNAL_H

#include "base.h"
#include "trace2.h"
#include "trace2_line.h"

#define OPEN_END INT64_MAX /* the end has not been told */

struct region {
	int64_t id;
	struct command *command;
	struct region *parent;
	int64_t nesting, start_ns, end_ns;
	char *thread, *category, *label, *message; /* owned */
	char *path;				   /* owned; made at the end */
};

struct child {
	int64_t id, child_id, pid, start_ns, end_ns, exit_code;
	struct command *command;
	char *class, *hook, *argv; /* owned */
};

struct command {
	int64_t id, pid;
	char *sid, *name, *hierarchy, *argv, *version, *worktree; /* owned; sid is never NULL */
	int64_t start_ns;  /* of the process; OPEN_END: no event of it had a time yet */
	int64_t end_ns;
	int64_t last_ns;   /* of the last event */
	int64_t exit_code; /* -1: not told */
	struct command *parent;
	struct region *region; /* the parent's, at the start */
	struct region **open;  /* innermost last, of all threads */
	size_t n_open;
	struct region **regions; /* all, by start; owned */
	size_t n_regions;
	struct child **children; /* owned */
	size_t n_children;
};

enum story_insert { STORY_COMMAND, STORY_REGION, STORY_CHILD, STORY_EVENT, STORY_INSERTS };

struct story {
	struct trace *trace;
	int64_t run;
	const struct clockmap *map;
	char *ancestor;
	struct story_counts counts;
	void *by_sid; /* of tsearch(3): struct command */
	struct command **commands;
	size_t n_commands;
	struct command *last; /* that the last line was of */
	int64_t n_regions, n_children, n_events;
	struct trace_stmt *inserts[STORY_INSERTS];
};

/* Gives every command and region an end. 0 or -errno. */
int story_find_ends(struct story *story);

/* Stores all but the events; the commands must be joined. */
int story_store(struct story *story);
int story_store_event(struct story *story, const struct command *command, const struct trace2_line *line, int64_t time_ns);

/* Adds an item to an array that has room for powers of two. 0 or -ENOMEM. */
int story_append(void *array, size_t *count, void *item);

#endif
