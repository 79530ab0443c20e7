/* SPDX-License-Identifier: MIT */
#include "git_story.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "attribute.h"
#include "base.h"
#include "trace2.h"

#define DISCARD "git-trace2-discard" /* git's mark that trace2.maxFiles was reached */

/* Only ordinary files: a fifo or a device that somebody put there must not stop us. */
static bool is_file(int dirfd, const char *name)
{
	struct stat st;

	return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

/* A file that cannot be read is skipped, and said in `note`; a failure of the database ends all. */
static int read_directory(struct story *story, int dirfd, const char *path, struct strbuf *note)
{
	int fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	int err = 0;

	if (!dir)
		return log_errno(errno, "%s: cannot read git's trace there", path);
	for (struct dirent *entry; err == 0 && (entry = readdir(dir));) {
		if (strcmp(entry->d_name, DISCARD) == 0)
			strbuf_addf(note, "%strace2.maxFiles kept git from telling all", note->len ? "; " : "");
		else if (is_file(fd, entry->d_name))
			err = story_read(story, fd, entry->d_name, 0);
	}
	closedir(dir);
	return err;
}

static bool is_directory(const struct git_source *source)
{
	struct stat st;

	return !source->path || (fstatat(source->dirfd, source->path, &st, 0) == 0 && S_ISDIR(st.st_mode));
}

static int read_all(struct story *story, const struct git_source *source, struct strbuf *note)
{
	int err;

	if (is_directory(source))
		return read_directory(story, source->dirfd, source->path ?: ".", note);
	err = story_read(story, source->dirfd, source->path, source->from);
	if (err == -ENOENT)
		err = 0; /* no git ran */
	return err;
}

static void add_note(struct strbuf *note, const char *text)
{
	strbuf_addf(note, "%s%s", note->len ? "; " : "", text);
}

static int store_counts(struct trace *trace, int64_t run, const struct story_counts *counts, const struct clockmap *map,
	struct strbuf *note)
{
	int err = trace_run_set_int(trace, run, "git_lines", counts->lines - counts->foreign);

	if (counts->bad)
		strbuf_addf(note, "%s%" PRId64 " of %" PRId64 " lines of git's trace are malformed or cut off",
			note->len ? "; " : "", counts->bad, counts->lines);
	if (counts->timeless)
		add_note(note, "git's trace is brief (GIT_TRACE2_EVENT_BRIEF): its times are those of earlier events");
	if (map->step_ns)
		strbuf_addf(note, "%sthe wall clock was set during the run, by %+.3f s: times of git's regions may be"
				  " wrong around that", note->len ? "; " : "", (double)map->step_ns / 1e9);
	err = err ?: trace_run_set_int(trace, run, "git_bad_lines", counts->bad);
	if (map->step_ns)
		err = err ?: trace_run_set_int(trace, run, "clock_step_ns", map->step_ns);
	return err ?: trace_run_set_text(trace, run, "git_note", note->len ? note->buf : NULL);
}

/* One transaction. */
static int import(struct trace *trace, int64_t run, const struct git_source *source, const struct clockmap *map,
	struct strbuf *note)
{
	struct story *story = NULL;
	struct story_counts counts;
	int err = trace_begin(trace);

	err = err ?: story_begin(trace, run, map, source->ancestor, &story);
	err = err ?: read_all(story, source, note);
	err = err ?: story_end(story, &counts);
	err = err ?: store_counts(trace, run, &counts, map, note);
	story_free(story);
	err = err ?: trace_commit(trace);
	trace_rollback(trace);
	return err;
}

static int fail(struct trace *trace, int64_t run, int err, const char *what)
{
	log_msg("%s: run %" PRId64 ": %s: %s", trace_path(trace), run, what,
		trace_error(trace)[0] ? trace_error(trace) : strerror(-err));
	return err;
}

static int attribute(struct trace *trace, int64_t run)
{
	int err = attribute_run(trace, run);

	return err < 0 ? fail(trace, run, err, "cannot tell which command made which operation") : 0;
}

int git_story_import(struct trace *trace, int64_t run, const struct git_source *source)
{
	struct strbuf auto_strbuf note = {};
	struct clockmap map = {};
	int err = clockmap_load(trace, run, &map), result;

	if (source->note)
		add_note(&note, source->note);
	err = err ?: import(trace, run, source, &map, &note);
	clockmap_free(&map);
	if (err < 0)
		fail(trace, run, err, "cannot load git's own story");
	result = attribute(trace, run);
	return err ?: result;
}

int git_story_none(struct trace *trace, int64_t run, const char *note)
{
	int err = note ? trace_run_set_text(trace, run, "git_note", note) : 0;

	if (err < 0)
		fail(trace, run, err, "cannot store why git's story is missing");
	return attribute(trace, run) ?: err;
}

void git_story_remove(const char *path, int dir_fd)
{
	auto_free char *copy = strdup(path);
	char *slash = copy ? strrchr(copy, '/') : NULL;
	int fd = dup(dir_fd);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (dir) {
		rewinddir(dir);
		for (struct dirent *entry; (entry = readdir(dir));)
			unlinkat(fd, entry->d_name, 0);
		closedir(dir);
	}
	if (!slash)
		return;
	if (rmdir(copy) < 0)
		log_errno(errno, "%s: cannot be removed", copy);
	*slash = '\0';
	rmdir(copy); /* stays while other runs have something there */
}

/* 1: it was left over and is in the database now; 0: alive; -errno after a message. */
static int recover_story(struct trace *trace, int64_t run, const char *path)
{
	int auto_close fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct git_source source = { .dirfd = fd };
	int err;

	if (fd < 0)
		return errno == ENOENT ? 0 : log_errno(errno, "%s", path);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return 0;
	err = git_story_import(trace, run, &source);
	if (err < 0)
		return err;
	git_story_remove(path, fd);
	return 1;
}

/* Finished runs: those of which something is left in the spool, and those with operations but no span. */
static int unfinished(struct trace *trace, int64_t **ret_runs)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	auto_free int64_t *runs = NULL;
	int count = 0;
	int err = trace_prepare(trace,
		"SELECT id, recorded > 0 AND NOT EXISTS (SELECT 1 FROM git_span AS s WHERE s.run = run.id) FROM run"
		" WHERE state IN ('done', 'recovered')", &stmt, NULL);

	while (err == 0 && (err = trace_step(stmt)) == 1) {
		auto_free char *dir = trace_story_dir(trace_path(trace), trace_column_int(stmt, 0));
		int64_t *grown;

		err = 0;
		if (!dir)
			return -ENOMEM;
		if (!trace_column_int(stmt, 1) && access(dir, F_OK) < 0)
			continue;
		grown = reallocarray(runs, (size_t)count + 1, sizeof(*runs));
		if (!grown)
			return -ENOMEM;
		runs = grown;
		runs[count++] = trace_column_int(stmt, 0);
	}
	if (err < 0)
		return err;
	*ret_runs = steal_ptr(&runs);
	return count;
}

int git_story_recover(struct trace *trace)
{
	auto_free int64_t *runs = NULL;
	int count = unfinished(trace, &runs), done = 0, err = 0;

	if (count < 0)
		return fail(trace, 0, count, "cannot look for git's stories");
	for (int i = 0; i < count && err >= 0; i++) {
		auto_free char *dir = trace_story_dir(trace_path(trace), runs[i]);

		if (!dir)
			err = log_errno(ENOMEM, "%s", trace_path(trace));
		else if (access(dir, F_OK) == 0)
			err = recover_story(trace, runs[i], dir);
		else
			err = attribute(trace, runs[i]) ?: 1;
		done += err > 0;
	}
	return err < 0 ? err : done;
}
