/* SPDX-License-Identifier: MIT */
/*
 * git_parts.h - what 'fstape git' consists of: tables about one run, each with a heading for people.
 *
 * git_parts_time.c has those made of its time, git_parts_waits.c those of what it waited for and what that means. All print
 * on standard output and return 0, or -errno after a message (but -ENOMEM). For people a part that has nothing to say is
 * left out; as data it is an empty table.
 */
#ifndef FSTAPE_GIT_PARTS_H
#define FSTAPE_GIT_PARTS_H

#include "command.h"
#include "git_view.h"

struct git_part {
	const struct context *context;
	const struct git_view *view;
	bool text; /* for people */
};

int git_print_phases(const struct git_part *part);
int git_print_anatomy(const struct git_part *part);
int git_print_locks(const struct git_part *part);
int git_print_probes(const struct git_part *part);
int git_print_host(const struct git_part *part);
int git_print_findings(const struct git_part *part);

/* With the column `run`, which is in data only. NULL: no memory, said so. */
struct table *git_part_table(const struct git_part *part);
void git_part_heading(const struct git_part *part, const char *text);

#endif
