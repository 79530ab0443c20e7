/* SPDX-License-Identifier: MIT */
#include "cohort.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define SLOW_START_TICKS 10 /* from getting a number to getting a start time, on a slow machine */
#define REACTION_NS 100000 /* no program answers a signal with a child of its own as fast as that */
#define DELAY_NS 20000 /* more than reading a number takes */

struct process {
	struct member is;
	pid_t parent, group;
	bool descends, meant;
};

struct processes {
	struct process *list;
	size_t n, room;
};

/* One telling. */
struct round {
	struct cohort *cohort;
	const struct shim *shim;
	int sig;
	pid_t command, its_group; /* 0: none */
	int proc, last_pid;	  /* descriptors */
};

static int read_process(int proc, pid_t pid, struct process *ret_process)
{
	struct strbuf auto_strbuf text = {};
	unsigned long long start;
	int parent, group, err;
	char name[32];
	char *at;

	snprintf(name, sizeof(name), "%d/stat", (int)pid);
	err = read_file_at(proc, name, 4096, &text);
	if (err < 0)
		return err;
	at = strrchr(text.buf, ')'); /* the end of a name that may hold anything */
	if (!at || sscanf(at, ") %*c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &parent,
			   &group, &start) != 3)
		return -EIO;
	*ret_process = (struct process){ .is = { start, pid }, .parent = parent, .group = group };
	return 0;
}

static int by_start(const void *a, const void *b)
{
	const struct member *left = a, *right = b;

	if (left->start_ticks != right->start_ticks)
		return left->start_ticks < right->start_ticks ? -1 : 1;
	return (left->pid > right->pid) - (left->pid < right->pid);
}

static int processes_add(struct processes *all, const struct process *process)
{
	if (all->n == all->room) {
		size_t room = all->room * 2 + 256;
		struct process *grown = reallocarray(all->list, room, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		all->list = grown;
		all->room = room;
	}
	all->list[all->n++] = *process;
	return 0;
}

static bool holds(const struct round *round, pid_t pid)
{
	char name[16];
	int auto_close process = -1;

	snprintf(name, sizeof(name), "%d", (int)pid);
	process = openat(round->proc, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return process >= 0 && shim_is_held_by(round->shim, process);
}

/* Of the others on a public mount we do not know what they are there for. */
static bool may_be_told(const struct round *round, const struct process *process)
{
	const struct shim *shim = round->shim;
	pid_t pid = process->is.pid, group = process->group;

	if (pid == shim->pid || pid == shim->keeper.pid || pid == getpid())
		return false;
	return shim->namespace.mount >= 0 || group == getpgrp() || group == round->its_group;
}

/* In the order of their start, so that parents come before their children. */
static int read_list(DIR *proc, struct processes *all)
{
	int err = 0;

	for (struct dirent *entry; err == 0 && (entry = readdir(proc));) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
		struct process process;

		if (pid > 0 && read_process(dirfd(proc), pid, &process) == 0)
			err = processes_add(all, &process);
	}
	array_sort(all->list, all->n, sizeof(*all->list), by_start);
	return err;
}

/* Whether a process is the command, or a child of one before it that descends from the command. */
static bool descends(const struct processes *all, const struct process *process, pid_t command)
{
	bool found = process->is.pid == command;

	for (const struct process *p = all->list; !found && p < process; p++)
		found = p->descends && p->is.pid == process->parent;
	return found;
}

/* Whom it is for; this takes its time. */
static void choose(const struct round *round, struct processes *all)
{
	for (size_t i = 0; i < all->n; i++) {
		struct process *p = &all->list[i];

		p->descends = descends(all, p, round->command);
		p->meant = may_be_told(round, p) && (p->descends || holds(round, p->is.pid));
	}
}

/* The process started last, here or anywhere: proc_sys_kernel(5). */
static struct member newest_process(int last_pid)
{
	struct member newest = { (uint64_t)clock_ns(CLOCK_BOOTTIME) / (NSEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK)), 0 };
	char text[16] = "";

	if (last_pid >= 0 && pread(last_pid, text, sizeof(text) - 1, 0) > 0)
		newest.pid = (pid_t)strtol(text, NULL, 10);
	return newest;
}

/* Whether a process had been started when `newest` was read. Its start may be noted a little after it has its number. */
static bool existed(const struct member *process, const struct member *newest)
{
	if (!newest->pid || process->start_ticks > newest->start_ticks + SLOW_START_TICKS)
		return false;
	return process->start_ticks < newest->start_ticks || process->pid <= newest->pid;
}

static const struct told *find_told(const struct cohort *cohort, const struct member *member)
{
	for (size_t i = 0; i < cohort->n_told; i++)
		if (by_start(&cohort->told[i].is, member) == 0)
			return &cohort->told[i];
	return NULL;
}

static bool any_is_told(const struct cohort *cohort, const struct processes *all)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->list[i].meant && find_told(cohort, &all->list[i].is))
			return true;
	return false;
}

/* Has not been told, though it was there when its parent was, or, without a parent who was told, when the first was. */
static bool is_overlooked(const struct cohort *cohort, const struct process *process)
{
	const struct told *parent = cohort->told;

	if (find_told(cohort, &process->is))
		return false;
	for (size_t i = 0; i < cohort->n_told; i++)
		if (cohort->told[i].is.pid == process->parent)
			parent = &cohort->told[i];
	return existed(&process->is, &parent->newest);
}

/* The newest process as of now, give or take DELAY_NS: when we are interrupted in between, once more. */
static struct member newest_just_now(int last_pid, int64_t *ret_now_ns)
{
	struct member newest;
	int64_t start_ns, now_ns;
	int tries = 0;

	do {
		start_ns = clock_ns(CLOCK_MONOTONIC);
		newest = newest_process(last_pid);
		now_ns = clock_ns(CLOCK_MONOTONIC);
	} while (now_ns - start_ns > DELAY_NS && ++tries < 100);
	*ret_now_ns = now_ns;
	return newest;
}

static int tell(const struct round *round, const struct process *process)
{
	struct cohort *cohort = round->cohort;
	struct told *told = reallocarray(cohort->told, cohort->n_told + 1, sizeof(*told));
	struct member before, after;
	int64_t start_ns;

	if (!told)
		return -ENOMEM;
	cohort->told = told;
	before = newest_just_now(round->last_pid, &start_ns);
	if (kill(process->is.pid, round->sig) < 0)
		return -errno;
	after = newest_process(round->last_pid);
	/* if we had to wait meanwhile, what is newer may be its reaction */
	told[cohort->n_told++] = (struct told){ process->is,
		clock_ns(CLOCK_MONOTONIC) - start_ns > REACTION_NS ? before : after };
	return 0;
}

/* At once, as far as the kernel lists them: a child that ends by itself now tells its shell that all is well. */
static void tell_children(const struct round *round, pid_t parent)
{
	struct strbuf auto_strbuf text = {};
	char name[48];

	snprintf(name, sizeof(name), "%d/task/%d/children", (int)parent, (int)parent);
	if (read_file_at(round->proc, name, 1 << 20, &text) < 0)
		return;
	for (char *at = text.buf, *end; at && *at; at = end) {
		pid_t pid = (pid_t)strtol(at, &end, 10);
		struct process child;

		if (end == at)
			break;
		if (read_process(round->proc, pid, &child) == 0 && may_be_told(round, &child) &&
			is_overlooked(round->cohort, &child))
			tell(round, &child);
	}
}

/* Returns how many were told. */
static int tell_all(const struct round *round, const struct processes *all)
{
	struct cohort *cohort = round->cohort;
	bool first = !any_is_told(cohort, all);
	size_t before = first ? 0 : cohort->n_told, done = before;

	cohort->n_told = before;
	for (size_t i = 0; i < all->n; i++) {
		const struct process *p = &all->list[i];

		if (!p->meant || !(first ? !find_told(cohort, &p->is) : is_overlooked(cohort, p)))
			continue;
		tell(round, p);
		while (done < cohort->n_told)
			tell_children(round, cohort->told[done++].is.pid);
	}
	return (int)(cohort->n_told - before);
}

int cohort_tell(struct cohort *cohort, const struct shim *shim, pid_t command, int sig)
{
	int auto_close last_pid = open("/proc/sys/kernel/ns_last_pid", O_RDONLY | O_CLOEXEC);
	DIR *proc = opendir("/proc");
	struct round round = { cohort, shim, sig, command, command ? getpgid(command) : 0, proc ? dirfd(proc) : -1,
		last_pid };
	struct processes all = {};
	int got = proc ? read_list(proc, &all) : -errno;

	if (got == 0) {
		choose(&round, &all);
		got = tell_all(&round, &all);
	}
	free(all.list);
	if (proc)
		closedir(proc);
	return got;
}

void cohort_clear(struct cohort *cohort)
{
	free(cohort->told);
	*cohort = (struct cohort){};
}
