/* SPDX-License-Identifier: MIT */
#include "who.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "client_cpu.h"
#include "fdcache.h"
#include "recorder.h"

#define SETS 64
#define WAYS 4 /* up to 256 threads are remembered, with two descriptors each; fewer where descriptors are few */
#define CMDLINE_MAX 4096
#define COMM_CHECK_NS 100000	/* an exec takes longer */
#define STAT_CHECK_NS 20000000
#define NOTE_NS 1000000		/* a thread that goes on asking is noted in the table as often */

struct known {
	pid_t tid; /* 0: empty */
	int comm_fd;
	uint32_t process;
	uid_t uid;
	gid_t gid;
	char comm[16];
	uint64_t start_ticks, arg_start;
	int64_t seen_ns, stat_ns;
	struct client_cpu cpu;
	bool incomplete; /* what a limited look leaves out is missing */
};

/*
 * Whom this worker has served last: when that one asks again, before it can have become another program, there is no
 * need of the table and its lock.
 */
static _Thread_local struct {
	const struct who_table *table; /* that this is of */
	struct known known; /* a copy; its descriptors are not ours */
	int64_t noted_ns;
} last;

struct who_set {
	pthread_mutex_t lock; /* short, but for a first sight, which nobody else may double */
	struct known known[WAYS];
};

struct who_table {
	struct who_set sets[SETS];
	unsigned int n_sets; /* in use */
	uint32_t kernel; /* process id of tid 0; under the lock of its set */
};

int who_table_new(struct who_table **ret_table)
{
	struct who_table *table = calloc(1, sizeof(*table));
	struct rlimit limit = { .rlim_cur = SETS };

	if (!table)
		return -ENOMEM;
	getrlimit(RLIMIT_NOFILE, &limit);
	table->n_sets = (unsigned int)(limit.rlim_cur < 8 * WAYS * SETS ? limit.rlim_cur / (8 * WAYS) + 1 : SETS);
	for (int i = 0; i < SETS; i++)
		pthread_mutex_init(&table->sets[i].lock, NULL);
	*ret_table = table;
	return 0;
}

/* Its descriptors. */
static void forget(struct fs *fs, struct known *k)
{
	fdcache_handles(fs, k->cpu.fd >= 0 ? -2 : -1);
	client_cpu_close(&k->cpu);
	close(k->comm_fd);
}

void who_table_free(struct fs *fs)
{
	if (!fs->who)
		return;
	for (int i = 0; i < SETS; i++) {
		struct who_set *set = &fs->who->sets[i];

		for (int way = 0; way < WAYS; way++)
			if (set->known[way].tid)
				forget(fs, &set->known[way]);
		pthread_mutex_destroy(&set->lock);
	}
	free(fs->who);
	fs->who = NULL;
}

/* comm, field 2, may hold spaces and brackets. */
const char *who_stat_field(const char *text, int number)
{
	const char *at = strrchr(text, ')');

	for (int field = 2; at && field < number; field++) {
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	return at;
}

struct stat_info {
	uint64_t start_ticks;
	uint64_t arg_start; /* where the arguments are in memory: another place after each exec, as stacks are randomized */
};

static int read_stat(int dir_fd, struct stat_info *ret_info)
{
	struct strbuf auto_strbuf text = {};
	int err = read_file_at(dir_fd, "stat", 8192, &text);
	const char *start, *arg;

	if (err < 0)
		return err;
	start = who_stat_field(text.buf, 22);
	arg = who_stat_field(text.buf, 48);
	if (!start)
		return -EIO;
	*ret_info = (struct stat_info){ strtoull(start, NULL, 10), arg ? strtoull(arg, NULL, 10) : 0 };
	return 0;
}

static int open_proc(pid_t tid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", tid);
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* comm without its newline. False: the thread is gone. */
static bool read_comm(int fd, char comm[static 16])
{
	char text[64];
	ssize_t len = pread(fd, text, sizeof(text), 0);

	if (len <= 0)
		return false;
	len -= text[len - 1] == '\n';
	len = len > 15 ? 15 : len;
	memcpy(comm, text, (size_t)len);
	comm[len] = '\0';
	return true;
}

/* A number of /proc/PID/status, proc(5), whose line starts with `key`. */
static pid_t status_field(const struct strbuf *status, const char *key, pid_t otherwise)
{
	const char *at = status->buf ? strstr(status->buf, key) : NULL;

	return at ? atoi(at + strlen(key)) : otherwise;
}

/* Everything about a thread, as a record in the spool. Returns its process id, 0 when there is no room. */
static uint32_t record_process(struct fs *fs, struct known *k, int dir_fd, bool limited)
{
	struct strbuf auto_strbuf cmdline = {}, status = {};
	char exe[PATH_MAX];
	ssize_t exe_len = limited ? 0 : readlinkat(dir_fd, "exe", exe, sizeof(exe));
	struct process_record record = {
		.tid = k->tid,
		.uid = k->uid,
		.gid = k->gid,
		.start_ticks = k->start_ticks,
	};

	read_file_at(dir_fd, "status", 8192, &status);
	record.tgid = status_field(&status, "\nTgid:", k->tid);
	record.ppid = status_field(&status, "\nPPid:", 0);
	k->incomplete = limited || read_file_at(dir_fd, "cmdline", CMDLINE_MAX, &cmdline) < 0;
	return recorder_process(fs->recorder, &record, k->comm, exe, exe_len > 0 ? (size_t)exe_len : 0, cmdline.buf,
		cmdline.len);
}

/* A thread met for the first time, or that has become another. */
static void meet(struct fs *fs, struct known *k, pid_t tid, uid_t uid, gid_t gid, bool limited, int64_t now)
{
	int auto_close dir_fd = open_proc(tid);
	struct stat_info stat = {};

	if (k->tid)
		forget(fs, k);
	*k = (struct known){
		.tid = tid, .uid = uid, .gid = gid, .seen_ns = now, .stat_ns = now, .comm_fd = -1, .cpu.fd = -1
	};
	if (dir_fd >= 0) {
		k->comm_fd = openat(dir_fd, "comm", O_RDONLY | O_CLOEXEC);
		if (k->comm_fd >= 0)
			read_comm(k->comm_fd, k->comm);
		if (!limited)
			read_stat(dir_fd, &stat);
	}
	k->start_ticks = stat.start_ticks;
	k->arg_start = stat.arg_start;
	k->process = record_process(fs, k, dir_fd, limited);
	if (k->comm_fd >= 0) {
		client_cpu_open(&k->cpu, dir_fd);
		fdcache_handles(fs, k->cpu.fd >= 0 ? 2 : 1);
	} else {
		k->tid = 0; /* in another pid namespace, or gone: not to be remembered */
	}
}

static bool is_same(struct known *k, bool limited, int64_t now)
{
	char comm[16];
	struct stat_info stat;

	if (!k->process || (k->incomplete && !limited)) /* it found no room in the spool */
		return false;
	if (now - k->seen_ns < COMM_CHECK_NS)
		return true;
	if (!read_comm(k->comm_fd, comm) || strcmp(comm, k->comm) != 0)
		return false;
	if (!limited && now - k->stat_ns > STAT_CHECK_NS) {
		int auto_close dir_fd = open_proc(k->tid);

		if (dir_fd < 0 || read_stat(dir_fd, &stat) < 0 || stat.start_ticks != k->start_ticks ||
			stat.arg_start != k->arg_start)
			return false;
		k->stat_ns = now;
	}
	return true;
}

/* The place of `tid` in its set, or the one to give it: an empty one, else that of the thread silent for longest. */
static struct known *find(struct who_set *set, pid_t tid)
{
	struct known *place = set->known;

	for (int i = 0; i < WAYS; i++) {
		struct known *k = &set->known[i];

		if (k->tid == tid)
			return k;
		if (place->tid && (!k->tid || k->seen_ns < place->seen_ns))
			place = k;
	}
	return place;
}

static uint32_t kernel_process(struct fs *fs)
{
	struct process_record record = {};

	if (!fs->who->kernel)
		fs->who->kernel = recorder_process(fs->recorder, &record, "kernel", "", 0, "", 0);
	return fs->who->kernel;
}

static bool is_last(const struct fs *fs, pid_t tid)
{
	return last.known.tid == tid && last.table == fs->who;
}

/* The thread in the table, which is made to know it. */
static struct known look(struct fs *fs, struct who_set *set, pid_t tid, uid_t uid, gid_t gid, bool limited, int64_t now)
{
	struct known *k = find(set, tid);

	if (k->tid == tid && is_last(fs, tid) && last.known.process == k->process && k->seen_ns < last.known.seen_ns)
		k->seen_ns = last.known.seen_ns;
	if (k->tid != tid || !is_same(k, limited, now))
		meet(fs, k, tid, uid, gid, limited, now);
	k->seen_ns = now;
	return *k;
}

uint32_t who_is(struct fs *fs, pid_t tid, uid_t uid, gid_t gid, bool limited, int64_t now, uid_t *ret_uid, gid_t *ret_gid,
	bool *ret_cpu_is_due)
{
	struct who_set *set = &fs->who->sets[(unsigned int)tid % fs->who->n_sets];

	if (tid == 0) {
		uint32_t process;

		pthread_mutex_lock(&set->lock);
		process = kernel_process(fs);
		pthread_mutex_unlock(&set->lock);
		*ret_uid = *ret_gid = 0;
		*ret_cpu_is_due = false;
		return process;
	}
	if (!is_last(fs, tid) || now - last.known.seen_ns >= COMM_CHECK_NS || now - last.noted_ns >= NOTE_NS ||
		(last.known.incomplete && !limited) || !last.known.process) {
		pthread_mutex_lock(&set->lock);
		last.known = look(fs, set, tid, uid, gid, limited, now);
		pthread_mutex_unlock(&set->lock);
		last.table = fs->who;
		last.noted_ns = now;
	}
	last.known.seen_ns = now;
	*ret_uid = last.known.uid;
	*ret_gid = last.known.gid;
	*ret_cpu_is_due = client_cpu_is_due(&last.known.cpu, now);
	return last.known.process;
}

/* Another worker may have read meanwhile, or the thread may be another now. */
void who_read_cpu(struct fs *fs, pid_t tid, uint64_t seq, int64_t now)
{
	struct who_set *set = &fs->who->sets[(unsigned int)tid % fs->who->n_sets];
	struct cpu_record record = { .seq = seq };
	bool got = false;
	struct known *k;

	pthread_mutex_lock(&set->lock);
	k = find(set, tid);
	if (k->tid == tid && k->cpu.fd >= 0) {
		got = client_cpu_read(&k->cpu, now, &record);
		if (!got)
			fdcache_handles(fs, -1);
	}
	if (k->tid == tid && is_last(fs, tid))
		last.known.cpu = k->cpu;
	pthread_mutex_unlock(&set->lock);
	if (got)
		recorder_cpu(fs->recorder, &record);
}
