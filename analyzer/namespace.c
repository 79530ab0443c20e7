/* SPDX-License-Identifier: MIT */
#include "namespace.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base.h"

static int write_file(const char *path, const char *text, size_t len)
{
	int auto_close fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return write(fd, text, len) < 0 ? -errno : 0;
}

static int map_id(const char *path, unsigned int id)
{
	char line[40];

	return write_file(path, line, (size_t)snprintf(line, sizeof(line), "%u %u 1\n", id, id));
}

int namespace_new(bool user)
{
	unsigned int uid = geteuid(), gid = getegid();
	int err = 0;

	if (unshare(CLONE_NEWNS | (user ? CLONE_NEWUSER : 0)) < 0)
		return -errno;
	if (user) {
		err = write_file("/proc/self/setgroups", "deny", 4); /* user_namespaces(7): else no gid_map */
		err = err ?: map_id("/proc/self/uid_map", uid);
		err = err ?: map_id("/proc/self/gid_map", gid);
	}
	if (err == 0 && mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		err = -errno;
	return err;
}

int namespace_probe(void)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return -errno;
	if (pid == 0)
		_exit(-namespace_new(true));
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -ECHILD;
}

int namespace_keep_rights(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};

	data[CAP_TO_INDEX(CAP_SYS_ADMIN)].effective = CAP_TO_MASK(CAP_SYS_ADMIN);
	data[CAP_TO_INDEX(CAP_SYS_ADMIN)].permitted = CAP_TO_MASK(CAP_SYS_ADMIN);
	data[CAP_TO_INDEX(CAP_SYS_ADMIN)].inheritable = CAP_TO_MASK(CAP_SYS_ADMIN);
	if (syscall(SYS_capset, &header, data) < 0)
		return -errno;
	return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0) < 0 ? -errno : 0;
}

static int open_of(pid_t pid, const char *what, int flags, int *ret_fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);
	*ret_fd = open(path, flags | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

int namespace_of(pid_t pid, bool user, struct namespace *ret_namespace)
{
	struct namespace namespace = NAMESPACE_OWN;
	int err = open_of(pid, "ns/mnt", O_RDONLY, &namespace.mount);

	if (err == 0 && user)
		err = open_of(pid, "ns/user", O_RDONLY, &namespace.user);
	if (err == 0)
		err = open_of(pid, "root", O_PATH | O_DIRECTORY, &namespace.root);
	if (err < 0)
		namespace_close(&namespace);
	else
		*ret_namespace = namespace;
	return err;
}

void namespace_close(struct namespace *namespace)
{
	if (namespace->user >= 0)
		close(namespace->user);
	if (namespace->mount >= 0)
		close(namespace->mount);
	if (namespace->root >= 0)
		close(namespace->root);
	*namespace = NAMESPACE_OWN;
}

int namespace_join(const struct namespace *namespace)
{
	if (namespace->user >= 0 && setns(namespace->user, CLONE_NEWUSER) < 0)
		return -errno;
	if (namespace->mount >= 0 && setns(namespace->mount, CLONE_NEWNS) < 0)
		return -errno;
	/* setns(2) leads to the root of the namespace: out of a chroot, where the paths are others */
	if (namespace->root >= 0 && (fchdir(namespace->root) < 0 || chroot(".") < 0))
		return -errno;
	return 0;
}
