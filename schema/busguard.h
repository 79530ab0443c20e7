/* SPDX-License-Identifier: MIT */
/*
 * busguard.h - goes on when the disk below a mapped file goes away.
 *
 * A store into a page of a shared file mapping needs the filesystem's consent (page_mkwrite). When that has shut itself
 * down after an I/O error, or the file has been cut off, the kernel sends SIGBUS, and the process dies; a shim that dies
 * takes the user's directory with it. With this guard the page is replaced by a private copy of it in memory, and the
 * store is done again: what is written there is no longer safe from the death of the process, but the process, and all
 * that it has in such mappings (the spool, SQLite's index of its log), go on.
 *
 * A thread must not block SIGBUS: a fault is fatal then.
 */
#ifndef FSTAPE_BUSGUARD_H
#define FSTAPE_BUSGUARD_H

#include <stdint.h>

/* For the whole process; once, before there are threads. 0 or -errno. */
int busguard_install(void);

/* For a thread that was started with all signals blocked. */
void busguard_unblock(void);

/* Pages that were replaced so far. Any thread. */
uint64_t busguard_pages(void);

#endif
