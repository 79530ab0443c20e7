/* SPDX-License-Identifier: MIT */
#include "session.h"

#include <linux/fuse.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>

#include "mount.h"
#include "worker.h"

#define MAX_BACKGROUND 64 /* asynchronous requests, RELEASE among them; the kernel's 12 throttles a checkout */

struct session {
	int ready_fd;
	_Atomic uint64_t offered, taken;
	_Atomic uint64_t init_unique; /* of the INIT request that is being answered; 0: none */
};

/* Added to libfuse's answer when the kernel offers them. */
static const uint64_t extra_flags = FUSE_PARALLEL_DIROPS | FUSE_HANDLE_KILLPRIV_V2;

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

static void edit_init_answer(struct session *session, struct iovec *iov, int count)
{
	struct fuse_init_out *out = count > 1 ? iov[1].iov_base : NULL;

	if (!out || iov[1].iov_len < 24) /* up to `flags` and max_background */
		return;
	out->flags |= (uint32_t)(extra_flags & atomic_load(&session->offered));
	atomic_store(&session->taken, out->flags | (out->flags & FUSE_INIT_EXT ? (uint64_t)out->flags2 << 32 : 0));
}

static ssize_t write_answer(int fd, struct iovec *iov, int count, void *userdata)
{
	struct session *session = ((struct mount *)userdata)->session;
	uint64_t init = atomic_load_explicit(&session->init_unique, memory_order_relaxed);
	uint64_t unique = ((const struct fuse_out_header *)iov[0].iov_base)->unique;
	ssize_t result;

	if (unique == 0) /* a notification */
		return writev(fd, iov, count);
	if (unique != init) {
		worker_before_reply();
		result = writev(fd, iov, count);
		worker_after_reply();
		return result;
	}
	edit_init_answer(session, iov, count);
	result = writev(fd, iov, count);
	atomic_store(&session->init_unique, 0);
	eventfd_write(session->ready_fd, 1);
	return result;
}

/* Never used: worker.c reads by itself. libfuse wants to have one. */
static ssize_t read_request(int fd, void *buf, size_t size, void *userdata)
{
	(void)userdata;
	return read(fd, buf, size);
}

int session_hook(struct mount *mount)
{
	static const struct fuse_custom_io io = { .writev = write_answer, .read = read_request };

	return fuse_session_custom_io(mount->se, &io, fuse_session_fd(mount->se));
}
