/* SPDX-License-Identifier: MIT */
#include "runinfo.h"

#include <sys/utsname.h>

#include "mode.h"
#include "mountinfo.h"
#include "trace.h"

int runinfo_write(struct fs *fs, struct trace *trace, int64_t run)
{
	static const char *const overflows[] = { "block", "drop" }, *const loads[] = { "live", "end" };
	static const char *const datas[] = { "none", "full" };
	const struct options *o = &fs->options;
	const struct mountinfo *mount = mountinfo_of_fd(fs->source_mounts, fs->source_fd);
	auto_free char *modes = mode_names(options_modes(o));
	struct utsname system;
	int err = 0;

	uname(&system);
	struct { const char *column, *value; } texts[] = {
		{ "source", o->source },
		{ "mountpoint", o->mountpoint },
		{ "fs_type", mount ? mount->fs_type : NULL },
		{ "fs_options", mount ? mount->options : NULL },
		{ "device", mount ? mount->device : NULL },
		{ "cache", cache_mode_name(o->cache) },
		{ "overflow", overflows[o->overflow] },
		{ "load", loads[o->load] },
		{ "data", datas[o->data] },
		{ "wait", wait_mode_name(o->wait) },
		{ "modes", modes },
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
		{ "dir_readahead", o->dir_readahead },
		{ "cpus", sysconf(_SC_NPROCESSORS_ONLN) },
		{ "daemon_pid", getpid() },
		{ "privileged", fs->privileged },
	};
	for (size_t i = 0; i < ARRAY_SIZE(texts) && err == 0; i++)
		err = trace_run_set_text(trace, run, texts[i].column, texts[i].value);
	for (size_t i = 0; i < ARRAY_SIZE(ints) && err == 0; i++)
		err = trace_run_set_int(trace, run, ints[i].column, ints[i].value);
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
