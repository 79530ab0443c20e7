/* SPDX-License-Identifier: MIT */
/* ring_none.c - built without liburing: requests come through /dev/fuse. */
#include "ring.h"

int ring_new(struct mount *mount, struct ring **ret_ring, const char **ret_why_not)
{
	(void)mount, (void)ret_ring;
	*ret_why_not = "fstapefs was built without liburing";
	return -ENOSYS;
}

int ring_start(struct ring *ring)
{
	(void)ring;
	return -ENOSYS;
}

void ring_stop(struct ring *ring)
{
	(void)ring;
}

void ring_free(struct ring *ring)
{
	(void)ring;
}

bool ring_answer(struct ring *ring, const struct iovec *iov, int count, ssize_t *ret_result)
{
	(void)ring, (void)iov, (void)count, (void)ret_result;
	return false;
}

void *ring_read_buffer(void)
{
	return NULL;
}

void ring_at_rest(void)
{
}
