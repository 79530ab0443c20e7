/* SPDX-License-Identifier: MIT */
/* attribute_internal.h - what attribute*.c share; for nobody else. */
#ifndef FSTAPE_ATTRIBUTE_INTERNAL_H
#define FSTAPE_ATTRIBUTE_INTERNAL_H

#include "attribute.h"

/* Rows of git_phase that the code itself has to know; 0: none. The others come from the rules in views.sql. */
enum phase {
	PHASE_NONE,
	PHASE_OTHER_PROGRAMS = 1,
	PHASE_KERNEL = 2,
	PHASE_HOOKS = 3,
	PHASE_GIT = 4,
	PHASE_SERVING = 7,
	PHASE_WORKTREE = 20,
};

struct git_region {
	int64_t id, start_ns, end_ns;
	int64_t parent_id;
	struct git_region *parent; /* the region around it, of the same command and thread */
	int phase;
};

struct git_command {
	int64_t id, pid, start_ns, end_ns;
	int64_t parent_id, region_id;
	struct git_command *parent;
	struct git_region *inherited;  /* the parent's region that it was started in */
	struct git_region **regions;   /* of its main thread, by start */
	size_t n_regions;
	bool serving; /* the other side of a transfer, or started by it */
	int phase, worktree_phase;
};

struct git_hook {
	int64_t pid, start_ns, end_ns;
	struct git_command *command;
};

/* What git told of a run; all arrays are owned. */
struct git_story {
	struct git_command *commands; /* by id */
	struct git_command **by_pid;  /* by pid, then start */
	size_t n_commands;
	struct git_region *regions; /* by id */
	struct git_region **slots;  /* of the commands' lists */
	size_t n_regions;
	struct git_hook *hooks;
	size_t n_hooks;
};

/* Reads it, and writes the phases that the rules give into git_command and git_region. */
int git_story_load(struct trace *trace, int64_t run, struct git_story *ret_story);
void git_story_free(struct git_story *story);

/* The region of the command's own main thread that `time` is in, or NULL. */
struct git_region *git_region_at(const struct git_command *command, int64_t time);

/* What the command does at that time in its region (NULL: in none); PHASE_NONE: nothing says. */
int git_phase_of(const struct git_command *command, const struct git_region *region);

/* Fills git_span. */
int git_span_make(struct trace *trace, int64_t run, const struct git_story *story);

/* Prepares a statement whose first parameter is the run. */
int prepare_for_run(struct trace *trace, int64_t run, const char *sql, struct trace_stmt **ret_stmt);

#endif
