/* SPDX-License-Identifier: MIT */
#include "files.h"

#include <fts.h>
#include <stdio.h>
#include <string.h>

#include "base.h"

int folder_make_temp(const char *parent, const char *name, char **ret_path)
{
	char *path;

	if (asprintf(&path, "%s/%s-XXXXXX", parent, name) < 0)
		return log_errno(ENOMEM, "%s", parent);
	if (!mkdtemp(path)) {
		int err = log_errno(errno, "cannot make a temporary folder in %s", parent);

		free(path);
		return err;
	}
	*ret_path = path;
	return 0;
}

int folder_remove(const char *path)
{
	char *roots[] = { (char *)path, NULL };
	FTS *fts = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV | FTS_NOSTAT, NULL);
	int err = 0;

	if (!fts)
		return -errno;
	for (FTSENT *entry; (entry = fts_read(fts));) {
		int failed = 0;

		if (entry->fts_info == FTS_DP)
			failed = rmdir(entry->fts_accpath);
		else if (entry->fts_info != FTS_D)
			failed = unlink(entry->fts_accpath);
		if (failed < 0 && errno != ENOENT)
			err = -errno;
	}
	fts_close(fts);
	return err;
}

bool path_lies_in(const char *path, const char *directory)
{
	size_t len = strlen(directory);

	if (len == 1)
		return true; /* the root */
	return strncmp(path, directory, len) == 0 && (path[len] == '/' || path[len] == '\0');
}
