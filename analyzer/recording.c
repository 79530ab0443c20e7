/* SPDX-License-Identifier: MIT */
/* recording.c - the phases of a recording: mount, run, unmount, finish. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base.h"
#include "progress.h"
#include "recording_internal.h"

#define SHIM_INCOMPLETE   3 /* fstapefs's exit status: ended well, but not everything is in the database */
#define LONGEST_PAUSE_MS  100       /* between attempts to unmount */
#define TELL_AFTER_MS     100       /* and this long processes may take to end by themselves */
#define HOLDERS_AFTER_MS  300       /* a process that is just ending is not worth a message */
#define REPORT_EVERY_MS   1000
#define PROGRESS_AFTER_NS 500000000 /* most recordings end sooner */

static void say(const struct recording *rec, const char *text)
{
	if (!rec->options->quiet)
		log_msg("%s", text);
}

static int make_options(const struct recording *rec, struct strbuf *options)
{
	const struct recording_options *o = rec->options;
	const struct {
		const char *name, *value;
	} texts[] = {
		{ "db", rec->db },
		{ "label", o->label },
		{ "cache", o->cache ?: "always" },
		{ "overflow", o->overflow },
		{ "load", o->load },
		{ "data", o->data ? "full" : NULL },
	};
	char number[24];

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (texts[i].value)
			shim_option(options, texts[i].name, texts[i].value);
	snprintf(number, sizeof(number), "%" PRId64, o->spool);
	if (o->spool)
		shim_option(options, "spool", number);
	snprintf(number, sizeof(number), "%" PRId64, o->threads);
	if (o->threads)
		shim_option(options, "threads", number);
	if (geteuid() == 0)
		shim_option(options, "allow_other", NULL);
	if (o->mount_options && *o->mount_options)
		strbuf_addf(options, ",%s", o->mount_options);
	return options->failed ? log_errno(ENOMEM, "%s", rec->source) : 0;
}

static int choose_place(struct recording *rec)
{
	const char *why;
	int err = shim_choose(rec->source, rec->options->public, &rec->shim.place, &why);

	if (err < 0)
		return err;
	rec->shim.mountpoint = rec->source;
	rec->result.private = rec->shim.place == SHIM_PRIVATE || rec->shim.place == SHIM_PRIVATE_USER;
	if (rec->shim.place == SHIM_PRIVATE_USER)
		say(rec, "mounting in a private user namespace: only the command sees the mount");
	else if (rec->shim.place == SHIM_PUBLIC_USER && !rec->options->quiet)
		log_msg("mounting publicly through fusermount3%s%s", why ? ": " : "", why ?: "");
	return 0;
}

/* Reads "RUN\n" from the shim. -errno after a message: it did not start, or the user gave up; it has ended then. */
static int await_ready(struct recording *rec)
{
	char text[32] = "";
	size_t len = 0;
	ssize_t got = -1;

	while (got != 0 && len < sizeof(text) - 1) {
		if (recording_wait(rec, true, -1, false)) {
			kill(rec->shim.pid, SIGTERM);
			say(rec, "interrupted before the command was started");
			break;
		}
		got = read(rec->shim.ready, text + len, sizeof(text) - 1 - len);
		len += got > 0 ? (size_t)got : 0;
	}
	if (got == 0 && sscanf(text, "%" SCNd64 "\n", &rec->result.run) == 1)
		return 0;
	while (!rec->shim_ended)
		recording_wait(rec, false, -1, false);
	if (got == 0)
		log_msg("%s: fstapefs did not start, nothing was run", rec->source);
	return rec->result.interrupted ? -EINTR : -ECANCELED;
}

static bool shim_died(const struct recording *rec)
{
	return rec->shim_ended &&
	       !(WIFEXITED(rec->shim_status) && (WEXITSTATUS(rec->shim_status) == 0 ||
							WEXITSTATUS(rec->shim_status) == SHIM_INCOMPLETE));
}

static void report_early_end(struct recording *rec)
{
	rec->unmounted_early = !shim_died(rec);
	if (rec->unmounted_early)
		log_msg("%s was unmounted while the command runs; what it does from now on is not recorded",
			rec->source);
	else if (WIFSIGNALED(rec->shim_status))
		log_msg("fstapefs was killed by signal %d (%s); the command goes on without a filesystem",
			WTERMSIG(rec->shim_status), strsignal(WTERMSIG(rec->shim_status)));
	else
		log_msg("fstapefs ended with status %d; the command goes on without a filesystem",
			WEXITSTATUS(rec->shim_status));
}

static void await_command(struct recording *rec)
{
	bool reported = false;

	while (!rec->command_ended) {
		if (!recording_wait(rec, false, rec->look_again ? LOOK_AGAIN_MS : -1, true) && rec->look_again)
			recording_look_again(rec);
		if (rec->shim_ended && !rec->command_ended && !reported) {
			report_early_end(rec);
			reported = true;
		}
	}
}

static void detach(struct recording *rec)
{
	int err = shim_unmount(&rec->shim, true);

	if (err < 0 && err != -EINVAL)
		log_errno(err, "%s: cannot be detached", rec->source);
}

static void report_holders(const struct recording *rec, struct strbuf *last)
{
	struct strbuf auto_strbuf who = {};

	if (!shim_holders(&rec->shim, &who))
		strbuf_addf(&who, "processes that cannot be seen from here");
	if (who.failed || (last->buf && strcmp(last->buf, who.buf) == 0))
		return;
	log_msg("still in use by %s; waiting for them to end (Ctrl-C: do not wait)", who.buf);
	last->len = 0;
	strbuf_add(last, who.buf, who.len);
}

/* Waits, unless the shim ends. A signal ends it too, and is returned; a child's end, of which unmounting has many, not. */
static int pause_ms(struct recording *rec, int64_t ms)
{
	int64_t end = clock_ns(CLOCK_MONOTONIC) + ms * 1000000, left;
	int sig = 0;

	while (!sig && !rec->shim_ended && (left = end - clock_ns(CLOCK_MONOTONIC)) > 0)
		sig = recording_wait(rec, false, (int)(left / 1000000) + 1, false);
	return sig;
}

/* Who asked us to end meant all that we run, as far as it did not end with the command; users want to know the others. */
static void deal_with_holders(struct recording *rec, int64_t waited_ms, int64_t *next_report_ms, struct strbuf *last)
{
	if (rec->told && waited_ms >= TELL_AFTER_MS)
		cohort_tell(&rec->cohort, &rec->shim, 0, rec->told);
	if (waited_ms >= *next_report_ms) {
		report_holders(rec, last);
		*next_report_ms = waited_ms + REPORT_EVERY_MS;
	}
}

/* Unmounts as soon as nobody uses the mount any more, or lazily when the user does not want to wait for that. */
static void unmount(struct recording *rec)
{
	struct strbuf auto_strbuf last = {};
	int64_t start_ns = clock_ns(CLOCK_MONOTONIC), report_ms = HOLDERS_AFTER_MS, wait_ms = 1;
	int err = 0;

	cohort_clear(&rec->cohort);
	while (!rec->shim_ended) {
		err = shim_unmount(&rec->shim, false);
		if (err != -EBUSY)
			break;
		deal_with_holders(rec, (clock_ns(CLOCK_MONOTONIC) - start_ns) / 1000000, &report_ms, &last);
		if (pause_ms(rec, wait_ms) && !rec->shim_ended) {
			detach(rec);
			rec->result.detached = true;
			return;
		}
		wait_ms = wait_ms * 2 < LONGEST_PAUSE_MS ? wait_ms * 2 : LONGEST_PAUSE_MS;
	}
	if (rec->shim_ended)
		detach(rec); /* what a dead shim leaves is busy for ever; after an ordinary end there is
				nothing */
	else if (err < 0) {
		if (err != -EINVAL)
			log_errno(err, "%s: cannot be unmounted", rec->source);
		kill(rec->shim.pid, SIGTERM); /* it ends its mount itself, should there be one still */
	}
}

/* The shim loads the rest into the database and ends; the user may leave it to that. */
static void await_shim(struct recording *rec)
{
	struct progress progress = progress_begin(!rec->options->quiet);
	int64_t show_ns = clock_ns(CLOCK_MONOTONIC) + PROGRESS_AFTER_NS;

	while (!rec->shim_ended && !rec->result.detached) {
		if (recording_wait(rec, false, progress.shown ? -1 : PROGRESS_AFTER_NS / 1000000, false))
			rec->result.detached = !rec->shim_ended;
		else if (!rec->shim_ended && clock_ns(CLOCK_MONOTONIC) >= show_ns)
			progress_show(&progress, "recording: finishing (Ctrl-C: do not wait)");
	}
	progress_end(&progress);
	if (rec->result.detached)
		log_msg("run %" PRId64
			" goes on in the background (fstapefs, pid %d) and finishes by itself; 'fstape runs'"
			" shows its state",
			rec->result.run, (int)rec->shim.pid);
}

/* Whether the recorder has ended as it should. */
static void report_end(struct recording *rec)
{
	rec->result.failed =
		shim_died(rec) || (rec->shim_ended && WEXITSTATUS(rec->shim_status) == SHIM_INCOMPLETE);
	if (shim_died(rec) && WIFSIGNALED(rec->shim_status))
		log_msg("the recorder was killed by signal %d", WTERMSIG(rec->shim_status));
	else if (shim_died(rec))
		log_msg("the recorder ended with status %d", WEXITSTATUS(rec->shim_status));
	else if (rec->shim_ended && WEXITSTATUS(rec->shim_status) == SHIM_INCOMPLETE)
		log_msg("the recording is not complete; 'fstape recover' may be able to finish it");
}

static int record_command(struct recording *rec)
{
	int err = shim_joinable(&rec->shim);

	if (err == 0)
		err = recording_launch(rec);
	if (err == 0) {
		if (rec->host)
			host_start(rec->host); /* without it there are the first sample and the last */
		await_command(rec);
	}
	if (rec->host)
		host_stop(rec->host);
	if (err == 0 && rec->launch->setup_errno) {
		err = -rec->launch->setup_errno;
		log_errno(err, "%s: cannot start the command: %s", rec->source, rec->launch->setup);
	}
	unmount(rec);
	await_shim(rec);
	report_end(rec);
	return err;
}

static int run(struct recording *rec)
{
	struct strbuf auto_strbuf options = {};
	int err = recording_resolve(rec);

	if (err == 0 && host_open(rec->source, &rec->host) < 0)
		say(rec, "no memory to sample the machine's counters");
	err = err ?: choose_place(rec);
	err = err ?: make_options(rec, &options);
	err = err ?: shim_start(&rec->shim, options.buf, &rec->saved_mask);
	err = err ?: await_ready(rec);
	if (err < 0)
		return err;
	recording_git_prepare(rec);
	recording_store_command(rec);
	err = record_command(rec);
	if (err == 0 && recording_store(rec) < 0)
		rec->result.failed = true;
	else if (err == 0)
		recording_scan(rec);
	return err;
}

int recording_run(
	const struct recording_options *options, char *const argv[], struct recording_result *ret_result)
{
	struct recording rec = { .options = options,
		.argv = argv,
		.shim = { .ready = -1, .namespace = NAMESPACE_OWN },
		.signal_fd = -1,
		.git = { .dir_fd = -1 } };
	int err;

	rec.launch =
		mmap(NULL, sizeof(*rec.launch), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (rec.launch == MAP_FAILED)
		return log_errno(errno, "%s", options->source);
	err = recording_take_signals(&rec);
	if (err == 0) {
		err = run(&rec);
		shim_close(&rec.shim);
		recording_give_signals(&rec);
	}
	cohort_clear(&rec.cohort);
	recording_git_free(&rec);
	host_free(rec.host);
	munmap(rec.launch, sizeof(*rec.launch));
	free(rec.source);
	free(rec.db);
	free(rec.cwd);
	if (err == 0)
		*ret_result = rec.result;
	return err;
}
