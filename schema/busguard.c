/* SPDX-License-Identifier: MIT */
#include "busguard.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "base.h"

#define RECENT 64	 /* more than there are threads that can fault on one page at the same moment */
#define FORGET_AFTER 64u /* faults that an entry answers: a new mapping at the address is replaced again */

/*
 * A signal handler can be told nothing, so its state is the file's. `lock` is held for a few system calls by handlers
 * alone; as SIGBUS is blocked while its handler runs, no thread can meet itself here.
 */
static struct {
	atomic_flag lock;
	uintptr_t page[RECENT];
	unsigned int hits[RECENT];
	unsigned int next;
	_Atomic uint64_t count;
} guard = { .lock = ATOMIC_FLAG_INIT };

/* Several threads fault on one page at once; the second copy would undo what has been written into the first. */
static bool just_replaced(uintptr_t page)
{
	for (unsigned int i = 0; i < RECENT; i++)
		if (guard.page[i] == page)
			return guard.hits[i]++ < FORGET_AFTER;
	return false;
}

static void remember(uintptr_t page)
{
	unsigned int at = guard.next;

	for (unsigned int i = 0; i < RECENT; i++)
		if (guard.page[i] == page)
			at = i;
	guard.next += at == guard.next;
	guard.next %= RECENT;
	guard.page[at] = page;
	guard.hits[at] = 0;
}

/* Only calls of the kernel. What cannot be read any more becomes zeros, which no checksum of ours takes for a record. */
static bool replace(uintptr_t page, size_t size)
{
	void *copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec local = { copy, size }, remote = { (void *)page, size };

	if (copy == MAP_FAILED)
		return false;
	if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) < 0)
		errno = 0;
	if (mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)page) == MAP_FAILED) {
		munmap(copy, size);
		return false;
	}
	remember(page);
	atomic_fetch_add(&guard.count, 1);
	return true;
}

static void on_bus_error(int sig, siginfo_t *info, void *context)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	uintptr_t page = (uintptr_t)info->si_addr & ~(uintptr_t)(size - 1);
	int saved = errno;
	bool done;

	(void)context;
	while (atomic_flag_test_and_set_explicit(&guard.lock, memory_order_acquire))
		sched_yield();
	done = info->si_code == BUS_ADRERR && (just_replaced(page) || replace(page, size));
	atomic_flag_clear_explicit(&guard.lock, memory_order_release);
	if (!done) {
		signal(sig, SIG_DFL);
		if (info->si_code <= 0) /* sent by somebody: it does not come again by itself */
			raise(sig);
	}
	errno = saved;
}

int busguard_install(void)
{
	struct sigaction action = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_RESTART };

	sigfillset(&action.sa_mask);
	return sigaction(SIGBUS, &action, NULL) < 0 ? -errno : 0;
}

void busguard_unblock(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGBUS);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

uint64_t busguard_pages(void)
{
	return atomic_load(&guard.count);
}
