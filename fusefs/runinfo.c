/* SPDX-License-Identifier: MIT */
#include "runinfo.h"

#include <linux/fuse.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>

#include "trace.h"

struct mount_info {
	char *fs_type, *options, *device;
};

/* The next field of a line of /proc/self/mountinfo; octal escapes are undone in place. */
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

/* One line, proc(5): id parent major:minor root mountpoint options optional... - type source super-options. */
static bool parse_mount(char *line, const char *mount_id, struct mount_info *info)
{
	char *options, *type, *device, *super, *field;

	if (strcmp(next_field(&line) ?: "", mount_id) != 0)
		return false;
	for (int skip = 0; skip < 4; skip++)
		next_field(&line);
	options = next_field(&line);
	while ((field = next_field(&line)) && strcmp(field, "-") != 0)
		;
	type = next_field(&line);
	device = next_field(&line);
	super = next_field(&line);
	if (!super)
		return false;
	info->fs_type = strdup(type);
	info->device = strdup(device);
	if (asprintf(&info->options, "%s,%s", options, super) < 0)
		info->options = NULL;
	return true;
}

/* The mount that a descriptor is on: its id is in /proc/self/fdinfo. */
static void find_mount(int fd, struct mount_info *info)
{
	struct strbuf auto_strbuf fdinfo = {}, mounts = {};
	char path[64], id[32] = "";
	char *rest, *line, *at;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	if (read_file_at(-1, path, 4096, &fdinfo) < 0 || !(at = strstr(fdinfo.buf, "mnt_id:")) ||
		sscanf(at, "mnt_id: %31[0-9]", id) != 1)
		return;
	if (read_file_at(-1, "/proc/self/mountinfo", 16 << 20, &mounts) < 0)
		return;
	rest = mounts.buf;
	while ((line = strsep(&rest, "\n")))
		if (*line && parse_mount(line, id, info))
			return;
}

int runinfo_write(struct fs *fs, struct trace *trace, int64_t run)
{
	static const char *const overflows[] = { "block", "drop" }, *const loads[] = { "live", "end" };
	const struct options *o = &fs->options;
	struct mount_info mount = {};
	struct utsname system;
	int err = 0;

	find_mount(fs->source_fd, &mount);
	uname(&system);
	struct { const char *column, *value; } texts[] = {
		{ "source", o->source },
		{ "mountpoint", o->mountpoint },
		{ "fs_type", mount.fs_type },
		{ "fs_options", mount.options },
		{ "device", mount.device },
		{ "cache", cache_mode_name(o->cache) },
		{ "overflow", overflows[o->overflow] },
		{ "load", loads[o->load] },
		{ "data", "none" },
		{ "transport", "dev" },
		{ "mount_options", o->mount_text },
		{ "kernel", system.release },
		{ "machine", system.machine },
		{ "libfuse", fuse_pkgversion() },
		{ "sqlite", trace_sqlite_version() },
		{ "version", FSTAPE_VERSION },
	};
	struct { const char *column; int64_t value; } ints[] = {
		{ "entry_timeout_ns", (int64_t)(o->entry_timeout * 1e9) },
		{ "attr_timeout_ns", (int64_t)(o->attr_timeout * 1e9) },
		{ "threads", o->threads },
		{ "cpus", sysconf(_SC_NPROCESSORS_ONLN) },
		{ "daemon_pid", getpid() },
		{ "privileged", fs->privileged },
	};
	for (size_t i = 0; i < ARRAY_SIZE(texts) && err == 0; i++)
		err = trace_run_set_text(trace, run, texts[i].column, texts[i].value);
	for (size_t i = 0; i < ARRAY_SIZE(ints) && err == 0; i++)
		err = trace_run_set_int(trace, run, ints[i].column, ints[i].value);
	free(mount.fs_type);
	free(mount.options);
	free(mount.device);
	return err;
}

char *runinfo_capabilities(uint64_t flags)
{
	/* linux/fuse.h, by bit; newer ones than the header's are given by number. */
	static const char *const names[64] = {
		"ASYNC_READ", "POSIX_LOCKS", "FILE_OPS", "ATOMIC_O_TRUNC", "EXPORT_SUPPORT", "BIG_WRITES",
		"DONT_MASK", "SPLICE_WRITE", "SPLICE_MOVE", "SPLICE_READ", "FLOCK_LOCKS", "HAS_IOCTL_DIR",
		"AUTO_INVAL_DATA", "DO_READDIRPLUS", "READDIRPLUS_AUTO", "ASYNC_DIO", "WRITEBACK_CACHE",
		"NO_OPEN_SUPPORT", "PARALLEL_DIROPS", "HANDLE_KILLPRIV", "POSIX_ACL", "ABORT_ERROR", "MAX_PAGES",
		"CACHE_SYMLINKS", "NO_OPENDIR_SUPPORT", "EXPLICIT_INVAL_DATA", "MAP_ALIGNMENT", "SUBMOUNTS",
		"HANDLE_KILLPRIV_V2", "SETXATTR_EXT", "INIT_EXT", "INIT_RESERVED", "SECURITY_CTX", "HAS_INODE_DAX",
		"CREATE_SUPP_GROUP", "HAS_EXPIRE_ONLY", "DIRECT_IO_ALLOW_MMAP", "PASSTHROUGH", "NO_EXPORT_SUPPORT",
		"HAS_RESEND", "ALLOW_IDMAP", "OVER_IO_URING", "REQUEST_TIMEOUT",
	};
	struct strbuf text = {};

	strbuf_add(&text, "", 0);
	for (int bit = 0; bit < 64; bit++) {
		if (!(flags >> bit & 1))
			continue;
		if (names[bit])
			strbuf_addf(&text, "%s%s", text.len ? " " : "", names[bit]);
		else
			strbuf_addf(&text, "%sBIT_%d", text.len ? " " : "", bit);
	}
	return text.buf;
}
