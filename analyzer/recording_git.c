/* SPDX-License-Identifier: MIT */
/* recording_git.c - lets git tell what it does: its trace2 events (git's Documentation/technical/api-trace2). */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base.h"
#include "git_story.h"
#include "recording_internal.h"

#define NESTING 10 /* git's default of 2 hides most */

/* Whether a value of git's means "not at all". */
static bool is_off(const char *value)
{
	return !*value || strcmp(value, "0") == 0 || strcasecmp(value, "false") == 0;
}

/* The user has chosen where git writes. */
static void read_along(struct recording *rec, const char *target)
{
	struct git_trace *git = &rec->git;
	const char *outer = getenv("GIT_TRACE2_PARENT_SID");
	struct stat st;

	if (is_off(target)) {
		git->why_not = "GIT_TRACE2_EVENT switches git's trace off";
	} else if (target[0] != '/') {
		git->why_not = "GIT_TRACE2_EVENT names neither a file nor a directory: git's trace cannot be read along";
	} else if (asprintf(&git->ancestor, "%s%sfstape-%d-%" PRId64, outer ?: "", outer ? "/" : "",
			   (int)getpid(), rec->result.run) < 0) {
		git->ancestor = NULL;
	} else {
		git->target = strdup(target);
		git->from = stat(target, &st) == 0 && S_ISREG(st.st_mode) ? st.st_size : 0;
	}
}

void recording_git_prepare(struct recording *rec)
{
	struct git_trace *git = &rec->git;
	const char *target = getenv("GIT_TRACE2_EVENT");

	if (target && *target) {
		read_along(rec, target);
		return;
	}
	git->dir = trace_story_dir(rec->db, rec->result.run);
	if (!git->dir)
		return;
	if (mkdir(git->dir, 0700) == 0)
		git->dir_fd = open(git->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (git->dir_fd >= 0 && flock(git->dir_fd, LOCK_EX | LOCK_NB) == 0)
		return;
	log_errno(errno, "%s: no place for git's own story, recording without it", git->dir);
	git->why_not = "there was no place for git's trace";
	free(git->dir);
	git->dir = NULL;
}

void recording_git_environment(const struct recording *rec)
{
	const struct git_trace *git = &rec->git;
	const char *nesting = getenv("GIT_TRACE2_EVENT_NESTING");
	char number[16];

	if (!git->dir && !git->target)
		return;
	if (!nesting || atoi(nesting) < NESTING) {
		snprintf(number, sizeof(number), "%d", NESTING);
		setenv("GIT_TRACE2_EVENT_NESTING", number, 1);
	}
	if (git->dir) {
		setenv("GIT_TRACE2_EVENT", git->dir, 1);
		setenv("GIT_TRACE2_EVENT_BRIEF", "0", 1);
	} else {
		setenv("GIT_TRACE2_PARENT_SID", git->ancestor, 1);
	}
}

static void say_note(const struct recording *rec, struct trace *trace)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace, "SELECT git_note FROM run WHERE id = ?", &stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, rec->result.run);
	if (err == 0 && trace_step(stmt) == 1 && trace_column_text(stmt, 0) && !rec->options->quiet)
		log_msg("run %" PRId64 ": %s", rec->result.run, trace_column_text(stmt, 0));
}

int recording_git_load(struct recording *rec, struct trace *trace)
{
	struct git_trace *git = &rec->git;
	struct git_source source = { .dirfd = git->dir ? git->dir_fd : AT_FDCWD, .path = git->target,
		.from = git->from, .ancestor = git->ancestor };
	int err;

	if (!git->dir && !git->target)
		return git_story_none(trace, rec->result.run, git->why_not);
	err = git_story_import(trace, rec->result.run, &source);
	if (err < 0 && git->dir)
		log_msg("git's trace stays in %s; 'fstape recover %s' loads it", git->dir, rec->options->db);
	if (err < 0)
		return err;
	if (git->dir)
		git_story_remove(git->dir, git->dir_fd);
	free(git->dir);
	git->dir = NULL;
	say_note(rec, trace);
	return 0;
}

void recording_git_free(struct recording *rec)
{
	struct git_trace *git = &rec->git;

	if (git->dir)
		rmdir(git->dir); /* nothing was recorded; else it is not empty and stays for `recover` */
	if (git->dir_fd >= 0)
		close(git->dir_fd);
	free(git->dir);
	free(git->target);
	free(git->ancestor);
}
