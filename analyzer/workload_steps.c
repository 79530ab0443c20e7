/* SPDX-License-Identifier: MIT */
#include "workload_steps.h"

#include <fts.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "child.h"
#include "files.h"

static int path_of(const struct workload_site *site, const char *name, char **ret_path)
{
	if (asprintf(ret_path, "%s/%s", site->dir, name) >= 0)
		return 0;
	*ret_path = NULL;
	return log_errno(ENOMEM, "%s", site->what);
}

/* A command of the set-up, in the site's folder `cwd` ("": itself). */
#define STEP(site, cwd, ...) step((site), (cwd), (char *[]){ __VA_ARGS__, NULL })

static int step(const struct workload_site *site, const char *cwd, char *words[])
{
	auto_free char *dir = NULL;
	int err = path_of(site, cwd, &dir);

	return err ?: child_must(site->what, words, &(struct child_options){ .cwd = dir });
}

/*
 * Git does not trust index entries that are as young as the index itself, and its time has a resolution of a
 * second: the next command reads such files again. Nobody means to measure that, so the second passes and the
 * index is written anew.
 */
static int settle_index(const struct workload_site *site)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec++;
	until.tv_nsec = 20000000; /* file times lag behind by a tick */
	if (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL) == EINTR)
		return -ECANCELED;
	return STEP(site, "clone", "git", "status", "--porcelain");
}

int prepare_tree(const struct workload_site *site)
{
	return STEP(site, "", "git", "clone", "-q", site->repo->url, "clone");
}

int prepare_clone(const struct workload_site *site)
{
	return prepare_tree(site) ?: settle_index(site);
}

int prepare_parent(const struct workload_site *site)
{
	int err = prepare_tree(site);

	err = err ?: STEP(site, "clone", "git", "checkout", "-q", (char *)site->repo->parent);
	return err ?: settle_index(site);
}

int prepare_bare(const struct workload_site *site)
{
	return STEP(site, "", "git", "clone", "-q", "--bare", site->repo->url, "source.git");
}

int prepare_unadded(const struct workload_site *site)
{
	auto_free char *git = NULL;
	int err = prepare_tree(site);

	err = err ?: path_of(site, "clone/.git", &git);
	if (err == 0 && (err = folder_remove(git)) < 0)
		log_errno(err, "%s: cannot remove %s", site->what, git);
	err = err ?: STEP(site, "clone", "git", "init", "-q");
	err = err ?: STEP(site, "clone", "git", "config", "user.name", "Nobody");
	return err ?: STEP(site, "clone", "git", "config", "user.email", "nobody@example.org");
}

int prepare_added(const struct workload_site *site)
{
	return prepare_unadded(site) ?: STEP(site, "clone", "git", "add", "-f", ".");
}

int prepare_loose(const struct workload_site *site)
{
	int err = STEP(site, "", "git", "clone", "-q", "--no-checkout", site->repo->url, "clone");

	/* git unpacks nothing that it has: the pack has to be outside */
	return err ?: STEP(site, "clone", "sh", "-c",
			"mkdir ../packs && mv .git/objects/pack/* ../packs && for p in ../packs/*.pack; do"
			" git unpack-objects -q <\"$p\" || exit; done && rm -rf ../packs");
}

int check_head(const struct workload_site *site)
{
	auto_free char *clone = NULL;
	int err = path_of(site, "clone", &clone);

	return err ?: repository_check(site->repo, clone, site->repo->head, site->what);
}

static int wrong(const struct workload_site *site, const char *what, int64_t found, int64_t expected)
{
	log_msg("%s: wrong result: %s %" PRId64 ", not %" PRId64, site->what, what, found, expected);
	return -EBADMSG;
}

/* Runs git in the clone and counts the bytes of its output that are `byte`. */
static int count_output(const struct workload_site *site, char *words[], char byte, int64_t *ret_count)
{
	struct strbuf auto_strbuf out = {};
	auto_free char *clone = NULL;
	int64_t count = 0;
	int err = path_of(site, "clone", &clone);

	err = err ?: child_must(site->what, words, &(struct child_options){ .cwd = clone, .output = &out });
	if (err < 0)
		return err;
	for (size_t i = 0; i < out.len; i++)
		count += out.buf[i] == byte;
	*ret_count = count;
	return 0;
}

static int check_count(const struct workload_site *site, char *words[], const char *what)
{
	int64_t count, expected = site->repo->head_files;
	int err = count_output(site, words, '\0', &count);

	return err ?: count == expected ? 0 : wrong(site, what, count, expected);
}

int check_added(const struct workload_site *site)
{
	return check_count(site, (char *[]){ "git", "ls-files", "-z", NULL }, "files in the index:");
}

int check_committed(const struct workload_site *site)
{
	return check_count(site, (char *[]){ "git", "ls-tree", "-rz", "--name-only", "HEAD", NULL }, "files in the commit:");
}

int check_packed(const struct workload_site *site)
{
	struct strbuf auto_strbuf out = {};
	auto_free char *clone = NULL;
	char *words[] = { "git", "count-objects", "-v", NULL };
	int err = path_of(site, "clone", &clone);

	err = err ?: child_must(site->what, words, &(struct child_options){ .cwd = clone, .output = &out });
	if (err < 0)
		return err;
	if (out.buf && strncmp(out.buf, "count: 0\n", 9) == 0 && strstr(out.buf, "\npacks: 1\n"))
		return 0;
	log_msg("%s: wrong result: not one pack and nothing else; 'git count-objects -v' says:\n%s", site->what,
		out.buf ?: "");
	return -EBADMSG;
}

/* What stands in the clone, itself included: everything. */
static int count_entries(const struct workload_site *site, int64_t *ret_entries)
{
	auto_free char *clone = NULL;
	int err = path_of(site, "clone", &clone);
	char *roots[] = { clone, NULL };
	FTS *fts = err == 0 ? fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_NOSTAT, NULL) : NULL;
	int64_t entries = 0;

	if (!fts)
		return err ?: log_errno(errno, "%s", clone);
	for (FTSENT *entry; (entry = fts_read(fts));)
		entries += entry->fts_info != FTS_DP;
	fts_close(fts);
	*ret_entries = entries;
	return 0;
}

static FILE *open_output(const struct workload_site *site)
{
	int fd = dup(site->output);
	FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;

	if (file)
		rewind(file);
	return file;
}

int check_printed(const struct workload_site *site)
{
	struct stat st;

	if (fstat(site->output, &st) == 0 && st.st_size > 0)
		return 0;
	log_msg("%s: wrong result: it printed nothing", site->what);
	return -EBADMSG;
}

int check_counted(const struct workload_site *site)
{
	FILE *file = open_output(site);
	int64_t entries = 0, printed = -1;
	int err = count_entries(site, &entries);

	if (file && fscanf(file, "%" SCNd64, &printed) != 1)
		printed = -1;
	if (file)
		fclose(file);
	return err ?: printed == entries ? 0 : wrong(site, "entries:", printed, entries);
}

/* Lines like "-rw-r--r-- 1 ...", one for each entry but the top; those between begin with "." or "total". */
int check_listed(const struct workload_site *site)
{
	FILE *file = open_output(site);
	int64_t entries = 0, lines = 1;
	auto_free char *line = NULL;
	size_t size = 0;
	int err = count_entries(site, &entries);

	while (file && getline(&line, &size, file) > 0)
		lines += line[0] && strchr("-dlbcps", line[0]);
	if (file)
		fclose(file);
	return err ?: lines == entries ? 0 : wrong(site, "lines:", lines, entries);
}

int check_removed(const struct workload_site *site)
{
	auto_free char *clone = NULL;
	int err = path_of(site, "clone", &clone);

	if (err < 0 || access(clone, F_OK) < 0)
		return err;
	log_msg("%s: wrong result: the clone is still there", site->what);
	return -EBADMSG;
}

int check_unpacked(const struct workload_site *site)
{
	auto_free char *tree = NULL;
	uint32_t files = 0;
	int err = path_of(site, "tree", &tree);

	err = err ?: repository_count_files(tree, &files);
	if (err < 0)
		return log_errno(err, "%s", site->what);
	return files == site->repo->head_files ? 0 : wrong(site, "files:", files, site->repo->head_files);
}
