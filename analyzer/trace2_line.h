/* SPDX-License-Identifier: MIT */
/* trace2_line.h - one line of git's trace2 "event" format (git's Documentation/technical/api-trace2). */
#ifndef FSTAPE_TRACE2_LINE_H
#define FSTAPE_TRACE2_LINE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base.h"

#define NO_TIME INT64_MIN

struct trace2_line {
	json_t *json;	    /* owned; the texts below live in it */
	const char *event;  /* never NULL */
	const char *sid;    /* never NULL */
	const char *thread; /* "main" when it is not told */
	int64_t real_ns;    /* wall clock; NO_TIME: not told (brief traces) */
	int64_t abs_ns;	    /* since the process began, monotonic; NO_TIME: not told */
	int64_t rel_ns;	    /* since what it ends began; NO_TIME: not told */
	struct strbuf text; /* the line as valid UTF-8; owned */
};

/*
 * Parses a line without its newline. Bytes that are not UTF-8, as names in other encodings have, become U+FFFD.
 * 0; -EBADMSG: not an event; -ENOMEM. Free with trace2_line_free() after success.
 */
int trace2_line_parse(const char *text, size_t len, struct trace2_line *ret_line);
void trace2_line_free(struct trace2_line *line);

/* A member that is text, else NULL; an integer, else `otherwise`. */
const char *trace2_text(const struct trace2_line *line, const char *name);
int64_t trace2_int(const struct trace2_line *line, const char *name, int64_t otherwise);

/* A member as text whatever it is: numbers in decimal, lists of texts joined by ' ', others as JSON. False: not there. */
bool trace2_words(const struct trace2_line *line, const char *name, struct strbuf *text);

/* The process id in the last part of a session id ("...-P00000bd8"), or -EBADMSG. */
int64_t trace2_sid_pid(const char *sid);

#endif
