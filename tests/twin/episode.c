/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "twin.h"

#define PATIENCE_MS 60000 /* without a step: the world hangs */

static void home_of(const struct twin *twin, const char *top, char path[static PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/twin-%u", top, twin->episodes);
}

static int make_home(const struct twin *twin, int which)
{
	char path[PATH_MAX];

	home_of(twin, twin->dirs[which], path);
	if (mkdir(path, 0777) < 0 || chmod(path, 0777) < 0)
		return log_errno(errno, "cannot make '%s'", path);
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st, (void)ftw;
	return kind == FTW_DP || kind == FTW_D || kind == FTW_DNR ? rmdir(path) : unlink(path);
}

static int remove_home(const struct twin *twin, int which)
{
	char path[PATH_MAX];

	home_of(twin, twin->dirs[which], path);
	if (!twin->keep && nftw(path, remove_one, 32, FTW_DEPTH | FTW_PHYS) < 0)
		return log_errno(errno, "cannot remove '%s'", path);
	return 0;
}

static pid_t start(const struct twin *twin, int which, const struct step *steps, size_t count)
{
	struct memory *memory = twin->memories[which];
	char path[PATH_MAX];
	pid_t pid;

	home_of(twin, twin->dirs[which], path);
	atomic_store(&memory->begun, 0);
	memory->used = 0;
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		world_run(path, memory, steps, count);
	return pid;
}

/* Waits for a world; how it ended when not as it should, in `end`. */
static void finish(struct memory *memory, pid_t pid, size_t count, char end[static 80])
{
	int auto_close fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	uint32_t begun;
	int status = 0;

	do
		begun = atomic_load(&memory->begun);
	while (poll(&poll_fd, 1, PATIENCE_MS) == 0 && atomic_load(&memory->begun) != begun);
	if (waitpid(pid, &status, WNOHANG) == 0) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		snprintf(end, 80, "no answer within %d s", PATIENCE_MS / 1000);
	} else if (WIFSIGNALED(status)) {
		snprintf(end, 80, "killed by signal %d", WTERMSIG(status));
	} else if (WEXITSTATUS(status) != 0) {
		snprintf(end, 80, "ended with exit status %d", WEXITSTATUS(status));
	} else if (atomic_load(&memory->begun) != count) {
		snprintf(end, 80, "ended early");
	}
}

/* --- comparison ---------------------------------------------------------------------------------------------------- */

/* Copies the line at `at` of a text, with what does not print made visible. */
static void copy_line(const char *text, size_t at, char *out, size_t size)
{
	size_t used = 0;

	while (at > 0 && text[at - 1] != '\n')
		at--;
	for (; text[at] && text[at] != '\n' && used + 5 < size; at++) {
		if (text[at] < ' ')
			used += (size_t)snprintf(out + used, size - used, "\\%03o", (unsigned char)text[at]);
		else
			out[used++] = text[at];
	}
	out[used] = '\0';
}

static bool texts_differ(const char *a, const char *b, struct difference *d)
{
	size_t at = 0;

	if (strcmp(a, b) == 0)
		return false;
	while (a[at] == b[at])
		at++;
	copy_line(a, at, d->text[0], sizeof(d->text[0]));
	copy_line(b, at, d->text[1], sizeof(d->text[1]));
	return true;
}

static bool steps_differ(const struct twin *twin, size_t count, char ends[2][80], struct difference *d)
{
	const struct memory *a = twin->memories[0], *b = twin->memories[1];
	uint32_t begun_a = atomic_load(&a->begun), begun_b = atomic_load(&b->begun);

	for (size_t i = 0; i < count; i++) {
		bool last_a = ends[0][0] && i + 1 >= begun_a, last_b = ends[1][0] && i + 1 >= begun_b;

		d->step = i;
		if (last_a || last_b) {
			snprintf(d->text[0], sizeof(d->text[0]), "%s", last_a ? ends[0] : "lives");
			snprintf(d->text[1], sizeof(d->text[1]), "%s", last_b ? ends[1] : "lives");
			return true;
		}
		if (texts_differ(a->text + a->outcomes[i], b->text + b->outcomes[i], d))
			return true;
	}
	return false;
}

/* --- what the mount shows against what is below -------------------------------------------------------------------- */

static bool attributes_differ(const char *path, const struct stat *a, const struct stat *b, struct difference *d)
{
	if (a->st_ino == b->st_ino && a->st_mode == b->st_mode && a->st_nlink == b->st_nlink && a->st_uid == b->st_uid &&
		a->st_gid == b->st_gid && a->st_size == b->st_size &&
		a->st_rdev == b->st_rdev && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
		a->st_mtim.tv_nsec == b->st_mtim.tv_nsec && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
		a->st_ctim.tv_nsec == b->st_ctim.tv_nsec)
		return false;
	for (int i = 0; i < 2; i++) {
		const struct stat *st = i ? b : a;

		snprintf(d->text[i], sizeof(d->text[i]),
			"%s%s: ino=%ju mode=%o nlink=%ju uid=%u gid=%u size=%jd mtime=%jd.%09ld ctime=%jd.%09ld",
			i ? "the mount has " : "below is ", path, (uintmax_t)st->st_ino, st->st_mode,
			(uintmax_t)st->st_nlink, st->st_uid, st->st_gid, (intmax_t)st->st_size,
			(intmax_t)st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
			(intmax_t)st->st_ctim.tv_sec, st->st_ctim.tv_nsec);
	}
	return true;
}

static bool missing(const char *path, struct difference *d)
{
	snprintf(d->text[0], sizeof(d->text[0]), "below is %s", path);
	snprintf(d->text[1], sizeof(d->text[1]), "the mount: %s", strerror(errno));
	return true;
}

/* Each name below as the mount shows it, attributes first: what it has in its caches, before anything is asked anew. */
static bool trees_differ(int below_at, int shown_at, const char *name, struct difference *d)
{
	int fd = openat(below_at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NOATIME | O_CLOEXEC);
	int auto_close shown = openat(shown_at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	bool found = false;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	if (shown < 0)
		found = missing(name, d);
	while (!found && (entry = readdir(dir))) {
		struct stat a, b;

		if (strcmp(entry->d_name, "..") == 0 || fstatat(fd, entry->d_name, &a, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (fstatat(shown, entry->d_name, &b, AT_SYMLINK_NOFOLLOW) < 0)
			found = missing(entry->d_name, d);
		else
			found = attributes_differ(entry->d_name, &a, &b, d);
		if (!found && S_ISDIR(a.st_mode) && strcmp(entry->d_name, ".") != 0)
			found = trees_differ(fd, shown, entry->d_name, d);
	}
	closedir(dir);
	return found;
}

static bool below_differs(const struct twin *twin, size_t count, struct difference *d)
{
	char shown[PATH_MAX], below[PATH_MAX];
	int auto_close shown_fd = -1;
	int auto_close below_fd = -1;

	if (!twin->below)
		return false;
	home_of(twin, twin->dirs[1], shown);
	home_of(twin, twin->below, below);
	shown_fd = open(shown, O_PATH | O_DIRECTORY | O_CLOEXEC);
	below_fd = open(below, O_PATH | O_DIRECTORY | O_CLOEXEC);
	d->step = count - 1;
	if (shown_fd < 0 || below_fd < 0)
		return missing(below, d);
	return trees_differ(below_fd, shown_fd, ".", d);
}

int episode_run(struct twin *twin, const struct step *steps, size_t count, struct difference *ret_difference)
{
	char ends[2][80] = {};
	pid_t pids[2];
	int found, err = 0;

	twin->episodes++;
	for (int i = 0; i < 2; i++) {
		err = make_home(twin, i);
		if (err < 0)
			return err;
	}
	for (int i = 0; i < 2; i++)
		pids[i] = start(twin, i, steps, count);
	for (int i = 0; i < 2; i++)
		if (pids[i] < 0)
			err = log_errno(errno, "cannot start a process");
		else
			finish(twin->memories[i], pids[i], count, ends[i]);
	found = err < 0 ? err :
			  steps_differ(twin, count, ends, ret_difference) || below_differs(twin, count, ret_difference);
	for (int i = 0; i < 2; i++)
		err = err ?: remove_home(twin, i);
	return err ?: found;
}
