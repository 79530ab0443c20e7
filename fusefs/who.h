/* SPDX-License-Identifier: MIT */
/*
 * who.h - the threads behind requests.
 *
 * A request says which thread (tid) made it. What that thread is - its process, command, parent - is read from /proc
 * while it waits for the answer, and recorded once. Two things can make that wrong later: the thread executes another
 * program, or ends and its tid is used again. Both are noticed through a descriptor on /proc/TID/comm that is kept
 * open: it belongs to that very thread and fails with ESRCH once it is gone, and comm changes with exec. It is looked at
 * when a thread has been silent for longer than an exec can be quicker than; /proc/TID/stat, which tells two programs of
 * the same name apart, less often.
 *
 * /proc is no part of the mount, so reading it can't wait for us - except for the command line, which needs the caller's
 * memory: it is not read for requests that may come from a page fault.
 */
#ifndef FSTAPE_WHO_H
#define FSTAPE_WHO_H

#include "fs.h"

struct who_table;

int who_table_new(struct who_table **ret_table);
void who_table_free(struct fs *fs);

/*
 * The process id (event.h) of a thread at this moment. `in_fault`: the request may come from a page fault.
 * Tid 0, the kernel itself, has a row of its own. *ret_uid and *ret_gid: what its row says. Any worker may call it.
 */
uint32_t who_is(struct fs *fs, pid_t tid, uid_t uid, gid_t gid, bool in_fault, uid_t *ret_uid, gid_t *ret_gid);

#endif
