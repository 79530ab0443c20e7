/* SPDX-License-Identifier: MIT */
/* run.h - a run's row as every command needs it: which it is, and whether its numbers are all there. */
#ifndef FSTAPE_RUN_H
#define FSTAPE_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base.h"
#include "trace.h"

struct run_info {
	int64_t id;
	char *label;                                  /* NULL: none */
	char *state;                                  /* as in schema.sql */
	char *note;                                   /* why it is partial, or NULL */
	char *modes;                                  /* that keep requests from it: schema/mode.h; or NULL */
	char *transport;                              /* as in schema.sql; NULL: not known, or there was no mount */
	char *wait;                                   /* likewise */
	char *cache;                                  /* likewise */
	int64_t requests, recorded, dropped, damaged; /* 0 while not known */
	bool clean;    /* ended by unmounting, with everything in the database */
	bool native;   /* timed without the shim: there is nothing recorded, and nothing missing */
	bool finished; /* nothing will be added */
	bool alive;    /* not finished, and its recorder is at it */
	bool storing;  /* finished, and 'fstape record' is at it: the command's times and git's story are still to come */
	bool left;     /* finished, not that, and git's story is still beside the database */
	bool attributed; /* its operations are, to what git did; or there are none */
	bool untimed;  /* 'fstape record' did not see the end of the command: what that did last was not recorded */
	int64_t end_ns; /* the run's time of its end; 0 while not known */
};

/* SQL on a row of run: what run_complete() says of it, 0 or 1. */
#define RUN_COMPLETE_SQL                                                                               \
	"(state = 'native' OR (state IN ('done', 'recovered') AND clean_end IS 1 AND coalesce(dropped, 0) = 0" \
	" AND (command IS NULL OR real_ns IS NOT NULL)))"

/* 0, -ENOENT, or -errno of trace.h. Free with run_free(). */
int run_load(struct trace *trace, int64_t run, struct run_info *ret_run);
void run_free(struct run_info *run);

/* Whether its numbers are all there. */
static inline bool run_complete(const struct run_info *run)
{
	return run->clean && run->finished && run->dropped == 0 && !run->untimed;
}

/* "run 3 (label) is partial: ..." when its numbers are not all there; adds nothing otherwise. */
void run_describe_gaps(const struct run_info *run, struct strbuf *text);

/* "run 3 (label) does not have all that was done, by its modes: ..."; adds nothing to a run without. */
void run_describe_modes(const struct run_info *run, struct strbuf *text);

/* "run 3 (label): what git was doing is known when ..." while its operations are not attributed; else adds nothing. */
void run_describe_story(const struct run_info *run, struct strbuf *text);

/* "run 3 (label) got its requests through io_uring, ..."; adds nothing to a run that got them the usual way. */
void run_describe_transport(const struct run_info *run, struct strbuf *text);

/* "through /dev/fuse (wait=auto), cache=always, modes=noflush"; adds nothing to a run without a mount. */
void run_describe_way(const struct run_info *run, struct strbuf *text);

/*
 * Of runs that are shown side by side: "the runs did not get their requests in the same way: ..." when their transports
 * differ, their ways of waiting, what the kernel answers by itself, or their modes; adds nothing otherwise. 0, or -errno of
 * trace.h.
 */
int run_describe_ways(struct trace *trace, const int64_t *runs, size_t count, struct strbuf *text);

/*
 * On standard error, "fstape: run 3 (label) is ...", what must be known of its numbers: a line when they are not all there,
 * one when its modes kept requests from it, one when they came in an unusual way. For every command that shows numbers of a run.
 */
void run_warn(const struct run_info *run);

/* Both at once: run_load(), run_warn(). Returns whether the run is complete, or -errno. */
int run_check(struct trace *trace, int64_t run);

#endif
