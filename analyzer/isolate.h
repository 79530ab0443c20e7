/* SPDX-License-Identifier: MIT */
/*
 * isolate.h - runs work so that nothing of it is left when it ends, whoever is killed.
 *
 * As root the work is the first process of a process namespace in a mount namespace of its own: when it dies
 * the kernel ends every process below it and undoes every mount, and a loop device that detaches itself goes
 * with its mount. As an ordinary user it is a plain child.
 */
#ifndef FSTAPE_ISOLATE_H
#define FSTAPE_ISOLATE_H

/*
 * Runs work(arg) in a child. `folder` is its work folder, which the caller made: as root a small filesystem
 * in memory is mounted on it for the child alone; it is removed, with what is in it, when the child has
 * ended. SIGINT, SIGTERM and SIGHUP are handed to the child, which only notes them: see isolate_stopped().
 * Returns what work() returned, 0..255 (a negative errno is handed on as -ECANCELED or -EIO), or -errno after
 * a message. Before threads.
 */
int isolate_run(const char *folder, int (*work)(void *arg), void *arg);

/* In the child: the signal that asked it to stop, or 0. */
int isolate_stopped(void);

#endif
