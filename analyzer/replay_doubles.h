/* SPDX-License-Identifier: MIT */
/*
 * replay_doubles.h - what a replay does a second time: the recording has it as part of what programs did between requests.
 *
 * A program's way into the kernel, its walk along names that are cached, the copies of what it writes and reads were made
 * under the recorder too, outside of the requests; and a system call of the replay makes them again. They are measured
 * here, where no filesystem has a part in them.
 */
#ifndef FSTAPE_REPLAY_DOUBLES_H
#define FSTAPE_REPLAY_DOUBLES_H

#include <stdint.h>

struct action;

struct doubles {
	int64_t call_ns; /* into the kernel and back */
	int64_t name_ns; /* a name that is cached, and its attributes; beside the call */
	int64_t write_page_ns, read_page_ns; /* 4 KiB to and from the page cache; beside the call */
};

/* Takes a few milliseconds. What cannot be measured is 0. */
struct doubles doubles_measure(void);

/* What is there twice of an action that ended with `result`, in so many system calls; ns. */
int64_t doubles_of(const struct doubles *doubles, const struct action *action, int64_t calls, int64_t result);

#endif
