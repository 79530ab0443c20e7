/* SPDX-License-Identifier: MIT */
/*
 * cred.h - acting as the caller, per worker thread.
 *
 * The kernel has checked permissions already (default_permissions); what is left is whose things come out: new objects
 * belong to the caller, and a write by someone without CAP_FSETID clears set-id bits. A privileged shim therefore takes
 * on the caller's fsuid and fsgid for creations, with its own capabilities kept (setfsuid(2) drops them: capabilities(7),
 * "Effect of user ID changes on capabilities"), and gives up CAP_FSETID for writes that ask for it. A set-gid bit without
 * the group's right to execute stays when the writer is in the file's group: such writes take the caller's groups as well.
 * A filesystem may show some attributes' names to CAP_SYS_ADMIN only: lists for others are made without it. The state is
 * sticky: a worker changes it only when the next request needs another one.
 */
#ifndef FSTAPE_CRED_H
#define FSTAPE_CRED_H

#include "fs.h"

/* For the creation of an object: the caller's ids and umask. */
void cred_as_caller(struct fs *fs, const struct call *c);

/* For anything else: the shim's own ids, without some capabilities: a set of CRED_WITHOUT(CAP_...), 0: with all. */
#define CRED_WITHOUT(cap) (1u << (cap))
void cred_as_self(struct fs *fs, uint32_t without);

/* For what depends on the caller's groups, of which there are `count` supplementary ones. */
void cred_as_member(struct fs *fs, uid_t uid, gid_t gid, const gid_t *groups, int count, uint32_t without);

/* Once per worker, before its first request: the shim's own ids, and a umask that is this thread's alone. */
void cred_thread_init(struct fs *fs);

#endif
