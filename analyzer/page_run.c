/* SPDX-License-Identifier: MIT */
/* page_run.c - one run: what it was, in a sentence and in numbers. */
#include <inttypes.h>
#include <string.h>

#include "base.h"
#include "html.h"
#include "page_internal.h"
#include "table.h"

static char *copy_text(const struct trace_stmt *stmt, int column)
{
	const char *text = trace_column_text(stmt, column);

	return text ? strdup(text) : NULL;
}

static int64_t int_or_none(const struct trace_stmt *stmt, int column)
{
	return trace_column_type(stmt, column) == TRACE_INTEGER && trace_column_int(stmt, column) >= 0
		       ? trace_column_int(stmt, column)
		       : -1;
}

static int load_times(const struct page *page, int64_t id, struct page_run *run)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(page->trace,
		"SELECT real_ns, user_ns, sys_ns, fs_type, CASE WHEN json_valid(command)"
		" THEN (SELECT group_concat(CASE WHEN value GLOB '*[^-a-zA-Z0-9_./:=@%+,]*' OR value = ''"
		" THEN '''' || replace(value, '''', '''\\''''') || '''' ELSE value END, ' ')"
		" FROM json_each(command)) END FROM run WHERE id = ?",
		&stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, id);
	err = err ?: trace_step(stmt);
	if (err <= 0)
		return err ?: -ENOENT;
	run->real_ns = int_or_none(stmt, 0);
	run->user_ns = int_or_none(stmt, 1);
	run->sys_ns = int_or_none(stmt, 2);
	run->fs_type = copy_text(stmt, 3);
	run->command = copy_text(stmt, 4);
	return 0;
}

int page_run_load(const struct page *page, int64_t id, struct page_run *ret_run)
{
	struct page_run run = { .stats = calloc(1, sizeof(*run.stats)) };
	int err = run.stats ? run_load(page->trace, id, &run.info) : -ENOMEM;

	err = err ?: load_times(page, id, &run);
	err = err ?: profile_read(page->trace, id, &run.profile);
	err = err ?: git_view_make(page->trace, id, &run.view);
	err = err ?: run_stats_read(page->trace, id, CLOCK_FS, run.stats);
	*ret_run = run;
	return err;
}

void page_run_free(struct page_run *run)
{
	run_free(&run->info);
	free(run->stats);
	profile_free(run->profile);
	git_view_free(run->view);
	free(run->fs_type);
	free(run->command);
}

/* --- summary ---------------------------------------------------------------------------------------------------- */

static void tile(const struct page *page, const char *name, const char *value, const char *note)
{
	fprintf(page->out, "<div><dt>%s</dt><dd>%s", name, value);
	if (note)
		fprintf(page->out, "<small>%s</small>", note);
	fputs("</dd></div>\n", page->out);
}

/* The wall time, cut into what happened. */
struct split {
	double fs_ns, shim_ns, rest_ns;
};

/* As the phases have it, which add up to the run. */
static struct split split_of_phases(const struct git_view *view)
{
	struct split split = { .rest_ns = (double)view->wall_ns };

	for (size_t i = 0; i < GIT_PHASES; i++) {
		split.fs_ns += (double)view->phases[i].in_fs_ns;
		split.shim_ns += (double)view->phases[i].in_shim_ns;
	}
	split.rest_ns -= split.fs_ns + split.shim_ns;
	return split;
}

/* Without phases: requests overlap, so the time in any of them is divided as their sums are. */

static struct split split_time(const struct page_run *run)
{
	const struct profile *profile = run->profile;
	double fs = profile->dur_ns > 0 ? profile->busy_ns * profile->fs_ns / profile->dur_ns : 0;
	double rest = run->real_ns > 0 ? (double)run->real_ns - profile->busy_ns : 0;

	return (struct split){ fs, profile->busy_ns - fs, rest > 0 ? rest : 0 };
}

static void write_sentence(const struct page *page, const struct page_run *run)
{
	struct split split = run->view->attributed ? split_of_phases(run->view) : split_time(run);
	char real[24], fs[24], shim[24], rest[24];

	fputs("<p class=\"lead\">", page->out);
	if (run->command) {
		fputs("<code>", page->out);
		html_str(page->out, run->command);
		fputs("</code> ", page->out);
	}
	if (run->real_ns >= 0)
		fprintf(page->out, "%s <strong>%s</strong>. ", run->command ? "took" : "The command took",
			format_duration(run->real_ns, real));
	if (run->info.native)
		fputs("It ran without the recorder: there are no operations.", page->out);
	else if (run->profile->count == 0)
		fputs("No operation reached the filesystem.", page->out);
	else if (run->real_ns >= 0)
		fprintf(page->out,
			"Of these it was in the filesystem for about <strong>%s</strong>, in the recorder for %s, and "
			"elsewhere (its own computing, other files, waiting) for %s.",
			format_duration((int64_t)split.fs_ns, fs), format_duration((int64_t)split.shim_ns, shim),
			format_duration((int64_t)split.rest_ns, rest));
	fputs("</p>\n", page->out);
}

static void write_tiles(const struct page *page, const struct page_run *run)
{
	const struct profile *profile = run->profile;
	char value[40], note[80], part[24];

	fputs("<dl class=\"tiles\">\n", page->out);
	if (run->real_ns >= 0) {
		tile(page, "wall time", format_duration(run->real_ns, value), NULL);
		snprintf(note, sizeof(note), "+ %s system", format_duration(run->sys_ns, part));
		tile(page, "CPU time", format_duration(run->user_ns, value), run->sys_ns >= 0 ? note : NULL);
	}
	if (profile->count > 0) {
		snprintf(note, sizeof(note), "%s failed", chart_number(UNIT_COUNT, (double)profile->errors, value));
		tile(page, "requests", chart_number(UNIT_COUNT, (double)profile->count, value), note);
		snprintf(note, sizeof(note), "%.1f%% of %s in requests", profile->fs_ns / profile->dur_ns * 100,
			format_duration((int64_t)profile->dur_ns, part));
		tile(page, "in the filesystem", format_duration((int64_t)profile->fs_ns, value),
			profile->dur_ns > 0 ? note : NULL);
		snprintf(note, sizeof(note), "requests at once, on average");
		snprintf(value, sizeof(value), "%.2f", profile->busy_ns > 0 ? profile->dur_ns / profile->busy_ns : 0);
		tile(page, "overlap", value, note);
	}
	fputs("</dl>\n", page->out);
}

/* The conditions under which the numbers hold. */
static const struct {
	const char *title, *sql;
} conditions[] = {
	{ "directory", "source" },
	{ "filesystem", "fs_type || coalesce(' (' || fs_options || ')', '')" },
	{ "device", "device" },
	{ "kernel", "kernel || coalesce(', ' || machine, '') || coalesce(', ' || cpus || ' CPUs', '')" },
	{ "kernel may cache", "cache" },
	{ "recorder", "'fstape ' || version || coalesce(', libfuse ' || libfuse, '') || coalesce(', ' || threads ||"
		      " ' threads', '') || iif(transport = 'uring', ', through io_uring', coalesce(', wait=' || wait, ''))"
		      " || coalesce(', ' || nullif(modes, ''), '')" },
	{ "CPU time of the recorder", "daemon_user_ns + daemon_sys_ns" },
	{ "started", "start_real_ns" },
	{ "exit status", "exit_status" },
	{ "workload", "workload || coalesce(' on ' || target, '') || coalesce(', round ' || round, '') ||"
		      " coalesce(', caches ' || caches, '')" },
};

static void write_condition(const struct page *page, const struct trace_stmt *stmt, int i)
{
	char text[40];

	if (trace_column_type(stmt, i) == TRACE_NULL)
		return;
	fprintf(page->out, "<dt>%s</dt><dd>", conditions[i].title);
	if (strstr(conditions[i].sql, "start_real_ns"))
		fputs(format_time(trace_column_int(stmt, i), true, text), page->out);
	else if (strstr(conditions[i].sql, "_ns"))
		fputs(format_duration(trace_column_int(stmt, i), text), page->out);
	else
		html_str(page->out, trace_column_text(stmt, i));
	fputs("</dd>\n", page->out);
}

static int write_conditions(const struct page *page, int64_t id)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	struct strbuf auto_strbuf sql = {};
	int err;

	for (size_t i = 0; i < ARRAY_SIZE(conditions); i++)
		strbuf_addf(&sql, "%s%s", i ? ", " : "SELECT ", conditions[i].sql);
	strbuf_addf(&sql, " FROM run WHERE id = ?");
	err = sql.failed ? -ENOMEM : trace_prepare(page->trace, sql.buf, &stmt, NULL);
	err = err ?: trace_bind_int(stmt, 1, id);
	err = err ?: trace_step(stmt);
	if (err < 0)
		return err;
	fputs("<details><summary>Conditions</summary><dl class=\"conditions\">\n", page->out);
	for (int i = 0; err > 0 && i < (int)ARRAY_SIZE(conditions); i++)
		write_condition(page, stmt, i);
	fputs("</dl></details>\n", page->out);
	return 0;
}

int page_run_summary(const struct page *page, const struct page_run *run)
{
	write_sentence(page, run);
	write_tiles(page, run);
	return write_conditions(page, run->info.id);
}
