/* SPDX-License-Identifier: MIT */
/*
 * daemon.h - going to the background, with the caller waiting until the mount serves.
 *
 * Not fuse_daemonize(): the database is opened and threads are started before the mount is known to work, and what goes
 * wrong until then must reach the terminal. So the fork comes first, and the parent exits with what the child reports.
 */
#ifndef FSTAPE_DAEMON_H
#define FSTAPE_DAEMON_H

struct daemon {
	int status_fd; /* to the waiting parent; -1: in the foreground */
};

/* Forks, unless `foreground`. Returns in the child; the parent exits with the status that daemon_ready() gives it. */
int daemon_start(struct daemon *daemon, int foreground);

/* All is well: the parent may go, and the daemon leaves the terminal and the directory that it was started from. */
void daemon_ready(struct daemon *daemon);

#endif
