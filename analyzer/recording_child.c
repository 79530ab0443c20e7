/* SPDX-License-Identifier: MIT */
/* recording_child.c - where the command starts, how it is started, and the signals and ends that come meanwhile. */
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base.h"
#include "files.h"
#include "recording_internal.h"

#define LOOKS 6 /* for processes that a slow machine is just starting */

static int resolve_source(struct recording *rec)
{
	const char *source = rec->options->source;
	struct stat st;

	rec->source = realpath(source, NULL);
	if (!rec->source || stat(rec->source, &st) < 0)
		return log_errno(errno, "%s: cannot be recorded", source);
	if (!S_ISDIR(st.st_mode))
		return log_errno(ENOTDIR, "%s: cannot be recorded", source);
	if (strcmp(rec->source, "/") == 0) {
		log_msg("/: the root itself cannot be mounted over; choose a directory below it");
		return -EINVAL;
	}
	return 0;
}

static int resolve_cwd(struct recording *rec)
{
	char here[PATH_MAX];

	if (rec->options->cwd) {
		rec->cwd = realpath(rec->options->cwd, NULL);
		return rec->cwd ? 0 : log_errno(errno, "%s", rec->options->cwd);
	}
	rec->cwd = strdup(getcwd(here, sizeof(here)) && path_lies_in(here, rec->source) ? here : rec->source);
	return rec->cwd ? 0 : log_errno(ENOMEM, "%s", rec->source);
}

int recording_resolve(struct recording *rec)
{
	int err = resolve_source(rec);
	struct stat st;

	if (err < 0)
		return err;
	rec->db = path_resolve_new(rec->options->db);
	if (!rec->db)
		return log_errno(errno, "%s: the database cannot be made there", rec->options->db);
	if (stat(rec->db, &st) == 0 && S_ISDIR(st.st_mode)) {
		log_msg("%s: a directory, not a database", rec->options->db);
		return -EISDIR;
	}
	if (path_lies_in(rec->db, rec->source)) {
		log_msg("%s lies in %s: a database cannot be inside what it records; put it elsewhere",
			rec->options->db, rec->options->source);
		return -EINVAL;
	}
	return resolve_cwd(rec);
}

static _Noreturn void give_up(struct launch *launch, int err, const char *what)
{
	launch->setup = what;
	launch->setup_errno = abs(err);
	_exit(125);
}

static _Noreturn void become_command(struct recording *rec)
{
	struct launch *launch = rec->launch;
	int err = namespace_join(&rec->shim.namespace);
	struct stat root;

	if (err < 0)
		give_up(launch, err, "cannot join its mount namespace");
	/*
	 * Until somebody asks for its attributes, the kernel takes the mount's root to be uid 0's. In the
	 * user namespace of an ordinary user that is nobody, and an object without an owner may not be
	 * written to: a first request that is a mkdir would fail with EACCES.
	 */
	if (stat(rec->source, &root) < 0)
		give_up(launch, errno, "cannot look at the directory");
	if (chdir(rec->cwd) < 0)
		give_up(launch, errno, "cannot enter the directory");
	setenv("PWD", rec->cwd, 1);
	recording_git_environment(rec);
	sigaction(SIGCHLD, &rec->saved_child, NULL);
	sigprocmask(SIG_SETMASK, &rec->saved_mask, NULL);
	launch->start_ns = clock_ns(CLOCK_MONOTONIC);
	execvp(rec->argv[0], rec->argv);
	launch->exec_errno = errno;
	_exit(errno == ENOENT ? 127 : 126);
}

int recording_launch(struct recording *rec)
{
	rec->command = fork();
	if (rec->command < 0) {
		rec->command = 0;
		return log_errno(errno, "%s: cannot be started", rec->argv[0]);
	}
	if (rec->command == 0)
		become_command(rec);
	return 0;
}

static void command_ended(struct recording *rec, int status, const struct rusage *usage)
{
	struct recording_result *result = &rec->result;

	result->real_ns = clock_ns(CLOCK_MONOTONIC) - rec->launch->start_ns;
	result->user_ns = timeval_ns(usage->ru_utime);
	result->sys_ns = timeval_ns(usage->ru_stime);
	result->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	if (rec->launch->exec_errno == ENOENT)
		log_msg("%s: command not found", rec->argv[0]);
	else if (rec->launch->exec_errno)
		log_errno(rec->launch->exec_errno, "%s: cannot be run", rec->argv[0]);
	else if (WIFSIGNALED(status) && !rec->options->quiet)
		log_msg("%s was ended by signal %d (%s)", rec->argv[0], WTERMSIG(status),
			strsignal(WTERMSIG(status)));
	rec->command_ended = true;
	rec->command = 0;
}

/* Only our two: other children are the caller's business. */
static void reap(struct recording *rec)
{
	struct rusage usage;
	int status;

	if (rec->command && wait4(rec->command, &status, WNOHANG, &usage) == rec->command)
		command_ended(rec, status, &usage);
	if (rec->shim.pid && !rec->shim_ended && waitpid(rec->shim.pid, &status, WNOHANG) == rec->shim.pid) {
		rec->shim_status = status;
		rec->shim_ended = true;
	}
}

int recording_take_signals(struct recording *rec)
{
	/* SIGPIPE, too: a reader of our messages that has gone must not keep us from unmounting */
	static const int signals[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGCHLD, SIGPIPE };
	struct sigaction child = { .sa_handler = SIG_DFL }; /* else children vanish without a status */
	sigset_t mask;

	sigemptyset(&mask);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaddset(&mask, signals[i]);
	if (sigprocmask(SIG_BLOCK, &mask, &rec->saved_mask) < 0)
		return log_errno(errno, "cannot take over signals");
	sigaction(SIGCHLD, &child, &rec->saved_child);
	sigdelset(&mask, SIGPIPE);
	rec->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (rec->signal_fd >= 0)
		return 0;
	recording_give_signals(rec);
	return log_errno(errno, "cannot take over signals");
}

void recording_give_signals(struct recording *rec)
{
	struct timespec now = {};
	sigset_t pipe;

	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	if (!sigismember(&rec->saved_mask, SIGPIPE))
		sigtimedwait(&pipe, NULL, &now);
	if (rec->signal_fd >= 0)
		close(rec->signal_fd);
	rec->signal_fd = -1;
	sigaction(SIGCHLD, &rec->saved_child, NULL);
	sigprocmask(SIG_SETMASK, &rec->saved_mask, NULL);
}

/*
 * A signal from the terminal has reached the command by itself: it is in the same process group, and when it
 * has made one of its own, then that is what the terminal signals. What a process sent came to us alone.
 */
static bool by_terminal(const struct signalfd_siginfo *info)
{
	return (info->ssi_signo == SIGINT || info->ssi_signo == SIGQUIT) && info->ssi_code == SI_KERNEL;
}

/*
 * A shell waits for its child before it heeds SIGINT: as from a terminal, the child has to get it, too. The shell first: it
 * would take a child that was interrupted by itself for one that has failed, and go on.
 */
static void pass_on(struct recording *rec, int sig, bool forward)
{
	rec->told = sig;
	rec->look_again = 0;
	if (!forward || !rec->command)
		return;
	if (sig != SIGINT && sig != SIGQUIT) {
		kill(rec->command, sig);
		return;
	}
	cohort_clear(&rec->cohort);
	if (cohort_tell(&rec->cohort, &rec->shim, rec->command, sig) <= 0)
		kill(rec->command, sig); /* without /proc */
	rec->look_again = LOOKS;
	recording_look_again(rec);
}

void recording_look_again(struct recording *rec)
{
	rec->look_again--;
	if (rec->command && rec->cohort.n_told)
		cohort_tell(&rec->cohort, &rec->shim, rec->command, rec->told);
}

int recording_wait(struct recording *rec, bool ready, int timeout_ms, bool forward)
{
	struct pollfd fds[] = {
		{ .fd = rec->signal_fd, .events = POLLIN },
		{ .fd = ready ? rec->shim.ready : -1, .events = POLLIN },
	};
	struct signalfd_siginfo info;
	int sig = 0;

	if (poll(fds, ARRAY_SIZE(fds), timeout_ms) > 0 &&
		read(rec->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		reap(rec); /* after any of them: one SIGCHLD may stand for several children */
		if (info.ssi_signo != SIGCHLD) {
			sig = rec->result.interrupted = (int)info.ssi_signo;
			if (!by_terminal(&info))
				pass_on(rec, sig, forward);
		}
	}
	return sig;
}
