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
 * /proc is no part of the mount, but reading it can wait for the caller all the same, who waits for us. A caller in a page
 * fault may hold the lock of its memory, which the command line needs. A caller in execve(2) that closes its
 * close-on-exec files holds exec_update_lock, which stat and the links (exe, cwd, ...) need, of this process and of anyone
 * who looks. So requests that come from such places get a limited look: comm and status, which take neither; the rest is
 * read with the thread's next other request.
 */
#ifndef FSTAPE_WHO_H
#define FSTAPE_WHO_H

#include "fs.h"

struct who_table;

int who_table_new(struct who_table **ret_table);
void who_table_free(struct fs *fs);

/*
 * The process id (event.h) of a thread at this moment. `limited`: the request may come from a page fault
 * or from within execve(2). `now`: the run's time, ns. Tid 0, the kernel itself, has a row of its own. *ret_uid and
 * *ret_gid: what its row says. Any worker may call it.
 */
uint32_t who_is(struct fs *fs, pid_t tid, uid_t uid, gid_t gid, bool limited, int64_t now, uid_t *ret_uid, gid_t *ret_gid,
	bool *ret_cpu_is_due);

/*
 * After who_is() has said so, and before the answer to request `seq`, which came at `now`: records the processor time that
 * the thread has used.
 */
void who_read_cpu(struct fs *fs, pid_t tid, uint64_t seq, int64_t now);

/* Field `number` (from 3, proc(5)) of the text of a /proc/PID/stat; NULL when it has not so many. */
const char *who_stat_field(const char *text, int number);

#endif
