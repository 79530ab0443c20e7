/* SPDX-License-Identifier: MIT */
#include "client_cpu.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base.h"

#define FIRST_PAIRS 100	      /* of a thread, */
#define FIRST_NS    100000    /* between which there is less time: what is short has to be known, too */
#define INTERVAL_NS 500000    /* between later ones; */
#define GROWS_AFTER 128	      /* as much again after so many */
#define SKIPPED	    8	      /* requests, at least: most of them pay nothing, however slow the machine is */

void client_cpu_open(struct client_cpu *cpu, int dir_fd)
{
	*cpu = (struct client_cpu){ .fd = openat(dir_fd, "schedstat", O_RDONLY | O_CLOEXEC) };
}

void client_cpu_close(struct client_cpu *cpu)
{
	if (cpu->fd >= 0)
		close(cpu->fd);
	cpu->fd = -1;
}

/* "sum_exec_runtime run_delay timeslices", ns; all 0 where the kernel was built without SCHED_INFO. */
static bool read_schedstat(int fd, int64_t *ret_cpu_ns, int64_t *ret_delay_ns)
{
	char text[96], *end;
	ssize_t len = pread(fd, text, sizeof(text) - 1, 0);

	if (len <= 0)
		return false;
	text[len] = '\0';
	*ret_cpu_ns = strtoll(text, &end, 10);
	*ret_delay_ns = strtoll(end, &end, 10);
	return *ret_cpu_ns > 0 && end > text;
}

static int64_t interval(uint32_t pairs)
{
	return pairs < FIRST_PAIRS ? FIRST_NS : INTERVAL_NS * (1 + pairs / GROWS_AFTER);
}

bool client_cpu_read(struct client_cpu *cpu, int64_t now, struct cpu_record *ret_record)
{
	if (!read_schedstat(cpu->fd, &ret_record->cpu_ns, &ret_record->delay_ns)) {
		client_cpu_close(cpu);
		return false;
	}
	if (cpu->again) {
		cpu->skip = SKIPPED;
		cpu->due_ns = now + interval(++cpu->pairs);
	}
	cpu->again = !cpu->again;
	return true;
}
