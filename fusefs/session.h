/* SPDX-License-Identifier: MIT */
/*
 * session.h - what is agreed with the kernel: capabilities, sizes, caches.
 *
 * libfuse 3.14 knows no name for some of what the kernel offers and matters here: PARALLEL_DIROPS (it takes the wish and
 * does not send it), HANDLE_KILLPRIV_V2, and files that the kernel reads by itself (backing.h). So answers are completed
 * on their way out, if the kernel has offered that. libfuse's own door for that, fuse_session_custom_io(), is shut in
 * builds of 3.18, Debian's among them; what is the same in all of them is that answers leave by writev(2). session.c
 * defines that function for the whole program, libfuse included, and passes on what is no answer.
 */
#ifndef FSTAPE_SESSION_H
#define FSTAPE_SESSION_H

#include "fs.h"

struct session;

int session_new(struct session **ret_session);
void session_free(struct session *session);

/* libfuse's `init`: asks for what the shim uses. */
void session_init(void *mount, struct fuse_conn_info *conn);

/*
 * From here on libfuse's answers in this thread are to requests of `mount`; NULL: it gives none. To be called around
 * everything that answers. What it returns is to be set again afterwards.
 */
struct mount *session_answer_for(struct mount *mount);

/* Looks at a request before libfuse does. */
void session_note_request(struct session *session, const void *request, size_t size);

/* The answer that this thread gives next, to OPEN or CREATE, tells of this backing (backing.h); 0: of none. */
void session_answer_backing(int32_t backing_id);

/* Readable once INIT has been answered, as seen by us: else this libfuse is none that we can work with. */
int session_ready_fd(const struct session *session);

/* The capability bits (linux/fuse.h) that the kernel offered, and those that it was answered with. */
void session_capabilities(const struct session *session, uint64_t *ret_offered, uint64_t *ret_taken);

#endif
