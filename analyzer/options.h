/* SPDX-License-Identifier: MIT */
/*
 * options.h - options of the command line as data: a row says how an option is called, what it takes, where
 * its value goes, what it is when it is not given, and what help says about it.
 *
 * A table of rows belongs to a struct of values: `offset` is the member's place there. Texts are not copied:
 * they live as long as argv and the table. Not for threads.
 */
#ifndef FSTAPE_OPTIONS_H
#define FSTAPE_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base.h"

enum option_type {
	OPTION_FLAG,   /* bool */
	OPTION_TEXT,   /* const char * */
	OPTION_CHOICE, /* const char *: one of the words of `argument` */
	OPTION_LIST,   /* struct text_list: the option may be repeated */
	OPTION_INT,    /* int64_t, from min to max */
	OPTION_SIZE,   /* int64_t bytes, from min to max; K, M, G and T are powers of 1024 */
};

struct option {
	const char *name;     /* without dashes; NULL ends the table */
	const char *argument; /* the value's name in help; of OPTION_CHOICE the words themselves, "a|b|c" */
	const char *help;     /* NULL: not shown, for what only tests want */
	const char *preset; /* the value when none is given, parsed like a given one; NULL: zero, false, no
			       text */
	size_t offset;
	int64_t min, max; /* max 0: no limit */
	enum option_type type;
	char letter; /* of the short form, or 0 */
};

struct text_list {
	const char **items; /* freed by options_free() */
	size_t count;
};

/* A table and the struct that its values go to. */
struct option_set {
	const struct option *table;
	void *values;
};

/* Sets every value to its preset. 0 or -ENOMEM. `values` must have been cleared. */
int options_init(const struct option_set *sets, size_t count);

/*
 * Parses argv (NULL-terminated, without the program's name). Options may stand before, between and after the
 * other words; "--" ends them. When `command_after` is not 0, the word after that many others begins a
 * command of somebody else's: it and all that follow are taken as they are. Moves the other words to the
 * front of argv, in their order, and returns their number; argv[number] is NULL then. -EINVAL after a message
 * on standard error.
 */
int options_parse(const struct option_set *sets, size_t count, char **argv, size_t command_after);

/*
 * The values as a JSON array of words that options_parse() makes the same values of; rows that have no value, and the
 * one called `but`, are left out.
 */
void options_words(const struct option_set *set, const char *but, struct strbuf *json);

/* Frees what lists hold. */
void options_free(const struct option_set *sets, size_t count);

/* The rows as help, in at most 80 columns. */
void options_help(const struct option *table, FILE *out);

/* `text` in lines of at most 80 columns, all but the first indented by `indent`; `column` is where the first begins. */
void options_wrap(const char *text, unsigned int indent, unsigned int column, FILE *out);

/* A number of bytes such as "64M" or "1G". 0 or -EINVAL. */
int parse_size(const char *text, int64_t *ret_bytes);

/* A decimal number, the whole text. 0 or -EINVAL. */
int parse_int(const char *text, int64_t *ret_value);

#endif
