/* SPDX-License-Identifier: MIT */
/*
 * dispatch.h - the choke point: every request passes here, is timed, handled, recorded and answered, in this order.
 *
 * The event is in the spool before the reply goes out: what a program was told had happened is recorded, whatever
 * becomes of the daemon afterwards.
 */
#ifndef FSTAPE_DISPATCH_H
#define FSTAPE_DISPATCH_H

#include "fs.h"

void dispatch(fuse_req_t req, enum op_id op, struct call *c);

/*
 * The end of a call whose handler has returned CALL_DEFERRED, from any thread. `c` is what the handler was given, or a
 * copy of it; `result` is as a handler returns it.
 */
void dispatch_complete(fuse_req_t req, enum op_id op, struct call *c, int64_t result);

/* The request that this thread is handling: for handlers that defer, and for interrupts. */
fuse_req_t dispatch_request(void);

#endif
