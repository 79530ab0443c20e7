/* SPDX-License-Identifier: MIT */
/* replay_report.h - what is told of a plan and of a replay, as tables on standard output. */
#ifndef FSTAPE_REPLAY_REPORT_H
#define FSTAPE_REPLAY_REPORT_H

#include "command.h"
#include "replay_check.h"

enum replay_show { SHOW_ALL, SHOW_SUMMARY, SHOW_OPERATIONS, SHOW_MISMATCHES };

/* One of summary, operations and mismatches; all are for text. 0 or -errno after a message. */
int replay_report(const struct context *context, const struct plan *plan, const struct replay_result *result,
	const struct fidelity *fidelity, enum replay_show show);

/* What --dry-run prints: how many actions of which kind, and what waits for what. */
int replay_report_plan(const struct context *context, const struct plan *plan);

/* What --explain prints: the actions on a path, or the one with a number, each with what it waits for and why. */
int replay_explain(const struct context *context, const struct plan *plan, const char *what);

#endif
