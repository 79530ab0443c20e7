/* SPDX-License-Identifier: MIT */
#include "shim.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "mountinfo.h"
#include "quiesce.h"

#define DEVICE "/dev/fuse"

static bool in_path(const char *name)
{
	const char *path = getenv("PATH") ?: "/usr/bin:/bin";

	while (*path) {
		size_t len = strcspn(path, ":");
		auto_free char *file = NULL;

		if (asprintf(&file, "%.*s/%s", (int)len, path, name) < 0)
			return false;
		if (access(file, X_OK) == 0)
			return true;
		path += len + (path[len] == ':');
	}
	return false;
}

/* As linux/miscdevice.h has it; in a container another file may be in its place. */
static bool device_exists(void)
{
	struct stat st;

	return stat(DEVICE, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(10, 229);
}

/* Why an ordinary user cannot have a private mount over `directory`, or NULL when he can. */
static const char *no_private_mount(const char *directory)
{
	struct stat st;

	if (access(DEVICE, R_OK | W_OK) < 0)
		return "you may not open " DEVICE;
	/* other ids than one's own do not exist in the namespace: the kernel would refuse to write there */
	if (stat(directory, &st) == 0 && (st.st_uid != geteuid() || st.st_gid != getegid()))
		return "the directory is not of your user and group";
	if (namespace_probe() < 0)
		return "this system gives you no user namespaces";
	return NULL;
}

int shim_choose(const char *directory, bool public, enum shim_place *ret_place, const char **ret_why)
{
	*ret_why = NULL;
	if (!device_exists()) {
		log_msg("there is no " DEVICE
			": the kernel's FUSE is missing (try 'modprobe fuse'; in a container, hand"
			" the device in)");
		return -ENODEV;
	}
	if (geteuid() == 0) {
		*ret_place = public ? SHIM_PUBLIC : SHIM_PRIVATE;
		return 0;
	}
	if (!public && !(*ret_why = no_private_mount(directory))) {
		*ret_place = SHIM_PRIVATE_USER;
		return 0;
	}
	if (!in_path("fusermount3")) {
		if (*ret_why)
			log_msg("%s: cannot mount over it: %s, and there is no fusermount3 (package fuse3)",
				directory, *ret_why);
		else
			log_msg("%s: a public mount needs fusermount3 (package fuse3), or root", directory);
		return -ENOENT;
	}
	*ret_place = SHIM_PUBLIC_USER;
	return 0;
}

void shim_option(struct strbuf *options, const char *name, const char *value)
{
	if (options->len)
		strbuf_add(options, ",", 1);
	strbuf_addf(options, "%s%s", name, value ? "=" : "");
	for (const char *c = value ?: ""; *c; c++) {
		if (*c == ',' || *c == '\\')
			strbuf_add(options, "\\", 1);
		strbuf_add(options, c, 1);
	}
}

/* Beside this program, installed or in a build tree, or else in PATH. */
static int find_program(char path[static PATH_MAX])
{
	static const char *const places[] = { "fstapefs", "../fusefs/fstapefs", "../sbin/fstapefs",
		"../bin/fstapefs" };
	char self[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (len > 0) {
		self[len] = '\0';
		slash = strrchr(self, '/');
		for (size_t i = 0; slash && i < ARRAY_SIZE(places); i++) {
			int n = snprintf(path, PATH_MAX, "%.*s/%s", (int)(slash - self), self, places[i]);

			if (n < PATH_MAX && access(path, X_OK) == 0)
				return 0;
		}
	}
	if (!in_path("fstapefs"))
		return -ENOENT;
	snprintf(path, PATH_MAX, "fstapefs");
	return 0;
}

static int enter_place(const struct shim *shim)
{
	int err = 0;

	if (shim->place == SHIM_PRIVATE)
		err = namespace_new(false);
	else if (shim->place == SHIM_PRIVATE_USER)
		err = namespace_new(true) ?: namespace_keep_rights();
	return err < 0 ? log_errno(err, "cannot make a private mount namespace (--public does without)") : 0;
}

/* In the child. Descriptors but the standard ones and `ready` close by themselves. */
static void execute(
	const struct shim *shim, const char *program, char *options, int ready, const sigset_t *signals)
{
	char *argv[] = { "fstapefs", "-f", "-o", options, (char *)shim->mountpoint, (char *)shim->mountpoint,
		NULL };
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	setsid();
	if (enter_place(shim) < 0)
		_exit(1);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ||
		chdir("/") < 0 || fcntl(ready, F_SETFD, 0) < 0 ||
		sigprocmask(SIG_SETMASK, signals, NULL) < 0) {
		log_errno(errno, "cannot start fstapefs");
		_exit(1);
	}
	for (int sig = 1; sig < SIGRTMIN; sig++)
		signal(sig, SIG_DFL);
	execvp(program, argv);
	log_errno(errno, "%s: cannot be executed", program);
	_exit(1);
}

int shim_start(struct shim *shim, const char *options, const sigset_t *signals)
{
	auto_free char *all = NULL;
	char program[PATH_MAX];
	int fds[2], err;

	shim->pid = 0;
	shim->ready = -1;
	shim->namespace = NAMESPACE_OWN;
	if (find_program(program) < 0) {
		log_msg("fstapefs is neither beside this program nor in PATH: is fstape installed "
			"completely?");
		return -ENOENT;
	}
	if (pipe2(fds, O_CLOEXEC) < 0)
		return log_errno(errno, "cannot start fstapefs");
	if (asprintf(&all, "%s,ready_fd=%d", options, fds[1]) < 0)
		all = NULL;
	shim->pid = all ? fork() : -1;
	if (shim->pid == 0)
		execute(shim, program, all, fds[1], signals);
	close(fds[1]);
	if (shim->pid < 0) {
		err = errno;
		shim->pid = 0;
		close(fds[0]);
		return log_errno(err, "cannot start fstapefs");
	}
	shim->ready = fds[0];
	err = keeper_start(&shim->keeper, shim->pid);
	if (err < 0)
		log_errno(err, "fstapefs will stay when fstape is killed"); /* nothing else depends on it */
	return 0;
}

int shim_joinable(struct shim *shim)
{
	int err;

	if (shim->place == SHIM_PUBLIC || shim->place == SHIM_PUBLIC_USER)
		return 0;
	err = namespace_of(shim->pid, shim->place == SHIM_PRIVATE_USER, &shim->namespace);
	return err < 0 ? log_errno(err, "cannot join the mount namespace of fstapefs") : 0;
}

/* Its exit status, or -errno; -ECHILD: a signal has ended it. */
static int await_child(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -ECHILD;
}

/* fusermount3 says what went wrong in words only; EBUSY is by far the most likely. */
static int unmount_by_helper(const char *mountpoint, bool lazy)
{
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

		dup2(null, STDERR_FILENO);
		execlp("fusermount3", "fusermount3", lazy ? "-uz" : "-u", "--", mountpoint, NULL);
		_exit(127);
	}
	return await_child(pid) == 0 ? 0 : -EBUSY;
}

/*
 * The shim's mounts inside its mount, the innermost first: each filesystem inside the source has one. `by_helper`: with
 * fusermount3. 0 or -errno of the first that can't be unmounted.
 */
static int unmount_submounts(const char *mountpoint, const struct mountinfo *list, bool by_helper)
{
	size_t len = strlen(mountpoint);
	int err;

	if (!list)
		return 0;
	err = unmount_submounts(mountpoint, list->next, by_helper);
	if (err < 0 || strcmp(list->fs_type, "fuse.fstapefs") != 0 ||
		strncmp(list->mountpoint, mountpoint, len) != 0 || list->mountpoint[len] != '/')
		return err;
	quiesce(list->mountpoint);
	if (by_helper)
		return unmount_by_helper(list->mountpoint, false);
	return umount2(list->mountpoint, UMOUNT_NOFOLLOW) < 0 ? -errno : 0;
}

/* The mount with what is in it; lazily, that goes along by itself. */
static int unmount_tree(const char *mountpoint, int flags, bool by_helper)
{
	struct mountinfo *list = flags & MNT_DETACH ? NULL : mountinfo_read();
	int err = unmount_submounts(mountpoint, list, by_helper);

	mountinfo_free(list);
	if (err < 0)
		return err;
	if (by_helper)
		return unmount_by_helper(mountpoint, flags & MNT_DETACH);
	return umount2(mountpoint, flags) < 0 ? -errno : 0;
}

/* -errno of umount2(2), called in the shim's namespaces by a child. */
static int unmount_inside(const struct shim *shim, int flags)
{
	pid_t pid = fork();
	int err;

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		err = namespace_join(&shim->namespace);
		if (err == 0 && !(flags & MNT_DETACH))
			quiesce(shim->mountpoint);
		if (err == 0)
			err = unmount_tree(shim->mountpoint, flags, false);
		_exit(-err);
	}
	err = await_child(pid);
	return err < 0 ? err : -err;
}

int shim_unmount(const struct shim *shim, bool lazy)
{
	int flags = UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0);
	bool public = shim->place == SHIM_PUBLIC || shim->place == SHIM_PUBLIC_USER;

	if (public && !lazy)
		quiesce(shim->mountpoint);

	switch (shim->place) {
	case SHIM_PUBLIC:
		return unmount_tree(shim->mountpoint, flags, false);
	case SHIM_PUBLIC_USER:
		return unmount_tree(shim->mountpoint, flags, true);
	default:
		return unmount_inside(shim, flags);
	}
}

void shim_close(struct shim *shim)
{
	if (shim->ready >= 0)
		close(shim->ready);
	shim->ready = -1;
	keeper_release(&shim->keeper);
	namespace_close(&shim->namespace);
}
