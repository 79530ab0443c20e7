/* SPDX-License-Identifier: MIT */
/* compare_ways.h - in which ways the runs of a comparison got their requests: that makes a difference nobody asked for. */
#ifndef FSTAPE_COMPARE_WAYS_H
#define FSTAPE_COMPARE_WAYS_H

#include "compare.h"
#include "trace.h"

/* Fills in `way` of the groups, several joined by "; ", and `ways`. 0, or -errno of trace.h. */
int compare_note_ways(struct trace *trace, struct compare *compare);

#endif
