/* SPDX-License-Identifier: MIT */
/*
 * interrupt.h - Ctrl-C, SIGTERM and SIGHUP while a recording is read: the running query ends with
 * -EINTR, and what was being written can be taken away. One at a time in a process: a signal
 * handler can be told nothing but variables.
 */
#ifndef FSTAPE_INTERRUPT_H
#define FSTAPE_INTERRUPT_H

#include <signal.h>
#include <stdbool.h>

#include "trace.h"

#define INTERRUPT_SIGNALS 3

struct interrupt {
	struct sigaction before[INTERRUPT_SIGNALS];
};

/* Signals that are ignored, as those of a background job, stay so. The second of a kind ends the program at once. */
void interrupt_catch(struct interrupt *interrupt, struct trace *trace);
void interrupt_release(const struct interrupt *interrupt);

/* Whether one has come since interrupt_catch(). */
bool interrupt_seen(void);

/* "fstape: interrupted"; returns -EINTR. */
int interrupt_said(void);

#endif
