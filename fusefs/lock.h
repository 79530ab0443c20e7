/* SPDX-License-Identifier: MIT */
/*
 * lock.h - file locks, passed on to the real filesystem so that programs beside the mount see them.
 *
 * POSIX locks belong to (inode, owner), where an owner is a process's file table as the kernel names it. Below, all
 * would belong to one process, this one; so each owner has an open file of its own per inode, and locks it with open file
 * description locks (fcntl(2), F_OFD_SETLK). Any close by the owner gives up all its locks on the inode: FLUSH says so.
 * flock(2) locks belong to the open file and are taken on the handle's descriptor.
 *
 * A wait for a lock would hold a worker for as long as it takes. It gets a thread of its own, which an interrupt from
 * the kernel wakes.
 */
#ifndef FSTAPE_LOCK_H
#define FSTAPE_LOCK_H

#include "fs.h"

struct lock_table;

/* Once per process, before there are workers: the signal that ends waits. */
void lock_signal_init(void);

int lock_table_new(struct lock_table **ret_table);

/* Interrupts all waits and lets them be answered; after the workers have ended. */
void lock_table_stop(struct fs *fs);
void lock_table_free(struct fs *fs);

/* The owner has closed a descriptor of the inode. True: it had locks there. */
bool lock_drop_owner(struct fs *fs, struct node *node, uint64_t owner);

/*
 * The open file has ended. Processes have given up their locks by then (FLUSH), so what is left was locked as an open
 * file description, whose owner no FLUSH names.
 */
void lock_drop_handle(struct fs *fs, struct node *node, uint64_t handle);

#endif
