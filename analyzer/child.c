/* SPDX-License-Identifier: MIT */
#include "child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "isolate.h"

extern char **environ;

/* `fd` -1: /dev/null. */
static int set_stream(posix_spawn_file_actions_t *actions, int fd, int as, int flags)
{
	if (fd >= 0)
		return posix_spawn_file_actions_adddup2(actions, fd, as);
	return posix_spawn_file_actions_addopen(actions, as, "/dev/null", flags, 0);
}

/* Standard input and output by number, -1: /dev/null. */
static int start(char *const argv[], const char *cwd, int in_fd, int out_fd, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t all, none;
	int err;

	sigfillset(&all);
	sigemptyset(&none);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawnattr_setsigmask(&attr, &none);
	err = posix_spawn_file_actions_init(&actions);
	err = err ?: set_stream(&actions, in_fd, STDIN_FILENO, O_RDONLY);
	err = err ?: set_stream(&actions, out_fd, STDOUT_FILENO, O_WRONLY);
	if (cwd)
		err = err ?: posix_spawn_file_actions_addchdir_np(&actions, cwd);
	err = err ?: posix_spawnp(ret_pid, argv[0], &actions, &attr, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	return -err;
}

/*
 * Waits for the end of the program; hands a request to stop on to it, in case it went to us alone. The
 * signals are blocked but while ppoll() waits: none can slip through between the look at the flag and the
 * waiting.
 */
static void await(pid_t pid)
{
	struct pollfd end = { .events = POLLIN };
	int auto_close fd = (int)syscall(SYS_pidfd_open, pid, 0);
	sigset_t stop, before;
	bool handed_on = false;

	end.fd = fd;
	sigemptyset(&stop);
	sigaddset(&stop, SIGINT);
	sigaddset(&stop, SIGTERM);
	sigaddset(&stop, SIGHUP);
	sigprocmask(SIG_BLOCK, &stop, &before);
	do {
		if (isolate_stopped() && !handed_on)
			handed_on = kill(pid, SIGTERM) == 0;
	} while (fd >= 0 && ppoll(&end, 1, NULL, &before) < 0 && errno == EINTR);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

int child_wait(pid_t pid, struct child_result *ret_result)
{
	struct rusage usage;
	int status;

	await(pid);
	while (wait4(pid, &status, 0, &usage) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	*ret_result = (struct child_result){
		.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status),
		.user_ns = timeval_ns(usage.ru_utime),
		.sys_ns = timeval_ns(usage.ru_stime),
	};
	return 0;
}

/* Until the writers are gone. An interrupted read goes on: the program gets the signal itself, and ends. */
static void collect(int fd, struct strbuf *output)
{
	char buf[65536];
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) != 0) {
		if (n < 0 && errno != EINTR)
			break;
		if (n > 0)
			strbuf_add(output, buf, (size_t)n);
	}
}

int child_run(char *const argv[], const struct child_options *options, struct child_result *ret_result)
{
	int auto_close in = -1, auto_close out = -1;
	struct child_result result = {};
	int fds[2], err;
	int64_t start_ns;
	pid_t pid;

	if (options->output) {
		if (pipe2(fds, O_CLOEXEC) < 0)
			return -errno;
		in = fds[0];
		out = fds[1];
	}
	start_ns = clock_ns(CLOCK_MONOTONIC);
	err = start(argv, options->cwd, -1, options->out_fd > 0 ? options->out_fd : out, &pid);
	if (err < 0)
		return err;
	if (options->output) {
		close(steal_fd(&out));
		collect(in, options->output);
	}
	err = child_wait(pid, &result);
	result.real_ns = clock_ns(CLOCK_MONOTONIC) - start_ns;
	if (err == 0 && options->output && options->output->failed)
		err = -ENOMEM;
	if (err == 0 && ret_result)
		*ret_result = result;
	return err;
}

int child_start_writer(char *const argv[], const char *cwd, pid_t *ret_pid, int *ret_fd)
{
	int fds[2], err;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	err = start(argv, cwd, fds[0], -1, ret_pid);
	close(fds[0]);
	if (err < 0)
		close(fds[1]);
	else
		*ret_fd = fds[1];
	return err;
}

int child_must(const char *what, char *const argv[], const struct child_options *options)
{
	struct strbuf auto_strbuf words = {};
	struct child_result result;
	int err = child_run(argv, options, &result);

	if (err == 0 && result.status == 0)
		return 0;
	if (err == 0 && (result.status == 128 + SIGINT || result.status == 128 + SIGTERM))
		return -ECANCELED;
	for (int i = 0; argv[i]; i++)
		strbuf_addf(&words, "%s%s", i ? " " : "", argv[i]);
	if (err < 0)
		return log_errno(err, "%s: cannot run '%s'", what, words.buf ?: argv[0]);
	if (result.status > 128)
		log_msg("%s: '%s' was ended by signal %d", what, words.buf ?: argv[0], result.status - 128);
	else
		log_msg("%s: '%s' failed with exit status %d", what, words.buf ?: argv[0], result.status);
	return -EIO;
}
