/* SPDX-License-Identifier: MIT */
#include "mountinfo.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base.h"

#define LONGEST (16u << 20) /* bytes of mountinfo */

/* The next field of a line; octal escapes are undone in place. */
static char *next_field(char **line)
{
	char *field = strsep(line, " "), *out = field;

	for (char *in = field; in && *in; out++) {
		if (in[0] == '\\' && in[1] >= '0' && in[1] <= '3' && in[2] && in[3]) {
			*out = (char)((in[1] - '0') << 6 | (in[2] - '0') << 3 | (in[3] - '0'));
			in += 4;
		} else {
			*out = *in++;
		}
	}
	if (out)
		*out = '\0';
	return field;
}

/* id parent major:minor root mountpoint options optional... - type source super-options. NULL: not like that. */
static struct mountinfo *parse_line(char *line)
{
	struct mountinfo *info = calloc(1, sizeof(*info));
	char *mountpoint, *options, *type, *device, *super, *field;

	if (!info)
		return NULL;
	info->id = strtoull(next_field(&line) ?: "", NULL, 10);
	for (int skip = 0; skip < 3; skip++)
		next_field(&line);
	mountpoint = next_field(&line);
	options = next_field(&line);
	while ((field = next_field(&line)) && strcmp(field, "-") != 0)
		;
	type = next_field(&line);
	device = next_field(&line);
	super = next_field(&line);
	if (super && asprintf(&info->options, "%s,%s", options, super) >= 0) {
		info->mountpoint = strdup(mountpoint);
		info->fs_type = strdup(type);
		info->device = strdup(device);
	}
	if (info->mountpoint && info->fs_type && info->device)
		return info;
	mountinfo_free(info);
	return NULL;
}

struct mountinfo *mountinfo_read(void)
{
	struct strbuf auto_strbuf text = {};
	struct mountinfo *list = NULL, **last = &list;
	char *rest, *line;

	if (read_file_at(-1, "/proc/self/mountinfo", LONGEST, &text) < 0)
		return NULL;
	rest = text.buf;
	while ((line = strsep(&rest, "\n"))) {
		struct mountinfo *info = *line ? parse_line(line) : NULL;

		if (info) {
			*last = info;
			last = &info->next;
		}
	}
	return list;
}

void mountinfo_free(struct mountinfo *list)
{
	while (list) {
		struct mountinfo *next = list->next;

		free(list->mountpoint);
		free(list->fs_type);
		free(list->device);
		free(list->options);
		free(list);
		list = next;
	}
}

const struct mountinfo *mountinfo_of_fd(const struct mountinfo *list, int fd)
{
	struct strbuf auto_strbuf fdinfo = {};
	char path[64];
	const char *at;
	uint64_t id;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	if (read_file_at(-1, path, 4096, &fdinfo) < 0 || !(at = strstr(fdinfo.buf, "mnt_id:")) ||
		sscanf(at, "mnt_id: %" SCNu64, &id) != 1)
		return NULL;
	while (list && list->id != id)
		list = list->next;
	return list;
}
