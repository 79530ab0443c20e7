/* SPDX-License-Identifier: MIT */
#include "cred.h"

#include <linux/capability.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static _Thread_local struct {
	uid_t uid;
	gid_t gid;
	uint32_t without; /* capabilities */
	bool groups; /* a caller's supplementary ones */
	mode_t umask;
} now;

static int capability_call(long number, struct __user_cap_header_struct *header, struct __user_cap_data_struct *data)
{
	*header = (struct __user_cap_header_struct){ _LINUX_CAPABILITY_VERSION_3, 0 };
	return (int)syscall(number, header, data);
}

/* Everything that is permitted but `without`. Of this thread only: the bare system calls, not libc's. */
static void raise_capabilities(uint32_t without)
{
	struct __user_cap_header_struct header;
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (capability_call(SYS_capget, &header, data) < 0)
		return;
	for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		data[i].effective = data[i].permitted;
	data[0].effective &= ~without;
	capability_call(SYS_capset, &header, data);
}

static void leave_groups(void)
{
	if (now.groups)
		syscall(SYS_setgroups, 0, NULL);
	now.groups = false;
}

static void become(uid_t uid, gid_t gid, uint32_t without)
{
	bool ids = now.uid != uid || now.gid != gid;

	leave_groups();
	if (!ids && now.without == without)
		return;
	if (ids) {
		syscall(SYS_setfsgid, gid);
		syscall(SYS_setfsuid, uid);
	}
	raise_capabilities(without);
	now.uid = uid;
	now.gid = gid;
	now.without = without;
}

void cred_as_caller(struct fs *fs, const struct call *c)
{
	if (now.umask != c->umask) {
		umask(c->umask);
		now.umask = c->umask;
	}
	if (fs->privileged)
		become(c->uid, c->gid, 0);
}

void cred_as_self(struct fs *fs, uint32_t without)
{
	if (fs->privileged)
		become(0, 0, without);
}

void cred_as_member(struct fs *fs, uid_t uid, gid_t gid, const gid_t *groups, int count, uint32_t without)
{
	if (!fs->privileged)
		return;
	become(uid, gid, without);
	syscall(SYS_setgroups, (size_t)count, groups);
	now.groups = true;
}

void cred_thread_init(struct fs *fs)
{
	unshare(CLONE_FS);
	umask(0);
	now.umask = 0;
	if (!fs->privileged)
		return;
	/* A thread begins with the credentials of the one that started it, which may be acting for a caller. */
	syscall(SYS_setgroups, 0, NULL);
	syscall(SYS_setfsgid, 0);
	syscall(SYS_setfsuid, 0);
	raise_capabilities(0);
}
