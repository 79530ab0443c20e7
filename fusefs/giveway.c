/* SPDX-License-Identifier: MIT */
#include "giveway.h"

#include <stdatomic.h>
#include <unistd.h>

#include "base.h"
#include "guard.h"
#include "priority.h"

void giveway_init(struct giveway *give)
{
	*give = (struct giveway){ .self = gettid() };
}

void giveway_busy(struct giveway *give, int64_t now_ns, pid_t tid)
{
	atomic_store(&give->busy_ns, now_ns); /* before anybody looks whether the guard sleeps */
	if (!tid || !atomic_load_explicit(&give->kept, memory_order_relaxed))
		return;
	atomic_store(&give->kept, false);
	ban_start(&give->ban, now_ns);
	giveway_end(give);
}

void giveway_wait(struct giveway *give)
{
	giveway_end(give);
	if (atomic_load_explicit(&give->kept, memory_order_relaxed))
		atomic_store(&give->kept, false);
	atomic_store_explicit(&give->busy_ns, 0, memory_order_relaxed);
}

bool giveway_may(const struct giveway *give, int64_t now_ns)
{
	return !ban_holds(&give->ban, now_ns);
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

bool giveway_relieve(struct giveway *give, bool waiting)
{
	pid_t thread = atomic_load(&give->idle);

	if (!thread)
		return false;
	if (waiting)
		atomic_store(&give->kept, true);
	priority_set_idle(thread, false);
	return !atomic_exchange(&give->relieved, true);
}
