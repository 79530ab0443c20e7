/* SPDX-License-Identifier: MIT */
/*
 * quiesce.h - waiting until a FUSE mount has no request under way.
 *
 * The kernel sends the RELEASE of a closed file without waiting for it, and throws away what waits when the
 * mount is taken down: without this the last requests of a command would never reach the recorder.
 */
#ifndef FSTAPE_QUIESCE_H
#define FSTAPE_QUIESCE_H

/*
 * Blocks until nothing waits in the mount at `mountpoint`, as the caller's namespaces have it, at most a
 * second; a moment only, when the kernel does not tell (it tells where fusectl is mounted, and root
 * anywhere).
 */
void quiesce(const char *mountpoint);

#endif
