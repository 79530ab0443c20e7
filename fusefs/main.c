/* SPDX-License-Identifier: MIT */
/* main.c - fstapefs: from the command line to the mount, and back. */
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "busguard.h"
#include "check.h"
#include "daemon.h"
#include "entry.h"
#include "guard.h"
#include "fdcache.h"
#include "lock.h"
#include "mount.h"
#include "mountinfo.h"
#include "node.h"
#include "path.h"
#include "readahead.h"
#include "recorder.h"
#include "runinfo.h"
#include "session.h"
#include "trace.h"
#include "who.h"
#include "worker.h"

#define LONG_TIMEOUT 1e8 /* seconds: for good */
#define GRACE_MS 5000	 /* for users of a mount that is asked to end */
#define TRIM_MS 5000

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INCOMPLETE = 3 };

static void set_defaults(struct options *o)
{
	double timeout;

	if (o->cache == CACHE_DEFAULT)
		o->cache = o->in_place ? CACHE_ALWAYS : CACHE_AUTO;
	timeout = o->cache == CACHE_ALWAYS ? LONG_TIMEOUT : o->cache == CACHE_AUTO ? 1 : 0;
	if (o->entry_timeout < 0)
		o->entry_timeout = timeout;
	if (o->attr_timeout < 0)
		o->attr_timeout = timeout;
}

/*
 * In the writeback cache a file's size and times are the kernel's. It would not see what others change below, and it sets
 * the times in whoever's files: only the owner and root can do that.
 */
static int check_modes(const struct fs *fs)
{
	if (fs->options.writeback && fs->options.cache != CACHE_ALWAYS) {
		log_msg("option writeback: the kernel does not notice then what others change in %s; if nobody does, say"
			" cache=always", fs->options.source);
		return -EINVAL;
	}
	if (fs->options.writeback && !fs->privileged) {
		log_msg("option writeback: for root's mounts only, as it sets the times of other users' files");
		return -EPERM;
	}
	return 0;
}

static int make_tables(struct fs *fs)
{
	struct inode_info info;
	int err = inode_info_at(fs->source_fd, "", &info);

	err = err ?: node_table_new(&fs->nodes);
	err = err ?: fdcache_new(fs, &fs->fdcache);
	err = err ?: node_make_root(fs, &info);
	if (err == 0)
		fs->mounts->root = fs->nodes->root;
	err = err ?: path_table_new(&fs->paths);
	err = err ?: who_table_new(&fs->who);
	err = err ?: lock_table_new(&fs->locks);
	return err < 0 ? log_errno(err, "%s", fs->options.source) : 0;
}

static void free_tables(struct fs *fs)
{
	lock_table_free(fs);
	who_table_free(fs);
	path_table_free(fs);
	node_table_free(fs);
	fdcache_free(fs);
}

/* Lazily: those who still use it go on, and the connection ends with the last of them. */
static void detach(struct fs *fs)
{
	const char *mountpoint = fs->options.mountpoint;
	char *argv[] = { "fusermount3", "-u", "-q", "-z", "--", (char *)(uintptr_t)mountpoint, NULL };
	pid_t pid;

	fs->detached = true;
	if (umount2(mountpoint, MNT_DETACH) == 0 || errno == EINVAL)
		return;
	if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) == 0)
		waitpid(pid, NULL, 0);
}

/* After a big tree has been forgotten its memory goes back to the system. */
static void trim_if_due(struct fs *fs, size_t *peak)
{
	size_t count;

	pthread_mutex_lock(&fs->nodes->lock);
	count = fs->nodes->count;
	pthread_mutex_unlock(&fs->nodes->lock);
	if (count > *peak)
		*peak = count;
	else if (*peak > 1000 && count < *peak / 2) {
		malloc_trim(0);
		*peak = count;
	}
}

/* What wait_for_end() waits for: the signals, and the workers of each mount. */
static struct pollfd *watch(const struct fs *fs, int signal_fd, size_t *ret_count)
{
	size_t count = 1;
	struct pollfd *fds;

	for (const struct mount *mount = fs->mounts; mount; mount = mount->next)
		count++;
	fds = calloc(count, sizeof(*fds));
	if (!fds)
		return NULL;
	*ret_count = count;
	*fds = (struct pollfd){ signal_fd, POLLIN, 0 };
	for (const struct mount *mount = fs->mounts; mount; mount = mount->next)
		fds[--count] = (struct pollfd){ worker_pool_fd(mount->pool), POLLIN, 0 };
	return fds;
}

/* Takes those that have ended out of the list. True: there are none left. */
static bool all_over(struct pollfd *fds, size_t count)
{
	bool over = true;

	for (size_t i = 1; i < count; i++) {
		if (fds[i].revents)
			fds[i].fd = -1;
		over &= fds[i].fd < 0;
	}
	return over;
}

/* Until every mount has ended. The first signal asks their users to finish, the second does not wait for them. */
static void wait_for_end(struct fs *fs, int signal_fd)
{
	size_t count = 0, peak = 0;
	auto_free struct pollfd *fds = watch(fs, signal_fd, &count);
	struct signalfd_siginfo info;
	int signals = 0;

	while (fds) {
		int got = poll(fds, count, signals ? GRACE_MS : TRIM_MS);

		if (got > 0 && all_over(fds, count))
			return;
		if (got == 0 && !signals)
			trim_if_due(fs, &peak);
		if ((got > 0 && read(signal_fd, &info, sizeof(info)) > 0) || (got == 0 && signals)) {
			if (signals++ == 0 && fs->recorder)
				recorder_hurry(fs->recorder);
			if (signals == 1)
				detach(fs);
			else
				for (struct mount *mount = fs->mounts; mount; mount = mount->next)
					worker_pool_stop(mount->pool);
		}
	}
}

static void note_capabilities(struct fs *fs)
{
	auto_free char *offered = NULL, *taken = NULL;
	uint64_t offered_bits, taken_bits;

	if (!fs->recorder)
		return;
	session_capabilities(fs->mounts->session, &offered_bits, &taken_bits);
	offered = runinfo_capabilities(offered_bits);
	taken = runinfo_capabilities(taken_bits);
	recorder_set_text(fs->recorder, "capabilities_offered", offered);
	recorder_set_text(fs->recorder, "capabilities_taken", taken);
	recorder_set_text(fs->recorder, "transport", fs->mounts->ring ? "uring" : "dev");
}

static void announce(struct fs *fs, struct daemon *daemon)
{
	if (fs->options.ready_fd >= 0) {
		dprintf(fs->options.ready_fd, "%lld\n",
			fs->recorder ? (long long)recorder_run(fs->recorder) : 0LL);
		close(fs->options.ready_fd);
	}
	daemon_ready(daemon);
}

static int mount_and_serve(struct fs *fs, struct daemon *daemon, int signal_fd)
{
	int err = readahead_start(fs, &fs->readahead);

	err = err ?: mount_start(fs->mounts);
	if (err == 0) {
		note_capabilities(fs);
		submounts_start(fs);
		announce(fs, daemon);
		wait_for_end(fs, signal_fd);
	}
	for (struct mount *mount = fs->mounts; mount; mount = mount->next)
		mount_stop(mount);
	readahead_stop(fs->readahead);
	lock_table_stop(fs);
	return err;
}

/* The innermost first. */
static void free_mounts(struct fs *fs)
{
	while (fs->mounts) {
		struct mount **last = &fs->mounts, *mount;

		while ((*last)->next)
			last = &(*last)->next;
		mount = *last;
		*last = NULL;
		mount_free(mount);
	}
}

/* Signals arrive here and nowhere else: every other thread is started with them blocked. */
static int catch_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	lock_signal_init();
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int run(struct fs *fs, struct daemon *daemon)
{
	int auto_close signal_fd = catch_signals();
	int err = signal_fd < 0 ? -errno : make_tables(fs), finished = 0;

	err = err ?: busguard_install();
	err = err ?: guard_new(&fs->guard);
	if (err == 0 && !fs->options.norecord) {
		err = recorder_open(fs, &fs->recorder);
		err = err ?: recorder_start(fs->recorder);
		if (err == 0)
			entry_initial_root(fs);
	}
	err = err ?: mount_and_serve(fs, daemon, signal_fd);
	if (err < 0 && fs->recorder)
		recorder_set_text(fs->recorder, "note", "nothing was recorded: the file system was not mounted");
	free_mounts(fs);
	/* The source is let go first: loading may take a while, and people unmount it next. */
	free_tables(fs);
	close(fs->source_fd);
	fs->source_fd = -1;
	if (fs->recorder)
		finished = recorder_finish(fs->recorder);
	recorder_free(fs->recorder);
	guard_free(fs->guard);
	return err < 0 ? EXIT_FAILED : finished < 0 ? EXIT_INCOMPLETE : EXIT_OK;
}

static void print_version(void)
{
	printf("fstapefs %s\nFUSE library version %s\n", FSTAPE_VERSION, fuse_pkgversion());
	fuse_lowlevel_version();
}

static int start(struct fs *fs, struct fuse_args *args)
{
	struct options *o = &fs->options;
	struct daemon daemon;
	int err, status = EXIT_FAILED;

	fs->privileged = geteuid() == 0;
	trace_memory_setup(); /* if it cannot be, all that is lost is speed */
	if (sched_getaffinity(0, sizeof(fs->processors), &fs->processors) < 0)
		CPU_ZERO(&fs->processors); /* more than a cpu_set_t can name: then no thread keeps to one */
	fs->source_fd = check_source(o->source);
	if (fs->source_fd < 0)
		return EXIT_FAILED;
	err = check_mountpoint(o, fs->source_fd);
	err = err ?: o->db ? check_database(o) : 0;
	err = err ?: check_fuse();
	if (err < 0)
		return EXIT_FAILED;
	set_defaults(o);
	if (check_modes(fs) < 0)
		return EXIT_USAGE;
	fs->source_mounts = mountinfo_read();
	fs->mount_args = args;
	if (mount_new(fs, o->source, o->mountpoint, NULL, &fs->mounts) < 0) {
		log_msg("fstapefs -h prints help");
		mountinfo_free(fs->source_mounts);
		return EXIT_USAGE;
	}
	mallopt(M_ARENA_MAX, 2); /* more of them would keep the memory of forgotten trees */
	mallopt(M_MMAP_THRESHOLD, 256 << 10); /* buffers of that size go back at once when they are freed */
	if (daemon_start(&daemon, o->foreground) == 0)
		status = run(fs, &daemon);
	mountinfo_free(fs->source_mounts);
	return status;
}

/* libfuse's own messages, in our name; what -d prints stays as it is. A message may come in pieces. */
static void log_libfuse(enum fuse_log_level level, const char *fmt, va_list ap)
{
	static _Thread_local char line[1024];
	size_t len = strlen(line);

	if (level >= FUSE_LOG_DEBUG) {
		vfprintf(stderr, fmt, ap);
		return;
	}
	vsnprintf(line + len, sizeof(line) - len, fmt, ap);
	len = strlen(line);
	if (len + 1 < sizeof(line) && (!len || line[len - 1] != '\n'))
		return;
	if (line[len - 1] == '\n')
		line[len - 1] = '\0';
	log_msg("%s", strncmp(line, "fuse: ", 6) == 0 ? line + 6 : line);
	line[0] = '\0';
}

int main(int argc, char **argv)
{
	struct fuse_args args = FUSE_ARGS_INIT(argc, argv);
	struct fs fs = { .source_fd = -1, .backing_lock = PTHREAD_MUTEX_INITIALIZER };
	int status;

	log_set_program("fstapefs");
	fuse_set_log_func(log_libfuse);
	if (options_parse(&fs.options, &args) < 0) {
		status = EXIT_USAGE;
	} else if (fs.options.show_help) {
		options_help();
		status = EXIT_OK;
	} else if (fs.options.show_version) {
		print_version();
		status = EXIT_OK;
	} else {
		status = start(&fs, &args);
	}
	if (fs.source_fd >= 0)
		close(fs.source_fd);
	options_free(&fs.options);
	fuse_opt_free_args(&args);
	return status;
}
