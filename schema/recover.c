/* SPDX-License-Identifier: MIT */
/* recover.c - finishing what dead recorders left behind; declared in loader.h. */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base.h"
#include "busguard.h"
#include "loader.h"

#define BATCH 50000

/* The state of a run's row, or "" when there is none: a database that lost its log may have lost the row. */
static int run_state(struct trace *trace, int64_t run, char state[static 16])
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace, "SELECT state FROM run WHERE id = ?", &stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, run);
	err = err ?: trace_step(stmt);
	if (err < 0)
		return err;
	snprintf(state, 16, "%s", err ? trace_column_text(stmt, 0) : "");
	return 0;
}

static int restore_row(struct trace *trace, struct spool_state *state)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace,
		"INSERT INTO run (id, label, state, source, start_real_ns, start_mono_ns)"
		" VALUES (?, nullif(?, ''), 'recording', ?, ?, ?)",
		&stmt, NULL);

	state->label[sizeof(state->label) - 1] = state->source[sizeof(state->source) - 1] = '\0';
	err = err ?: trace_bind_int(stmt, 1, state->run);
	err = err ?: trace_bind_text(stmt, 2, state->label);
	err = err ?: trace_bind_text(stmt, 3, state->source);
	err = err ?: trace_bind_int(stmt, 4, state->start_real_ns);
	err = err ?: trace_bind_int(stmt, 5, state->start_mono_ns);
	return err ?: trace_step(stmt);
}

static int load_rest(struct loader *loader, void (*progress)(int64_t run, uint64_t events))
{
	int64_t got = loader_resume(loader);

	while (got >= 0 && (got = loader_step(loader, BATCH)) > 0)
		if (progress)
			progress(loader->run, loader->events);
	return got < 0 ? (int)got : loader_finish(loader, "recovered");
}

/* Whether something of it stays; said when it is so. */
static bool remove_spool(struct spool *spool, int64_t run)
{
	unsigned int unreadable = spool_unreadable(spool);
	const char *dir = spool_dir(spool), *name = strrchr(dir, '/');
	int err = spool_remove(spool);

	if (unreadable)
		log_msg("run %" PRId64 ": %u segments of its spool could not be read, and are kept as %.*s" SPOOL_UNREADABLE
			"%" PRId64 "-*; delete them when nobody is to look at them", run, unreadable,
			(int)(name ? name + 1 - dir : 0), dir, run);
	if (err < 0 && err != -ENOENT) /* gone: another recovery's work */
		log_errno(err, "%s: all of its run is in the database, but it cannot be removed", dir);
	return unreadable || (err < 0 && err != -ENOENT);
}

/* 1: recovered; 0: nothing was left to do, or it is for somebody else, which `*left` counts; -errno. */
static int recover_spool(struct trace *trace, struct spool *spool, void (*progress)(int64_t run, uint64_t events),
	unsigned int *left)
{
	struct spool_state *state = spool_state(spool);
	struct loader loader = { .trace = trace, .spool = spool, .run = state->run, .hold = UINT64_MAX,
		.damaged = spool_unreadable(spool) };
	char name[16];
	int err, found = 0;

	if (strncmp(state->uuid, trace_uuid(trace), SPOOL_UUID_LEN) != 0) {
		log_msg("%s: belongs to another database than %s, left alone", spool_dir(spool), trace_path(trace));
		(*left)++;
		return 0;
	}
	err = run_state(trace, state->run, name);
	if (err == 0 && !name[0])
		err = restore_row(trace, state);
	if (err == 0 && strcmp(name, "done") != 0 && strcmp(name, "recovered") != 0) {
		err = load_rest(&loader, progress);
		found = 1;
	}
	if (err < 0) {
		log_msg("%s: cannot recover run %" PRId64 ": %s", trace_path(trace), state->run, trace_error(trace));
		return err;
	}
	*left += remove_spool(spool, state->run);
	return found;
}

static int recover_dir(struct trace *trace, const char *dir, void (*progress)(int64_t run, uint64_t events),
	unsigned int *left)
{
	struct spool *spool;
	int err = spool_open(dir, &spool);

	if (err == -EWOULDBLOCK)
		return 0; /* alive */
	if (err == -ENOENT) {
		/* empty: what is left when the end of a recorder comes while it removes its spool */
		if (rmdir(dir) == 0 || (errno != ENOTEMPTY && errno != EEXIST))
			return 0;
		err = -EUCLEAN;
	}
	if (err == -EUCLEAN) {
		log_msg("%s: not a spool that this version can read, left alone; when you move it away, 'fstape recover'"
			" finishes its run without what is in it", dir);
		(*left)++;
		return 0;
	}
	if (err < 0)
		return log_errno(err, "%s", dir);
	err = recover_spool(trace, spool, progress, left);
	spool_free(spool);
	return err;
}

/* What had got into the database is all that is known of it. */
static int close_orphan(struct trace *trace, int64_t run)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace,
		"UPDATE run SET state = 'recovered', clean_end = 0, note = 'the spool is gone: what was in it is lost',"
		" dropped = 0, (requests, recorded) = (SELECT max(count(*), coalesce(max(seq), 0)), count(*) FROM op"
		" WHERE run = ?1), end_ns = coalesce(end_ns, (SELECT max(start_ns + dur_ns) FROM op WHERE run = ?1))"
		" WHERE id = ?1",
		&stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, run);
	err = err ?: trace_step(stmt);
	return err ?: trace_clear_marks(trace, run);
}

/*
 * A recorder commits the row of its run when it holds the lock of the spool, and removes the spool when it has
 * committed the end. So a run without a spool that still says "recording" has lost both; one whose spool was left
 * alone above keeps its state. Within a transaction, or a run that ends meanwhile would look like one of these.
 */
static int mark_orphans(struct trace *trace, const char *root)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int count = 0, got;
	int err = trace_prepare(trace, "SELECT id FROM run WHERE state IN ('recording', 'finishing')", &stmt, NULL);

	if (err < 0)
		return err;
	while ((got = trace_step(stmt)) == 1) {
		int64_t run = trace_column_int(stmt, 0);
		auto_free char *dir = NULL;

		if (asprintf(&dir, "%s/run-%" PRId64, root, run) < 0)
			return -ENOMEM;
		if (access(dir, F_OK) == 0)
			continue;
		err = close_orphan(trace, run);
		if (err < 0)
			return err;
		count++;
	}
	return got < 0 ? got : count;
}

/* Recorders make their spool within the transaction that makes their run: while we have one, nobody is at it. */
static void remove_half_made(const char *root)
{
	DIR *dir = opendir(root);

	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		char name[sizeof(entry->d_name) + 8];

		if (strncmp(entry->d_name, SPOOL_UNNAMED, strlen(SPOOL_UNNAMED)) != 0)
			continue;
		snprintf(name, sizeof(name), "%s/state", entry->d_name);
		unlinkat(dirfd(dir), name, 0);
		unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
	}
	if (dir)
		closedir(dir);
	rmdir(root); /* stays while there are spools */
}

static int close_orphans(struct trace *trace, const char *root)
{
	int count = trace_begin(trace), err;

	if (count < 0)
		return count;
	remove_half_made(root);
	count = mark_orphans(trace, root);
	err = count < 0 ? count : trace_commit(trace);
	trace_rollback(trace);
	return err < 0 ? err : count;
}

int recover_all(struct trace *trace, void (*progress)(int64_t run, uint64_t events), unsigned int *ret_left)
{
	auto_free char *root = trace_spool_root(trace_path(trace));
	int count = 0, got, failed = 0;
	unsigned int left = 0;
	DIR *dir;

	if (!root)
		return -ENOMEM;
	failed = busguard_install(); /* a page of a spool that the disk does not give is damage, and not our end */
	dir = opendir(root);
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		auto_free char *path = NULL;

		if (strncmp(entry->d_name, "run-", 4) != 0)
			continue;
		if (asprintf(&path, "%s/%s", root, entry->d_name) < 0) {
			failed = -ENOMEM;
			break;
		}
		got = recover_dir(trace, path, progress, &left);
		if (got < 0)
			failed = got;
		else
			count += got;
	}
	if (dir)
		closedir(dir);
	if (failed < 0)
		return failed;
	got = close_orphans(trace, root);
	if (got < 0)
		return got;
	if (ret_left)
		*ret_left = left;
	return count + got;
}
