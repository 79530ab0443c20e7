/* SPDX-License-Identifier: MIT */
/* recording_internal.h - what recording*.c share; for nobody else. */
#ifndef FSTAPE_RECORDING_INTERNAL_H
#define FSTAPE_RECORDING_INTERNAL_H

#include <signal.h>

#include "cohort.h"
#include "host.h"
#include "recording.h"
#include "shim.h"
#include "trace.h"

/* What the command's process tells before it becomes the command; in memory that both have. */
struct launch {
	int64_t start_ns;  /* CLOCK_MONOTONIC, just before exec */
	int exec_errno;    /* the program could not be executed */
	int setup_errno;   /* what comes before that failed */
	const char *setup; /* at what; a constant of the program */
};

/* How git tells its story of what the command does. */
struct git_trace {
	char *dir;	/* our own, for its files; NULL: none */
	int dir_fd;	/* locked while the recording lives, so that nobody takes its files for left over; or -1 */
	char *target;	/* the user's own GIT_TRACE2_EVENT that is read along, or NULL */
	char *ancestor; /* what sessions of ours begin with there */
	int64_t from;	/* where the user's file ended before */
	const char *why_not; /* git's story cannot be had; or NULL */
};

struct recording {
	const struct recording_options *options;
	char *const *argv;
	char *source, *db, *cwd; /* absolute, links resolved */
	struct shim shim;
	int shim_status; /* of wait4, once shim_ended */
	bool shim_ended;
	pid_t command; /* 0: not started, or reaped */
	int command_status;
	bool command_ended;
	bool unmounted_early; /* the shim ended well, and the command went on */
	struct launch *launch;
	int signal_fd;
	sigset_t saved_mask;
	struct sigaction saved_child;
	struct git_trace git;
	struct host *host; /* NULL: no memory for it */
	int told; /* the last signal that was sent to us, not to the terminal's whole job, or 0 */
	struct cohort cohort; /* who has been told */
	int look_again;	      /* so often, for who has been overlooked */
	struct recording_result result;
};

/* Resolves source, db and cwd, and refuses what cannot be recorded. -errno after a message. */
int recording_resolve(struct recording *rec);

/* Forks the command into the mount. -errno after a message. */
int recording_launch(struct recording *rec);

/*
 * Takes signals over, so that recording_wait() reads them, and gives them back; in between they reach nobody,
 * and children get the mask that was before.
 */
int recording_take_signals(struct recording *rec);
void recording_give_signals(struct recording *rec);

/*
 * Waits until a signal comes, the shim has something to read on its ready descriptor (`ready`), or
 * `timeout_ms` have passed (-1: for ever); children that ended are reaped. Returns the signal, unless it was
 * SIGCHLD, or 0.
 */
int recording_wait(struct recording *rec, bool ready, int timeout_ms, bool forward);

/* After a signal was handed on, a few times, LOOK_AGAIN_MS apart: for who was overlooked by then. */
#define LOOK_AGAIN_MS 20
void recording_look_again(struct recording *rec);

/*
 * Before the command is started, once the run's number is known: finds out where git will write its trace2 events, and
 * makes a place for them when the user has not chosen one. Never fails: a recording without git's story is one, too.
 */
void recording_git_prepare(struct recording *rec);

/* In the command's process: sets git's environment. */
void recording_git_environment(const struct recording *rec);

/* After the end: loads what git wrote and attributes the operations. Says what could not be read. 0 or -errno. */
int recording_git_load(struct recording *rec, struct trace *trace);

/* Closes the place, and removes it unless what is in it has not been loaded. */
void recording_git_free(struct recording *rec);

/* The command into the run's row, before it is started: if we are killed, the row says what there should be times of. */
void recording_store_command(const struct recording *rec);

/* Writes the command's columns into the run's row, after recovering it when the shim has died. Sets result.complete. */
int recording_store(struct recording *rec);

/*
 * The walk over what the run did not touch, if it is wanted and the mount has gone. That it fails, or is interrupted, is
 * said, and does not make the recording fail.
 */
void recording_scan(struct recording *rec);

#endif
