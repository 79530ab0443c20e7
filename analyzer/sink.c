/* SPDX-License-Identifier: MIT */
#include "sink.h"

#include <unistd.h>

#include "base.h"

static void note(struct sink *sink, int err)
{
	if (!sink->err)
		sink->err = err;
}

/* All of it, or what was written before the failure: that is how a stream learns of one. */
static ssize_t sink_write(void *cookie, const char *text, size_t size)
{
	struct sink *sink = cookie;
	size_t done = 0;

	while (done < size) {
		ssize_t got = write(sink->fd, text + done, size - done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			note(sink, got < 0 ? errno : ENOSPC);
			break;
		}
		done += (size_t)got;
	}
	return (ssize_t)done;
}

static int sink_end(void *cookie)
{
	struct sink *sink = cookie;

	if (close(sink->fd) == 0)
		return 0;
	note(sink, errno);
	return EOF;
}

FILE *sink_open(struct sink *sink, int fd)
{
	FILE *out = fopencookie(sink, "w", (cookie_io_functions_t){ .write = sink_write, .close = sink_end });

	*sink = (struct sink){ .fd = fd };
	if (out)
		setvbuf(out, NULL, isatty(fd) ? _IOLBF : _IOFBF, BUFSIZ);
	return out;
}

int sink_close(struct sink *sink, FILE *out)
{
	bool failed = ferror(out);

	failed |= fclose(out) != 0;
	return sink->err ? -sink->err : failed ? -EIO : 0;
}
