/* SPDX-License-Identifier: MIT */
/*
 * session.h - what is agreed with the kernel: capabilities, sizes, caches.
 *
 * libfuse 3.14 knows no name for some capabilities that the kernel offers and that matter here, PARALLEL_DIROPS (it
 * takes the wish and does not send it) and HANDLE_KILLPRIV_V2. They are added to the answer of INIT on its way out, if
 * the kernel has offered them, by way of fuse_session_custom_io().
 */
#ifndef FSTAPE_SESSION_H
#define FSTAPE_SESSION_H

#include "fs.h"

struct session;

int session_new(struct session **ret_session);
void session_free(struct session *session);

/* libfuse's `init`: asks for what the shim uses. */
void session_init(void *mount, struct fuse_conn_info *conn);

/* Has libfuse's answers go through us. After the mount, before the first request is read. */
int session_hook(struct mount *mount);

/* Looks at a request before libfuse does. */
void session_note_request(struct session *session, const void *request, size_t size);

/* Readable once INIT has been answered. */
int session_ready_fd(const struct session *session);

/* The capability bits (linux/fuse.h) that the kernel offered, and those that it was answered with. */
void session_capabilities(const struct session *session, uint64_t *ret_offered, uint64_t *ret_taken);

#endif
