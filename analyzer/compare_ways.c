/* SPDX-License-Identifier: MIT */
#include "compare_ways.h"

#include <string.h>

#include "base.h"
#include "run.h"

static bool has_way(const struct strbuf *ways, const char *way)
{
	size_t len = strlen(way);

	for (const char *at = ways->buf; at; at = strstr(at, "; "), at = at ? at + 2 : NULL)
		if (strncmp(at, way, len) == 0 && (!at[len] || at[len] == ';'))
			return true;
	return false;
}

static int add_run(struct trace *trace, int64_t id, struct strbuf *ways)
{
	struct strbuf auto_strbuf way = {};
	struct run_info run;
	int err = run_load(trace, id, &run);

	if (err < 0)
		return err;
	run_describe_way(&run, &way);
	run_free(&run);
	if (way.len && !has_way(ways, way.buf))
		strbuf_addf(ways, "%s%s", ways->len ? "; " : "", way.buf);
	return way.failed || ways->failed ? -ENOMEM : 0;
}

static int note_group(struct trace *trace, struct compare_group *group)
{
	struct strbuf auto_strbuf ways = {};
	int err = 0;

	for (size_t i = 0; i < group->count && err == 0; i++)
		err = add_run(trace, group->runs[i].id, &ways);
	if (err == 0)
		group->way = steal_ptr(&ways.buf);
	return err;
}

int compare_note_ways(struct trace *trace, struct compare *compare)
{
	struct strbuf auto_strbuf text = {};
	auto_free int64_t *runs = NULL;
	size_t count = 0;
	int err = 0;

	for (size_t i = 0; i < compare->count && err == 0; i++) {
		err = note_group(trace, &compare->groups[i]);
		count += compare->groups[i].count;
	}
	runs = calloc(count ?: 1, sizeof(*runs));
	if (!runs || err < 0)
		return err ?: -ENOMEM;
	count = 0;
	for (size_t i = 0; i < compare->count; i++)
		for (size_t j = 0; j < compare->groups[i].count; j++)
			runs[count++] = compare->groups[i].runs[j].id;
	err = run_describe_ways(trace, runs, count, &text);
	if (err < 0 || text.failed)
		return err ?: -ENOMEM;
	compare->ways = text.len ? steal_ptr(&text.buf) : NULL;
	return 0;
}
