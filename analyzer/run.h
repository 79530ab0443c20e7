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
	int64_t requests, recorded, dropped, damaged; /* 0 while not known */
	bool clean;    /* ended by unmounting, with everything in the database */
	bool native;   /* timed without the shim: there is nothing recorded, and nothing missing */
	bool finished; /* nothing will be added */
	bool untimed;  /* a command was recorded, and how long it took is not known */
};

/* 0, -ENOENT, or -errno of trace.h. Free with run_free(). */
int run_load(struct trace *trace, int64_t run, struct run_info *ret_run);
void run_free(struct run_info *run);

/* Whether its numbers are all there. */
static inline bool run_complete(const struct run_info *run)
{
	return run->clean && run->finished && run->dropped == 0;
}

/* "run 3 (label) is partial: ..." when its numbers are not all there; adds nothing otherwise. */
void run_describe_gaps(const struct run_info *run, struct strbuf *text);

/* "run 3 (label) does not have all that was done, by its modes: ..."; adds nothing to a run without. */
void run_describe_modes(const struct run_info *run, struct strbuf *text);

/* "run 3 (label): how long its command took is not known: ..."; adds nothing to other runs. */
void run_describe_times(const struct run_info *run, struct strbuf *text);

/*
 * On standard error, "fstape: run 3 (label) is ...", what is missing of its numbers: a line when they are not all there,
 * one when its modes kept requests from it, one when the times of its command are not known. For every command that shows numbers of a run.
 */
void run_warn(const struct run_info *run);

/* Both at once: run_load(), run_warn(). Returns whether the run is complete, or -errno. */
int run_check(struct trace *trace, int64_t run);

#endif
