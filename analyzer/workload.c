/* SPDX-License-Identifier: MIT */
#include "workload.h"

#include <stdio.h>
#include <string.h>

#include "workload_steps.h"

#define MAX_WORKERS 1000

static const struct workload_type workload_types[] = {
	{
		.name = "git-clone",
		.summary = "clone through git's transport, with checkout",
		.cwd = "",
		.command = { "git", "clone", "-q", "@url", "clone" },
		.check = check_head,
	},
	{
		.name = "git-clone-local",
		.summary = "clone of a repository on the same filesystem, by hard links",
		.prepare = prepare_bare,
		.cwd = "",
		.command = { "git", "clone", "-q", "--local", "source.git", "clone" },
		.check = check_head,
	},
	{
		.name = "git-checkout",
		.summary = "switch a clean clone from the last commit but one to the last (git-checkout:N: with N workers)",
		.needs_parent = true,
		.takes_number = true,
		.prepare = prepare_parent,
		.cwd = "/clone",
		.command = { "git", "-c", "@workers", "-c", "checkout.thresholdForParallelism=0", "checkout", "-q", "@head" },
		.check = check_head,
	},
	{
		.name = "git-status",
		.summary = "status of a clean clone whose index needs no file read again",
		.keeps = true,
		.prepare = prepare_clone,
		.cwd = "/clone",
		.command = { "git", "status", "--porcelain" },
		.check = check_head,
	},
	{
		.name = "git-add",
		.summary = "add all files to a new repository: an object each",
		.prepare = prepare_unadded,
		.cwd = "/clone",
		.command = { "git", "add", "-f", "." },
		.check = check_added,
	},
	{
		.name = "git-commit",
		.summary = "commit them: a tree object for each folder",
		.prepare = prepare_added,
		.cwd = "/clone",
		.command = { "git", "commit", "-q", "-m", "All" },
		.check = check_committed,
	},
	{
		.name = "git-gc",
		.summary = "pack a repository of loose objects",
		.prepare = prepare_loose,
		.cwd = "/clone",
		.command = { "git", "gc", "-q" },
		.check = check_packed,
	},
	{
		.name = "git-log-walk",
		.summary = "log with the changes of each commit: reads objects",
		.keeps = true,
		.prepare = prepare_bare,
		.cwd = "/source.git",
		.command = { "git", "log", "--shortstat" },
		.check = check_printed,
	},
	{
		.name = "find",
		.summary = "find | wc -l over a clone",
		.keeps = true,
		.prepare = prepare_tree,
		.cwd = "/clone",
		.command = { "sh", "-c", "find . | wc -l" },
		.check = check_counted,
	},
	{
		.name = "ls-lR",
		.summary = "ls -lR over a clone: stats everything",
		.keeps = true,
		.prepare = prepare_tree,
		.cwd = "/clone",
		.command = { "ls", "-lARb" },
		.check = check_listed,
	},
	{
		.name = "rm-rf",
		.summary = "remove a clone",
		.prepare = prepare_tree,
		.cwd = "",
		.command = { "rm", "-rf", "clone" },
		.check = check_removed,
	},
	{
		.name = "untar",
		.summary = "unpack the files of the last commit from a tar",
		.needs_tar = true,
		.cwd = "",
		.command = { "sh", "-c", "mkdir tree && tar -xf \"$1\" -C tree", "sh", "@tar" },
		.check = check_unpacked,
	},
	{
		.name = "cmd=",
		.summary = "a shell command of yours, in a clone; it has to exit with 0",
		.prepare = prepare_tree,
		.cwd = "/clone",
		.command = { "sh", "-c", "@cmd" },
	},
};

static bool is_cmd(const struct workload_type *type)
{
	return strchr(type->name, '=');
}

static const struct workload_type *find_type(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(workload_types); i++) {
		if (!is_cmd(&workload_types[i]) && strlen(workload_types[i].name) == len &&
			strncmp(workload_types[i].name, name, len) == 0)
			return &workload_types[i];
	}
	return NULL;
}

static int refuse(const char *name)
{
	struct strbuf auto_strbuf names = {};

	workload_names(&names);
	log_msg("--workload: unknown workload '%s'; known are %s", name, names.buf ?: "");
	return -EINVAL;
}

/* "NAME" or "NAME:N". */
static int parse_named(struct workload *workload)
{
	const char *colon = strchr(workload->name, ':');
	size_t len = colon ? (size_t)(colon - workload->name) : strlen(workload->name);
	long number = 1;

	workload->type = find_type(workload->name, len);
	if (!workload->type)
		return refuse(workload->name);
	if (colon) {
		char *end;

		number = strtol(colon + 1, &end, 10);
		if (!workload->type->takes_number || end == colon + 1 || *end || number < 1 || number > MAX_WORKERS) {
			log_msg(workload->type->takes_number
					? "--workload: '%s': after the colon comes a number of workers, 1 to 1000"
					: "--workload: '%s': takes no number",
				workload->name);
			return -EINVAL;
		}
	}
	if (workload->type->takes_number && asprintf(&workload->workers, "checkout.workers=%ld", number) < 0)
		return log_errno(ENOMEM, "--workload");
	return 0;
}

static int parse_workload(struct workload *workload)
{
	if (strncmp(workload->name, "cmd=", 4) != 0)
		return parse_named(workload);
	workload->type = &workload_types[ARRAY_SIZE(workload_types) - 1];
	workload->cmd = workload->name + 4;
	if (*workload->cmd)
		return 0;
	log_msg("--workload: a shell command has to follow cmd=");
	return -EINVAL;
}

int workloads_parse(const char *text, struct workload **workloads, size_t *count)
{
	for (;;) {
		size_t len = strncmp(text, "cmd=", 4) == 0 ? strlen(text) : strcspn(text, ",");
		struct workload *grown = reallocarray(*workloads, *count + 1, sizeof(*grown)), *last;
		int err;

		if (!grown)
			return log_errno(ENOMEM, "--workload");
		*workloads = grown;
		last = &grown[(*count)++];
		*last = (struct workload){ .name = strndup(text, len) };
		err = last->name ? parse_workload(last) : log_errno(ENOMEM, "--workload");
		for (size_t i = 0; err == 0 && i + 1 < *count; i++) {
			if (strcmp(grown[i].name, last->name) == 0) {
				log_msg("--workload: '%s' is there twice", last->name);
				err = -EINVAL;
			}
		}
		if (err < 0 || !text[len])
			return err;
		text += len + 1;
		text += strspn(text, " ");
	}
}

void workloads_free(struct workload *workloads, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(workloads[i].name);
		free(workloads[i].workers);
	}
	free(workloads);
}

void workload_names(struct strbuf *text)
{
	for (size_t i = 0; i < ARRAY_SIZE(workload_types); i++)
		strbuf_addf(text, "%s%s%s", i ? ", " : "", workload_types[i].name, is_cmd(&workload_types[i]) ? "..." : "");
}

void workload_command(const struct workload *workload, const struct repository *repo,
	char *ret_words[static WORKLOAD_MAX_WORDS + 1])
{
	const struct {
		const char *name, *value;
	} places[] = {
		{ "@url", repo->url },
		{ "@head", repo->head },
		{ "@tar", repo->tar },
		{ "@workers", workload->workers },
		{ "@cmd", workload->cmd },
	};

	for (size_t i = 0; i < WORKLOAD_MAX_WORDS; i++) {
		const char *word = workload->type->command[i];

		for (size_t j = 0; word && j < ARRAY_SIZE(places); j++) {
			if (strcmp(word, places[j].name) == 0) {
				word = places[j].value;
				break;
			}
		}
		ret_words[i] = (char *)word;
	}
	ret_words[WORKLOAD_MAX_WORDS] = NULL;
}
