/* SPDX-License-Identifier: MIT */
/* check.c - the order of the checks, what is beside the database, and how a fault is put down. */
#include "check.h"

#include <inttypes.h>
#include <stdio.h>

#include "run.h"
#include "spool.h"

void check_fault(struct check *check, int64_t run, const char *name, int64_t found, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (run)
		table_int(check->table, run);
	else
		table_null(check->table);
	table_text(check->table, name);
	table_int(check->table, found);
	table_text(check->table, text);
	table_end_row(check->table);
	check->faults++;
}

/* The run after `run`, 0 when there is none. No statement stays open: the next one sees the database as it is by then. */
static int next_run(struct check *check, int64_t *run)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(check->trace, "SELECT id FROM run WHERE id > ? ORDER BY id LIMIT 1", &stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, *run);
	err = err ?: trace_step(stmt);
	if (err == 1)
		*run = trace_column_int(stmt, 0);
	return err;
}

/* A recorder may be at it: what its spool looks like counts only if the run's row says the same afterwards. */
static int look_at_spool(struct check *check, const char *root, const struct run_info *run)
{
	auto_free char *dir = NULL;
	struct run_info later;
	bool there, alive;
	int err;

	if (asprintf(&dir, "%s/run-%" PRId64, root, run->id) < 0)
		return -ENOMEM;
	there = access(dir, F_OK) == 0;
	alive = spool_is_alive(dir);
	err = run_load(check->trace, run->id, &later);
	if (err < 0)
		return err == -ENOENT ? 0 : err;
	if (later.finished == run->finished && !run->native) {
		if (run->finished && there && !alive)
			check_fault(check, run->id, "spool", 1, "it has ended, but %s is left; 'fstape recover' removes it, or says why not", dir);
		else if (!run->finished && !there)
			check_fault(check, run->id, "spool", 1,
				"it has not ended, and its spool is gone; 'fstape recover' closes it");
	}
	run_free(&later);
	return 0;
}

/* That a run is partial is no fault, but is to be known. */
static int look_at_runs(struct check *check)
{
	auto_free char *root = trace_spool_root(trace_path(check->trace));
	int64_t id = INT64_MIN;
	int got = root ? 0 : -ENOMEM;

	progress_end(&check->progress); /* messages follow */
	while (got == 0 && (got = next_run(check, &id)) == 1) {
		struct run_info run;

		got = run_load(check->trace, id, &run);
		if (got == -ENOENT) { /* rotated away */
			got = 0;
			continue;
		}
		if (got < 0)
			break;
		run_warn(&run);
		got = look_at_spool(check, root, &run);
		run_free(&run);
	}
	return got;
}

int check_all(struct check *check)
{
	int err = check_file(check);

	/* In a file whose pages are wrong the rest would only find the same in other words. */
	if (err == 0 && check->faults)
		return 0;
	err = err ?: look_at_runs(check);
	err = err ?: check_rules(check);
	err = err ?: check_operations(check);
	if (err != -EUCLEAN)
		return err;
	check_fault(check, 0, "file", 1, "%s", trace_error(check->trace)); /* a page that cannot be read */
	return 0;
}
