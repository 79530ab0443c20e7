/* SPDX-License-Identifier: MIT */
/* workload_steps.h - what rows of workload.c prepare and check. As workload.h says of prepare() and check(). */
#ifndef FSTAPE_WORKLOAD_STEPS_H
#define FSTAPE_WORKLOAD_STEPS_H

#include "workload.h"

int prepare_clone(const struct workload_site *site);        /* clone: the last commit, clean, index settled */
int prepare_parent(const struct workload_site *site);       /* clone: the last commit but one */
int prepare_bare(const struct workload_site *site);         /* source.git: bare, on the filesystem itself */
int prepare_unadded(const struct workload_site *site);      /* clone: a new repository, files not added */
int prepare_added(const struct workload_site *site);        /* clone: the same, added, not committed */
int prepare_loose(const struct workload_site *site);        /* clone: every object loose */
int prepare_tree(const struct workload_site *site);         /* clone: as prepare_clone, index as clone left it */

int check_head(const struct workload_site *site);           /* clone is the last commit, clean */
int check_added(const struct workload_site *site);          /* the index has every file */
int check_committed(const struct workload_site *site);      /* ... and HEAD has, too */
int check_packed(const struct workload_site *site);         /* one pack, nothing loose */
int check_printed(const struct workload_site *site);        /* something was printed */
int check_counted(const struct workload_site *site);        /* the number printed is that of the entries in clone */
int check_listed(const struct workload_site *site);         /* as many lines of `ls -l` as there are entries */
int check_removed(const struct workload_site *site);        /* clone is gone */
int check_unpacked(const struct workload_site *site);       /* tree/ has as many files as the last commit */

#endif
