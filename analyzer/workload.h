/* SPDX-License-Identifier: MIT */
/*
 * workload.h - what is measured: a row each in workload.c, with a set-up outside the clock, the one command
 * that is timed, and a check that it did its work.
 */
#ifndef FSTAPE_WORKLOAD_H
#define FSTAPE_WORKLOAD_H

#include <stddef.h>

#include "base.h"
#include "repository.h"

#define WORKLOAD_MAX_WORDS 8

/* One execution. `dir` is an empty folder of its own, on the filesystem that is measured. */
struct workload_site {
	const struct repository *repo;
	const char *dir;
	const char *what; /* what messages begin with: "git-clone on ext4, round 2" */
};

struct workload {
	const char *name;
	const char *summary;
	/* Needs a repository with at least two commits. */
	bool needs_parent;
	/* Makes what the command starts from. NULL: nothing. 0 or -errno after a message, -ECANCELED when
	 * interrupted. */
	int (*prepare)(const struct workload_site *site);
	/* The folder that the command runs in, below the site's. */
	const char *cwd;
	/* The command; @url and @head stand for the repository's. It prints nothing when all is well. */
	const char *command[WORKLOAD_MAX_WORDS];
	/* 0 when the result is right; else a message has said what is wrong. */
	int (*check)(const struct workload_site *site);
};

/* NULL when there is none of that name. */
const struct workload *workload_find(const char *name, size_t len);

/* "git-clone, git-checkout, ...": for help and messages. */
void workload_names(struct strbuf *text);

/* The words of the command, NULL-terminated; they live as long as `repo`. */
void workload_command(const struct workload *workload, const struct repository *repo,
	char *ret_words[static WORKLOAD_MAX_WORDS + 1]);

#endif
