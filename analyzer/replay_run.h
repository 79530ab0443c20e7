/* SPDX-License-Identifier: MIT */
/*
 * replay_run.h - performs a plan below a directory.
 *
 * One thread per thread of the plan does its actions in order; before each it waits until those have ended that the plan
 * says. A thread publishes how many of its actions it has done; a wait is a comparison with that number, and a system call
 * only when there is long to wait. Outcomes go to an array, by action, which each thread writes at its own places.
 */
#ifndef FSTAPE_REPLAY_RUN_H
#define FSTAPE_REPLAY_RUN_H

#include <signal.h>

#include "filler.h"
#include "replay_doubles.h"
#include "replay_plan.h"

enum outcome_state {
	OUTCOME_NONE,	  /* not performed: not issued, or the replay was stopped before */
	OUTCOME_MATCH,
	OUTCOME_RESULT,	  /* another result */
	OUTCOME_TYPE,	  /* look-up: an object of another type */
	OUTCOME_LISTING,  /* other entries */
};

struct outcome {
	int64_t start_ns;	/* since the replay's start */
	int64_t result;		/* count, 0 or -errno */
	uint32_t dur_ns, fs_ns; /* from start_ns to the end; in system calls of the operation itself */
	uint32_t idle_ns;	/* before it, at a recorded speed: UINT32_MAX: so long or longer */
	uint8_t state;
};

struct trace;

struct replay_options {
	struct filler filler;	/* of contents that were not recorded */
	double pace;		/* 0: as fast as it goes; 1: at the recorded speed; 2: twice that */
	bool read_opened;	/* each file opened for reading is read whole */
	bool allow_setid;	/* set-id bits of files are set as recorded */
	bool cold;		/* drop the kernel's caches before */
	const char *contents;	/* database that has the contents of the run's writes (data=full), or NULL */
	const volatile sig_atomic_t *stop; /* set by a signal handler: end soon */
	void (*progress)(void *arg, uint64_t done, uint64_t total); /* called by one thread now and then, or NULL */
	void *progress_arg;
};

/* What threads did beside their operations, at a recorded speed; sums over all of them. */
struct replay_times {
	int64_t think_ns;   /* kept a processor busy as the program did, ours included; */
	int64_t blocked_ns; /* waited as it did */
	int64_t order_ns;   /* waited for operations of other threads */
	int64_t twice_ns;   /* taken off think_ns: in it, and in the system calls of the replay */
	int64_t unpaid_ns;  /* of what was to be taken off, more than there was to take off from */
};

struct replay_result {
	struct replay_times times;
	double pace;
	struct doubles doubles; /* what that was taken to be made of, at a recorded speed */
	struct outcome *outcomes; /* [1, plan.n_actions], the caller's to free */
	int64_t start_real_ns, start_mono_ns;
	int64_t wall_ns;	  /* from the start to the end of the last action */
	uint64_t done;
	bool stopped;
};

/*
 * Performs all of the plan below `root_fd`. 0, or -errno after a message; the results of operations are no errors here.
 * Raises the soft limit of open files.
 */
int replay_run(const struct plan *plan, int root_fd, const struct replay_options *options,
	struct replay_result *ret_result);

#endif
