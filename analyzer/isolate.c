/* SPDX-License-Identifier: MIT */
#include "isolate.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base.h"
#include "files.h"

enum { EXIT_DONE, EXIT_FAILED, EXIT_CANCELED };

static volatile sig_atomic_t stopped; /* a signal handler has no other place */

static const int stop_signals[] = { SIGINT, SIGTERM, SIGHUP };

int isolate_stopped(void)
{
	return stopped;
}

static void on_stop(int sig)
{
	stopped = sig;
}

/* Returns with mounts that nobody else sees, /proc of our own processes, and `folder` in memory. */
static int enter_namespaces(const char *folder)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		return log_errno(errno, "cannot make a private mount namespace%s",
			errno == EINVAL ? " (in a chroot, its root has to be a mount point)" : "");
	if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return log_errno(errno, "cannot mount /proc for the benchmark's processes");
	if (mount("fstape", folder, "tmpfs", MS_NOSUID, "mode=0700,size=64m") < 0)
		return log_errno(errno, "%s: cannot mount a work folder in memory", folder);
	return 0;
}

/* The child. `parent_gone` becomes readable when the parent ends. */
static int child_main(const char *folder, int (*work)(void *arg), void *arg, bool root, int parent_gone)
{
	struct sigaction action = { .sa_handler = on_stop };
	struct pollfd gone = { .fd = parent_gone, .events = POLLIN };
	sigset_t none;
	int err;

	for (size_t i = 0; i < ARRAY_SIZE(stop_signals); i++)
		sigaction(stop_signals[i], &action, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* Should the parent be killed, we stop in good order. It may have been before the prctl(): hence the pipe. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (poll(&gone, 1, 0) != 0)
		return EXIT_CANCELED;
	err = root ? enter_namespaces(folder) : 0;
	err = err ?: work(arg);
	if (root && umount2(folder, UMOUNT_NOFOLLOW | MNT_DETACH) == 0)
		rmdir(folder);
	else if (!root)
		folder_remove(folder);
	return err == 0 ? EXIT_DONE : err == -ECANCELED ? EXIT_CANCELED : EXIT_FAILED;
}

/* Waits for the child and hands signals on. Those of the terminal's keys go to the child by themselves. */
static int supervise(pid_t pid, const sigset_t *signals)
{
	siginfo_t info;
	int status;

	for (;;) {
		int sig = sigwaitinfo(signals, &info);

		if (sig > 0 && sig != SIGCHLD && info.si_code != SI_KERNEL)
			kill(pid, sig);
		if (waitpid(pid, &status, WNOHANG) == pid)
			break;
	}
	if (WIFSIGNALED(status)) {
		log_msg("the benchmark was killed by signal %d; finished rounds are kept, 'fstape recover' "
			"finishes the last",
			WTERMSIG(status));
		return -EIO;
	}
	if (WEXITSTATUS(status) == EXIT_CANCELED)
		return -ECANCELED;
	return WEXITSTATUS(status) == EXIT_DONE ? 0 : -EIO;
}

/* Like fork(2). unshare(2) would do too, but leave this process unable to make threads or children of its own. */
static pid_t fork_into_pid_namespace(void)
{
	return (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL, NULL);
}

int isolate_run(const char *folder, int (*work)(void *arg), void *arg)
{
	bool root = geteuid() == 0;
	sigset_t signals, before;
	int fds[2], err;
	pid_t pid;

	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	for (size_t i = 0; i < ARRAY_SIZE(stop_signals); i++)
		sigaddset(&signals, stop_signals[i]);
	sigprocmask(SIG_BLOCK, &signals, &before);
	if (pipe2(fds, O_CLOEXEC) < 0)
		return log_errno(errno, "cannot start");
	pid = root ? fork_into_pid_namespace() : fork();
	if (pid < 0)
		return log_errno(errno,
			root ? "cannot make a process namespace (a container needs CAP_SYS_ADMIN for it)"
			     : "cannot start");
	if (pid == 0) {
		close(fds[1]);
		_exit(child_main(folder, work, arg, root, fds[0]));
	}
	close(fds[0]);
	err = supervise(pid, &signals);
	close(fds[1]);
	if (folder_remove(folder) < 0 && access(folder, F_OK) == 0)
		log_msg("%s: could not be removed", folder);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return err;
}
