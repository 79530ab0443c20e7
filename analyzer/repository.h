/* SPDX-License-Identifier: MIT */
/*
 * repository.h - the repository that a benchmark clones: made or copied once, outside the clock, and known in
 * detail, so that every result can be checked against it.
 */
#ifndef FSTAPE_REPOSITORY_H
#define FSTAPE_REPOSITORY_H

#include <stdint.h>

#include "genrepo.h"

#define COMMIT_ID_SIZE 65 /* a SHA-256 in hex and its NUL */

struct repository {
	char *dir;    /* bare, ours: nobody changes it while we measure */
	char *url;    /* file://DIR: clones go through git's transport, as from a server */
	char *tar;    /* a tar of head's tree, beside it; NULL: nobody has asked for it */
	char *origin; /* in words: where it came from */
	char head[COMMIT_ID_SIZE];
	char parent[COMMIT_ID_SIZE]; /* of head, the first one; "" when there is none */
	uint32_t head_files;         /* files in the tree of head: git ls-files | wc -l */
	uint32_t parent_files;
};

/*
 * The environment of every git we run: none of the user's or the machine's configuration, no prompts, no
 * background maintenance, any owner trusted. Writes DIR/gitconfig and changes the environment of this
 * process: before threads.
 */
int repository_environment(const char *dir);

/* "2.39.5", to be freed. -ENOENT, told on standard error, without git. */
int repository_git_version(char **ret_version);

/* In DIR/source.git: generates, or copies the repository at `path` when that is not NULL. Messages on
 * standard error. */
int repository_make(struct repository *ret_repo, const char *dir, const char *path,
	const struct genrepo_options *options);
/* Makes repo->tar. Messages on standard error. */
int repository_make_tar(struct repository *repo);

/* Reads the repository's files once, so that they are in the kernel's page cache. */
int repository_warm(const struct repository *repo);

/* Files and symlinks below `dir`, apart from its .git. 0 or -errno. */
int repository_count_files(const char *dir, uint32_t *ret_files);

void repository_free(struct repository *repo);

/*
 * Whether the clone at `dir` has exactly `commit` checked out: HEAD, as many files on disk as in the tree,
 * nothing modified or left over. `commit` is repo->head or repo->parent. Says on standard error, after
 * `what`, what is wrong.
 */
int repository_check(const struct repository *repo, const char *dir, const char *commit, const char *what);

#endif
