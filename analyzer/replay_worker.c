/* SPDX-License-Identifier: MIT */
/* replay_worker.c - what a thread of a replay has of its own: a buffer, and a way to recorded contents. */
#include "replay_worker.h"

#include <string.h>

#include "content.h"
#include "trace.h"

char *worker_buffer(struct worker *w, size_t size)
{
	char *grown;

	if (size <= w->room)
		return w->buffer;
	grown = realloc(w->buffer, size);
	if (grown) {
		w->buffer = grown;
		w->room = size;
	}
	return grown;
}

/* The bytes of one write, as pieces of them arrive. */
struct gather {
	char *bytes;
	int64_t offset, length, got;
};

static int take_piece(void *arg, int64_t offset, const void *bytes, size_t len)
{
	struct gather *gather = arg;
	int64_t at = offset - gather->offset;

	if (at < 0 || at > gather->length || (int64_t)len > gather->length - at)
		return -EUCLEAN;
	memcpy(gather->bytes + at, bytes, len);
	gather->got += (int64_t)len;
	return 0;
}

/* A connection of its own: they are for one thread each. */
static int open_contents(struct worker *w)
{
	const struct replay *r = w->replay;
	int err;

	if (w->contents)
		return 0;
	err = w->trace ? 0 : trace_open(r->options->contents, TRACE_READ, &w->trace);
	return err ?: content_reader_new(w->trace, r->plan->run, &w->contents);
}

static int make_contents(struct worker *w, const struct action *a, char **ret_bytes)
{
	const struct replay *r = w->replay;
	struct gather gather = {
		.bytes = worker_buffer(w, (size_t)a->length + 1), .offset = a->offset, .length = a->length
	};
	int64_t err = 0;

	if (!gather.bytes)
		return -ENOMEM;
	*ret_bytes = gather.bytes;
	if (r->options->contents) {
		err = open_contents(w);
		err = err ?: content_of_op(w->contents, a->seq, take_piece, &gather);
	}
	if (err < 0)
		return log_errno((int)err, "the recorded contents of operation %u", a->seq);
	if (gather.got < a->length) /* not recorded, or not all of it */
		filler_fill(&r->options->filler, a->object, (uint64_t)a->offset + (uint64_t)gather.got,
			gather.bytes + gather.got, (size_t)(a->length - gather.got));
	return 0;
}

int worker_contents(struct worker *w, const struct action *a, char **ret_bytes)
{
	int64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	int err = make_contents(w, a, ret_bytes);

	w->making_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
	return err;
}

void worker_free(struct worker *w)
{
	content_reader_free(w->contents);
	trace_close(w->trace);
	free(w->buffer);
}
