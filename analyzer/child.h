/* SPDX-License-Identifier: MIT */
/*
 * child.h - runs a program to its end: for set-up, checks, and timings without the shim.
 *
 * All calls block until the program has ended; a request to stop (isolate_stopped()) is handed on to it.
 * Signals have their default dispositions and none is blocked in it. For one thread.
 */
#ifndef FSTAPE_CHILD_H
#define FSTAPE_CHILD_H

#include <stdint.h>

#include "base.h"

struct child_options {
	const char *cwd;       /* NULL: ours */
	struct strbuf *output; /* standard output is added here; NULL: it goes to /dev/null, or to out_fd */
	int out_fd;            /* 0: none */
};

struct child_result {
	int status; /* exit status; 128 + N when signal N ended it */
	int64_t real_ns;
	int64_t user_ns; /* of the program and all its children that were waited for */
	int64_t sys_ns;
};

/* `ret_result` may be NULL. -errno when the program could not be started (-ENOENT: not found). */
int child_run(char *const argv[], const struct child_options *options, struct child_result *ret_result);

/* A program whose standard input we write: `*ret_fd` is the pipe's end, the caller's to close before child_wait(). */
int child_start_writer(char *const argv[], const char *cwd, pid_t *ret_pid, int *ret_fd);
int child_wait(pid_t pid, struct child_result *ret_result);

/*
 * child_run() for what has to succeed: anything but exit status 0 is told on standard error, as "WHAT:
 * PROGRAM ARGS failed ...", and becomes -ECANCELED (it was interrupted by a signal), -EIO (it failed) or why
 * it did not start.
 */
int child_must(const char *what, char *const argv[], const struct child_options *options);

#endif
