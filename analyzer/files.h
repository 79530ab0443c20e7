/* SPDX-License-Identifier: MIT */
/* files.h - folders of our own: making and removing them; which files lie where. */
#ifndef FSTAPE_FILES_H
#define FSTAPE_FILES_H

#include <stdbool.h>

/* A new folder, 0700, "PARENT/NAME-XXXXXX". `*ret_path` is to be freed. Says on standard error why not. */
int folder_make_temp(const char *parent, const char *name, char **ret_path);

/* Removes what is below `path` and itself; never crosses into another filesystem. What cannot be removed stays. */
int folder_remove(const char *path);

/* Whether `path` is `directory` or lies in it; both absolute and resolved. */
bool path_lies_in(const char *path, const char *directory);

#endif
