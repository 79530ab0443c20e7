/* SPDX-License-Identifier: MIT */
/*
 * readahead.h - readahead of directories: when one is opened, threads look at everything in it, in the order of inode
 * numbers, and list its sub-directories, so that the filesystem below has them in its caches when they are asked for.
 *
 * What it does is neither recorded nor part of an operation's time in the filesystem. It changes nothing, access times
 * included where the filesystem lets it (O_NOATIME is the owner's and root's). Where it cannot keep up, directories are
 * left out.
 */
#ifndef FSTAPE_READAHEAD_H
#define FSTAPE_READAHEAD_H

#define READAHEAD_MAX_THREADS 64

struct fs;
struct readahead;

/* Starts fs->options.dir_readahead threads, none for 0 (`*ret_readahead` is NULL then). -errno. */
int readahead_start(struct fs *fs, struct readahead **ret_readahead);

/* A directory that has just been opened: `fd` stays the caller's. Does not wait. NULL: does nothing. */
void readahead_directory(struct readahead *readahead, int fd);

/* Ends the threads and closes their directories; waits for what is being read. NULL: nothing. */
void readahead_stop(struct readahead *readahead);

#endif
