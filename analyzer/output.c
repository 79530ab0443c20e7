/* SPDX-License-Identifier: MIT */
#include "output.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base.h"
#include "sink.h"

/* Takes `fd` over. What `write` does not say is said here: that the file could not take it, and why. */
static int write_to(int fd, const char *path, int (*write)(FILE *, void *), void *arg)
{
	struct sink sink;
	FILE *out = sink_open(&sink, fd);
	int err, failed;

	if (!out) {
		err = log_errno(errno, "cannot write %s", path);
		close(fd);
		return err;
	}
	err = write(out, arg);
	failed = ferror(out);
	if (failed && err != -EINTR)
		err = 0; /* it is left to us */
	failed = sink_close(&sink, out);
	return failed < 0 && err == 0 ? log_errno(failed, "cannot write %s", path) : err;
}

static int write_regular(const char *path, int (*write)(FILE *, void *), void *arg)
{
	auto_free char *temp = NULL;
	int fd, err;

	if (asprintf(&temp, "%s.new-%d", path, getpid()) < 0)
		return log_errno(ENOMEM, "%s", path);
	fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return log_errno(errno, "cannot write %s", path);
	err = write_to(fd, path, write, arg);
	if (err == 0 && rename(temp, path) < 0)
		err = log_errno(errno, "cannot write %s", path);
	if (err < 0)
		unlink(temp);
	return err;
}

static int write_special(const char *path, int (*write)(FILE *, void *), void *arg)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

	if (fd < 0)
		return log_errno(errno, "cannot write %s", path);
	return write_to(fd, path, write, arg);
}

int output_write(
	const char *path, const char *database, int (*write)(FILE *out, void *arg), void *arg)
{
	auto_free char *real = NULL;
	struct stat st, db;

	if (!path || strcmp(path, "-") == 0)
		return write(stdout, arg); /* main() says why it could not, once */
	/* A link to nothing is filled where it leads, as by the shell. */
	if (stat(path, &st) < 0)
		return lstat(path, &st) < 0 ? write_regular(path, write, arg) : write_special(path, write, arg);
	if (stat(database, &db) < 0)
		return log_errno(errno, "%s", database);
	if (st.st_dev == db.st_dev && st.st_ino == db.st_ino) {
		log_msg("%s is the database itself: name another file to write to", path);
		return -EINVAL;
	}
	if (S_ISDIR(st.st_mode))
		return log_errno(EISDIR, "cannot write %s", path);
	/* What has no path of its own, such as a pipe by way of /dev/stdout, must not have its link replaced. */
	real = S_ISREG(st.st_mode) ? realpath(path, NULL) : NULL;
	return real ? write_regular(real, write, arg) : write_special(path, write, arg);
}
