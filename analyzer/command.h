/* SPDX-License-Identifier: MIT */
/*
 * command.h - a subcommand as a record, and what it is handed when it runs.
 *
 * Each cmd_NAME.c ends in `const struct command cmd_NAME = { ... };`; main.c holds the one array of them. Parsing, --help,
 * opening the database, exit statuses and flushing standard output come from the record.
 */
#ifndef FSTAPE_COMMAND_H
#define FSTAPE_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"
#include "table.h"
#include "trace.h"

enum exit_status {
	STATUS_OK = 0,
	STATUS_FAILED = 1,
	STATUS_USAGE = 2,
	STATUS_OWN_FAILURE = 125, /* `record`, whose other statuses are its command's */
};

/* The database, always the first word after the command. */
enum command_trace {
	NEED_NO_TRACE,    /* the command opens what it needs; words are handed over as they are */
	NEED_TRACE_READ,  /* context.trace is open for reading */
	NEED_TRACE_WRITE, /* ... for writing */
};

/* Which common options a command has, besides --quiet, --no-color, --help and --version. */
enum command_flags {
	COMMAND_RUN = 1 << 0,    /* --run */
	COMMAND_FORMAT = 1 << 1, /* --format */
};

struct common_options {
	struct text_list runs; /* numbers or labels, as given */
	const char *format;
	bool no_color;
	bool quiet;
	bool help;
	bool version;
};

struct command;

/* One invocation. All pointers live until the command returns. */
struct context {
	const struct command *command;
	struct common_options common;
	enum table_format format; /* of common.format */
	void *options;            /* command.options_size bytes, as command.options says */
	char **args;              /* the words, NULL-terminated; args[0] is the database */
	size_t n_args;
	struct trace *trace; /* as command.trace says, closed by the caller; or NULL */
};

struct command {
	const char *name;
	const char *summary;          /* one line */
	const char *arguments;        /* what stands after the name in the usage line, "DB SQL" */
	const char *details;          /* paragraphs for --help, or NULL */
	const struct option *options; /* NULL: none of its own */
	size_t options_size;          /* of the struct that the options' offsets are of */
	enum command_trace trace;
	unsigned int flags;
	size_t min_args, max_args; /* words, with the database; max 0: any number */
	size_t command_after;      /* as in options_parse() */
	int failure_status;        /* of -errno; 0: STATUS_FAILED */
	/* Returns an exit status, or -errno after a message: failure_status then. Leaves standard output unflushed. */
	int (*run)(struct context *context);
};

/* A table on standard output, in the format and with the colours that were asked for. NULL: no memory, said so. */
struct table *context_table(const struct context *context);

/* Prints and frees it. 0, or -errno after a message (none when the reader has just gone). */
int context_print(struct table *table);

/*
 * The runs that --run names, in that order, or the last one when it is not given. Returns their number (never
 * 0), or -errno after a message: no such run, no runs at all. The list is the caller's to free.
 */
int context_runs(const struct context *context, int64_t **ret_runs);

/* "fstape: DB: TEXT: SQLite's words" for a failed call of trace.h; returns `err`. */
int context_trace_error(const struct context *context, int err, const char *text);

#endif
