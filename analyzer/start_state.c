/* SPDX-License-Identifier: MIT */
/* start_state.c - what is needed, whether it may be used, and the walk over the rows. */
#include "start_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "start_internal.h"

#define NAME_SHOWN 500 /* bytes */

#define ROWS                                                                                                           \
	"SELECT i.path, p.path, i.node, i.dev, i.ino, i.rdev, i.mode, i.uid, i.gid, i.size, i.mtime_ns, i.blocks, i.target"    \
	" FROM initial AS i JOIN path AS p ON p.run = i.run AND p.id = i.path WHERE i.run = ?"

int start_error(const struct start *start, int err, const char *path, const char *text)
{
	struct strbuf auto_strbuf name = {};

	size_t len = strlen(path);

	/* a stranger's name: not longer than a screen, and with what a terminal would obey made visible */
	strbuf_add_json(&name, path, len < NAME_SHOWN ? len : NAME_SHOWN);
	return log_errno(err, "%s: start state: %s%s: %s", start->target, name.buf ?: "?", len < NAME_SHOWN ? "" : "...",
		text);
}

uint64_t start_inode_key(uint64_t dev, uint64_t ino)
{
	const uint64_t both[2] = { dev, ino };

	return XXH3_64bits(both, sizeof(both));
}

uint64_t start_id_key(uint64_t id)
{
	return XXH3_64bits(&id, sizeof(id));
}

/* --- rows ---------------------------------------------------------------------------------------------------------- */

static void read_row(struct trace_stmt *stmt, struct start_row *row)
{
	*row = (struct start_row){
		.path_id = (uint32_t)trace_column_int(stmt, 0),
		.path = trace_column_text(stmt, 1) ?: "",
		.path_len = trace_column_bytes(stmt, 1),
		.node = (uint64_t)trace_column_int(stmt, 2),
		.dev = (uint64_t)trace_column_int(stmt, 3),
		.ino = (uint64_t)trace_column_int(stmt, 4),
		.rdev = (uint64_t)trace_column_int(stmt, 5),
		.mode = (uint32_t)trace_column_int(stmt, 6),
		.uid = (uint32_t)trace_column_int(stmt, 7),
		.gid = (uint32_t)trace_column_int(stmt, 8),
		.size = trace_column_int(stmt, 9),
		.mtime_ns = trace_column_int(stmt, 10),
		.blocks = trace_column_type(stmt, 11) == TRACE_NULL ? -1 : trace_column_int(stmt, 11),
		.target = trace_column_text(stmt, 12),
	};
}

static int check_row(const struct start *start, const struct start_row *row)
{
	int err = beneath_check(row->path, row->path_len);

	if (err < 0)
		return start_error(start, err, row->path, "a path that no recording has; refused");
	switch (row->mode & S_IFMT) {
	case S_IFREG:
		if (row->size >= 0 && row->size <= LARGEST_SIZE)
			return 0;
		return start_error(start, EFBIG, row->path, "a size that no file has; refused");
	case S_IFLNK:
		if (row->target && *row->target)
			return 0;
		return start_error(start, EINVAL, row->path, "a symlink without a target; refused");
	case S_IFDIR:
	case S_IFIFO:
	case S_IFSOCK:
	case S_IFCHR:
	case S_IFBLK:
		return 0;
	}
	return start_error(start, EINVAL, row->path, "of no kind that there is; refused");
}

/* Calls `each` for the rows that `sql` selects. 0, or -errno after a message. */
static int each_row(struct start *start, const char *sql, int (*each)(struct start *, const struct start_row *))
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(start->trace, sql, &stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, start->run);
	if (err < 0)
		return log_msg("%s: %s", trace_path(start->trace), trace_error(start->trace)), err;
	while ((err = trace_step(stmt)) == 1) {
		struct start_row row;

		read_row(stmt, &row);
		err = each(start, &row);
		if (err < 0)
			return err;
		if (start->stop && *start->stop)
			return -EINTR;
	}
	if (err < 0)
		log_msg("%s: %s", trace_path(start->trace), trace_error(start->trace));
	return err;
}

/* --- what it needs ------------------------------------------------------------------------------------------------- */

static int measure_row(struct start *start, const struct start_row *row)
{
	int err = check_row(start, row);

	if (err < 0)
		return err;
	start->need_objects += row->path_len > 0;
	if (S_ISREG(row->mode))
		err = map64_add(&start->first, start_inode_key(row->dev, row->ino), 0);
	if (err == 1) /* the first name of it */
		start->need_bytes += (uint64_t)start_allocated(row);
	if (start->need_bytes > (uint64_t)INT64_MAX)
		return start_error(start, EFBIG, row->path, "sizes that no disk has; refused");
	return err < 0 ? log_errno(err, "%s", start->target) : 0;
}

static int measure(struct trace *trace, int64_t run, const char *target, const volatile int *stop, uint64_t *ret_objects,
	uint64_t *ret_bytes)
{
	struct start start = { .trace = trace, .run = run, .target = target, .stop = stop };
	int err = each_row(&start, ROWS, measure_row);

	map64_free(&start.first);
	if (err < 0)
		return err;
	*ret_objects = start.need_objects;
	*ret_bytes = start.need_bytes;
	return 0;
}

int start_state_size(struct trace *trace, int64_t run, uint64_t *ret_objects, uint64_t *ret_bytes)
{
	return measure(trace, run, trace_path(trace), NULL, ret_objects, ret_bytes);
}

static void human(uint64_t bytes, char text[static 24])
{
	static const char units[] = " KMGTPE";
	double value = (double)bytes;
	int unit = 0;

	for (; value >= 10000; unit++)
		value /= 1024;
	snprintf(text, 24, unit ? "%.0f %ciB" : "%.0f bytes", value, units[unit]);
}

/* What may be used: what the caller says, else half of what is free. */
static int set_limits(struct start *start)
{
	struct statvfs fs;
	uint64_t free_bytes;

	if (fstatvfs(start->root_fd, &fs) < 0)
		return log_errno(errno, "%s", start->target);
	free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	start->max_bytes = start->options->max_bytes ?: free_bytes / 2;
	if (start->max_bytes > free_bytes)
		start->max_bytes = free_bytes;
	start->max_objects = start->options->max_objects ?: fs.f_files ? (uint64_t)fs.f_favail / 2 : UINT64_MAX;
	return 0;
}

static int check_limits(struct start *start)
{
	uint64_t objects = 0, bytes = 0;
	char need[24], limit[24];
	int err = set_limits(start);

	err = err ?: measure(start->trace, start->run, start->target, start->stop, &objects, &bytes);
	if (err < 0)
		return err;
	human(bytes, need);
	human(start->max_bytes, limit);
	if (bytes > start->max_bytes) {
		log_msg("%s: the start state needs %s, more than the limit of %s (%s)", start->target, need, limit,
			start->options->max_bytes ? "as given, or what is free" : "half of what is free");
		return -EDQUOT;
	}
	if (objects > start->max_objects) {
		log_msg("%s: the start state has %" PRIu64 " objects, more than the limit of %" PRIu64 " (%s)", start->target,
			objects, start->max_objects,
			start->options->max_objects ? "as given" : "half of the inodes that are free");
		return -EDQUOT;
	}
	return 0;
}

/* --- building ------------------------------------------------------------------------------------------------------ */

static int make_row(struct start *start, const struct start_row *row)
{
	const struct start_result *r = &start->result;
	int err = check_row(start, row);

	progress_show(&start->progress, "start state: %" PRIu64 " objects, %" PRIu64 " MiB",
		r->dirs + r->files + r->links + r->symlinks + r->others, r->bytes >> 20);
	return err ?: start_make(start, row);
}

int start_load_names(struct start *start, const char *table, struct map64 *names)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	char sql[200];
	int err;

	snprintf(sql, sizeof(sql), "SELECT t.path, i.dev, i.ino FROM %s AS t JOIN initial AS i ON i.run = t.run AND i.path = t.path"
				   " WHERE t.run = ? GROUP BY t.path", table);
	err = trace_prepare(start->trace, sql, &stmt, NULL);
	err = err ?: trace_bind_int(stmt, 1, start->run);
	while (err >= 0 && (err = trace_step(stmt)) == 1)
		err = map64_add(names, start_inode_key((uint64_t)trace_column_int(stmt, 1), (uint64_t)trace_column_int(stmt, 2)),
			(uint64_t)trace_column_int(stmt, 0));
	return err < 0 ? err : 0;
}

static int prepare(struct start *start)
{
	int err = start_load_contents(start);

	err = err ?: start_load_names(start, "initial_xattr", &start->xattrs);
	err = err ?: trace_prepare(start->trace, "SELECT path FROM path WHERE run = ? AND id = ?", &start->text_of, NULL);
	err = err ?: trace_prepare(start->trace, "SELECT name, value FROM initial_xattr WHERE run = ? AND path = ?",
		&start->xattrs_of, NULL);
	if (err < 0)
		log_msg("%s: %s", trace_path(start->trace), trace_error(start->trace));
	start->buf = malloc(START_BUFFER);
	return err < 0 ? err : start->buf ? 0 : log_errno(ENOMEM, "%s", start->target);
}

/*
 * A directory comes before what is in it, by its path's bytes. Its own attributes are set last, when nothing is made in
 * it any more: times, access lists that would be inherited, modes that would keep an ordinary user out.
 */
static int build(struct start *start)
{
	char dirs[640];
	int err = prepare(start);

	snprintf(dirs, sizeof(dirs), "%s AND i.mode & %d = %d ORDER BY p.path DESC", ROWS, S_IFMT, S_IFDIR);
	err = err ?: each_row(start, ROWS " ORDER BY p.path", make_row);
	err = err ?: each_row(start, dirs, start_finish_dir);
	return err;
}

static void start_free(struct start *start)
{
	progress_end(&start->progress);
	if (start->dir_fd >= 0)
		close(start->dir_fd);
	content_reader_free(start->contents);
	trace_finalize(start->text_of);
	trace_finalize(start->xattrs_of);
	map64_free(&start->first);
	map64_free(&start->xattrs);
	map64_free(&start->data);
	map64_free(&start->uses);
	free(start->use_list);
	free(start->buf);
}

int start_state_build(struct trace *trace, int64_t run, int root_fd, const char *target,
	const struct start_options *options, const volatile int *stop, struct start_result *ret_result)
{
	struct start start = { .trace = trace, .run = run, .root_fd = root_fd, .target = target, .options = options,
		.stop = stop, .dir_fd = -1 };
	int err = 0;

	if (options->mode == START_BUILD) {
		err = check_limits(&start);
		start.progress = progress_begin(options->progress);
		err = err ?: build(&start);
	}
	start_free(&start);
	if (err == 0)
		*ret_result = start.result;
	return err;
}
