/* SPDX-License-Identifier: MIT */
/* git_findings.h - what costs most in a run, in sentences. */
#ifndef FSTAPE_GIT_FINDINGS_H
#define FSTAPE_GIT_FINDINGS_H

#include "base.h"
#include "git_view.h"

#define GIT_FINDINGS 3

struct git_finding {
	int64_t cost_ns;
	struct strbuf text; /* a sentence */
	struct strbuf sql;  /* the query that shows it */
};

/* The dearest ones first, at most GIT_FINDINGS. Returns their number, or -ENOMEM. */
int git_findings_make(const struct git_view *view, struct git_finding findings[static GIT_FINDINGS]);
void git_findings_free(struct git_finding findings[static GIT_FINDINGS]);

#endif
