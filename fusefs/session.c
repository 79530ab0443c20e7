/* SPDX-License-Identifier: MIT */
#include "session.h"

#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "fuse_abi.h"
#include "mount.h"
#include "ring.h"
#include "worker.h"

#define MAX_BACKGROUND 64 /* asynchronous requests, RELEASE among them; the kernel's 12 throttles a checkout */

struct session {
	int ready_fd;
	_Atomic uint64_t offered, taken;
	_Atomic uint64_t init_unique; /* of the INIT request that is being answered; 0: none */
};

/* Filesystems below that we may be on: not those that are on others themselves, so that one may be on us. */
#define STACK_DEPTH 1

static _Thread_local int32_t backing;
static _Thread_local struct mount *answering;

int session_new(struct session **ret_session)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		return -ENOMEM;
	session->ready_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (session->ready_fd < 0) {
		free(session);
		return -errno;
	}
	*ret_session = session;
	return 0;
}

void session_free(struct session *session)
{
	if (!session)
		return;
	close(session->ready_fd);
	free(session);
}

int session_ready_fd(const struct session *session)
{
	return session->ready_fd;
}

void session_capabilities(const struct session *session, uint64_t *ret_offered, uint64_t *ret_taken)
{
	*ret_offered = atomic_load(&session->offered);
	*ret_taken = atomic_load(&session->taken);
}

void session_init(void *userdata, struct fuse_conn_info *conn)
{
	struct fs *fs = ((struct mount *)userdata)->fs;
	unsigned int want = FUSE_CAP_ASYNC_READ | FUSE_CAP_POSIX_LOCKS | FUSE_CAP_FLOCK_LOCKS |
			    FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_DONT_MASK | FUSE_CAP_IOCTL_DIR |
			    FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_ASYNC_DIO |
			    FUSE_CAP_PARALLEL_DIROPS;

	if (fs->options.cache == CACHE_ALWAYS)
		want |= FUSE_CAP_CACHE_SYMLINKS;
	else
		want |= FUSE_CAP_AUTO_INVAL_DATA;
	if (fs->privileged)
		want |= FUSE_CAP_POSIX_ACL;
	if (fs->options.noflush) /* which is what ends a process's locks: without it they must be the kernel's affair */
		want &= ~FUSE_CAP_POSIX_LOCKS;
	if (fs->options.writeback)
		want |= FUSE_CAP_WRITEBACK_CACHE;
	conn->want = want & conn->capable;
	conn->max_write = WORKER_BUFFER_SIZE;
	conn->max_background = MAX_BACKGROUND;
	conn->congestion_threshold = MAX_BACKGROUND * 3 / 4;
	conn->time_gran = 1;
}

void session_note_request(struct session *session, const void *request, size_t size)
{
	const struct fuse_in_header *in = request;
	const struct fuse_init_in *init = (const void *)(in + 1);

	if (in->opcode != FUSE_INIT || size < sizeof(*in) + 16) /* 16: up to `flags`, which every version has */
		return;
	atomic_store(&session->offered,
		(uint64_t)init->flags |
			(size >= sizeof(*in) + 20 && (init->flags & FUSE_INIT_EXT) ? (uint64_t)init->flags2 << 32 : 0));
	atomic_store(&session->init_unique, in->unique);
}

/*
 * Added to libfuse's answer when the kernel offers them.
 *
 * With HANDLE_KILLPRIV_V2 it is ours to clear set-id bits when we write, and we do not where the kernel does: there it has
 * to do so as well, and looks for security.capability before each write.
 */
static uint64_t wanted_flags(const struct options *options)
{
	return options->data_passthrough ? FUSE_PARALLEL_DIROPS | FUSE_PASSTHROUGH :
					   FUSE_PARALLEL_DIROPS | FUSE_HANDLE_KILLPRIV_V2;
}

static void edit_init_answer(struct mount *mount, struct iovec *iov, int count)
{
	struct session *session = mount->session;
	uint64_t wanted = wanted_flags(&mount->fs->options) | (mount->ring ? FUSE_OVER_IO_URING : 0);
	char *bytes = count > 1 ? iov[1].iov_base : NULL;
	struct fuse_init_out *out = (void *)bytes;
	uint32_t high = 0, depth = STACK_DEPTH;

	if (!out || iov[1].iov_len < 24) /* up to `flags` and max_background */
		return;
	wanted &= atomic_load(&session->offered);
	out->flags |= (uint32_t)wanted;
	if (iov[1].iov_len >= INIT_OUT_SIZE) {
		if (out->flags & FUSE_INIT_EXT)
			memcpy(&high, bytes + INIT_OUT_FLAGS2_AT, sizeof(high));
		high |= (uint32_t)(wanted >> 32);
		out->flags |= high ? FUSE_INIT_EXT : 0;
		memcpy(bytes + INIT_OUT_FLAGS2_AT, &high, sizeof(high));
		if (wanted & FUSE_PASSTHROUGH)
			memcpy(bytes + INIT_OUT_STACK_DEPTH_AT, &depth, sizeof(depth));
	}
	atomic_store(&session->taken, out->flags | (uint64_t)high << 32);
}

void session_answer_backing(int32_t backing_id)
{
	backing = backing_id;
}

/* Both answers end in the same way; libfuse before 3.17 does not know what is new there. */
static void edit_open_answer(struct iovec *iov, int count)
{
	struct iovec *last = &iov[count - 1];
	struct open_answer answer;

	if (count > 1 && last->iov_len >= sizeof(answer)) {
		char *at = (char *)last->iov_base + last->iov_len - sizeof(answer);

		memcpy(&answer, at, sizeof(answer));
		answer.open_flags |= FOPEN_PASSTHROUGH;
		answer.backing_id = backing;
		memcpy(at, &answer, sizeof(answer));
	}
	backing = 0;
}

static ssize_t send_out(int fd, const struct iovec *iov, int count)
{
	return syscall(SYS_writev, fd, iov, count);
}

static ssize_t write_answer(struct mount *mount, int fd, struct iovec *iov, int count)
{
	struct session *session = mount->session;
	uint64_t init = atomic_load_explicit(&session->init_unique, memory_order_relaxed);
	uint64_t unique = ((const struct fuse_out_header *)iov[0].iov_base)->unique;
	ssize_t result;

	if (unique == 0) /* a notification */
		return send_out(fd, iov, count);
	if (unique != init) {
		if (backing)
			edit_open_answer(iov, count);
		if (mount->ring && ring_answer(mount->ring, iov, count, &result))
			return result;
		worker_before_reply();
		return send_out(fd, iov, count);
	}
	edit_init_answer(mount, iov, count);
	result = send_out(fd, iov, count);
	atomic_store(&session->init_unique, 0);
	eventfd_write(session->ready_fd, 1);
	return result;
}

struct mount *session_answer_for(struct mount *mount)
{
	struct mount *before = answering;

	answering = mount;
	return before;
}

/* In place of libc's (session.h). The answer's parts are libfuse's own, which does not look at them again. */
ssize_t writev(int fd, const struct iovec *iov, int count)
{
	if (answering && count > 0 && fd == fuse_session_fd(answering->se))
		return write_answer(answering, fd, (struct iovec *)(uintptr_t)iov, count);
	return send_out(fd, iov, count);
}
