/* SPDX-License-Identifier: MIT */
/* compare_relate.h - the second half of compare_load_query(): groups to their baselines, and what can be claimed. */
#ifndef FSTAPE_COMPARE_RELATE_H
#define FSTAPE_COMPARE_RELATE_H

#include "compare.h"

/* Fills what struct compare_group has of baselines. -EINVAL: no group has the level `baseline`; -ENOMEM. */
int compare_relate(struct compare *compare, const char *baseline);

#endif
