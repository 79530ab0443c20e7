/* SPDX-License-Identifier: MIT */
#include "giveway.h"

#include <stdatomic.h>
#include <unistd.h>

#include "base.h"
#include "guard.h"
#include "priority.h"

#define BAN_NS 20000000

void giveway_init(struct giveway *give)
{
	*give = (struct giveway){ .self = gettid() };
}

void giveway_busy(struct giveway *give, int64_t now_ns)
{
	atomic_store(&give->busy_ns, now_ns); /* before anybody looks whether the guard sleeps */
	if (!atomic_load_explicit(&give->banned, memory_order_relaxed))
		return;
	atomic_store(&give->banned, false);
	give->banned_until_ns = now_ns + BAN_NS;
	giveway_end(give);
}

void giveway_wait(struct giveway *give)
{
	giveway_end(give);
	atomic_store_explicit(&give->busy_ns, 0, memory_order_relaxed);
}

bool giveway_may(const struct giveway *give, int64_t now_ns)
{
	return now_ns >= give->banned_until_ns;
}

/*
 * What a thread says it is, it is said to be for longer: so others never take it for ordinary while it is idle. They may make
 * it ordinary at any moment of this; then it is idle again at its next answer, or they find it late again.
 */
void giveway_begin(struct giveway *give)
{
	if (atomic_load_explicit(&give->idle, memory_order_relaxed) &&
		!atomic_load_explicit(&give->relieved, memory_order_relaxed))
		return;
	atomic_store(&give->relieved, false);
	atomic_store(&give->idle, give->self);
	priority_set_idle(0, true);
}

void giveway_end(struct giveway *give)
{
	if (!atomic_load_explicit(&give->idle, memory_order_relaxed))
		return;
	priority_set_idle(0, false);
	atomic_store(&give->idle, 0);
}

bool giveway_is_busy(const struct giveway *give)
{
	return atomic_load(&give->busy_ns);
}

bool giveway_is_late(const struct giveway *give, int64_t now_ns)
{
	int64_t since = atomic_load(&give->busy_ns);

	return since && now_ns - since > GUARD_NS;
}

void giveway_relieve(struct giveway *give, bool ban)
{
	pid_t thread = atomic_load(&give->idle);

	if (!thread)
		return;
	if (ban)
		atomic_store(&give->banned, true);
	atomic_store(&give->relieved, true);
	priority_set_idle(thread, false);
}
