/* SPDX-License-Identifier: MIT */
/*
 * event_cost - requests through the shim without a kernel's part: what tests/bench/event_cost measures.
 *
 *   event_cost record | norecord  DIR ROUNDS
 *
 * The requests are those that a checkout makes of new files, and some of reading them again, in the kernel's format; they
 * go through libfuse, the handlers, the recorder and its spool like those of a mount, to files below DIR/source, and the
 * answers are thrown away. Each round makes BATCH new files, one kind of operation after the other, so that a batch of one
 * kind can be timed as a whole. Prints as JSON the least and the median ns per request of each kind, and what one reading
 * of the clock takes. The loader waits until all is over.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "bind.h"
#include "cred.h"
#include "fdcache.h"
#include "lock.h"
#include "mount.h"
#include "mountinfo.h"
#include "node.h"
#include "path.h"
#include "recorder.h"
#include "session.h"
#include "who.h"
#include "worker.h"

#define BATCH 64
#define MAX_ROUNDS 1000
#define DATA_SIZE 4096

enum step { STEP_PROBE, STEP_CREATE, STEP_GETXATTR, STEP_WRITE, STEP_GETATTR, STEP_FLUSH, STEP_RELEASE, STEP_LOOKUP,
	STEP_OPEN, STEP_READ, STEP_CLOSE, STEP_SETATTR, STEP_RENAME, STEP_UNLINK, STEP_FORGET, STEPS };

struct file {
	char name[32];
	uint64_t nodeid, fh;
};

struct bench {
	struct fs fs;
	struct mount *mount;
	uint64_t unique, dir; /* the directory's node id */
	struct file files[BATCH];
	uint32_t ns[STEPS][MAX_ROUNDS]; /* per request */
	struct {
		struct fuse_in_header in;
		char body[DATA_SIZE + 256];
	} request;
	struct {
		struct fuse_out_header out;
		char body[DATA_SIZE + 256];
	} answer;
};

/* --- in place of the kernel ---------------------------------------------------------------------------------------- */

static struct bench *bench_of(void *userdata)
{
	return (struct bench *)((struct mount *)userdata)->fs; /* its first member */
}

static ssize_t take_answer(int fd, struct iovec *iov, int count, void *userdata)
{
	struct bench *bench = bench_of(userdata);
	char *at = (char *)&bench->answer;
	size_t left = sizeof(bench->answer), total = 0;

	(void)fd;
	for (int i = 0; i < count; i++) {
		size_t take = iov[i].iov_len < left ? iov[i].iov_len : left;

		memcpy(at, iov[i].iov_base, take);
		at += take;
		left -= take;
		total += iov[i].iov_len;
	}
	return (ssize_t)total;
}

static ssize_t no_request(int fd, void *buf, size_t size, void *userdata)
{
	(void)fd, (void)buf, (void)size, (void)userdata;
	return -1;
}

/* The errno of the answer, 0 or negative. */
static int ask(struct bench *bench, uint32_t opcode, uint64_t nodeid, size_t body)
{
	struct fuse_in_header *in = &bench->request.in;
	struct fuse_buf buf = { .mem = in, .size = sizeof(*in) + body };

	in->len = (uint32_t)buf.size;
	in->opcode = opcode;
	in->unique = ++bench->unique;
	in->nodeid = nodeid;
	bench->answer.out.error = 0;
	fuse_session_process_buf(bench->mount->se, &buf);
	return bench->answer.out.error;
}

#define BODY(bench, type) ((struct type *)memset((bench)->request.body, 0, sizeof(struct type)))
#define ANSWER(bench, type) ((const struct type *)(bench)->answer.body)

static size_t add_name(struct bench *bench, size_t at, const char *name)
{
	size_t len = strlen(name) + 1;

	memcpy(bench->request.body + at, name, len);
	return at + len;
}

static int ask_by_name(struct bench *bench, uint32_t opcode, const char *name)
{
	return ask(bench, opcode, bench->dir, add_name(bench, 0, name));
}

static int make_dir(struct bench *bench, uint64_t parent, const char *name)
{
	int err;

	BODY(bench, fuse_mkdir_in)->mode = 0755;
	err = ask(bench, FUSE_MKDIR, parent, add_name(bench, sizeof(struct fuse_mkdir_in), name));
	bench->dir = ANSWER(bench, fuse_entry_out)->nodeid;
	return err;
}

/* --- the steps of a file's life ------------------------------------------------------------------------------------ */

static int do_step_create(struct bench *bench, struct file *file)
{
	const struct fuse_entry_out *entry = ANSWER(bench, fuse_entry_out);
	struct fuse_create_in *in = BODY(bench, fuse_create_in);
	int err;

	in->flags = O_WRONLY | O_CREAT | O_EXCL;
	in->mode = S_IFREG | 0644;
	err = ask(bench, FUSE_CREATE, bench->dir, add_name(bench, sizeof(*in), file->name));
	file->nodeid = entry->nodeid;
	file->fh = ((const struct fuse_open_out *)(entry + 1))->fh;
	return err;
}

static int do_step_getxattr(struct bench *bench, struct file *file)
{
	struct fuse_getxattr_in *in = BODY(bench, fuse_getxattr_in);
	int err = ask(bench, FUSE_GETXATTR, file->nodeid, add_name(bench, sizeof(*in), "security.capability"));

	return err == -ENODATA || err == -ENOTSUP ? 0 : err;
}

static int do_step_write(struct bench *bench, struct file *file)
{
	struct fuse_write_in *in = BODY(bench, fuse_write_in);

	in->fh = file->fh;
	in->size = DATA_SIZE;
	in->flags = O_WRONLY;
	return ask(bench, FUSE_WRITE, file->nodeid, sizeof(*in) + DATA_SIZE);
}

static int do_step_getattr(struct bench *bench, struct file *file)
{
	struct fuse_getattr_in *in = BODY(bench, fuse_getattr_in);

	in->getattr_flags = FUSE_GETATTR_FH;
	in->fh = file->fh;
	return ask(bench, FUSE_GETATTR, file->nodeid, sizeof(*in));
}

static int do_step_flush(struct bench *bench, struct file *file)
{
	struct fuse_flush_in *in = BODY(bench, fuse_flush_in);

	in->fh = file->fh;
	return ask(bench, FUSE_FLUSH, file->nodeid, sizeof(*in));
}

static int do_step_release(struct bench *bench, struct file *file)
{
	struct fuse_release_in *in = BODY(bench, fuse_release_in);
	uint32_t tid = bench->request.in.pid;
	int err;

	in->fh = file->fh;
	in->flags = O_WRONLY;
	bench->request.in.pid = 0; /* the kernel does this by itself */
	err = ask(bench, FUSE_RELEASE, file->nodeid, sizeof(*in));
	bench->request.in.pid = tid;
	return err;
}

static int do_step_open(struct bench *bench, struct file *file)
{
	struct fuse_open_in *in = BODY(bench, fuse_open_in);
	int err = ask(bench, FUSE_OPEN, file->nodeid, sizeof(*in));

	file->fh = ANSWER(bench, fuse_open_out)->fh;
	return err;
}

static int do_step_read(struct bench *bench, struct file *file)
{
	struct fuse_read_in *in = BODY(bench, fuse_read_in);

	in->fh = file->fh;
	in->size = DATA_SIZE;
	return ask(bench, FUSE_READ, file->nodeid, sizeof(*in));
}

static int do_step_setattr(struct bench *bench, struct file *file)
{
	struct fuse_setattr_in *in = BODY(bench, fuse_setattr_in);

	in->valid = FATTR_MODE;
	in->mode = S_IFREG | 0600;
	return ask(bench, FUSE_SETATTR, file->nodeid, sizeof(*in));
}

static int do_step_rename(struct bench *bench, struct file *file)
{
	struct fuse_rename2_in *in = BODY(bench, fuse_rename2_in);
	char name[sizeof(file->name) + 2];
	size_t size = add_name(bench, sizeof(*in), file->name);

	in->newdir = bench->dir;
	snprintf(name, sizeof(name), "%s.m", file->name);
	size = add_name(bench, size, name);
	snprintf(file->name, sizeof(file->name), "%.29s", name);
	return ask(bench, FUSE_RENAME2, bench->dir, size);
}

static int do_step_forget(struct bench *bench, struct file *file)
{
	BODY(bench, fuse_forget_in)->nlookup = 2; /* create's, and lookup's */
	return ask(bench, FUSE_FORGET, file->nodeid, sizeof(struct fuse_forget_in));
}

static int do_step(struct bench *bench, enum step step, struct file *file)
{
	switch (step) {
	case STEP_PROBE: /* a success without a node: the kernel is to remember that there is none */
		return ask_by_name(bench, FUSE_LOOKUP, file->name);
	case STEP_CREATE:
		return do_step_create(bench, file);
	case STEP_GETXATTR:
		return do_step_getxattr(bench, file);
	case STEP_WRITE:
		return do_step_write(bench, file);
	case STEP_GETATTR:
		return do_step_getattr(bench, file);
	case STEP_FLUSH:
		return do_step_flush(bench, file);
	case STEP_RELEASE:
	case STEP_CLOSE:
		return do_step_release(bench, file);
	case STEP_LOOKUP:
		return ask_by_name(bench, FUSE_LOOKUP, file->name);
	case STEP_OPEN:
		return do_step_open(bench, file);
	case STEP_READ:
		return do_step_read(bench, file);
	case STEP_SETATTR:
		return do_step_setattr(bench, file);
	case STEP_RENAME:
		return do_step_rename(bench, file);
	case STEP_UNLINK:
		return ask_by_name(bench, FUSE_UNLINK, file->name);
	case STEP_FORGET:
		return do_step_forget(bench, file);
	case STEPS:
		break;
	}
	return -EINVAL;
}

static const char *const step_names[STEPS] = { "lookup of no file", "create", "getxattr", "write", "getattr", "flush",
	"release", "lookup", "open", "read", "release (read)", "setattr", "rename", "unlink", "forget" };

static int run_round(struct bench *bench, unsigned int round)
{
	for (unsigned int i = 0; i < BATCH; i++)
		snprintf(bench->files[i].name, sizeof(bench->files[i].name), "file-%u.c", round * BATCH + i);
	for (enum step step = 0; step < STEPS; step++) {
		int64_t start = clock_ns(CLOCK_MONOTONIC);
		int err = 0;

		for (unsigned int i = 0; i < BATCH && err == 0; i++)
			err = do_step(bench, step, &bench->files[i]);
		bench->ns[step][round] = (uint32_t)((clock_ns(CLOCK_MONOTONIC) - start) / BATCH);
		if (err < 0)
			return log_errno(err, "%s", step_names[step]);
	}
	return 0;
}

/* --- setting up ---------------------------------------------------------------------------------------------------- */

static int start_session(struct bench *bench)
{
	static char *argv[] = { "event_cost" };
	static const struct fuse_custom_io io = { .writev = take_answer, .read = no_request };
	struct fuse_args args = FUSE_ARGS_INIT(1, argv);
	struct fuse_init_in *init;
	int err;

	bench->fs.mount_args = &args;
	err = mount_new(&bench->fs, bench->fs.options.source, "/", bench->fs.nodes->root, &bench->mount);
	if (err < 0)
		return err;
	bench->fs.mounts = bench->mount;
	err = fuse_session_custom_io(bench->mount->se, &io, bench->fs.source_fd);
	if (err < 0)
		return err;
	cred_thread_init(&bench->fs);
	bench->request.in.uid = geteuid();
	bench->request.in.gid = getegid();
	bench->request.in.pid = (uint32_t)gettid();
	init = BODY(bench, fuse_init_in);
	init->major = FUSE_KERNEL_VERSION;
	init->minor = FUSE_KERNEL_MINOR_VERSION;
	init->max_readahead = 128 << 10;
	return ask(bench, FUSE_INIT, 0, sizeof(*init));
}

static int start(struct bench *bench, bool record)
{
	struct fs *fs = &bench->fs;
	struct inode_info info;
	int err;

	fs->privileged = geteuid() == 0;
	fs->source_fd = open(fs->options.source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fs->source_fd < 0)
		return log_errno(errno, "%s", fs->options.source);
	fs->source_mounts = mountinfo_read();
	err = inode_info_at(fs->source_fd, "", &info);
	err = err ?: node_table_new(&fs->nodes);
	err = err ?: fdcache_new(fs, &fs->fdcache);
	err = err ?: node_make_root(fs, &info);
	err = err ?: path_table_new(&fs->paths);
	err = err ?: who_table_new(&fs->who);
	err = err ?: lock_table_new(&fs->locks);
	if (record) {
		err = err ?: recorder_open(fs, &fs->recorder);
		err = err ?: recorder_start(fs->recorder);
	}
	return err ?: start_session(bench);
}

static void end(struct bench *bench)
{
	struct fs *fs = &bench->fs;

	worker_thread_end();
	mount_free(bench->mount);
	lock_table_free(fs);
	who_table_free(fs);
	path_table_free(fs);
	node_table_free(fs);
	fdcache_free(fs);
	close(fs->source_fd);
	if (fs->recorder)
		recorder_finish(fs->recorder);
	recorder_free(fs->recorder);
	mountinfo_free(fs->source_mounts);
}

/* --- results ------------------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static double clock_reading_ns(void)
{
	const int readings = 1000;
	int64_t least = INT64_MAX;

	for (int i = 0; i < 20; i++) {
		int64_t start = clock_ns(CLOCK_MONOTONIC), took;

		for (int j = 0; j < readings; j++)
			clock_ns(CLOCK_MONOTONIC);
		took = clock_ns(CLOCK_MONOTONIC) - start;
		least = took < least ? took : least;
	}
	return (double)least / readings;
}

static void print_results(struct bench *bench, unsigned int rounds)
{
	printf("{\"batch\": %d, \"clock_ns\": %.1f, \"steps\": [", BATCH, clock_reading_ns());
	for (enum step step = 0; step < STEPS; step++) {
		array_sort(bench->ns[step], rounds, sizeof(bench->ns[step][0]), compare);
		printf("%s{\"step\": \"%s\", \"least_ns\": %" PRIu32 ", \"median_ns\": %" PRIu32 "}", step ? ", " : "",
			step_names[step], bench->ns[step][0], bench->ns[step][rounds / 2]);
	}
	printf("]}\n");
}

int main(int argc, char **argv)
{
	auto_free struct bench *bench = calloc(1, sizeof(*bench));
	auto_free char *source = NULL, *db = NULL;
	unsigned int rounds = argc == 4 ? (unsigned int)atoi(argv[3]) : 0;
	bool record = argc > 1 && strcmp(argv[1], "record") == 0;
	int err;

	log_set_program("event_cost");
	if (!rounds || rounds > MAX_ROUNDS || (!record && strcmp(argv[1], "norecord") != 0)) {
		fprintf(stderr, "usage: event_cost record|norecord DIR ROUNDS\nTimes requests to DIR/source; see"
				" tests/bench/event_cost, which runs it.\n");
		return 2;
	}
	if (!bench || asprintf(&source, "%s/source", argv[2]) < 0 || asprintf(&db, "%s/t.db", argv[2]) < 0)
		return log_errno(ENOMEM, "cannot start"), 1;
	bench->fs.options = (struct options){
		.source = source, .mountpoint = "/", .db = db, .label = "event_cost", .mount_text = "", .cache = CACHE_ALWAYS,
		.load = LOAD_END, .entry_timeout = 1e8, .attr_timeout = 1e8, .spool_size = 1u << 30, .threads = 1, .ready_fd = -1,
		.norecord = !record,
	};
	err = start(bench, record);
	err = err ?: make_dir(bench, FUSE_ROOT_ID, "clone");
	err = err ?: make_dir(bench, bench->dir, "drivers");
	err = err ?: make_dir(bench, bench->dir, "network");
	for (unsigned int round = 0; round < rounds && err == 0; round++)
		err = run_round(bench, round);
	if (err == 0)
		print_results(bench, rounds);
	end(bench);
	return err < 0 ? (log_errno(err, "%s", source), 1) : 0;
}
