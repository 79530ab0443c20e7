/* SPDX-License-Identifier: MIT */
/* host_internal.h - what host*.c share; for nobody else. */
#ifndef FSTAPE_HOST_INTERNAL_H
#define FSTAPE_HOST_INTERNAL_H

#include <pthread.h>

#include "base.h"
#include "host.h"

/* One number of a file of the kernel's. */
struct host_field {
	const char *line;  /* the line that has this text */
	const char *after; /* there, behind this text; NULL: from the line's beginning */
	int index;	   /* which of the numbers behind that, from 0 */
	const char *name, *kind, *unit;
	int64_t scale; /* what it is multiplied by to be in the unit; 0: by the page's size, -1: by the clock tick */
};

/* A file that is read anew for each sample. */
struct host_file {
	int fd;
	char *source;
	const struct host_field *fields;
	size_t n_fields;
	size_t first; /* the number of its first counter */
};

struct host_sample {
	int64_t mono_ns;
	int64_t value;
	uint32_t counter; /* from 0 */
};

struct host_anchor {
	int64_t before_ns, real_ns, after_ns; /* CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_MONOTONIC */
};

struct host {
	struct host_file *files;
	size_t n_files, n_counters;
	int64_t *last; /* by counter; INT64_MIN: none yet */
	struct host_sample *samples;
	size_t n_samples;
	struct host_anchor *anchors, seen; /* the latest, whether kept or not */
	size_t n_anchors;
	bool failed; /* no memory: what there is up to then is kept */
	char buf[16384];
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool started, stop;
};

/* Adds a file, when it can be opened; `source` is copied. */
int host_add_file(struct host *host, const char *path, const char *source, const struct host_field *fields,
	size_t n_fields);

/* Adds the files for the devices and the filesystem of `source`. */
int host_find_devices(struct host *host, const char *source);

#endif
