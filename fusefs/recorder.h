/* SPDX-License-Identifier: MIT */
/*
 * recorder.h - from the workers into the database.
 *
 * Workers write records into segments of the spool, each into its own, without a lock; one thread, the loader, moves them
 * into the database at idle priority. Nothing here waits for the database, with one exception: with overflow=block a
 * worker whose spool is at its limit waits until the loader has made room. It gives up waiting when the loader gets
 * nowhere (loss.h says how long): the user's filesystem goes on, and what is lost is counted by operation.
 */
#ifndef FSTAPE_RECORDER_H
#define FSTAPE_RECORDER_H

#include "event.h"
#include "fs.h"

struct recorder;
struct trace;

/* Opens or makes the database, recovers what is unfinished there, and makes the run's row and spool. Says what fails. */
int recorder_open(struct fs *fs, struct recorder **ret_recorder);

/* The loader. After every fork of the process, as threads do not survive one. */
int recorder_start(struct recorder *recorder);

/*
 * The mount is asked to end: from now on workers that find no room make some beyond the limit, so that none of them holds
 * that up. When the disk has no room either, what they record is lost after some seconds, and counted.
 */
void recorder_hurry(struct recorder *recorder);

/*
 * The mount has ended: loads what is left, writes the counts, removes the spool. When that can't be done the spool stays
 * for `fstape recover`, which is said; -errno.
 */
int recorder_finish(struct recorder *recorder);
void recorder_free(struct recorder *recorder);

int64_t recorder_run(const struct recorder *recorder);

/* The run's row, for what is known only once the mount is up. Before recorder_finish(). Any thread. */
void recorder_set_text(struct recorder *recorder, const char *column, const char *value);

/* The run's time, ns. */
int64_t recorder_now(const struct recorder *recorder);

/* Whether an inode of this btime (CLOCK_REALTIME ns, 0: unknown) and ctime was there when the run began. */
bool recorder_is_older(const struct recorder *recorder, int64_t btime_ns, int64_t ctime_ns);

/* Counts one request: the next seq. */
uint64_t recorder_request(struct recorder *recorder);

/* Any worker. An event that finds no room is counted as dropped, as is one whose path, process or find found none. */
void recorder_event(struct recorder *recorder, const struct event *event, const char *args);
/* These hand out the id of what they record; 0 when there is no room. */
uint32_t recorder_path(struct recorder *recorder, uint32_t parent, const char *text, size_t len);
uint32_t recorder_process(struct recorder *recorder, struct process_record *process, const char *comm, const char *exe,
	size_t exe_len, const char *cmdline, size_t cmdline_len);
void recorder_cpu(struct recorder *recorder, const struct cpu_record *cpu);
void recorder_initial(struct recorder *recorder, struct initial_record *initial, const char *target, size_t len);
/*
 * Bytes that operation `seq` moved, from `offset` of its file on, in pieces; before its event. Bytes that have been
 * recorded already are referred to. What finds no room is counted in the run's row as data_lost.
 */
void recorder_data(struct recorder *recorder, uint64_t seq, int64_t offset, const void *bytes, size_t len);

/* There will be one more thread than options.threads that records: each of them holds a segment. */
void recorder_add_writer(struct recorder *recorder);

/* The calling thread writes no more: its segment goes to the loader. */
void recorder_thread_end(void);

#endif
