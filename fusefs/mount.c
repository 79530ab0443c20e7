/* SPDX-License-Identifier: MIT */
#include "mount.h"

#include <poll.h>
#include <string.h>
#include <sys/statvfs.h>

#include "backing.h"
#include "bind.h"
#include "fdcache.h"
#include "fuse_abi.h"
#include "ring.h"
#include "session.h"
#include "worker.h"

#define INIT_MS 10000

/*
 * What the mount below forbids as a mount, the kernel has to forbid above, as it never asks a filesystem: access(2) and
 * statvfs(2) are to tell of a read-only mount, and nothing is to run from a noexec one. Users' own options come later
 * and win.
 */
static const char *flags_below(struct fs *fs, struct node *root)
{
	static const char *const texts[] = { "", ",ro", ",noexec", ",ro,noexec" };
	struct statvfs below = {};
	struct fdref ref = { .fd = fs->source_fd };

	if (root && fdref_get(fs, root, &ref) < 0)
		return "";
	if (fstatvfs(ref.fd, &below) < 0)
		below.f_flag = 0;
	if (root)
		fdref_put(fs, &ref);
	return texts[(below.f_flag & ST_RDONLY ? 1 : 0) | (below.f_flag & ST_NOEXEC ? 2 : 0)];
}

/* The mount's name in /proc/mounts, with what libfuse's parser takes for its own escaped. */
static int add_own_options(struct mount *mount, struct fuse_args *args, const char *source)
{
	struct strbuf auto_strbuf option = {};

	strbuf_addf(&option, "-osubtype=fstapefs%s%s,fsname=",
		mount->fs->privileged ? ",default_permissions" : "", flags_below(mount->fs, mount->root));
	for (const char *at = source; *at; at++)
		strbuf_addf(&option, "%s%c", *at == ',' || *at == '\\' ? "\\" : "", *at);
	return option.failed || fuse_opt_insert_arg(args, 1, option.buf) < 0 ? -ENOMEM : 0;
}

/* libfuse takes out of its arguments what it understands, and there may be several mounts. */
static struct fuse_session *make_session(struct mount *mount, const char *source)
{
	const struct fuse_args *given = mount->fs->mount_args;
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	struct fuse_lowlevel_ops ops = bind_ops;
	struct fuse_session *se = NULL;
	int err = 0;

	ops.init = session_init;
	for (int i = 0; i < given->argc && err == 0; i++)
		err = fuse_opt_add_arg(&args, given->argv[i]);
	if (err == 0 && add_own_options(mount, &args, source) == 0)
		se = fuse_session_new(&args, &ops, sizeof(ops), mount);
	fuse_opt_free_args(&args);
	return se;
}

int mount_new(struct fs *fs, const char *source, const char *mountpoint, struct node *root, struct mount **ret_mount)
{
	struct mount *mount = calloc(1, sizeof(*mount));

	if (!mount)
		return log_errno(ENOMEM, "%s", mountpoint);
	mount->fs = fs;
	mount->root = root;
	mount->mountpoint = strdup(mountpoint);
	mount->se = make_session(mount, source);
	if (!mount->mountpoint || !mount->se || session_new(&mount->session) < 0) {
		mount_free(mount);
		return -EINVAL; /* libfuse has said why */
	}
	*ret_mount = mount;
	return 0;
}

/* The kernel has its answer to INIT, or has gone. */
static int wait_for_init(struct mount *mount)
{
	struct pollfd fds[] = {
		{ session_ready_fd(mount->session), POLLIN, 0 },
		{ worker_pool_fd(mount->pool), POLLIN, 0 },
	};

	while (poll(fds, 2, INIT_MS) < 0 && errno == EINTR)
		;
	if (fds[0].revents)
		return 0;
	log_msg("%s: the kernel does not take up the mount", mount->mountpoint);
	return -EIO;
}

/* What the user chose and the kernel may not have. */
static int check_modes(struct mount *mount)
{
	uint64_t offered, taken;

	if (!mount->fs->options.data_passthrough)
		return 0;
	session_capabilities(mount->session, &offered, &taken);
	if (taken & FUSE_PASSTHROUGH)
		return backing_probe(mount);
	log_msg("data_passthrough: this kernel cannot do that; Linux 6.9 and newer can");
	return -EOPNOTSUPP;
}

/* Before INIT is answered: from there on the kernel waits for the ring. */
static int choose_transport(struct mount *mount)
{
	const struct options *options = &mount->fs->options;
	const char *why_not;
	int err;

	if (options->transport == TRANSPORT_DEV)
		return 0;
	err = ring_new(mount, &mount->ring, &why_not);
	if (err == 0)
		return 0;
	if (options->transport == TRANSPORT_URING)
		return log_msg("transport=uring: %s", why_not), err;
	if (options->transport == TRANSPORT_AUTO && mount == mount->fs->mounts)
		log_msg("transport=auto: requests come through /dev/fuse: %s", why_not);
	return 0;
}

int mount_start(struct mount *mount)
{
	int err;

	if (fuse_session_mount(mount->se, mount->mountpoint) != 0) {
		log_msg("%s: cannot mount%s", mount->mountpoint,
			mount->fs->privileged ?
				"" :
				" (as an ordinary user this needs fusermount3, of the package fuse3)");
		return -EIO;
	}
	mount->mounted = true;
	err = choose_transport(mount);
	if (err < 0)
		return err;
	err = worker_pool_start(mount, &mount->pool);
	if (err < 0)
		return log_errno(err, "%s: cannot serve", mount->mountpoint);
	err = wait_for_init(mount);
	err = err ?: check_modes(mount);
	if (err == 0 && mount->ring) {
		err = ring_start(mount->ring);
		if (err < 0)
			log_errno(err, "%s: cannot serve through io_uring; transport=dev does without", mount->mountpoint);
	}
	return err;
}

void mount_attributes_changed(struct mount *mount, const struct node *node)
{
	fuse_lowlevel_notify_inval_inode(mount->se, mount_ino(mount, node), -1, 0); /* -1: not the contents */
}

void mount_stop(struct mount *mount)
{
	ring_stop(mount->ring);
	if (!mount->pool)
		return;
	worker_pool_stop(mount->pool);
	worker_pool_free(mount->pool);
	mount->pool = NULL;
}

void mount_free(struct mount *mount)
{
	if (!mount)
		return;
	mount_stop(mount);
	if (mount->mounted && !mount->fs->detached) /* else there is nothing there, or something that is not ours */
		fuse_session_unmount(mount->se);
	ring_free(mount->ring); /* what was deferred has been answered, or will not be */
	if (mount->se)
		fuse_session_destroy(mount->se);
	session_free(mount->session);
	free(mount->mountpoint);
	free(mount);
}
