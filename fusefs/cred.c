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
	bool no_fsetid;
	mode_t umask;
} now;

static int capability_call(long number, struct __user_cap_header_struct *header, struct __user_cap_data_struct *data)
{
	*header = (struct __user_cap_header_struct){ _LINUX_CAPABILITY_VERSION_3, 0 };
	return (int)syscall(number, header, data);
}

/* Everything that is permitted, but CAP_FSETID perhaps. Of this thread only: the bare system calls, not libc's. */
static void raise_capabilities(bool no_fsetid)
{
	struct __user_cap_header_struct header;
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (capability_call(SYS_capget, &header, data) < 0)
		return;
	for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		data[i].effective = data[i].permitted;
	if (no_fsetid)
		data[0].effective &= ~(1u << CAP_FSETID);
	capability_call(SYS_capset, &header, data);
}

static void become(uid_t uid, gid_t gid, bool no_fsetid)
{
	bool ids = now.uid != uid || now.gid != gid;

	if (!ids && now.no_fsetid == no_fsetid)
		return;
	if (ids) {
		syscall(SYS_setfsgid, gid);
		syscall(SYS_setfsuid, uid);
	}
	raise_capabilities(no_fsetid);
	now.uid = uid;
	now.gid = gid;
	now.no_fsetid = no_fsetid;
}

void cred_as_caller(struct fs *fs, const struct call *c)
{
	if (now.umask != c->umask) {
		umask(c->umask);
		now.umask = c->umask;
	}
	if (fs->privileged)
		become(c->uid, c->gid, false);
}

void cred_as_self(struct fs *fs, const struct call *c)
{
	if (fs->privileged)
		become(0, 0, c->kill_suidgid);
}

void cred_thread_init(void)
{
	unshare(CLONE_FS);
	umask(0);
	now.umask = 0;
}
