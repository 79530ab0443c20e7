/* SPDX-License-Identifier: MIT */
/* start_contents.c - what the files of a start state hold. */
#include <stdio.h>
#include <string.h>

#include "op.h"
#include "start_internal.h"

int64_t start_allocated(const struct start_row *row)
{
	int64_t blocks = row->blocks >= 0 && row->blocks < LARGEST_SIZE / 512 ? row->blocks * 512 : row->size;

	return blocks < row->size - SPARSE_SLACK ? blocks : row->size;
}

static int add_use(struct start *start, uint64_t node, uint64_t seq)
{
	uint64_t key = start_id_key(node), last = 0;
	struct start_use *use;

	if (start->use_count == start->use_room) {
		uint32_t room = start->use_room * 2 + 1024;
		struct start_use *grown = realloc(start->use_list, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		start->use_list = grown;
		start->use_room = room;
		start->use_count += !start->use_count; /* 0 is none */
	}
	map64_get(&start->uses, key, &last);
	use = &start->use_list[start->use_count];
	*use = (struct start_use){ .seq = seq, .next = (uint32_t)last };
	return map64_set(&start->uses, key, start->use_count++);
}

static int load_uses(struct start *start)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	char sql[320];
	int err;

	snprintf(sql, sizeof(sql),
		"SELECT coalesce(a.first, o.node), o.seq FROM op AS o LEFT JOIN node_alias AS a ON a.run = o.run AND a.node = o.node"
		" WHERE o.run = ? AND o.op IN (%d, %d) AND o.result > 0 AND o.node IS NOT NULL ORDER BY o.seq",
		OP_read, OP_copy_file_range);
	err = trace_prepare(start->trace, sql, &stmt, NULL);
	err = err ?: trace_bind_int(stmt, 1, start->run);
	while (err >= 0 && (err = trace_step(stmt)) == 1)
		err = add_use(start, (uint64_t)trace_column_int(stmt, 0), (uint64_t)trace_column_int(stmt, 1));
	return err < 0 ? err : 0;
}

int start_load_contents(struct start *start)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(start->trace,
		"SELECT EXISTS (SELECT 1 FROM data WHERE run = ?1) OR EXISTS (SELECT 1 FROM initial_data WHERE run = ?1)",
		&stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, start->run);
	err = err ?: trace_step(stmt);
	if (err < 0 || !trace_column_int(stmt, 0))
		return err < 0 ? err : 0;
	err = load_uses(start);
	err = err ?: start_load_names(start, "initial_data", &start->data);
	return err ?: content_reader_new(start->trace, start->run, &start->contents);
}

/* Where contents go. */
struct sink {
	struct start *start;
	const struct start_row *row;
	int fd;
};

static int write_at(struct sink *sink, const char *bytes, size_t len, int64_t offset)
{
	struct start *start = sink->start;

	start->result.bytes += len;
	if (start->result.bytes > start->max_bytes)
		return start_error(start, EDQUOT, sink->row->path, "needs more than the limit");
	while (len) {
		ssize_t done = pwrite(sink->fd, bytes, len, offset);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return start_error(start, errno, sink->row->path, "cannot be written");
		bytes += done;
		offset += done;
		len -= (size_t)done;
	}
	return start->stop && *start->stop ? -EINTR : 0;
}

/* A recorded piece; what the file was not long enough for came later. */
static int take_piece(void *arg, int64_t offset, const void *bytes, size_t len)
{
	struct sink *sink = arg;
	int64_t left = sink->row->size - offset;

	if (left <= 0 || !len)
		return 0;
	len = left < (int64_t)len ? (size_t)left : len;
	sink->start->result.recorded_bytes += len;
	return write_at(sink, bytes, len, offset);
}

/*
 * A piece that is missing or damaged leaves what lies below it; everything else ends the building. What take_piece()
 * returns has had its message.
 */
static int64_t note_missing(struct sink *sink, int64_t got)
{
	if (got != -ENODATA && got != -EUCLEAN && got != -ENOTSUP)
		return got;
	sink->start->result.data_missing++;
	return 0;
}

static int generate(struct sink *sink, int64_t len)
{
	struct start *start = sink->start;
	uint64_t key = start_inode_key(sink->row->dev, sink->row->ino);
	int err = 0;

	for (int64_t offset = 0; offset < len && err == 0; offset += START_BUFFER) {
		size_t take = len - offset < START_BUFFER ? (size_t)(len - offset) : START_BUFFER;

		filler_fill(&start->options->filler, key, (uint64_t)offset, start->buf, take);
		err = write_at(sink, start->buf, take, offset);
	}
	return err;
}

/* Latest first, so that the earliest counts: it is the nearest to the start. */
static int apply_uses(struct sink *sink)
{
	struct start *start = sink->start;
	uint64_t number = 0;
	int64_t got = 0;

	if (!sink->row->node || !map64_get(&start->uses, start_id_key(sink->row->node), &number))
		return 0;
	for (; number && got >= 0; number = start->use_list[number].next)
		got = note_missing(sink, content_of_op(start->contents, start->use_list[number].seq, take_piece, sink));
	return got < 0 ? (int)got : 0;
}

int start_fill(struct start *start, const struct start_row *row, int fd)
{
	struct sink sink = { start, row, fd };
	uint64_t named;
	int64_t kept = 0;
	int err = 0;

	if (row->size == 0)
		return 0;
	if (ftruncate(fd, row->size) < 0)
		return start_error(start, errno, row->path, "cannot be made as long as it was");
	if (start->contents && map64_get(&start->data, start_inode_key(row->dev, row->ino), &named))
		kept = note_missing(&sink, content_of_initial(start->contents, (uint32_t)named, take_piece, &sink));
	if (kept < 0)
		return (int)kept;
	if (kept == 0) /* nothing was recorded: it is gone, or contents never were */
		err = generate(&sink, start_allocated(row));
	return err ?: start->contents ? apply_uses(&sink) : 0;
}
