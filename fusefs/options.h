/* SPDX-License-Identifier: MIT */
/* options.h - the command line of fstapefs, by the conventions of mount.fuse. */
#ifndef FSTAPE_OPTIONS_H
#define FSTAPE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct fuse_args;

enum cache_mode { CACHE_DEFAULT, CACHE_NEVER, CACHE_AUTO, CACHE_ALWAYS };
enum overflow_mode { OVERFLOW_BLOCK, OVERFLOW_DROP };
enum load_mode { LOAD_LIVE, LOAD_END };
enum wait_mode { WAIT_AUTO, WAIT_POOL, WAIT_SLEEP, WAIT_POLL, WAIT_FOLLOW }; /* leader.h */
enum transport { TRANSPORT_DEV, TRANSPORT_AUTO, TRANSPORT_URING };
enum data_mode { DATA_NONE, DATA_FULL };

struct options {
	char *source;	  /* the real directory, absolute */
	char *mountpoint; /* absolute */
	char *db;	  /* absolute; NULL with norecord */
	char *label;
	enum cache_mode cache;
	enum overflow_mode overflow;
	enum load_mode load;
	enum data_mode data;
	enum wait_mode wait;
	enum transport transport;
	double entry_timeout, attr_timeout; /* seconds */
	uint64_t spool_size;		    /* bytes */
	uint64_t max_db;		    /* bytes; 0: no limit */
	unsigned int keep_runs;		    /* 0: all */
	unsigned int threads;		    /* most workers at once */
	unsigned int dir_readahead;	    /* threads that read ahead directories; 0: off */
	int ready_fd;			    /* -1: nobody waits */
	int norecord;
	int noflush, writeback, data_passthrough;
	int foreground, debug, singlethread;
	int show_help, show_version;
	bool in_place;	  /* SOURCE is MOUNTPOINT */
	bool allow_other;
	char *mount_text; /* what libfuse gets, for the run's row */
};

/*
 * Reads the command line; `args` keeps what is libfuse's. 0, or -EINVAL with the message printed. The strings are
 * options_free()'s.
 */
int options_parse(struct options *options, struct fuse_args *args);
void options_free(struct options *options);
void options_help(void);

const char *cache_mode_name(enum cache_mode mode);
const char *wait_mode_name(enum wait_mode mode);

/* The MODE_BIT()s (schema/mode.h) of what it hides. */
unsigned int options_modes(const struct options *options);

#endif
