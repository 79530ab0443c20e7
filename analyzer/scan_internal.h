/* SPDX-License-Identifier: MIT */
/* scan_internal.h - what the files scan*.c share; for nobody else. */
#ifndef FSTAPE_SCAN_INTERNAL_H
#define FSTAPE_SCAN_INTERNAL_H

#include <sys/stat.h>

#include "base.h"
#include "initial.h"
#include "map64.h"
#include "progress.h"
#include "scan.h"

struct scan {
	struct trace *trace;
	int64_t run;
	const char *root;
	const struct scan_options *options;
	struct initial_index *index;
	int64_t start_ns;	   /* CLOCK_REALTIME_COARSE */
	struct map64 xattrs_set;   /* nodes whose attributes the run has changed */
	struct map64 extras_done;  /* inodes with several names whose contents and attributes are stored */
	struct trace_stmt *copy, *add_data, *add_xattr;
	uint32_t last_path;
	int64_t rows, unread;
	int64_t pending; /* since the last commit, bytes or so */
	bool no_xattrs;	 /* the filesystem has none */
	struct progress progress;
	char *buf; /* CONTENT_PIECE bytes */
};

/* An object of the start, as it is after the run. */
struct scan_object {
	int dir_fd;
	const char *name;
	const struct stat *st;
	uint32_t path;  /* path id of its row */
	uint64_t node; /* 0: not met */
};

/* The run has changed attributes of this node. */
int scan_note_xattrs(struct scan *scan, uint64_t node);

/* Stores what there is to an object besides its row, once per inode. 0 or -errno of trace.h. */
int scan_extras(struct scan *scan, const struct scan_object *object);

#endif
