/* SPDX-License-Identifier: MIT */
#include "measure.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "child.h"
#include "isolate.h"
#include "recording.h"

static int time_native(char *const words[], const char *cwd, int output, struct measurement *m)
{
	struct child_result result;
	int err;

	m->start_real_ns = clock_ns(CLOCK_REALTIME);
	err = child_run(words, &(struct child_options){ .cwd = cwd, .out_fd = output }, &result);
	if (err < 0)
		return log_errno(err, "cannot run %s", words[0]);
	m->status = result.status;
	m->real_ns = result.real_ns;
	m->user_ns = result.user_ns;
	m->sys_ns = result.sys_ns;
	return 0;
}

/* A recorded command has our standard output: for as long as it runs that is `output`. */
static int record_into(
	const struct recording_options *options, char *const words[], int output, struct recording_result *ret_result)
{
	int auto_close saved = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	int err;

	if (saved < 0 || dup2(output, STDOUT_FILENO) < 0)
		return log_errno(errno, "bench");
	err = recording_run(options, words, ret_result);
	if (dup2(saved, STDOUT_FILENO) < 0)
		return log_errno(errno, "bench");
	return err;
}

static int time_recorded(const struct bench_options *bench, char *const words[], const char *cwd, int output,
	struct measurement *m)
{
	char readahead[48] = "";
	const struct recording_options options = {
		.db = bench->db,
		.source = m->source,
		.cwd = cwd,
		.label = m->label,
		.cache = bench->kernel_cache,
		.mount_options = readahead,
		.quiet = true,
	};
	struct recording_result result;
	int err;

	if (m->variant->dir_readahead == READAHEAD_OFF)
		snprintf(readahead, sizeof(readahead), "dir_readahead=off");
	else if (m->variant->dir_readahead > 0)
		snprintf(readahead, sizeof(readahead), "dir_readahead=%" PRId64, m->variant->dir_readahead);
	err = record_into(&options, words, output, &result);
	if (err == -ECANCELED && !isolate_stopped()) /* by itself, not by us: it has said why */
		return -EIO;
	if (err < 0)
		return isolate_stopped() || err == -EINTR ? -ECANCELED : err;
	if (result.interrupted)
		return -ECANCELED;
	if (!result.complete)
		return -EIO;
	m->run = result.run;
	m->status = result.status;
	return 0;
}

/* What the filesystem still had to write when the command had ended. */
static int time_sync(const struct place *place, struct measurement *m)
{
	int64_t start = clock_ns(CLOCK_MONOTONIC);
	int err = place_sync(place);

	counters_add(&m->counters, "after.sync_ns", clock_ns(CLOCK_MONOTONIC) - start);
	return err;
}

static int check(const struct workload_site *site, const struct measurement *m)
{
	if (isolate_stopped() || m->status == 128 + SIGINT || m->status == 128 + SIGTERM)
		return -ECANCELED;
	if (m->status != 0) {
		struct strbuf auto_strbuf words = {};

		for (size_t i = 0; m->words[i]; i++)
			strbuf_addf(&words, "%s%s", i ? " " : "", m->words[i]);
		log_msg("%s: '%s' failed with exit status %d", site->what, words.buf ?: "", m->status);
		return -EIO;
	}
	return site->workload->type->check ? site->workload->type->check(site) : 0;
}

static int time_command(const struct bench_options *options, const struct place *place,
	const struct workload_site *site, const char *cwd, struct measurement *m)
{
	struct counters before;
	int err;

	counters_read(place, &before);
	err = m->variant->shim ? time_recorded(options, m->words, cwd, site->output, m)
			       : time_native(m->words, cwd, site->output, m);
	if (err < 0)
		return err;
	counters_read(place, &m->counters);
	counters_since(&m->counters, &before);
	return time_sync(place, m);
}

int measure(const struct bench_options *options, const struct place *place, struct workload_site *site,
	struct measurement *m)
{
	char *words[WORKLOAD_MAX_WORDS + 1];
	auto_free char *cwd = NULL, *label = NULL;
	int auto_close output = memfd_create("output", MFD_CLOEXEC);
	int err;

	if (output < 0)
		return log_errno(errno, "%s", site->what);
	if (asprintf(&cwd, "%s%s", site->dir, site->workload->type->cwd) < 0 ||
		asprintf(&label, "%s/%s/%" PRId64, m->workload->name, m->target->name, m->round) < 0)
		return log_errno(ENOMEM, "%s", site->what);
	workload_command(m->workload, site->repo, words);
	site->output = output;
	m->label = label;
	m->words = words;
	m->source = site->dir;
	err = time_command(options, place, site, cwd, m);
	err = err ?: check(site, m);
	return err ?: measurement_store(options->db, options->id, m);
}

int measure_warm_up(const struct workload_site *site)
{
	char *words[WORKLOAD_MAX_WORDS + 1];
	auto_free char *cwd = NULL;
	struct child_result result;
	int err;

	if (asprintf(&cwd, "%s%s", site->dir, site->workload->type->cwd) < 0)
		return log_errno(ENOMEM, "%s", site->what);
	workload_command(site->workload, site->repo, words);
	err = child_run(words, &(struct child_options){ .cwd = cwd }, &result);
	if (err < 0)
		return log_errno(err, "%s: cannot run %s", site->what, words[0]);
	return isolate_stopped() ? -ECANCELED : 0;
}
