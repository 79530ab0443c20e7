/* SPDX-License-Identifier: MIT */
#include "repository.h"

#include <fcntl.h>
#include <fts.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base.h"
#include "child.h"
#include "files.h"
#include "isolate.h"

#define READ_SIZE (1 << 20)

static const char config_text[] =
	"[gc]\n\tauto = 0\n"
	"[maintenance]\n\tauto = false\n"
	"[safe]\n\tdirectory = *\n"
	"[advice]\n\tdetachedHead = false\n"
	"[init]\n\tdefaultBranch = master\n"
	"[fastimport]\n\tunpackLimit = 1\n" /* a pack whatever the size, as a server has it */
	"[core]\n\texcludesFile = /dev/null\n\tattributesFile = /dev/null\n";

/* Configuration goes through a file: git keeps GIT_CONFIG_COUNT from the upload-pack at the other end of a clone. */
int repository_environment(const char *dir)
{
	static const char *const unset[] = {
		"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR",
		"GIT_NAMESPACE", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CEILING_DIRECTORIES",
		"GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT", "GIT_CONFIG", "GIT_TEMPLATE_DIR",
		"GIT_OPTIONAL_LOCKS", "GIT_EXTERNAL_DIFF", "GIT_DEFAULT_HASH", "GIT_TRACE", "GIT_TRACE2",
		"GIT_TRACE2_EVENT", "GIT_TRACE2_PERF", "GIT_INDEX_VERSION",
	};
	auto_free char *path = NULL;
	FILE *file;

	if (asprintf(&path, "%s/gitconfig", dir) < 0)
		return -ENOMEM;
	file = fopen(path, "we");
	if (!file)
		return log_errno(errno, "%s", path);
	fputs(config_text, file);
	if (fclose(file) != 0)
		return log_errno(errno, "%s", path);
	for (size_t i = 0; i < ARRAY_SIZE(unset); i++)
		unsetenv(unset[i]);
	setenv("GIT_CONFIG_GLOBAL", path, 1);
	setenv("GIT_CONFIG_SYSTEM", "/dev/null", 1);
	setenv("GIT_ATTR_NOSYSTEM", "1", 1);
	setenv("GIT_TERMINAL_PROMPT", "0", 1);
	setenv("LC_ALL", "C", 1);
	return 0;
}

/* What a command prints, without the line's end. */
static int capture_line(const char *what, char *const argv[], const char *cwd, char **ret_line)
{
	struct strbuf auto_strbuf out = {};
	int err = child_must(what, argv, &(struct child_options){ .cwd = cwd, .output = &out });

	if (err < 0)
		return err;
	if (out.len)
		out.buf[strcspn(out.buf, "\n")] = '\0';
	*ret_line = strdup(out.buf ?: "");
	return *ret_line ? 0 : -ENOMEM;
}

int repository_git_version(char **ret_version)
{
	char *argv[] = { "git", "version", NULL };
	auto_free char *line = NULL;
	int err = capture_line("git is needed (Debian package: git)", argv, NULL, &line);

	if (err < 0)
		return err;
	*ret_version = strdup(strncmp(line, "git version ", 12) == 0 ? line + 12 : line);
	return *ret_version ? 0 : -ENOMEM;
}

/* The id that `name` has in the repository; "" and 0 when there is no such commit. */
static int resolve(const char *dir, const char *name, char id[static COMMIT_ID_SIZE])
{
	char *argv[] = { "git", "rev-parse", "--verify", "--quiet", (char *)name, NULL };
	struct strbuf auto_strbuf out = {};
	struct child_result result;
	int err = child_run(argv, &(struct child_options){ .cwd = dir, .output = &out }, &result);

	if (err < 0)
		return log_errno(err, "cannot run git");
	id[0] = '\0';
	if (result.status == 0 && out.len > 1)
		snprintf(id, COMMIT_ID_SIZE, "%.*s", (int)strcspn(out.buf, "\n"), out.buf);
	return 0;
}

/* Entries of a tree, without submodules: what a checkout makes files and symlinks for. */
static int count_tree(const char *dir, const char *commit, uint32_t *ret_files)
{
	char *argv[] = { "git", "ls-tree", "-r", "-z", (char *)commit, NULL };
	struct strbuf auto_strbuf out = {};
	uint32_t files = 0;
	int err = child_must("counting files", argv, &(struct child_options){ .cwd = dir, .output = &out });

	if (err < 0)
		return err;
	for (const char *p = out.buf; p && p < out.buf + out.len; p += strlen(p) + 1)
		files += strncmp(p, "160000 ", 7) != 0;
	*ret_files = files;
	return 0;
}

static int learn(struct repository *repo)
{
	int err = resolve(repo->dir, "HEAD^{commit}", repo->head);

	if (err == 0 && !repo->head[0]) {
		log_msg("%s: has no commit at HEAD to work with", repo->origin);
		return -EINVAL;
	}
	err = err ?: resolve(repo->dir, "HEAD~1^{commit}", repo->parent);
	err = err ?: count_tree(repo->dir, repo->head, &repo->head_files);
	if (err == 0 && repo->parent[0])
		err = count_tree(repo->dir, repo->parent, &repo->parent_files);
	return err;
}

static int generate(struct repository *repo, const struct genrepo_options *options)
{
	char *init[] = { "git", "init", "-q", "--bare", repo->dir, NULL };
	int err;

	if (asprintf(&repo->origin,
		    "generated: %" PRIu32 " files, mean %" PRIu32 " bytes, %" PRIu32
		    " commits, seed %" PRIu64,
		    options->files, options->mean_bytes, options->commits, options->seed) < 0)
		return -ENOMEM;
	err = child_must("generating a repository", init, &(struct child_options){});
	return err ?: genrepo_make(repo->dir, options);
}

/* A copy, so that the user's repository is neither touched nor able to change, and is packed as a server's would be. */
static int copy(struct repository *repo, const char *path)
{
	auto_free char *url = NULL;
	char *argv[] = { "git", "clone", "-q", "--bare", NULL, repo->dir, NULL };
	int err = -ENOMEM;

	repo->origin = realpath(path, NULL);
	if (!repo->origin)
		return log_errno(errno, "%s", path);
	if (asprintf(&url, "file://%s", repo->origin) >= 0) {
		argv[4] = url;
		err = child_must("copying the repository", argv, &(struct child_options){});
	}
	return err;
}

int repository_make(
	struct repository *ret_repo, const char *dir, const char *path, const struct genrepo_options *options)
{
	struct repository repo = {};
	int err = -ENOMEM;

	if (asprintf(&repo.dir, "%s/source.git", dir) >= 0 && asprintf(&repo.url, "file://%s", repo.dir) >= 0)
		err = path ? copy(&repo, path) : generate(&repo, options);
	err = err ?: learn(&repo);
	if (err < 0)
		repository_free(&repo);
	else
		*ret_repo = repo;
	return err;
}

/* Not by git-archive, which leaves out what the repository's own attributes tell it to. */
int repository_make_tar(struct repository *repo)
{
	auto_free char *tree = NULL;
	char *clone[] = { "git", "clone", "-q", repo->url, NULL, NULL };
	char *tar[] = { "tar", "--exclude=./.git", "-cf", NULL, "-C", NULL, ".", NULL };
	int err;

	if (repo->tar)
		return 0;
	if (asprintf(&repo->tar, "%s.tar", repo->dir) < 0 || asprintf(&tree, "%s.tree", repo->dir) < 0)
		return log_errno(ENOMEM, "%s", repo->dir);
	clone[4] = tar[5] = tree;
	tar[3] = repo->tar;
	err = child_must("making a tar", clone, &(struct child_options){});
	err = err ?: child_must("making a tar", tar, &(struct child_options){});
	if (err == 0)
		folder_remove(tree);
	return err;
}

static void read_through(const char *path, char *buf, size_t size)
{
	int auto_close fd = open(path, O_RDONLY | O_CLOEXEC);

	while (fd >= 0 && read(fd, buf, size) > 0)
		;
}

int repository_warm(const struct repository *repo)
{
	char *roots[] = { repo->dir, repo->tar, NULL };
	FTS *fts = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	auto_free char *buf = malloc(READ_SIZE);

	if (!fts || !buf) {
		int err = log_errno(errno, "%s", repo->dir);

		if (fts)
			fts_close(fts);
		return err;
	}
	for (FTSENT *entry; (entry = fts_read(fts)) && !isolate_stopped();) {
		if (entry->fts_info == FTS_F)
			read_through(entry->fts_accpath, buf, READ_SIZE);
	}
	fts_close(fts);
	return isolate_stopped() ? -ECANCELED : 0;
}

void repository_free(struct repository *repo)
{
	free(repo->dir);
	free(repo->url);
	free(repo->tar);
	free(repo->origin);
	*repo = (struct repository){};
}

int repository_count_files(const char *dir, uint32_t *ret_files)
{
	char *roots[] = { (char *)dir, NULL };
	FTS *fts = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_NOSTAT, NULL);
	uint32_t files = 0;
	int err;

	if (!fts)
		return -errno;
	errno = 0;
	for (FTSENT *entry; (entry = fts_read(fts)); errno = 0) {
		if (entry->fts_info == FTS_D && entry->fts_level == 1 && strcmp(entry->fts_name, ".git") == 0)
			fts_set(fts, entry, FTS_SKIP);
		files += entry->fts_info == FTS_F || entry->fts_info == FTS_SL || entry->fts_info == FTS_NSOK;
	}
	err = -errno;
	fts_close(fts);
	if (err == 0)
		*ret_files = files;
	return err;
}

int repository_check(const struct repository *repo, const char *dir, const char *commit, const char *what)
{
	char *status[] = { "git", "status", "--porcelain", NULL };
	uint32_t expected = strcmp(commit, repo->head) == 0 ? repo->head_files : repo->parent_files,
		 files = 0;
	struct strbuf auto_strbuf out = {};
	char head[COMMIT_ID_SIZE];
	int err = resolve(dir, "HEAD", head);

	err = err ?: child_must(what, status, &(struct child_options){ .cwd = dir, .output = &out });
	if (err == 0 && (err = repository_count_files(dir, &files)) < 0)
		log_errno(err, "%s: cannot read %s", what, dir);
	if (err < 0)
		return err;
	if (strcmp(head, commit) != 0)
		log_msg("%s: wrong result: HEAD is '%s', not %s", what, head, commit);
	else if (files != expected)
		log_msg("%s: wrong result: %" PRIu32 " files, not the %" PRIu32 " of the commit", what, files,
			expected);
	else if (out.len)
		log_msg("%s: wrong result: 'git status' says:\n%s", what, out.buf);
	else
		return 0;
	return -EBADMSG;
}
