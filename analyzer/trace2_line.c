/* SPDX-License-Identifier: MIT */
#include "trace2_line.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define LAST_YEAR 2200	/* whose ns since 1970, and sums with what follows, 64 bits hold */
#define LONGEST_S 1e8	/* a process that runs for three years */

/* "2026-11-30T12:59:24.865714Z" */
static int64_t parse_time(const char *text)
{
	struct tm tm = {};
	int micros, end = 0;

	if (!text || sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d.%6dZ%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
			    &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &micros, &end) != 7 || !end || micros < 0 ||
		tm.tm_year < 1970 || tm.tm_year > LAST_YEAR)
		return NO_TIME;
	tm.tm_year -= 1900;
	tm.tm_mon--;
	return timegm(&tm) * NSEC_PER_SEC + micros * 1000LL;
}

/* Seconds as git writes them, with microseconds; a time that no process can have reached is none. */
static int64_t seconds(const struct trace2_line *line, const char *name)
{
	const json_t *value = json_object_get(line->json, name);
	double s = json_number_value(value);

	if (!json_is_number(value) || !(s >= 0 && s < LONGEST_S))
		return NO_TIME;
	return llround(s * 1e9);
}

const char *trace2_text(const struct trace2_line *line, const char *name)
{
	return json_string_value(json_object_get(line->json, name));
}

int64_t trace2_int(const struct trace2_line *line, const char *name, int64_t otherwise)
{
	const json_t *value = json_object_get(line->json, name);

	return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

static void add_words(const json_t *value, struct strbuf *text)
{
	auto_free char *dump = NULL;
	const json_t *item;
	size_t i;

	if (json_is_string(value)) {
		strbuf_addf(text, "%s", json_string_value(value));
	} else if (json_is_array(value)) {
		json_array_foreach(value, i, item) {
			strbuf_addf(text, i ? " " : "");
			add_words(item, text);
		}
	} else if ((dump = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT))) {
		strbuf_addf(text, "%s", dump);
	}
}

bool trace2_words(const struct trace2_line *line, const char *name, struct strbuf *text)
{
	const json_t *value = json_object_get(line->json, name);

	if (!value)
		return false;
	strbuf_add(text, "", 0);
	add_words(value, text);
	return true;
}

int64_t trace2_sid_pid(const char *sid)
{
	const char *last = strrchr(sid, '/') ?: sid, *at = strrchr(last, '-');
	unsigned int pid;
	int end = 0;

	/* upper-case hex, eight digits */
	if (!at || at[1] != 'P' || sscanf(at + 2, "%8x%n", &pid, &end) != 1 || at[2 + end] || pid == 0 || pid > INT32_MAX)
		return -EBADMSG;
	return pid;
}

int trace2_line_parse(const char *text, size_t len, struct trace2_line *ret_line)
{
	struct trace2_line line = {};
	json_error_t error;

	strbuf_add_utf8(&line.text, text, len);
	if (line.text.failed)
		return -ENOMEM;
	line.json = json_loadb(line.text.buf, line.text.len, 0, &error);
	line.event = trace2_text(&line, "event");
	line.sid = trace2_text(&line, "sid");
	if (!line.event || !line.sid || trace2_sid_pid(line.sid) < 0) {
		trace2_line_free(&line);
		return -EBADMSG;
	}
	line.thread = trace2_text(&line, "thread") ?: "main";
	line.real_ns = parse_time(trace2_text(&line, "time"));
	line.abs_ns = seconds(&line, "t_abs");
	line.rel_ns = seconds(&line, "t_rel");
	*ret_line = line;
	return 0;
}

void trace2_line_free(struct trace2_line *line)
{
	json_decref(line->json);
	strbuf_free(&line->text);
	*line = (struct trace2_line){};
}
