/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "beneath.h"
#include "content.h"
#include "op.h"
#include "scan_internal.h"

#define COMMIT_AFTER (64 << 20) /* bytes, about */
#define ROW_BYTES    200	/* what a row of `initial` and one of `path` take, about */

/* Where a directory of today was at the start. */
struct origin {
	enum { MADE, MET, UNMET } kind; /* MADE: by the run: it was nowhere */
	uint32_t number;		/* MET: its entry in the index */
	uint32_t path;			/* path id of the start */
	char *text;			/* path of the start; NULL: as it is today */
};

/* A directory that is still to be walked. */
struct todo {
	struct todo *next;
	struct origin origin;
	char path[]; /* of today */
};

static const char *start_text(const struct todo *dir)
{
	return dir->origin.text ?: dir->path;
}

static void todo_free(struct todo *todo)
{
	if (todo)
		free(todo->origin.text);
	free(todo);
}

/* Takes over origin.text. */
static int push(struct todo **list, const char *dir, const char *name, struct origin origin)
{
	size_t len = strlen(dir) + 1 + strlen(name) + 1;
	struct todo *todo = malloc(sizeof(*todo) + len);

	if (!todo) {
		free(origin.text);
		return -ENOMEM;
	}
	snprintf(todo->path, len, "%s%s%s", dir, *dir ? "/" : "", name);
	if (origin.text && strcmp(origin.text, todo->path) == 0) {
		free(origin.text);
		origin.text = NULL;
	}
	todo->origin = origin;
	todo->next = *list;
	*list = todo;
	return 0;
}

static int stat_at(int dir_fd, const char *name, struct stat *st, int64_t *ret_born_ns)
{
	struct statx stx;

	if (fstatat(dir_fd, name, st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (statx(dir_fd, name, AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, STATX_BTIME, &stx) == 0 &&
		(stx.stx_mask & STATX_BTIME))
		*ret_born_ns = stx.stx_btime.tv_sec * NSEC_PER_SEC + stx.stx_btime.tv_nsec;
	else
		*ret_born_ns = 0;
	return 0;
}

/* A path id for `name` where `dir` was at the start, and its text. */
static int new_path(struct scan *scan, const struct todo *dir, const char *name, char **ret_text, uint32_t *ret_path)
{
	const char *above = start_text(dir);
	struct path_record path = { .id = scan->last_path + 1, .parent = dir->origin.path };
	auto_free char *text = NULL;
	int len = asprintf(&text, "%s%s%s", above, *above ? "/" : "", name), err;

	if (len < 0) {
		text = NULL;
		return -ENOMEM;
	}
	path.text_len = (uint32_t)len;
	err = trace_add_path(scan->trace, scan->run, &path, text);
	if (err < 0)
		return err;
	*ret_path = ++scan->last_path;
	*ret_text = steal_ptr(&text);
	scan->rows++;
	scan->pending += ROW_BYTES;
	return 0;
}

static int add_row(struct scan *scan, int dir_fd, const char *name, const struct stat *st, uint32_t path)
{
	char target[PATH_MAX];
	ssize_t len = S_ISLNK(st->st_mode) ? readlinkat(dir_fd, name, target, sizeof(target)) : 0;
	struct initial_record initial = initial_of_stat(st);

	initial.path = path;
	initial.target_len = len > 0 ? (uint32_t)len : 0;
	return trace_add_initial(scan->trace, scan->run, &initial, target);
}

/* A further name of a met inode gets what is known of the inode, which may have changed since. */
static int copy_row(struct scan *scan, uint32_t from, uint32_t path)
{
	int err;

	trace_reset(scan->copy);
	err = trace_bind_int(scan->copy, 1, scan->run);
	err = err ?: trace_bind_int(scan->copy, 2, from);
	err = err ?: trace_bind_int(scan->copy, 3, path);
	return err ?: trace_step(scan->copy);
}

/* Whether `name` in `dir` is as it was at the start: not made by the run, nor in what it made. */
static bool is_start_name(const struct scan *scan, const struct todo *dir, const char *name)
{
	return dir->origin.kind == UNMET ||
	       (dir->origin.kind == MET && !initial_was_made(scan->index, dir->origin.number, name, UINT64_MAX));
}

static int visit_met(struct scan *scan, struct todo **list, const struct todo *dir, struct scan_object *object,
	uint32_t number)
{
	const struct initial_entry *entry = initial_entry(scan->index, number);
	struct strbuf auto_strbuf text = {};
	auto_free char *other = NULL;
	uint32_t path, by_name;
	int err;

	object->path = entry->path;
	object->node = entry->node;
	err = scan_extras(scan, object);
	if (err < 0)
		return err;
	if (S_ISDIR(object->st->st_mode)) {
		if (initial_path(scan->index, number, &text) < 0)
			return push(list, dir->path, object->name, (struct origin){ .kind = MADE });
		return push(list, dir->path, object->name,
			(struct origin){ MET, number, entry->path, steal_ptr(&text.buf) ?: strdup("") });
	}
	if (!is_start_name(scan, dir, object->name) ||
		(dir->origin.kind == MET && initial_by_name(scan->index, dir->origin.number, object->name, &by_name)))
		return 0;
	err = new_path(scan, dir, object->name, &other, &path);
	return err ?: copy_row(scan, entry->path, path);
}

static int visit_unmet(struct scan *scan, struct todo **list, const struct todo *dir, struct scan_object *object)
{
	auto_free char *text = NULL;
	int err = new_path(scan, dir, object->name, &text, &object->path);

	err = err ?: add_row(scan, object->dir_fd, object->name, object->st, object->path);
	err = err ?: scan_extras(scan, object);
	if (err == 0 && S_ISDIR(object->st->st_mode))
		err = push(list, dir->path, object->name,
			(struct origin){ UNMET, INITIAL_NONE, object->path, steal_ptr(&text) });
	return err;
}

static int visit(struct scan *scan, struct todo **list, const struct todo *dir, int dir_fd, const char *name)
{
	struct stat st;
	struct scan_object object = { .dir_fd = dir_fd, .name = name, .st = &st };
	int64_t born_ns = 0;
	uint32_t number;
	bool older;

	if (stat_at(dir_fd, name, &st, &born_ns) < 0)
		return 0; /* gone meanwhile */
	number = initial_of_inode(scan->index, st.st_dev, st.st_ino);
	older = (born_ns ?: timespec_ns(st.st_ctim)) < scan->start_ns;
	/* the number may have been used again, by something that the run made; without btimes there is no telling */
	if (number != INITIAL_NONE && (older || !born_ns) &&
		((initial_entry(scan->index, number)->mode ^ st.st_mode) & S_IFMT) == 0)
		return visit_met(scan, list, dir, &object, number);
	if (older && is_start_name(scan, dir, name))
		return visit_unmet(scan, list, dir, &object);
	if (S_ISDIR(st.st_mode))
		return push(list, dir->path, name, (struct origin){ .kind = MADE });
	return 0;
}

static int commit(struct scan *scan)
{
	int err = trace_commit(scan->trace);

	scan->pending = 0;
	return err ?: trace_begin(scan->trace);
}

static bool should_stop(const struct scan *scan)
{
	return scan->options->stop && scan->options->stop(scan->options->stop_arg);
}

static int walk_dir(struct scan *scan, int root_fd, const struct todo *dir, struct todo **list)
{
	int path_fd = -1, fd, err = beneath_dir(root_fd, dir->path, strlen(dir->path), &path_fd);
	DIR *stream;

	if (err == -EXDEV)
		return 0; /* another filesystem is mounted there */
	fd = err < 0 ? -1 : openat(path_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	stream = fd < 0 ? NULL : fdopendir(fd);
	if (path_fd >= 0)
		close(path_fd);
	if (!stream) {
		if (fd >= 0)
			close(fd);
		scan->unread++;
		return 0;
	}
	err = 0;
	for (struct dirent *entry; err == 0 && (entry = readdir(stream));) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		err = visit(scan, list, dir, fd, entry->d_name);
		if (err == 0 && scan->pending > COMMIT_AFTER)
			err = should_stop(scan) ? -EINTR : commit(scan);
	}
	closedir(stream);
	progress_show(&scan->progress, "recording: walking the tree: %" PRId64 " untouched so far (Ctrl-C: do not wait)",
		scan->rows);
	return err < 0 ? err : should_stop(scan) ? -EINTR : 0;
}

static int walk(struct scan *scan, int root_fd, uint32_t root_number)
{
	struct todo *list = NULL;
	int err = push(&list, "", "",
		(struct origin){ MET, root_number, initial_entry(scan->index, root_number)->path, NULL });

	while (list && err == 0) {
		struct todo *dir = list;

		list = dir->next;
		err = walk_dir(scan, root_fd, dir, &list);
		todo_free(dir);
	}
	while (list) {
		struct todo *dir = list;

		list = dir->next;
		todo_free(dir);
	}
	return err;
}

static int query_int(struct scan *scan, const char *sql, int64_t *ret_value)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(scan->trace, sql, &stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, scan->run);
	err = err ?: trace_step(stmt);
	if (err == 1)
		*ret_value = trace_column_int(stmt, 0);
	return err < 0 ? err : 0;
}

/* The nodes whose attributes are not those of the start any more. */
static int load_xattrs_set(struct scan *scan)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	char sql[160];
	int err;

	snprintf(sql, sizeof(sql), "SELECT node FROM op WHERE run = ? AND op IN (%d, %d) AND result >= 0", OP_setxattr,
		OP_removexattr);
	err = trace_prepare(scan->trace, sql, &stmt, NULL);
	err = err ?: trace_bind_int(stmt, 1, scan->run);
	while (err >= 0 && (err = trace_step(stmt)) == 1)
		err = scan_note_xattrs(scan, (uint64_t)trace_column_int(stmt, 0));
	return err < 0 ? err : 0;
}

static int prepare(struct scan *scan)
{
	int64_t last = 0;
	int err = initial_index_new(scan->trace, scan->run, &scan->index);

	err = err ?: load_xattrs_set(scan);
	err = err ?: query_int(scan, "SELECT max(id) FROM path WHERE run = ?", &last);
	err = err ?: query_int(scan, "SELECT start_coarse_ns FROM run WHERE id = ?", &scan->start_ns);
	scan->last_path = (uint32_t)last;
	err = err ?: trace_prepare(scan->trace,
		"INSERT OR IGNORE INTO initial SELECT run, ?3, 0, node, NULL, dev, ino, mode, size, mtime_ns, nlink, uid, gid,"
		" rdev, blocks, target FROM initial WHERE run = ?1 AND path = ?2",
		&scan->copy, NULL);
	err = err ?: trace_prepare(scan->trace,
		"INSERT OR IGNORE INTO initial_data (run, path, offset, length, hash) VALUES (?, ?, ?, ?, ?)",
		&scan->add_data, NULL);
	return err ?: trace_prepare(scan->trace,
		"INSERT OR IGNORE INTO initial_xattr (run, path, name, value) VALUES (?, ?, ?, ?)", &scan->add_xattr, NULL);
}

static int write_columns(struct scan *scan, bool whole)
{
	int err = trace_run_set_text(scan->trace, scan->run, "scan", whole ? "done" : "partial");

	return err ?: trace_run_set_int(scan->trace, scan->run, "scanned", scan->rows);
}

static int scan_below(struct scan *scan, int root_fd)
{
	struct stat st;
	struct scan_object root = { .dir_fd = root_fd, .name = ".", .st = &st };
	uint32_t number;
	int err = fstat(root_fd, &st) < 0 ? -errno : trace_begin(scan->trace), ended;

	err = err ?: prepare(scan);
	if (err < 0)
		return err;
	number = initial_of_inode(scan->index, st.st_dev, st.st_ino);
	if (number == INITIAL_NONE) {
		log_msg("%s: not the directory that was recorded: what the run did not touch is not known", scan->root);
		return -ESTALE;
	}
	root.path = initial_entry(scan->index, number)->path;
	root.node = initial_entry(scan->index, number)->node;
	err = scan_extras(scan, &root);
	err = err ?: walk(scan, root_fd, number);
	if (err == 0 || err == -EINTR) { /* what there is by then is right, and is kept */
		ended = write_columns(scan, err == 0 && scan->unread == 0);
		ended = ended ?: trace_commit(scan->trace);
		err = ended ?: err;
	}
	return err;
}

static void scan_free(struct scan *scan)
{
	trace_finalize(scan->copy);
	trace_finalize(scan->add_data);
	trace_finalize(scan->add_xattr);
	initial_index_free(scan->index);
	map64_free(&scan->xattrs_set);
	map64_free(&scan->extras_done);
	free(scan->buf);
}

int64_t scan_tree(struct trace *trace, int64_t run, const char *root, const struct scan_options *options)
{
	struct scan scan = { .trace = trace, .run = run, .root = root, .options = options,
		.buf = malloc(CONTENT_PIECE), .progress = progress_begin(options->progress) };
	int auto_close root_fd = -1;
	int err = scan.buf ? beneath_root(root, false, &root_fd) : -ENOMEM;

	if (err < 0) {
		free(scan.buf);
		return log_errno(err, "%s: cannot be walked", root);
	}
	err = scan_below(&scan, root_fd);
	trace_rollback(trace);
	progress_end(&scan.progress);
	scan_free(&scan);
	if (err == -EINTR)
		log_msg("%s: the walk was interrupted: what the run did not touch is known in part", root);
	else if (err < 0 && err != -ESTALE)
		log_msg("%s: cannot store what the run did not touch: %s", root, trace_error(trace));
	else if (scan.unread)
		log_msg("%s: %" PRId64 " files or directories could not be read, and are left out of the start state", root,
			scan.unread);
	return err < 0 ? err : scan.rows;
}
