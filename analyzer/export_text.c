/* SPDX-License-Identifier: MIT */
/* export_text.c - formats of lines: folded stacks, fio's iolog. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base.h"
#include "export.h"

#define FIO_NAME_MAX 255 /* bytes: fio reads names with "%256s" */

/* Whether a byte can stand in a name of a line format as it is. Bytes of UTF-8 sequences can. */
static bool is_plain(unsigned char c, const char *separators)
{
	return c >= ' ' && c != 0x7f && c != '\\' && !strchr(separators, c);
}

/* A name: separators, control characters and the backslash itself as \xNN. */
static void add_name(struct strbuf *line, const char *text, const char *separators)
{
	for (; *text; text++) {
		if (is_plain((unsigned char)*text, separators))
			strbuf_add(line, text, 1);
		else
			strbuf_addf(line, "\\x%02x", (unsigned char)*text);
	}
}

static int write_line(struct export *export, const struct strbuf *line)
{
	if (line->failed)
		return -ENOMEM;
	fwrite(line->buf, 1, line->len, export->out);
	return export_step(export);
}

/* --- folded stacks ------------------------------------------------------------------------------------------------ */

/*
 * Sums by number first: names come to what is left. A directory's own listing counts for itself.
 * Without git's story the phase is that of a program.
 */
static const char folded_sql[] =
	"WITH summed AS ("
	"SELECT phase, command, process, op, path,"
	"       sum(CASE :weight WHEN 'fs' THEN fs_ns WHEN 'dur' THEN dur_ns ELSE 1 END) AS weight"
	"  FROM git_op WHERE run = :run GROUP BY 1, 2, 3, 4, 5),"
	" named AS ("
	"SELECT coalesce((SELECT name FROM git_phase WHERE id = s.phase), 'unknown') AS phase,"
	"       coalesce((SELECT argv FROM git_command AS c WHERE c.run = :run AND c.id = "
	"s.command),"
	"                (SELECT coalesce(cmdline, comm) FROM process AS w WHERE w.run = :run AND "
	"w.id = s.process),"
	"                'unknown') AS command,"
	"       (SELECT name FROM op_type WHERE code = s.op) AS op,"
	"       coalesce(nullif((SELECT d.path FROM path AS p JOIN path AS d ON d.run = p.run AND "
	"d.id ="
	"                        CASE WHEN s.op IN (SELECT code FROM op_type WHERE class = 'dir') "
	"OR p.parent = 0 THEN p.id ELSE p.parent END"
	"                        WHERE p.run = :run AND p.id = s.path), ''), '.') AS directory,"
	"       weight FROM summed AS s)"
	" SELECT phase, command, op, directory, sum(weight) FROM named GROUP BY 1, 2, 3, 4 HAVING "
	"sum(weight) > 0";

static int folded_row(struct export *export, struct trace_stmt *stmt, void *arg)
{
	struct strbuf auto_strbuf line = {};

	(void)arg;
	for (int i = 0; i < 4; i++) {
		add_name(&line, trace_column_text(stmt, i) ?: "unknown", ";");
		strbuf_add(&line, i < 3 ? ";" : " ", 1);
	}
	strbuf_addf(&line, "%" PRId64 "\n", trace_column_int(stmt, 4));
	return write_line(export, &line);
}

int export_folded(struct export *export)
{
	return export_each_run(export, folded_sql, folded_row, NULL);
}

/* --- fio ---------------------------------------------------------------------------------------------------------- */

/*
 * In the order of arrival. A handle's requests are about the file that it was opened as, whatever
 * that is called meanwhile. fio opens a file once: so it is opened with its first handle and closed
 * with its last. What is added is known before.
 */
#define FIO_EVENTS                                                                                 \
	"WITH events AS ("                                                                         \
	"SELECT op.seq, op.start_ns, t.name AS op, op.offset, op.result,"                          \
	"       first_value(op.path) OVER (PARTITION BY op.fh ORDER BY op.seq) AS path"            \
	"  FROM op JOIN op_type AS t ON t.code = op.op"                                            \
	" WHERE op.run = :run AND op.fh IS NOT NULL AND op.result >= 0 AND op.op IN (SELECT code " \
	"FROM op_type WHERE name IN"                                                               \
	"       ('open', 'create', 'read', 'write', 'fsync', 'release')))"

static const char fio_add_sql[] = FIO_EVENTS " SELECT (SELECT path FROM path AS p WHERE p.run = "
					     ":run AND p.id = e.path) AS name, min(start_ns) AS at"
					     " FROM events AS e GROUP BY name ORDER BY at";

static const char fio_sql[] = FIO_EVENTS
	", named AS (SELECT *, (SELECT path FROM path AS p WHERE p.run = :run AND p.id = e.path) "
	"AS name FROM events AS e),"
	" counted AS (SELECT *, sum(CASE WHEN op IN ('open', 'create') THEN 1 WHEN op = 'release' "
	"THEN -1 ELSE 0 END)"
	"                       OVER (PARTITION BY name ORDER BY seq ROWS UNBOUNDED PRECEDING) AS "
	"handles FROM named)"
	" SELECT name, start_ns / 1000, CASE op WHEN 'create' THEN 'open' WHEN 'release' THEN "
	"'close'"
	"        WHEN 'fsync' THEN 'sync' ELSE op END AS action, offset, result FROM counted"
	" WHERE CASE op WHEN 'open' THEN handles = 1 WHEN 'create' THEN handles = 1 WHEN 'release' "
	"THEN handles = 0"
	"       WHEN 'fsync' THEN 1 ELSE result > 0 END"
	" ORDER BY seq";

/* Adds the name; false: fio could not read it. */
static bool add_fio_name(struct export *export, struct strbuf *line, const char *name)
{
	size_t before = line->len;

	add_name(line, name ?: "", " ");
	if (line->len - before <= FIO_NAME_MAX && line->len > before)
		return true;
	export->left_out++;
	return false;
}

static int fio_add_row(struct export *export, struct trace_stmt *stmt, void *arg)
{
	struct strbuf auto_strbuf line = {};

	(void)arg;
	strbuf_addf(&line, "0 ");
	if (!add_fio_name(export, &line, trace_column_text(stmt, 0)))
		return 0;
	strbuf_addf(&line, " add\n");
	return write_line(export, &line);
}

static int fio_row(struct export *export, struct trace_stmt *stmt, void *arg)
{
	struct strbuf auto_strbuf line = {};
	const char *action = trace_column_text(stmt, 2) ?: "";
	int64_t *last_us = arg;

	/* Requests that arrive in one order may be taken up in another; to fio time does not go back. */
	if (trace_column_int(stmt, 1) > *last_us)
		*last_us = trace_column_int(stmt, 1);
	strbuf_addf(&line, "%" PRId64 " ", *last_us);
	if (!add_fio_name(export, &line, trace_column_text(stmt, 0)))
		return 0;
	strbuf_addf(&line, " %s", action);
	if (strcmp(action, "read") == 0 || strcmp(action, "write") == 0)
		strbuf_addf(&line, " %" PRId64 " %" PRId64, trace_column_int(stmt, 3),
			trace_column_int(stmt, 4));
	else if (strcmp(action, "sync") == 0)
		strbuf_addf(&line, " 0 0");
	strbuf_addf(&line, "\n");
	return write_line(export, &line);
}

int export_fio(struct export *export)
{
	int64_t last_us = 0;
	int err;

	fputs("fio version 3 iolog\n", export->out);
	err = export_each_run(export, fio_add_sql, fio_add_row, NULL);
	return err ?: export_each_run(export, fio_sql, fio_row, &last_us);
}
