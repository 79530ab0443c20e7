/* SPDX-License-Identifier: MIT */
/* event_args.h - the arguments that have no column of their own, as JSON. */
#ifndef FSTAPE_EVENT_ARGS_H
#define FSTAPE_EVENT_ARGS_H

#include "fs.h"

/* The text, valid until this thread's next call, or NULL when there is nothing to say. */
const char *event_args(enum op_id op, const struct call *c, uint16_t *ret_len);

/* The calling thread records no more. */
void event_args_thread_end(void);

#endif
