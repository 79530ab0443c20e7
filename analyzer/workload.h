/* SPDX-License-Identifier: MIT */
/*
 * workload.h - what is measured: a row each in workload.c, with a set-up outside the clock, the one command
 * that is timed, and a check that it did its work.
 */
#ifndef FSTAPE_WORKLOAD_H
#define FSTAPE_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "base.h"
#include "repository.h"

#define WORKLOAD_MAX_WORDS 12

/* One execution. `dir` is an empty folder of its own, on the filesystem that is measured. */
struct workload_site {
	const struct repository *repo;
	const struct workload *workload;
	const char *dir;
	const char *what; /* what messages begin with: "git-clone on ext4, round 2" */
	int output;       /* for the check: a file with what the command printed */
};

struct workload_type {
	const char *name;
	const char *summary;
	/* Needs a repository with at least two commits. */
	bool needs_parent;
	/* Needs repo->tar. */
	bool needs_tar;
	/* Changes nothing of what it starts from, so one set-up serves several measurements. */
	bool keeps;
	/* NAME:N: a number may follow, for "@number" and "@config". */
	bool takes_number;
	/* Makes what the command starts from. NULL: nothing. 0 or -errno after a message, -ECANCELED when
	 * interrupted. */
	int (*prepare)(const struct workload_site *site);
	/* The folder that the command runs in, below the site's. */
	const char *cwd;
	/*
	 * The command; @url, @head, @tar stand for the repository's, @workers for "checkout.workers=N", @cmd for the
	 * user's. What it prints goes to the site's output.
	 */
	const char *command[WORKLOAD_MAX_WORDS];
	/* 0 when the result is right; else a message has said what is wrong. NULL: the exit status says it. */
	int (*check)(const struct workload_site *site);
};

/* As the user chose it. */
struct workload {
	const struct workload_type *type;
	char *name;    /* what results are called: "git-clone", "git-checkout:8", "cmd=make" */
	char *workers; /* "checkout.workers=8", or NULL */
	const char *cmd;
};

/*
 * Parses "git-clone,git-checkout:8"; a text that begins with "cmd=" is one workload, commas and all. Adds to the array
 * at `*workloads`, which the caller frees with workloads_free(). -EINVAL after a message.
 */
int workloads_parse(const char *text, struct workload **workloads, size_t *count);
void workloads_free(struct workload *workloads, size_t count);

/* "git-clone, git-checkout, ...": for help and messages. */
void workload_names(struct strbuf *text);

/* The words of the command, NULL-terminated; they live as long as `repo` and `workload`. */
void workload_command(const struct workload *workload, const struct repository *repo,
	char *ret_words[static WORKLOAD_MAX_WORDS + 1]);

#endif
