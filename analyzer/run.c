/* SPDX-License-Identifier: MIT */
#include "run.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "base.h"
#include "mode.h"
#include "spool.h"
#include "table.h"

static char *copy_text(const struct trace_stmt *stmt, int column)
{
	const char *text = trace_column_text(stmt, column);

	return text ? strdup(text) : NULL;
}

/* A recorder has its spool locked. */
static bool is_recorded_now(const struct trace *trace, int64_t id)
{
	auto_free char *root = trace_spool_root(trace_path(trace)), *dir = NULL;

	return root && asprintf(&dir, "%s/run-%" PRId64, root, id) >= 0 && spool_is_alive(dir);
}

/* 'fstape record' has the directory of git's story locked until it is in the database. */
static void look_at_story(const struct trace *trace, struct run_info *run)
{
	auto_free char *dir = trace_story_dir(trace_path(trace), run->id);
	int auto_close fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) : -1;

	if (fd < 0)
		return;
	run->storing = flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
	run->left = !run->storing;
}

static int load(struct trace *trace, int64_t id, struct run_info *ret_run)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace,
		"SELECT label, state, note, requests, recorded, dropped, damaged, clean_end, modes,"
		" command IS NOT NULL AND real_ns IS NULL, transport, wait, end_ns,"
		" EXISTS (SELECT 1 FROM git_span AS s WHERE s.run = run.id)"
		" OR NOT EXISTS (SELECT 1 FROM op WHERE op.run = run.id), cache FROM run WHERE id = ?",
		&stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, id);
	err = err ?: trace_step(stmt);
	if (err <= 0)
		return err ?: -ENOENT;
	*ret_run = (struct run_info){
		.id = id,
		.label = copy_text(stmt, 0),
		.state = copy_text(stmt, 1),
		.note = copy_text(stmt, 2),
		.requests = trace_column_int(stmt, 3),
		.recorded = trace_column_int(stmt, 4),
		.dropped = trace_column_int(stmt, 5),
		.damaged = trace_column_int(stmt, 6),
		.modes = copy_text(stmt, 8),
		.transport = copy_text(stmt, 10),
		.wait = copy_text(stmt, 11),
		.end_ns = trace_column_int(stmt, 12),
		.attributed = trace_column_int(stmt, 13),
		.cache = copy_text(stmt, 14),
	};
	if (!ret_run->state) {
		run_free(ret_run);
		return -ENOMEM;
	}
	ret_run->native = strcmp(ret_run->state, "native") == 0;
	ret_run->finished = ret_run->native || strcmp(ret_run->state, "done") == 0 ||
			    strcmp(ret_run->state, "recovered") == 0;
	ret_run->clean = ret_run->native || trace_column_int(stmt, 7) == 1;
	ret_run->untimed = ret_run->finished && !ret_run->native && trace_column_int(stmt, 9);
	ret_run->alive = !ret_run->finished && is_recorded_now(trace, id);
	if (ret_run->finished)
		look_at_story(trace, ret_run);
	return 0;
}

int run_load(struct trace *trace, int64_t id, struct run_info *ret_run)
{
	struct run_info first;
	int err = load(trace, id, &first);

	if (err < 0 || first.finished || first.alive) {
		if (err == 0)
			*ret_run = first;
		return err;
	}
	/* Its recorder has died; or has just ended, and said so after the row was read. */
	run_free(&first);
	return load(trace, id, ret_run);
}

void run_free(struct run_info *run)
{
	free(run->label);
	free(run->state);
	free(run->note);
	free(run->modes);
	free(run->transport);
	free(run->wait);
	free(run->cache);
	*run = (struct run_info){};
}

static void add_name(const struct run_info *run, struct strbuf *text)
{
	strbuf_addf(text, "run %" PRId64, run->id);
	if (run->label)
		strbuf_addf(text, " (%s)", run->label);
}

static void describe_unfinished(const struct run_info *run, struct strbuf *text)
{
	if (run->alive)
		strbuf_addf(text, " is still being %s, so it is partial: numbers are what is in the database by now",
			strcmp(run->state, "finishing") == 0 ? "loaded" : "recorded");
	else
		strbuf_addf(text, " is partial, as its recorder has died (state '%s'): numbers are what is in the database by now;"
			" 'fstape recover' loads the rest", run->state);
}

/* The keeper unmounts when 'fstape record' is gone (keeper.h); the command is not ours to end. */
static void describe_untimed(const struct run_info *run, struct strbuf *text)
{
	char end[40];

	if (run->storing) {
		strbuf_addf(text, "'fstape record' is still storing how long its command took, how it ended, and what git told");
		return;
	}
	if (strcmp(run->state, "recovered") == 0 && !run->note) {
		strbuf_addf(text, "how long its command took and how it ended is not known, as 'fstape record' could not"
				  " write that to the database, or was killed");
		return;
	}
	strbuf_addf(text, "'fstape record' was killed before its command had ended; what the command did if it went on after"
		" %s, when the recording ends, how long it took and how it ended is not known",
		run->end_ns > 0 ? format_duration(run->end_ns, end) : "that");
}

void run_describe_gaps(const struct run_info *run, struct strbuf *text)
{
	bool missing = !run->clean || run->dropped != 0;

	if (run_complete(run))
		return;
	add_name(run, text);
	if (!run->finished) {
		describe_unfinished(run, text);
		return;
	}
	strbuf_addf(text, " is partial: ");
	if (missing)
		strbuf_addf(text, "%" PRId64 " of %" PRId64 " requests recorded, %" PRId64 " dropped", run->recorded,
			run->requests, run->dropped);
	if (missing && run->note)
		strbuf_addf(text, "; %s", run->note);
	if (missing && run->untimed)
		strbuf_addf(text, "; ");
	if (run->untimed)
		describe_untimed(run, text);
}

void run_describe_modes(const struct run_info *run, struct strbuf *text)
{
	if (!run->modes || !*run->modes)
		return;
	add_name(run, text);
	strbuf_addf(text, " does not have all that was done, by its modes: ");
	mode_explain(run->modes, text);
}

void run_describe_story(const struct run_info *run, struct strbuf *text)
{
	if (run->attributed || run->native)
		return;
	add_name(run, text);
	if (run->alive)
		strbuf_addf(text, ": what git was doing is known when the recording has ended");
	else if (!run->finished)
		strbuf_addf(text, ": what git was doing is known when 'fstape recover' has finished the run");
	else if (run->storing)
		strbuf_addf(text, ": what git was doing is known when 'fstape record', which is still at it, has loaded what git told");
	else if (run->left)
		strbuf_addf(text, ": 'fstape record' ended before it had loaded what git told; 'fstape recover' does it");
	else
		strbuf_addf(text, ": its operations are not attributed to what git was doing; 'fstape recover' does it");
	strbuf_addf(text, "; until then all operations stand together");
}

static bool is_uring(const struct run_info *run)
{
	return run->transport && strcmp(run->transport, "uring") == 0;
}

/* What is worth saying of a way besides the transport. */
struct way {
	bool cache, modes;
};

/* How workers wait is a matter of /dev/fuse. */
static void add_way(const struct run_info *run, struct way say, struct strbuf *text)
{
	strbuf_addf(text, "through %s", is_uring(run) ? "io_uring" : "/dev/fuse");
	if (!is_uring(run) && run->wait)
		strbuf_addf(text, " (wait=%s)", run->wait);
	if (say.cache && run->cache)
		strbuf_addf(text, ", cache=%s", run->cache);
	if (say.modes)
		strbuf_addf(text, ", modes=%s", run->modes && *run->modes ? run->modes : "none");
}

void run_describe_way(const struct run_info *run, struct strbuf *text)
{
	if (run->transport)
		add_way(run, (struct way){ .cache = true, .modes = run->modes && *run->modes }, text);
}

void run_describe_transport(const struct run_info *run, struct strbuf *text)
{
	if (!is_uring(run))
		return;
	add_name(run, text);
	strbuf_addf(text, " got its requests ");
	add_way(run, (struct way){}, text);
	strbuf_addf(text, ", not /dev/fuse: its times are not those of runs without");
}

#define WAYS_RUNS 4 /* of each way, named */

/* The runs that came in the way of the first of them that is not `done` yet; 0 when there is none. */
static size_t add_next_way(const struct run_info *runs, size_t count, struct way say, bool *done, struct strbuf *text)
{
	struct strbuf auto_strbuf way = {};
	size_t found = 0;

	for (size_t i = 0; i < count; i++) {
		struct strbuf auto_strbuf other = {};

		if (done[i])
			continue;
		add_way(&runs[i], say, found ? &other : &way);
		if (found && (!way.buf || !other.buf || strcmp(way.buf, other.buf) != 0))
			continue;
		done[i] = true;
		if (found++ < WAYS_RUNS)
			strbuf_addf(text, "%s%" PRId64, found > 1 ? ", " : text->len ? "; run " : "run ", runs[i].id);
	}
	if (found > WAYS_RUNS)
		strbuf_addf(text, " and %zu more", found - WAYS_RUNS);
	if (found)
		strbuf_addf(text, " %s", way.buf ?: "");
	return found;
}

static bool differ(const char *a, const char *b)
{
	return strcmp(a ?: "", b ?: "") != 0;
}

static struct way what_differs(const struct run_info *runs, size_t count)
{
	struct way way = {};

	for (size_t i = 1; i < count; i++) {
		way.cache |= differ(runs[i].cache, runs[0].cache);
		way.modes |= differ(runs[i].modes, runs[0].modes);
	}
	return way;
}

int run_describe_ways(struct trace *trace, const int64_t *ids, size_t count, struct strbuf *text)
{
	auto_free struct run_info *runs = calloc(count ?: 1, sizeof(*runs));
	auto_free bool *done = calloc(count ?: 1, sizeof(*done));
	struct strbuf auto_strbuf ways = {};
	size_t mounted = 0, n_ways = 0;
	int err = runs && done ? 0 : -ENOMEM;

	for (size_t i = 0; i < count && err == 0; i++) {
		err = run_load(trace, ids[i], &runs[mounted]);
		if (err == 0 && runs[mounted].transport)
			mounted++;
		else if (err == 0)
			run_free(&runs[mounted]);
	}
	while (err == 0 && add_next_way(runs, mounted, what_differs(runs, mounted), done, &ways))
		n_ways++;
	if (n_ways > 1)
		strbuf_addf(text, "the runs did not get their requests in the same way, which makes a difference: %s",
			ways.buf ?: "");
	for (size_t i = 0; i < mounted; i++)
		run_free(&runs[i]);
	return err ?: ways.failed ? -ENOMEM : 0;
}

void run_warn(const struct run_info *run)
{
	void (*const describe[])(const struct run_info *, struct strbuf *) = { run_describe_gaps, run_describe_modes,
		run_describe_transport };

	for (size_t i = 0; i < ARRAY_SIZE(describe); i++) {
		struct strbuf auto_strbuf line = {};

		describe[i](run, &line);
		if (line.len && !line.failed)
			log_msg("%s", line.buf);
	}
}

int run_check(struct trace *trace, int64_t id)
{
	struct run_info run;
	int err = run_load(trace, id, &run);
	bool complete;

	if (err < 0)
		return err;
	run_warn(&run);
	complete = run_complete(&run);
	run_free(&run);
	return complete;
}
