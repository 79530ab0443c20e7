/* SPDX-License-Identifier: MIT */
/*
 * lock_conflict.c - who stands in the way of a POSIX lock.
 *
 * The kernel does not say which open file description holds a lock, but it lists the locks of each: in
 * /proc/self/fdinfo/N (proc(5), "lock:" lines). That is read only when somebody has to wait, or asks.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lock_internal.h"

#define DEPTH_MAX 10 /* of a circle that is looked for; as deep as the kernel looks for its own */

struct range {
	int64_t first, last; /* bytes, both inside */
};

static struct range range_of(const struct flock *lock)
{
	return (struct range){ lock->l_start, lock->l_len ? lock->l_start + lock->l_len - 1 : INT64_MAX };
}

/* "lock:\t1: OFDLCK ADVISORY WRITE -1 fe:00:131 0 EOF": whether such a line is in the way of `lock`. */
static bool line_conflicts(const char *line, const struct flock *lock)
{
	struct range want = range_of(lock), held;
	char kind[16], type[16], end[32];

	if (sscanf(line, "lock:\t%*d: %15s %*s %15s %*d %*s %" SCNd64 " %31s", kind, type, &held.first, end) != 4 ||
		strcmp(kind, "OFDLCK") != 0)
		return false;
	held.last = strcmp(end, "EOF") == 0 ? INT64_MAX : strtoll(end, NULL, 10);
	return held.first <= want.last && want.first <= held.last &&
	       (lock->l_type == F_WRLCK || strcmp(type, "WRITE") == 0);
}

static bool holds_conflict(const struct owner *owner, const struct flock *lock)
{
	struct strbuf auto_strbuf text = {};
	char path[64];
	char *rest, *line;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", owner->fd);
	if (read_file_at(-1, path, 1 << 20, &text) < 0)
		return false;
	rest = text.buf;
	while ((line = strsep(&rest, "\n")))
		if (line_conflicts(line, lock))
			return true;
	return false;
}

struct owner *lock_holder(struct lock_table *table, const struct node *node, uint64_t id, const struct flock *lock)
{
	struct owner *owner = table->owners;

	while (owner && (owner->node != node || owner->id == id || !holds_conflict(owner, lock)))
		owner = owner->next;
	return owner;
}

/* Whether `id`, or who waits for it, is what the owner `who` would wait for. */
static bool leads_to(struct lock_table *table, const struct node *node, uint64_t who, const struct flock *lock,
	uint64_t id, int depth)
{
	for (const struct owner *owner = table->owners; owner && depth < DEPTH_MAX; owner = owner->next) {
		if (owner->node != node || owner->id == who || !holds_conflict(owner, lock))
			continue;
		if (owner->id == id)
			return true;
		for (const struct wait *wait = table->waits; wait; wait = wait->next)
			if (wait->owner && wait->owner->id == owner->id &&
				leads_to(table, wait->owner->node, owner->id, &wait->lock, id, depth + 1))
				return true;
	}
	return false;
}

bool lock_would_deadlock(struct lock_table *table, const struct node *node, uint64_t id, const struct flock *lock)
{
	return leads_to(table, node, id, lock, id, 0);
}
