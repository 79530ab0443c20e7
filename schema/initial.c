/* SPDX-License-Identifier: MIT */
#include "initial.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "map64.h"
#include "op.h"

#define DEEPEST 16384 /* directories above each other; PATH_TEXT_MAX of the shim allows half of them */

struct initial_index {
	struct initial_entry *entries;
	uint64_t *parents; /* nodes that directories were found as; only while loading */
	uint32_t count, room;
	struct strbuf names;
	struct map64 by_inode; /* hash of (dev, ino) -> first entry */
	struct map64 by_node;  /* node -> entry */
	struct map64 by_name;  /* hash of (directory's entry, name) -> entry */
	struct map64 made;     /* the same -> first operation that made it */
};

static uint64_t inode_key(uint64_t dev, uint64_t ino)
{
	const uint64_t both[2] = { dev, ino };

	return XXH3_64bits(both, sizeof(both));
}

static uint64_t node_key(uint64_t node)
{
	return XXH3_64bits(&node, sizeof(node));
}

static uint64_t name_key(uint32_t dir, const char *name)
{
	return XXH3_64bits_withSeed(name, strlen(name), dir + 1ull);
}

static const char *name_of(const struct initial_index *index, uint32_t number)
{
	return index->names.buf + index->entries[number].name;
}

const struct initial_entry *initial_entry(const struct initial_index *index, uint32_t number)
{
	return &index->entries[number];
}

static uint32_t lookup(const struct map64 *map, uint64_t key)
{
	uint64_t value;

	return map64_get(map, key, &value) ? (uint32_t)value : INITIAL_NONE;
}

uint32_t initial_of_inode(const struct initial_index *index, dev_t dev, ino_t ino)
{
	return lookup(&index->by_inode, inode_key(dev, ino));
}

bool initial_by_name(const struct initial_index *index, uint32_t dir, const char *name, uint32_t *ret_number)
{
	uint32_t number = lookup(&index->by_name, name_key(dir, name));

	if (number == INITIAL_NONE)
		return false;
	*ret_number = number;
	return true;
}

bool initial_was_made(const struct initial_index *index, uint32_t dir, const char *name, uint64_t seq)
{
	uint64_t first;

	return map64_get(&index->made, name_key(dir, name), &first) && first < seq;
}

int initial_path(const struct initial_index *index, uint32_t number, struct strbuf *text)
{
	uint32_t chain[DEEPEST];
	int depth = 0;

	for (; index->entries[number].dir != number; number = index->entries[number].dir) {
		if (depth == DEEPEST || index->entries[number].dir == INITIAL_NONE)
			return -ELOOP;
		chain[depth++] = number;
	}
	while (depth > 0) {
		const char *name = name_of(index, chain[--depth]);

		strbuf_add(text, name, strlen(name));
		if (depth)
			strbuf_add(text, "/", 1);
	}
	return text->failed ? -ENOMEM : 0;
}

/* --- loading ------------------------------------------------------------------------------------------------------- */

static const char *last_component(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int grow(struct initial_index *index)
{
	uint32_t room = index->room ? index->room * 2 : 1024;
	void *entries = realloc(index->entries, room * sizeof(*index->entries));
	void *parents;

	if (entries)
		index->entries = entries;
	parents = realloc(index->parents, room * sizeof(*index->parents));
	if (parents)
		index->parents = parents;
	if (!entries || !parents)
		return -ENOMEM;
	index->room = room;
	return 0;
}

static int add_row(struct initial_index *index, struct trace_stmt *stmt)
{
	const char *name = last_component(trace_column_text(stmt, 7) ?: "");
	struct initial_entry *entry;
	int err = index->count == index->room ? grow(index) : 0;

	if (err < 0 || index->names.len > UINT32_MAX - 65536)
		return -ENOMEM;
	index->parents[index->count] = (uint64_t)trace_column_int(stmt, 3);
	entry = &index->entries[index->count];
	*entry = (struct initial_entry){
		.path = (uint32_t)trace_column_int(stmt, 0),
		.seq = (uint64_t)trace_column_int(stmt, 1),
		.node = (uint64_t)trace_column_int(stmt, 2),
		.dev = (uint64_t)trace_column_int(stmt, 4),
		.ino = (uint64_t)trace_column_int(stmt, 5),
		.mode = (uint32_t)trace_column_int(stmt, 6),
		.dir = INITIAL_NONE,
		.name = (uint32_t)index->names.len,
	};
	strbuf_add(&index->names, name, strlen(name) + 1);
	err = map64_add(&index->by_inode, inode_key(entry->dev, entry->ino), index->count);
	if (err >= 0 && entry->node)
		err = map64_add(&index->by_node, node_key(entry->node), index->count);
	index->count++;
	return err < 0 || index->names.failed ? -ENOMEM : 0;
}

/* In order of finding. What the walk after the run added (no node, seq 0) has no parent node and is not wanted here. */
static int load_rows(struct trace *trace, int64_t run, struct initial_index *index)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace,
		"SELECT i.path, i.seq, i.node, i.parent, i.dev, i.ino, i.mode, p.path FROM initial AS i"
		" JOIN path AS p ON p.run = i.run AND p.id = i.path WHERE i.run = ? AND i.node IS NOT NULL"
		" ORDER BY i.seq",
		&stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, run);
	while (err >= 0 && (err = trace_step(stmt)) == 1)
		err = add_row(index, stmt);
	return err < 0 ? err : 0;
}

/* Later nodes of inodes, whose own rows were not kept: found by the inode. */
static int load_aliases(struct trace *trace, int64_t run, struct initial_index *index)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace, "SELECT node, dev, ino FROM node_alias WHERE run = ?", &stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, run);
	while (err >= 0 && (err = trace_step(stmt)) == 1) {
		uint32_t first = initial_of_inode(index, (dev_t)trace_column_int(stmt, 1), (ino_t)trace_column_int(stmt, 2));

		err = first == INITIAL_NONE ? 0 :
			map64_add(&index->by_node, node_key((uint64_t)trace_column_int(stmt, 0)), first);
	}
	return err < 0 ? err : 0;
}

/* The first entry of the directory that was called `node`; INITIAL_NONE: it is not of the start. */
static uint32_t dir_of_node(const struct initial_index *index, uint64_t node)
{
	uint32_t number = lookup(&index->by_node, node_key(node));

	if (number == INITIAL_NONE || !S_ISDIR(index->entries[number].mode))
		return INITIAL_NONE;
	return lookup(&index->by_inode, inode_key(index->entries[number].dev, index->entries[number].ino));
}

static int load_made(struct trace *trace, int64_t run, struct initial_index *index)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	char sql[512];
	int err;

	snprintf(sql, sizeof(sql),
		"SELECT o.seq, coalesce(CASE WHEN o.op = %d THEN json_extract(e.args, '$.parent2') END, o.parent), p.path"
		" FROM op AS o LEFT JOIN op_extra AS e ON e.run = o.run AND e.id = o.extra"
		" JOIN path AS p ON p.run = o.run AND p.id = CASE WHEN o.op = %d THEN e.path2 ELSE o.path END"
		" WHERE o.run = ? AND o.op IN (%d, %d, %d, %d, %d, %d) AND o.result >= 0 ORDER BY o.seq",
		OP_rename, OP_rename, OP_rename, OP_link, OP_create, OP_mkdir, OP_mknod, OP_symlink);
	err = trace_prepare(trace, sql, &stmt, NULL);
	err = err ?: trace_bind_int(stmt, 1, run);
	while (err >= 0 && (err = trace_step(stmt)) == 1) {
		uint32_t dir = dir_of_node(index, (uint64_t)trace_column_int(stmt, 1));
		const char *text = trace_column_text(stmt, 2);

		err = 0;
		if (dir != INITIAL_NONE && text)
			err = map64_add(&index->made, name_key(dir, last_component(text)),
				(uint64_t)trace_column_int(stmt, 0));
	}
	return err < 0 ? err : 0;
}

/* Whether an inode's name is one of the start's: else the run has made it, or it is in what the run has made. */
static bool is_of_start(const struct initial_index *index, uint32_t number, uint32_t first)
{
	const struct initial_entry *entry = &index->entries[number];
	const char *name = name_of(index, number);

	if (entry->dir == INITIAL_NONE || lookup(&index->by_name, name_key(entry->dir, name)) != INITIAL_NONE)
		return false;
	if (number == first)
		return true;
	return !S_ISDIR(entry->mode) && !initial_was_made(index, entry->dir, name, entry->seq);
}

/* Each row's directory; by_name gets those rows that are the start's. */
static int connect(struct initial_index *index)
{
	for (uint32_t i = 0; i < index->count; i++) {
		struct initial_entry *entry = &index->entries[i];
		uint32_t first = initial_of_inode(index, entry->dev, entry->ino);

		if (index->parents[i] == 0) {
			entry->dir = i;
			continue;
		}
		entry->dir = dir_of_node(index, index->parents[i]);
		if (entry->dir != INITIAL_NONE && entry->dir >= i)
			entry->dir = INITIAL_NONE; /* found in what was found later: damage; so there can be no circle */
		if (is_of_start(index, i, first) && map64_add(&index->by_name, name_key(entry->dir, name_of(index, i)), i) < 0)
			return -ENOMEM;
	}
	return 0;
}

void initial_index_free(struct initial_index *index)
{
	if (!index)
		return;
	free(index->entries);
	free(index->parents);
	strbuf_free(&index->names);
	map64_free(&index->by_inode);
	map64_free(&index->by_node);
	map64_free(&index->by_name);
	map64_free(&index->made);
	free(index);
}

int initial_index_new(struct trace *trace, int64_t run, struct initial_index **ret_index)
{
	struct initial_index *index = calloc(1, sizeof(*index));
	int err = index ? load_rows(trace, run, index) : -ENOMEM;

	err = err ?: load_aliases(trace, run, index);
	err = err ?: load_made(trace, run, index);
	err = err ?: connect(index);
	if (err < 0) {
		initial_index_free(index);
		return err;
	}
	*ret_index = index;
	return 0;
}

/* --- settling ------------------------------------------------------------------------------------------------------ */

static int query(struct trace *trace, int64_t run, const char *sql, int64_t *ret_value)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace, sql, &stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, run);
	err = err ?: trace_step(stmt);
	if (err < 0)
		return err;
	*ret_value = err ? trace_column_int(stmt, 0) : 0;
	return 0;
}

/* Only a directory of the start that was moved, or an inode found twice, can make a row wrong or a node unknown. */
static int is_unsettled(struct trace *trace, int64_t run)
{
	int64_t found = 0;
	char sql[320];
	int err = query(trace, run, "SELECT 1 FROM initial WHERE run = ? GROUP BY dev, ino HAVING count(*) > 1 LIMIT 1",
		&found);

	snprintf(sql, sizeof(sql),
		"SELECT 1 FROM op WHERE run = ?1 AND op = %d AND result >= 0 AND node IN"
		" (SELECT node FROM initial WHERE run = ?1 AND mode & %d = %d) LIMIT 1",
		OP_rename, S_IFMT, S_IFDIR);
	if (err == 0 && !found)
		err = query(trace, run, sql, &found);
	if (err == 0 && !found)
		err = query(trace, run, "SELECT 1 FROM node_alias WHERE run = ? AND first IS NULL LIMIT 1", &found);
	return err < 0 ? err : found != 0;
}

struct settling {
	struct trace *trace;
	int64_t run;
	struct initial_index *index;
	struct trace_stmt *remove, *move, *text, *alias, *drop;
	uint32_t last_path;
};

static int execute(struct trace_stmt *stmt, int64_t a, int64_t b, int64_t c)
{
	int err;

	trace_reset(stmt);
	err = trace_bind_int(stmt, 1, a);
	err = err ?: trace_bind_int(stmt, 2, b);
	if (c)
		err = err ?: trace_bind_int(stmt, 3, c);
	return err ?: trace_step(stmt);
}

/*
 * Gives a row the path of the start, and its directory's first node for a parent. A path that is another one than it has
 * is a new one.
 */
static int move_row(struct settling *s, struct initial_entry *entry, const struct strbuf *text)
{
	const struct initial_entry *dir = &s->index->entries[entry->dir];
	struct path_record path = { .id = entry->path, .parent = dir->path, .text_len = (uint32_t)text->len };
	int err = execute(s->text, s->run, entry->path, 0);

	if (err == 1 && strcmp(trace_column_text(s->text, 0) ?: "", text->buf) != 0) {
		path.id = ++s->last_path;
		err = trace_add_path(s->trace, s->run, &path, text->buf);
	}
	if (err < 0)
		return err;
	trace_reset(s->move);
	err = trace_bind_int(s->move, 1, s->run);
	err = err ?: trace_bind_int(s->move, 2, entry->path);
	err = err ?: trace_bind_int(s->move, 3, path.id);
	err = err ?: trace_bind_int(s->move, 4, (int64_t)dir->node);
	entry->path = path.id;
	return err ?: trace_step(s->move);
}

static int note_alias(struct settling *s, const struct initial_entry *entry)
{
	uint32_t first = initial_of_inode(s->index, entry->dev, entry->ino);
	uint64_t node = s->index->entries[first].node;

	if (node == entry->node)
		return 0;
	trace_reset(s->alias);
	trace_bind_int(s->alias, 1, s->run);
	trace_bind_int(s->alias, 2, (int64_t)entry->node);
	trace_bind_int(s->alias, 3, (int64_t)entry->dev);
	trace_bind_int(s->alias, 4, (int64_t)entry->ino);
	return trace_step(s->alias);
}

/* Says what each later node was at first; the first ones themselves have been noted as well when rows came late. */
static int settle_aliases(struct settling *s)
{
	struct trace_stmt auto_stmt *list = NULL, *set = NULL;
	int err = trace_prepare(s->trace, "SELECT node, dev, ino FROM node_alias WHERE run = ?", &list, NULL);

	err = err ?: trace_prepare(s->trace, "UPDATE node_alias SET first = ?3 WHERE run = ?1 AND node = ?2", &set, NULL);
	err = err ?: trace_bind_int(list, 1, s->run);
	while (err >= 0 && (err = trace_step(list)) == 1) {
		uint32_t first = initial_of_inode(s->index, (dev_t)trace_column_int(list, 1),
			(ino_t)trace_column_int(list, 2));

		err = first == INITIAL_NONE ? 0 :
			execute(set, s->run, trace_column_int(list, 0), (int64_t)s->index->entries[first].node);
	}
	trace_reset(list); /* an unfinished reader would keep the next statement from deleting */
	if (err >= 0)
		err = trace_prepare(s->trace, "DELETE FROM node_alias WHERE run = ? AND (first IS NULL OR first = node)",
			&s->drop, NULL);
	if (err >= 0)
		err = trace_bind_int(s->drop, 1, s->run);
	return err < 0 ? err : trace_step(s->drop);
}

static int settle_row(struct settling *s, uint32_t number)
{
	struct initial_entry *entry = &s->index->entries[number];
	struct strbuf auto_strbuf text = {};
	uint32_t kept = INITIAL_NONE;
	int err = note_alias(s, entry);

	if (err < 0 || entry->dir == number)
		return err;
	if (entry->dir == INITIAL_NONE || !initial_by_name(s->index, entry->dir, name_of(s->index, number), &kept) ||
		kept != number || initial_path(s->index, number, &text) < 0)
		return execute(s->remove, s->run, entry->path, 0);
	return move_row(s, entry, &text);
}

static int settle_all(struct settling *s)
{
	int64_t last = 0;
	int err = query(s->trace, s->run, "SELECT max(id) FROM path WHERE run = ?", &last);

	s->last_path = (uint32_t)last;
	err = err ?: trace_prepare(s->trace, "DELETE FROM initial WHERE run = ? AND path = ?", &s->remove, NULL);
	err = err ?: trace_prepare(s->trace, "UPDATE initial SET path = ?3, parent = ?4 WHERE run = ?1 AND path = ?2",
		&s->move, NULL);
	err = err ?: trace_prepare(s->trace, "INSERT OR IGNORE INTO node_alias (run, node, dev, ino) VALUES (?, ?, ?, ?)", &s->alias, NULL);
	err = err ?: trace_prepare(s->trace, "SELECT path FROM path WHERE run = ? AND id = ?", &s->text, NULL);
	for (uint32_t i = 0; i < s->index->count && err >= 0; i++)
		err = settle_row(s, i);
	err = err < 0 ? err : settle_aliases(s);
	trace_finalize(s->remove);
	trace_finalize(s->move);
	trace_finalize(s->text);
	trace_finalize(s->alias);
	trace_finalize(s->drop);
	return err < 0 ? err : 0;
}

int initial_settle(struct trace *trace, int64_t run)
{
	struct settling settling = { .trace = trace, .run = run };
	int err = is_unsettled(trace, run);

	if (err <= 0)
		return err;
	err = initial_index_new(trace, run, &settling.index);
	if (err == 0)
		err = settle_all(&settling);
	initial_index_free(settling.index);
	return err;
}
