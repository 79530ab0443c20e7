/* SPDX-License-Identifier: MIT */
#include "target.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "child.h"

#define MIB       ((int64_t)1 << 20)

/* Nothing may be initialised in the background while we measure: ext* would do so for minutes. */
#define EXT_NOT_LAZY "lazy_itable_init=0,lazy_journal_init=0"

static const struct target_type types[] = {
	{ "ext3", "e2fsprogs", { "-q", "-F", "-E", EXT_NOT_LAZY }, 16 * MIB, TARGET_BLOCK, NULL },
	{ "ext4", "e2fsprogs", { "-q", "-F", "-E", EXT_NOT_LAZY }, 16 * MIB, TARGET_BLOCK, NULL },
	{ "xfs", "xfsprogs", { "-q", "-f" }, 300 * MIB, TARGET_BLOCK, NULL },
	{ "btrfs", "btrfs-progs", { "-q", "-f" }, 128 * MIB, TARGET_BLOCK, NULL },
	{ "f2fs", "f2fs-tools", { "-q", "-f" }, 64 * MIB, TARGET_BLOCK, NULL },
	{ "tmpfs", NULL, {}, 0, TARGET_MEMORY, NULL },
	{ "overlay", "e2fsprogs", { "-q", "-F", "-E", EXT_NOT_LAZY }, 16 * MIB, TARGET_OVERLAY, "ext4" },
};

void target_names(struct strbuf *text)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		strbuf_addf(text, "%s%s", i ? ", " : "", types[i].name);
}

static const struct target_type *find_type(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		if (strlen(types[i].name) == len && strncmp(types[i].name, name, len) == 0)
			return &types[i];
	}
	return NULL;
}

/* Whether a target begins at `text`. */
static bool begins_target(const char *text)
{
	return strncmp(text, "dir=", 4) == 0 || find_type(text, strcspn(text, ":,"));
}

/* The length of the first target in `spec`. */
static size_t target_length(const char *spec)
{
	const char *comma = spec;

	while ((comma = strchr(comma, ','))) {
		if (begins_target(comma + 1))
			return (size_t)(comma - spec);
		comma++;
	}
	return strlen(spec);
}

/* Where the value of "mkfs=..." and its like goes; NULL: unknown, or it has one already. */
static char **member_of(struct target *target, const char *part)
{
	char **member = strncmp(part, "mkfs=", 5) == 0	? &target->mkfs_options :
			strncmp(part, "mount=", 6) == 0 ? &target->mount_options :
			strncmp(part, "label=", 6) == 0 && part[6] ? &target->label : NULL;

	return member && !*member ? member : NULL;
}

static int parse_options(struct target *target, char *text)
{
	for (char *part; (part = strsep(&text, ":"));) {
		char **member = member_of(target, part);

		if (strcmp(part, "raid1") == 0 && strcmp(target->type->name, "btrfs") == 0 && !target->raid1) {
			target->raid1 = true;
			continue;
		}
		if (!member) {
			log_msg("--fs: '%s': '%s' is not understood; a target is "
				"NAME[:mkfs=OPTIONS][:mount=OPTIONS][:label=TEXT], or btrfs:raid1",
				target->name, part);
			return -EINVAL;
		}
		*member = strdup(strchr(part, '=') + 1);
		if (!*member)
			return log_errno(ENOMEM, "--fs");
	}
	if (!target->label)
		return 0;
	free(target->name);
	target->name = strdup(target->label);
	return target->name ? 0 : log_errno(ENOMEM, "--fs");
}

/* What mkfs is not run for has no use for its options. */
static int check_options(const struct target *target)
{
	if (target->type->kind != TARGET_MEMORY || !target->mkfs_options)
		return 0;
	log_msg("--fs: '%s': there is no mkfs for %s", target->name, target->type->name);
	return -EINVAL;
}

/* Of "ext4,zfs" the second is what is wrong: commas separate only before what is known, as options have some as well. */
static int unknown_type(const char *text)
{
	struct strbuf auto_strbuf names = {};
	size_t len = strcspn(text, ",");

	while (text[len] && find_type(text, strcspn(text, ":,"))) {
		text += len + 1;
		len = strcspn(text, ",");
	}
	target_names(&names);
	log_msg("--fs: unknown filesystem '%.*s'; known are %s, and dir=PATH for a directory on any other", (int)len, text,
		names.buf ?: "");
	return -EINVAL;
}

static int parse_target(const char *spec, size_t len, struct target *ret_target)
{
	auto_free char *text = strndup(spec, len);
	size_t name_len;

	ret_target->name = strndup(spec, len);
	if (!text || !ret_target->name)
		return log_errno(ENOMEM, "--fs");
	if (strncmp(text, "dir=", 4) == 0) {
		ret_target->dir = realpath(text + 4, NULL);
		return ret_target->dir ? 0 : (log_errno(errno, "--fs: %s", text), -EINVAL);
	}
	name_len = strcspn(text, ":");
	ret_target->type = find_type(text, name_len);
	if (!ret_target->type)
		return unknown_type(text);
	return (text[name_len] ? parse_options(ret_target, text + name_len + 1) : 0) ?: check_options(ret_target);
}

int targets_parse(const char *spec, struct target **targets, size_t *count)
{
	for (;;) {
		size_t len = target_length(spec);
		struct target *grown = reallocarray(*targets, *count + 1, sizeof(**targets));
		int err;

		if (!grown)
			return log_errno(ENOMEM, "--fs");
		*targets = grown;
		grown[*count] = (struct target){};
		err = parse_target(spec, len, &grown[(*count)++]);
		if (err < 0)
			return err;
		for (size_t i = 0; i + 1 < *count; i++) {
			if (strcmp(grown[i].name, grown[*count - 1].name) == 0) {
				log_msg("--fs: '%s' is there twice; label=TEXT gives a name of its own",
					grown[i].name);
				return -EINVAL;
			}
		}
		if (!spec[len])
			return 0;
		spec += len + 1;
	}
}

void targets_free(struct target *targets, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(targets[i].name);
		free(targets[i].mkfs_options);
		free(targets[i].mount_options);
		free(targets[i].label);
		free(targets[i].dir);
	}
	free(targets);
}

int target_extend_path(void)
{
	auto_free char *path = NULL;

	if (asprintf(&path, "%s:/usr/local/sbin:/usr/sbin:/sbin", getenv("PATH") ?: "/usr/local/bin:/usr/bin:/bin") < 0)
		return log_errno(ENOMEM, "PATH");
	return setenv("PATH", path, 1) < 0 ? log_errno(errno, "PATH") : 0;
}

static bool have_program(const char *name)
{
	auto_free char *all = strdup(getenv("PATH") ?: "");
	char *rest = all, *dir;

	while (all && (dir = strsep(&rest, ":"))) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s/%s", *dir ? dir : ".", name);
		if (access(path, X_OK) == 0)
			return true;
	}
	return false;
}

/* Whether the kernel knows the type, or can load it: /proc/filesystems has "nodev\tNAME" and "\tNAME" lines. */
static bool kernel_has(const char *type)
{
	struct strbuf auto_strbuf text = {};
	auto_free char *line = NULL, *module = NULL;
	char *probe[] = { "modprobe", "-q", "--", NULL, NULL };

	for (int attempt = 0; attempt < 2; attempt++) {
		text.len = 0;
		if (read_file_at(AT_FDCWD, "/proc/filesystems", 1 << 20, &text) < 0 || !text.buf)
			return true; /* mount will tell */
		free(line);
		if (asprintf(&line, "\t%s\n", type) < 0)
			return true;
		if (strstr(text.buf, line))
			return true;
		if (attempt == 0 && !module && (module = strdup(type))) {
			probe[3] = module;
			child_run(probe, &(struct child_options){}, NULL);
		}
	}
	return false;
}

static int check_programs(const struct target *target)
{
	const struct target_type *type = target->type;
	char mkfs[32];

	if (!kernel_has(type->name)) {
		log_msg("%s: this kernel does not support %s", target->name, type->name);
		return -ENODEV;
	}
	snprintf(mkfs, sizeof(mkfs), "mkfs.%s", type->below ?: type->name);
	if (!type->package || have_program(mkfs))
		return 0;
	log_msg("%s: %s is not installed (Debian package: %s)", target->name, mkfs, type->package);
	return -ENOENT;
}

int target_check(const struct target *target, int64_t size)
{
	if (!target->type)
		return access(target->dir, R_OK | W_OK | X_OK) == 0 ? 0
								    : log_errno(errno, "%s", target->name);
	if (geteuid() != 0) {
		log_msg("%s: making and mounting filesystems needs root; --fs dir=PATH works without",
			target->name);
		return -EPERM;
	}
	if (check_programs(target) < 0)
		return -ENOENT;
	if (size && size < target->type->min_size) {
		log_msg("%s: needs an image of at least %lld MiB (--size)", target->name,
			(long long)(target->type->min_size / MIB));
		return -EINVAL;
	}
	return 0;
}

int target_mkfs_words(const struct target *target, char *text, char program[static 32], const char *const *devices,
	size_t n_devices, char *words[static TARGET_MAX_WORDS])
{
	static const char *const raid1[] = { "-d", "raid1", "-m", "raid1" };
	const struct target_type *type = target->type;
	size_t n = 0;

	snprintf(program, 32, "mkfs.%s", type->below ?: type->name);
	words[n++] = program;
	for (size_t i = 0; i < ARRAY_SIZE(type->mkfs) && type->mkfs[i]; i++)
		words[n++] = (char *)type->mkfs[i];
	for (size_t i = 0; target->raid1 && i < ARRAY_SIZE(raid1); i++)
		words[n++] = (char *)raid1[i];
	for (char *word; (word = strsep(&text, " "));) {
		if (n + n_devices + 1 >= TARGET_MAX_WORDS)
			return -E2BIG;
		if (*word)
			words[n++] = word;
	}
	for (size_t i = 0; i < n_devices; i++)
		words[n++] = (char *)devices[i];
	words[n] = NULL;
	return 0;
}

size_t target_devices(const struct target *target)
{
	if (!target->type || target->type->kind == TARGET_MEMORY)
		return 0;
	return target->raid1 ? 2 : 1;
}

static void describe_mkfs(const struct target *target, struct strbuf *json)
{
	auto_free char *text = strdup(target->mkfs_options ?: "");
	char program[32], *words[TARGET_MAX_WORDS];
	struct strbuf auto_strbuf line = {};

	if (!text || target_mkfs_words(target, text, program, NULL, 0, words) < 0)
		return;
	for (size_t i = 0; words[i]; i++)
		strbuf_addf(&line, "%s%s", i ? " " : "", words[i]);
	strbuf_addf(json, ",\"mkfs\":");
	strbuf_add_json(json, line.buf ?: "", line.len);
}

void target_describe(const struct target *target, struct strbuf *json)
{
	const char *mount = target->mount_options ?: "defaults";

	if (!target->type)
		return;
	if (target_devices(target))
		describe_mkfs(target, json);
	strbuf_addf(json, ",\"mount\":");
	strbuf_add_json(json, mount, strlen(mount));
}
