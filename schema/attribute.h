/* SPDX-License-Identifier: MIT */
/*
 * attribute.h - which git command, region and phase each operation of a run belongs to: fills git_range and git_span from
 * git_command, git_region and git_child, when a run has ended. Also for runs in which git told nothing: then programs
 * and paths decide.
 */
#ifndef FSTAPE_ATTRIBUTE_H
#define FSTAPE_ATTRIBUTE_H

#include "trace.h"

/*
 * In transactions of its own; what an earlier call has made is replaced. git_span comes last: a run with operations but
 * without a span has not been attributed, or not to its end. About a second for a million operations. 0 or -errno of
 * trace.h.
 */
int attribute_run(struct trace *trace, int64_t run);

#endif
