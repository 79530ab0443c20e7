/* SPDX-License-Identifier: MIT */
#include "daemon.h"

#include <fcntl.h>
#include <sys/wait.h>

#include "base.h"

/* The child's end without a word means that it failed and has said why; its exit status tells usage from failure. */
static void wait_for_child(pid_t child, int fd)
{
	int status;
	char ok;

	if (read(fd, &ok, 1) == 1)
		_exit(0);
	if (waitpid(child, &status, 0) == child && WIFEXITED(status))
		_exit(WEXITSTATUS(status) ?: 1);
	_exit(1);
}

int daemon_start(struct daemon *daemon, int foreground)
{
	int fds[2];
	pid_t child;

	daemon->status_fd = -1;
	if (foreground)
		return 0;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	child = fork();
	if (child < 0)
		return -errno;
	if (child > 0) {
		close(fds[1]);
		wait_for_child(child, fds[0]);
	}
	close(fds[0]);
	daemon->status_fd = fds[1];
	setsid();
	return 0;
}

void daemon_ready(struct daemon *daemon)
{
	int fd;

	if (daemon->status_fd < 0)
		return;
	if (chdir("/") < 0)
		log_errno(errno, "/");
	fd = open("/dev/null", O_RDWR);
	for (int std = 0; std <= 2 && fd >= 0; std++)
		dup2(fd, std);
	if (fd > 2)
		close(fd);
	log_use_syslog();
	if (write(daemon->status_fd, "+", 1) < 0)
		errno = 0; /* the parent was killed: nobody waits */
	close(daemon->status_fd);
	daemon->status_fd = -1;
}
