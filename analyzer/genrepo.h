/* SPDX-License-Identifier: MIT */
/*
 * genrepo.h - makes a git repository to measure with: the same parameters give the same objects everywhere.
 *
 * `files` files in nested folders, sizes exponentially distributed around `mean_bytes`, text that packs about
 * as well as source code; one in 50 is executable, one in 100 a symlink. Each commit after the first rewrites
 * a tenth of the files, deletes one in a hundred and adds as many.
 */
#ifndef FSTAPE_GENREPO_H
#define FSTAPE_GENREPO_H

#include <stdint.h>

struct genrepo_options {
	uint32_t files;
	uint32_t mean_bytes;
	uint32_t commits; /* >= 1 */
	uint64_t seed;
};

/*
 * Fills the bare repository at `git_dir`, which `git init --bare` made, through `git fast-import`: branch
 * master. Blocks until done; says on standard error what went wrong. -ECANCELED when a signal ended git.
 */
int genrepo_make(const char *git_dir, const struct genrepo_options *options);

#endif
