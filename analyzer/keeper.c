/* SPDX-License-Identifier: MIT */
#include "keeper.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base.h"

/* Holds nothing but the two descriptors: neither a terminal, nor a pipe that somebody waits for, nor a directory. */
static _Noreturn void keep(int line, int child)
{
	char released;
	ssize_t got;

	setsid();
	if (chdir("/") < 0 || dup2(line, 0) < 0 || dup2(child, 1) < 0 ||
		syscall(SYS_close_range, 2U, ~0U, 0U) < 0)
		_exit(1);
	do {
		got = read(0, &released, 1);
	} while (got < 0 && errno == EINTR);
	if (got == 0)
		syscall(SYS_pidfd_send_signal, 1, SIGTERM, NULL, 0);
	_exit(0);
}

int keeper_start(struct keeper *keeper, pid_t child)
{
	/* not a pid: that could be somebody else's by then */
	int auto_close fd = (int)syscall(SYS_pidfd_open, child, 0);
	int line[2];

	if (fd < 0 || pipe2(line, O_CLOEXEC) < 0)
		return -errno;
	keeper->pid = fork();
	if (keeper->pid == 0) {
		close(line[1]);
		keep(line[0], fd);
	}
	close(line[0]);
	if (keeper->pid < 0) {
		int err = -errno;

		keeper->pid = 0;
		close(line[1]);
		return err;
	}
	keeper->line = line[1];
	return 0;
}

void keeper_release(struct keeper *keeper)
{
	if (!keeper->pid)
		return;
	if (write(keeper->line, "", 1) < 0)
		kill(keeper->pid, SIGKILL); /* it has closed its end: it must not go on either way */
	close(keeper->line);
	while (waitpid(keeper->pid, NULL, 0) < 0 && errno == EINTR)
		;
	keeper->pid = 0;
}
