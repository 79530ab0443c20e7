/* SPDX-License-Identifier: MIT */
/*
 * recording.h - a command run over a directory with the shim mounted on it: what `record` and `bench` share.
 *
 * The caller's process stays in its namespaces. The shim is a child in a mount namespace of its own (an
 * ordinary user: also in a user namespace), the command a child that joins it there; with `public` (or where
 * neither is possible) the mount is made for everybody. Every child is reaped and the mount is gone when
 * recording_run() returns, unless the user did not want to wait for processes left behind in the mount: then
 * result.detached is set and the shim goes on by itself until they end.
 */
#ifndef FSTAPE_RECORDING_H
#define FSTAPE_RECORDING_H

#include <stdbool.h>
#include <stdint.h>

/* NULL and 0 leave a choice to the shim. Nothing is copied. */
struct recording_options {
	const char *db;     /* made when missing */
	const char *source; /* the directory, mounted over in place */
	const char *label;
	const char *cache;         /* never, auto, always; NULL: always */
	const char *overflow;      /* block, drop */
	const char *load;          /* live, end */
	const char *mount_options; /* more of -o, as they are */
	const char
		*cwd; /* where the command starts, inside source; NULL: source, or the caller's place in it */
	int64_t spool; /* bytes */
	int64_t threads;
	bool data;  /* record contents: data=full */
	bool scan;  /* walk the tree after the run, for what it did not touch */
	bool public;
	bool quiet; /* nothing but errors on standard error */
};

struct recording_result {
	int64_t run;
	int status; /* the command's exit status, 128 + N when signal N ended it, 126/127 as env(1) has them
		     */
	int64_t real_ns; /* from the command's exec to its end */
	int64_t user_ns; /* CPU time of the command and the children that it waited for; nothing of the shim's
			  */
	int64_t sys_ns;
	int interrupted; /* the last of SIGINT, SIGQUIT, SIGTERM, SIGHUP that came meanwhile, or 0 */
	bool complete;   /* all requests are in the database */
	bool failed;     /* the recorder died or could not finish; a message has said so */
	bool detached; /* the shim still serves processes that the command left; the recording is not finished
			*/
	bool private;  /* mounted where only the command sees it */
};

/*
 * Runs argv[0] (found in PATH) with its arguments and waits for it and for the recorder; the run's row has
 * the command, its status and its times then. Blocks; not for threads: signals are taken over meanwhile, and
 * children of the caller's are not touched. Returns 0 when the command has been run, or could not be (status
 * 126, 127), even if the recording failed afterwards (result.failed); -errno after a message when there was
 * nothing to record with; -EINTR: a signal came before the command was started.
 */
int recording_run(
	const struct recording_options *options, char *const argv[], struct recording_result *ret_result);

#endif
