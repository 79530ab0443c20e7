/* SPDX-License-Identifier: MIT */
#include "workload.h"

#include <stdio.h>
#include <string.h>

#include "child.h"

/*
 * Git does not trust index entries that are as young as the index itself, and its time has a resolution of a
 * second: the next command reads such files again. Nobody means to measure that, so the second passes and the
 * index is written anew.
 */
static int settle_index(const char *what, const char *clone)
{
	char *status[] = { "git", "status", "--porcelain", NULL };
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec++;
	until.tv_nsec = 20000000; /* file times lag behind by a tick */
	if (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL) == EINTR)
		return -ECANCELED;
	return child_must(what, status, &(struct child_options){ .cwd = clone });
}

static int prepare_at(const struct workload_site *site, const char *commit)
{
	auto_free char *clone = NULL;
	char *clone_words[] = { "git", "clone", "-q", site->repo->url, NULL, NULL };
	char *checkout_words[] = { "git", "checkout", "-q", (char *)commit, NULL };
	int err;

	if (asprintf(&clone, "%s/clone", site->dir) < 0)
		return log_errno(ENOMEM, "%s", site->what);
	clone_words[4] = clone;
	err = child_must(site->what, clone_words, &(struct child_options){});
	if (err == 0 && strcmp(commit, site->repo->head) != 0)
		err = child_must(site->what, checkout_words, &(struct child_options){ .cwd = clone });
	return err ?: settle_index(site->what, clone);
}

static int prepare_clone(const struct workload_site *site)
{
	return prepare_at(site, site->repo->head);
}

static int prepare_parent(const struct workload_site *site)
{
	return prepare_at(site, site->repo->parent);
}

static int check_head(const struct workload_site *site)
{
	auto_free char *clone = NULL;

	if (asprintf(&clone, "%s/clone", site->dir) < 0)
		return log_errno(ENOMEM, "%s", site->what);
	return repository_check(site->repo, clone, site->repo->head, site->what);
}

static const struct workload workloads[] = {
	{
		.name = "git-clone",
		.summary = "clone through git's transport, with checkout",
		.cwd = "",
		.command = { "git", "clone", "-q", "@url", "clone" },
		.check = check_head,
	},
	{
		.name = "git-checkout",
		.summary = "switch a clean clone from the last commit but one to the last",
		.needs_parent = true,
		.prepare = prepare_parent,
		.cwd = "/clone",
		.command = { "git", "checkout", "-q", "@head" },
		.check = check_head,
	},
	{
		.name = "git-status",
		.summary = "status of a clean clone whose index needs no file read again",
		.prepare = prepare_clone,
		.cwd = "/clone",
		.command = { "git", "status", "--porcelain" },
		.check = check_head,
	},
};

const struct workload *workload_find(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(workloads); i++) {
		if (strlen(workloads[i].name) == len && strncmp(workloads[i].name, name, len) == 0)
			return &workloads[i];
	}
	return NULL;
}

void workload_names(struct strbuf *text)
{
	for (size_t i = 0; i < ARRAY_SIZE(workloads); i++)
		strbuf_addf(text, "%s%s", i ? ", " : "", workloads[i].name);
}

void workload_command(const struct workload *workload, const struct repository *repo,
	char *ret_words[static WORKLOAD_MAX_WORDS + 1])
{
	for (size_t i = 0; i < WORKLOAD_MAX_WORDS; i++) {
		const char *word = workload->command[i];

		if (word && strcmp(word, "@url") == 0)
			word = repo->url;
		else if (word && strcmp(word, "@head") == 0)
			word = repo->head;
		ret_words[i] = (char *)word;
	}
	ret_words[WORKLOAD_MAX_WORDS] = NULL;
}
