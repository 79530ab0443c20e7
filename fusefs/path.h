/* SPDX-License-Identifier: MIT */
/*
 * path.h - ids of paths, for events.
 *
 * An event names paths by number; a path record in the spool says what a number means. The record is published before
 * the number is handed out, by whichever thread meets the path first, so events never refer to a path that a crash
 * could lose. Numbers are found again through a fixed-size cache keyed by (parent's path id, name): a path that fell out
 * of it gets a second number with the same text, which costs a row and nothing else.
 *
 * A node remembers its path id. When a directory is renamed all paths below it change: an epoch counts up, and nodes
 * that remember an id of an older epoch ask again.
 *
 * All functions may be called from any worker. Without a recorder there are no paths: ids are 0.
 */
#ifndef FSTAPE_PATH_H
#define FSTAPE_PATH_H

#include "fs.h"

struct path_table;
struct dir_text;

/* A longer text is not kept: such a path is recorded as "..." + "/" + its name; its `parent` ids lead to the root. */
#define PATH_TEXT_MAX 16384u

int path_table_new(struct path_table **ret_table);
void path_table_free(struct fs *fs);

uint32_t path_epoch(struct fs *fs);

/* A directory has been renamed: what nodes remember is out of date. */
void path_bump_epoch(struct fs *fs);

/* The id of a node's path; of a node without a name that of its last one. */
uint32_t path_of_node(struct fs *fs, struct node *node);

/* The id of `name` in `parent`, whether there is such a thing or not. */
uint32_t path_of_name(struct fs *fs, struct node *parent, const char *name);

/* The id of a text that is no path of the mount, such as a symlink's target. */
uint32_t path_of_text(struct fs *fs, const char *text);

/* A directory is about to lose its name: what happens in it afterwards is still to have paths. */
void path_remember(struct fs *fs, struct node *dir);

void path_dir_text_free(struct dir_text *text);

#endif
