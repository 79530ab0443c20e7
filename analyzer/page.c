/* SPDX-License-Identifier: MIT */
/* page.c - the document around the parts, and what must be known before any of them is read. */
#include "page_internal.h"

#include <inttypes.h>
#include <string.h>

#include "base.h"
#include "html.h"
#include "table.h"

/*
 * default-src 'none' forbids every request; style and script are allowed by their hashes alone, so that even markup
 * that had slipped through could not run.
 */
static void write_head(const struct page *page)
{
	fprintf(page->out,
		"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-%s'; "
		"script-src 'sha256-%s'; base-uri 'none'; form-action 'none'\">\n"
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		"<meta name=\"color-scheme\" content=\"light dark\">\n"
		"<meta name=\"generator\" content=\"fstape %s\">\n<title>",
		embedded_page_css_sha256, embedded_page_js_sha256, FSTAPE_VERSION);
	html_str(page->out, page->db);
	fprintf(page->out, " - fstape</title>\n<style>%s</style>\n</head>\n<body>\n", embedded_page_css);
}

static void write_title(const struct page *page, size_t count)
{
	char now[40];

	fputs("<header><h1>", page->out);
	html_str(page->out, page->db);
	fprintf(page->out, "</h1>\n<p>%zu run%s of a filesystem recording, by fstape %s, %s</p></header>\n", count,
		count == 1 ? "" : "s", FSTAPE_VERSION, format_time(clock_ns(CLOCK_REALTIME), true, now));
}

static int write_warning_text(const struct page *page, const char *title, const struct strbuf *text)
{
	if (text->failed)
		return -ENOMEM;
	if (!text->len)
		return 0;
	fprintf(page->out, "<p class=\"warning\" role=\"alert\"><strong>%s:</strong> ", title);
	html_str(page->out, text->buf);
	fputs("</p>\n", page->out);
	return 0;
}

static int write_warning(const struct page *page, const struct run_info *run, const char *title,
	void (*describe)(const struct run_info *, struct strbuf *))
{
	struct strbuf auto_strbuf text = {};

	describe(run, &text);
	return write_warning_text(page, title, &text);
}

static int write_ways(const struct page *page, const int64_t *runs, size_t count)
{
	struct strbuf auto_strbuf text = {};
	int err = run_describe_ways(page->trace, runs, count, &text);

	if (err < 0 || text.failed)
		return err ?: -ENOMEM;
	return write_warning_text(page, "Transport", &text);
}

/* What is missing is said before any number. */
static int write_warnings(const struct page *page, const int64_t *runs, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct run_info run;
		int err = run_load(page->trace, runs[i], &run);

		if (err < 0)
			return err;
		err = write_warning(page, &run, "Incomplete", run_describe_gaps);
		err = err ?: write_warning(page, &run, "Not recorded", run_describe_modes);
		err = err ?: write_warning(page, &run, "Transport", run_describe_transport);
		err = err ?: write_warning(page, &run, "Git", run_describe_story);
		run_free(&run);
		if (err < 0)
			return err;
	}
	return write_ways(page, runs, count);
}

static void write_run_title(const struct page *page, const struct page_run *run)
{
	fprintf(page->out, "<section id=\"run-%" PRId64 "\">\n<h2>Run %" PRId64, run->info.id, run->info.id);
	if (run->info.label) {
		fputs(": ", page->out);
		html_str(page->out, run->info.label);
	}
	if (run->fs_type) {
		fputs(" <small>on ", page->out);
		html_str(page->out, run->fs_type);
		fputs("</small>", page->out);
	}
	fputs("</h2>\n", page->out);
}

static int write_run(const struct page *page, int64_t id)
{
	struct page_run run = {};
	int err = page_run_load(page, id, &run);

	if (err == 0) {
		write_run_title(page, &run);
		err = page_run_summary(page, &run);
		if (run.profile->count > 0) {
			err = err ?: page_run_charts(page, &run);
			err = err ?: page_run_tables(page, &run);
		}
		fputs("</section>\n", page->out);
	}
	page_run_free(&run);
	if (err == 0 && page->stopped && page->stopped())
		err = -EINTR;
	return err;
}

static void write_links(const struct page *page, const int64_t *runs, size_t count)
{
	fputs("<nav><a href=\"#compare\">Comparison</a>", page->out);
	for (size_t i = 0; i < count && i < PAGE_MAX_RUNS; i++)
		fprintf(page->out, " <a href=\"#run-%" PRId64 "\">Run %" PRId64 "</a>", runs[i], runs[i]);
	fputs("</nav>\n", page->out);
}

int page_write(const struct page *page, const int64_t *runs, size_t count)
{
	int err;

	write_head(page);
	write_title(page, count);
	if (count > 1)
		write_links(page, runs, count);
	err = write_warnings(page, runs, count);
	err = err ?: page_compare(page, runs, count);
	for (size_t i = 0; i < count && i < PAGE_MAX_RUNS && err == 0; i++) {
		progress_show(page->progress, "run %" PRId64 " (%zu of %zu)", runs[i], i + 1, count);
		err = write_run(page, runs[i]);
	}
	if (count > PAGE_MAX_RUNS)
		fprintf(page->out, "<p>Only the first %d runs are shown one by one; --run names others.</p>\n",
			PAGE_MAX_RUNS);
	fprintf(page->out,
		"<footer><p>Time in the filesystem is time inside system calls on the real filesystem, below the "
		"recorder: it does not contain the cost of recording. All numbers come from the views <code>ops</code> "
		"and <code>git_ops</code> of the database; <code>fstape query</code> asks more.</p></footer>\n"
		"<script>%s</script>\n</body>\n</html>\n",
		embedded_page_js);
	return err ?: ferror(page->out) ? -EIO : 0; /* whoever opened it knows why: sink.h */
}

struct table *page_table(const struct page *page)
{
	return table_new(TABLE_HTML, false, page->out);
}

int page_table_end(struct table *table)
{
	int err = table_print(table);

	table_free(table);
	return err;
}
