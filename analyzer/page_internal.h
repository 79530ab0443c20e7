/* SPDX-License-Identifier: MIT */
/* page_internal.h - what the files page*.c share; for nobody else. */
#ifndef FSTAPE_PAGE_INTERNAL_H
#define FSTAPE_PAGE_INTERNAL_H

#include "git_view.h"
#include "op_stats.h"
#include "page.h"
#include "profile.h"
#include "run.h"

extern const char embedded_page_css[], embedded_page_css_sha256[];
extern const char embedded_page_js[], embedded_page_js_sha256[];

/* All that is known of one run while its part is written. */
struct page_run {
	struct run_info info;
	struct run_stats *stats;
	struct profile *profile;
	struct git_view *view;
	int64_t real_ns, user_ns, sys_ns; /* of the command; -1: not known */
	char *fs_type, *command;	  /* or NULL */
};

int page_run_load(const struct page *page, int64_t id, struct page_run *ret_run);
void page_run_free(struct page_run *run);

/* The parts of a page, in their order. 0 or -errno. */
int page_run_summary(const struct page *page, const struct page_run *run);
int page_git_phases(const struct page *page, const struct page_run *run);
int page_host(const struct page *page, const struct page_run *run);
int page_git_lanes(const struct page *page, const struct page_run *run);
int page_run_charts(const struct page *page, const struct page_run *run);
int page_run_tables(const struct page *page, const struct page_run *run);

/* Runs side by side, when there are several, or when the only one is of a benchmark: then with its others. */
int page_compare(const struct page *page, const int64_t *runs, size_t count);

/* "run-3-heat": unique on the page. */
const char *page_chart_id(const struct page_run *run, const char *name, char buf[static 48]);
struct chart_time page_time(const struct page_run *run);

/* A table of the page, to be ended with page_table_end(): 0 or -errno. NULL: no memory. */
struct table *page_table(const struct page *page);
int page_table_end(struct table *table);

#endif
