/* SPDX-License-Identifier: MIT */
#include "target.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "child.h"
#include "files.h"

#define MAX_WORDS 64
#define MIB       ((int64_t)1 << 20)

/* Nothing may be initialised in the background while we measure: ext* would do so for minutes. */
#define EXT_NOT_LAZY "lazy_itable_init=0,lazy_journal_init=0"

static const struct target_type types[] = {
	{ "ext3", "e2fsprogs", { "-q", "-F", "-E", EXT_NOT_LAZY }, 16 * MIB },
	{ "ext4", "e2fsprogs", { "-q", "-F", "-E", EXT_NOT_LAZY }, 16 * MIB },
	{ "xfs", "xfsprogs", { "-q", "-f" }, 300 * MIB },
	{ "btrfs", "btrfs-progs", { "-q", "-f" }, 128 * MIB },
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

static int parse_options(struct target *target, char *text)
{
	for (char *part; (part = strsep(&text, ":"));) {
		char **member = strncmp(part, "mkfs=", 5) == 0    ? &target->mkfs_options
				: strncmp(part, "mount=", 6) == 0 ? &target->mount_options
								  : NULL;

		if (!member || *member) {
			log_msg("--fs: '%s': '%s' is not understood; a target is "
				"NAME[:mkfs=OPTIONS][:mount=OPTIONS]",
				target->name, part);
			return -EINVAL;
		}
		*member = strdup(strchr(part, '=') + 1);
		if (!*member)
			return log_errno(ENOMEM, "--fs");
	}
	return 0;
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
	if (!ret_target->type) {
		struct strbuf auto_strbuf names = {};

		target_names(&names);
		log_msg("--fs: unknown filesystem '%s'; known are %s, and dir=PATH for a directory on any "
			"other",
			text, names.buf ?: "");
		return -EINVAL;
	}
	return text[name_len] ? parse_options(ret_target, text + name_len + 1) : 0;
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
				log_msg("--fs: '%s' is there twice", grown[i].name);
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
		free(targets[i].dir);
	}
	free(targets);
}

/* sbin directories are not in everybody's PATH. */
static bool have_program(const char *name)
{
	static const char *const dirs[] = { "/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin",
		"/usr/bin", "/bin" };

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s/%s", dirs[i], name);
		if (access(path, X_OK) == 0)
			return true;
	}
	return false;
}

int target_check(const struct target *target, const struct target_options *options)
{
	char mkfs[32];

	if (!target->type)
		return access(target->dir, R_OK | W_OK | X_OK) == 0 ? 0
								    : log_errno(errno, "%s", target->name);
	if (geteuid() != 0) {
		log_msg("%s: making and mounting filesystems needs root; --fs dir=PATH works without",
			target->name);
		return -EPERM;
	}
	snprintf(mkfs, sizeof(mkfs), "mkfs.%s", target->type->name);
	if (!have_program(mkfs)) {
		log_msg("%s: %s is not installed (Debian package: %s)", target->name, mkfs,
			target->type->package);
		return -ENOENT;
	}
	if (options->size < target->type->min_size) {
		log_msg("%s: needs an image of at least %lld MiB (--size)", target->name,
			(long long)(target->type->min_size / MIB));
		return -EINVAL;
	}
	return 0;
}

/* mkfs.NAME, its fixed options, the user's (cut at spaces in `text`, which is changed) and the device, if not
 * NULL. */
static int mkfs_words(const struct target *target, char *program, size_t program_size, char *text,
	const char *device, char *words[static MAX_WORDS])
{
	size_t n = 0;

	snprintf(program, program_size, "mkfs.%s", target->type->name);
	words[n++] = program;
	for (size_t i = 0; i < ARRAY_SIZE(target->type->mkfs) && target->type->mkfs[i]; i++)
		words[n++] = (char *)target->type->mkfs[i];
	for (char *word; (word = strsep(&text, " "));) {
		if (n + 2 >= MAX_WORDS)
			return -E2BIG;
		if (*word)
			words[n++] = word;
	}
	words[n++] = (char *)device;
	words[n] = NULL;
	return 0;
}

static int make_filesystem(const struct target *target, const char *device)
{
	auto_free char *text = strdup(target->mkfs_options ?: "");
	char program[32], *words[MAX_WORDS];
	int err = text ? mkfs_words(target, program, sizeof(program), text, device, words) : -ENOMEM;

	if (err < 0)
		return log_errno(err, "%s", target->name);
	return child_must(target->name, words, &(struct child_options){});
}

/* mount(8) rather than mount(2): it tells options of the mount from those of the filesystem, and explains
 * failures. */
static int mount_device(const struct target *target, const char *device, const char *mountpoint)
{
	char *words[] = { "mount", "-n", "-t", (char *)target->type->name, "-o",
		target->mount_options ?: "defaults", (char *)device, (char *)mountpoint, NULL };

	return child_must(target->name, words, &(struct child_options){});
}

static void unmount(const char *mountpoint)
{
	for (int i = 0; i < 50; i++) {
		if (umount2(mountpoint, UMOUNT_NOFOLLOW) == 0 || errno != EBUSY)
			return;
		usleep(20000);
	}
	umount2(mountpoint, UMOUNT_NOFOLLOW | MNT_DETACH);
}

static int make_image_place(
	const struct target *target, const struct target_options *options, struct place *place)
{
	char *mountpoint;
	int err = loop_attach(options->image_dir, options->work_dir, options->size, &place->loop);

	err = err ?: make_filesystem(target, place->loop.device);
	err = err ?: folder_make_temp(options->work_dir, target->type->name, &mountpoint);
	if (err < 0)
		return err;
	err = mount_device(target, place->loop.device, mountpoint);
	if (err < 0) {
		rmdir(mountpoint);
		free(mountpoint);
		return err;
	}
	place->mountpoint = mountpoint;
	if (asprintf(&place->dir, "%s/bench", mountpoint) < 0)
		return log_errno(ENOMEM, "%s", target->name);
	return mkdir(place->dir, 0755) == 0 ? 0 : log_errno(errno, "%s", place->dir);
}

int place_make(const struct target *target, const struct target_options *options, struct place *ret_place)
{
	struct place place = { .loop = LOOP_NONE };
	int err;

	if (target->type)
		err = make_image_place(target, options, &place);
	else
		err = folder_make_temp(target->dir, "fstape-bench", &place.dir);
	if (err < 0)
		place_remove(&place);
	else
		*ret_place = place;
	return err;
}

void place_remove(struct place *place)
{
	if (place->mountpoint) {
		unmount(place->mountpoint);
		rmdir(place->mountpoint);
	} else if (place->dir) {
		folder_remove(place->dir);
	}
	loop_close(&place->loop);
	free(place->mountpoint);
	free(place->dir);
	*place = (struct place){ .loop = LOOP_NONE };
}

int place_sync(const struct place *place)
{
	int auto_close fd = open(place->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || syncfs(fd) < 0)
		return log_errno(errno, "%s: cannot sync", place->dir);
	if (place->loop.image_fd >= 0 && fsync(place->loop.image_fd) < 0)
		return log_errno(errno, "%s: cannot sync the image", place->dir);
	return 0;
}

void target_describe(const struct target *target, const struct target_options *options, struct strbuf *json)
{
	auto_free char *text = strdup(target->mkfs_options ?: "");
	char program[32], *words[MAX_WORDS];
	struct strbuf auto_strbuf line = {};

	if (!target->type || !text || mkfs_words(target, program, sizeof(program), text, NULL, words) < 0)
		return;
	for (size_t i = 0; words[i]; i++)
		strbuf_addf(&line, "%s%s", i ? " " : "", words[i]);
	strbuf_addf(json, ",\"mkfs\":");
	strbuf_add_json(json, line.buf ?: "", line.len);
	strbuf_addf(json, ",\"mount\":");
	strbuf_add_json(
		json, target->mount_options ?: "defaults", strlen(target->mount_options ?: "defaults"));
	strbuf_addf(json, ",\"image_bytes\":%lld", (long long)options->size);
}
