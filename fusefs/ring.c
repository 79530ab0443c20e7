/* SPDX-License-Identifier: MIT */
#include "ring.h"

#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include "cred.h"
#include "fuse_abi.h"
#include "giveway.h"
#include "lanes.h"
#include "mount.h"
#include "priority.h"
#include "recorder.h"
#include "worker.h"

#define PARAMETER "/sys/module/fuse/parameters/enable_uring"
#define PAGE 4096u
/*
 * Threads that wait, in each queue, for as many requests to come at once. The kernel (6.18) gives a request that found no
 * entry to the next that has answered something, and not to one that is new: when all others are waiting for deferred
 * answers, locks, it would lie there until the next request is made on that processor.
 */
#define SPARE 8u
#define SPARE_OF_MANY 2u
#define MANY_QUEUES 16u
#define ENTRIES 4 /* of a thread's ring: the request, and the eventfd that says stop */

struct queue {
	unsigned int running; /* threads, but for those that wait for a deferred answer; under the lock */
	_Atomic unsigned int idle;
	_Atomic bool full; /* there are as many threads as there may be */
};

struct ring {
	struct mount *mount;
	int stop_fd;
	unsigned int n_queues, spare;
	unsigned int most; /* threads of a queue that are not waiting for a deferred answer */
	struct queue *queues;
	struct lanes *lanes; /* one for each queue; NULL: no giving way */
	pthread_mutex_t lock;
	pthread_cond_t changed; /* an answer has come, a thread has ended, or it is time to stop */
	struct entry *entries;
	unsigned int threads;
	_Atomic bool stopping;
};

/*
 * A thread and its part of the memory: a page for the kernel's header, one in whose end the request is put together before
 * what followed it (the kernel has taken it apart), and room for the longest request or answer.
 */
struct entry {
	struct ring *ring;
	struct entry *next;
	unsigned int queue;
	struct io_uring uring;
	char *memory;
	struct fuse_uring_req_header *header;
	char *payload;
	struct iovec iov[2];
	uint32_t opcode;	 /* of the request being handled */
	_Atomic uint64_t unique; /* likewise, 0: none */
	_Atomic bool answered;
	uint64_t commit_id;
	bool in_lane; /* it is on the queue's processor, and may give way to who is there */
	struct giveway give;
};

#define MEMORY_SIZE (2 * PAGE + WORKER_BUFFER_SIZE)

static _Thread_local struct entry *mine;

void *ring_read_buffer(void)
{
	return mine && mine->opcode == FUSE_READ ? mine->payload : NULL;
}

void ring_at_rest(void)
{
	if (mine)
		giveway_end(&mine->give);
}

/* --- setting up ---------------------------------------------------------------------------------------------------- */

static void entry_free(struct entry *entry)
{
	if (entry->memory)
		munmap(entry->memory, MEMORY_SIZE);
	if (entry->uring.ring_fd >= 0)
		io_uring_queue_exit(&entry->uring);
	free(entry);
}

/* Under the lock, or before there are threads. */
static int entry_new(struct ring *ring, unsigned int queue, struct entry **ret_entry)
{
	struct io_uring_params params = { .flags = IORING_SETUP_SQE128 };
	struct entry *entry = calloc(1, sizeof(*entry));
	int err;

	if (!entry)
		return -ENOMEM;
	entry->ring = ring;
	entry->queue = queue;
	entry->uring.ring_fd = -1;
	entry->memory = mmap(NULL, MEMORY_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (entry->memory == MAP_FAILED) {
		entry->memory = NULL;
		entry_free(entry);
		return -ENOMEM;
	}
	entry->header = (void *)entry->memory;
	entry->payload = entry->memory + 2 * PAGE;
	entry->iov[0] = (struct iovec){ entry->header, sizeof(*entry->header) };
	entry->iov[1] = (struct iovec){ entry->payload, WORKER_BUFFER_SIZE };
	err = io_uring_queue_init_params(ENTRIES, &entry->uring, &params);
	if (err < 0) {
		entry->uring.ring_fd = -1;
		entry_free(entry);
		return err;
	}
	entry->next = ring->entries;
	ring->entries = entry;
	*ret_entry = entry;
	return 0;
}

static const char *why_not(const struct options *options)
{
	int auto_close fd = open(PARAMETER, O_RDONLY | O_CLOEXEC);
	char on = 'N';

	if (options->threads < 2)
		return "there is to be one thread only";
	if (fd < 0)
		return "this kernel has no io_uring for FUSE; Linux 6.14 and newer can have it";
	if (read(fd, &on, 1) == 1 && on == 'Y')
		return NULL;
	return "it is off in the kernel; 'echo Y >" PARAMETER "' turns it on";
}

int ring_new(struct mount *mount, struct ring **ret_ring, const char **ret_why_not)
{
	const struct options *options = &mount->fs->options;
	unsigned int n_queues = (unsigned int)get_nprocs_conf(); /* the kernel's possible processors */
	struct ring *ring;
	struct entry *entry;
	int err = 0;

	*ret_why_not = why_not(options);
	if (*ret_why_not)
		return -EOPNOTSUPP;
	*ret_why_not = "the kernel does not let this process use io_uring (kernel.io_uring_disabled, or a filter of system calls)";
	ring = calloc(1, sizeof(*ring));
	if (!ring)
		return -ENOMEM;
	ring->mount = mount;
	ring->n_queues = n_queues;
	ring->spare = n_queues < MANY_QUEUES ? SPARE : SPARE_OF_MANY;
	ring->most = options->threads / n_queues > ring->spare ? options->threads / n_queues : ring->spare + 1;
	ring->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ring->queues = calloc(n_queues, sizeof(*ring->queues));
	pthread_mutex_init(&ring->lock, NULL);
	pthread_cond_init(&ring->changed, NULL);
	if (!ring->queues || ring->stop_fd < 0)
		err = -ENOMEM;
	for (unsigned int i = 0; i < n_queues * ring->spare && err == 0; i++)
		err = entry_new(ring, i % n_queues, &entry);
	if (err < 0)
		ring_free(ring);
	else
		*ret_ring = ring;
	return err;
}

void ring_free(struct ring *ring)
{
	if (!ring)
		return;
	while (ring->entries) {
		struct entry *entry = ring->entries;

		ring->entries = entry->next;
		entry_free(entry);
	}
	if (ring->stop_fd >= 0)
		close(ring->stop_fd);
	free(ring->queues);
	pthread_cond_destroy(&ring->changed);
	pthread_mutex_destroy(&ring->lock);
	free(ring);
}

/* --- one thread ---------------------------------------------------------------------------------------------------- */

static struct io_uring_sqe *next_sqe(struct entry *entry)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&entry->uring);

	if (sqe)
		memset(sqe, 0, 2 * sizeof(*sqe)); /* SQE128 */
	return sqe;
}

/* What the kernel is to do next: take the entry, or what has been answered, and give it a request. */
static bool submit(struct entry *entry, uint32_t command)
{
	struct io_uring_sqe *sqe = next_sqe(entry);
	struct fuse_uring_cmd_req *cmd;

	if (!sqe)
		return false; /* never: there is one command at a time, and the stop */
	cmd = (void *)sqe->cmd;
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = fuse_session_fd(entry->ring->mount->se);
	sqe->cmd_op = command;
	sqe->user_data = (uintptr_t)entry;
	if (command == FUSE_IO_URING_CMD_REGISTER) {
		sqe->addr = (uintptr_t)entry->iov;
		sqe->len = 2;
	} else {
		cmd->commit_id = entry->commit_id;
	}
	cmd->qid = (uint16_t)entry->queue;
	return true;
}

static bool submit_stop(struct entry *entry)
{
	struct io_uring_sqe *sqe = next_sqe(entry);

	if (!sqe)
		return false;
	io_uring_prep_poll_add(sqe, entry->ring->stop_fd, POLLIN);
	sqe->user_data = 0;
	return true;
}

static int start_thread(struct entry *entry);

/* Under the lock. */
static void add_thread_if_due(struct ring *ring, struct queue *queue)
{
	struct entry *entry;

	if (atomic_load(&queue->idle) < ring->spare && queue->running < ring->most && !atomic_load(&ring->stopping) &&
		entry_new(ring, (unsigned int)(queue - ring->queues), &entry) == 0)
		start_thread(entry);
}

static void no_longer_idle(struct ring *ring, struct queue *queue)
{
	if (atomic_fetch_sub(&queue->idle, 1) > ring->spare || atomic_load_explicit(&queue->full, memory_order_relaxed))
		return;
	pthread_mutex_lock(&ring->lock);
	add_thread_if_due(ring, queue);
	atomic_store(&queue->full, queue->running >= ring->most);
	pthread_mutex_unlock(&ring->lock);
}

/* A deferred answer. False: it is time to stop. */
static bool wait_for_answer(struct entry *entry, struct queue *queue)
{
	struct ring *ring = entry->ring;

	pthread_mutex_lock(&ring->lock);
	queue->running--;
	atomic_store(&queue->full, false);
	if (!atomic_load(&entry->answered))
		add_thread_if_due(ring, queue);
	while (!atomic_load(&entry->answered) && !atomic_load(&ring->stopping))
		pthread_cond_wait(&ring->changed, &ring->lock);
	queue->running++;
	pthread_mutex_unlock(&ring->lock);
	return atomic_load(&entry->answered);
}

static bool handle(struct entry *entry)
{
	struct queue *queue = &entry->ring->queues[entry->queue];
	const struct fuse_in_header *in = (const void *)entry->header->in_out;
	uint32_t payload = entry->header->ring_ent_in_out.payload_sz;
	size_t arg = in->len - sizeof(*in) - payload;
	pid_t client = (pid_t)in->pid; /* the answer will be where this is */
	char *request;
	bool answered;

	entry->commit_id = entry->header->ring_ent_in_out.commit_id;
	if (in->len < sizeof(*in) + payload || arg > sizeof(entry->header->op_in)) {
		log_msg("a request of %u bytes that makes no sense, of kind %u", in->len, in->opcode);
		return false;
	}
	request = entry->payload - arg - sizeof(*in);
	memcpy(request, in, sizeof(*in));
	memcpy(request + sizeof(*in), entry->header->op_in, arg);
	no_longer_idle(entry->ring, queue);
	atomic_store_explicit(&entry->answered, false, memory_order_relaxed);
	atomic_store(&entry->unique, in->unique);
	entry->opcode = in->opcode;
	if (entry->in_lane && worker_is_long(request, in->len))
		giveway_end(&entry->give); /* until it answers */
	worker_handle(entry->ring->mount, request, in->len);
	entry->opcode = 0;
	answered = atomic_load(&entry->answered) || wait_for_answer(entry, queue);
	if (entry->in_lane)
		lanes_answer(entry->ring->lanes, entry->queue, &entry->give, client);
	atomic_store(&entry->unique, 0);
	atomic_fetch_add(&queue->idle, 1);
	return answered;
}

/* What the kernel says of the entry. False: the thread ends. */
static bool take(struct entry *entry, int result)
{
	static const int over[] = { -ENOTCONN, -ECONNABORTED, -ENODEV, -ECANCELED };

	if (result == 0)
		return handle(entry) && submit(entry, FUSE_IO_URING_CMD_COMMIT_AND_FETCH);
	for (size_t i = 0; i < ARRAY_SIZE(over); i++)
		if (result == over[i])
			return false;
	if (result == -EAGAIN || result == -EINTR)
		return submit(entry, entry->commit_id ? FUSE_IO_URING_CMD_COMMIT_AND_FETCH : FUSE_IO_URING_CMD_REGISTER);
	log_errno(result, "reading from the kernel through io_uring");
	worker_pool_stop(entry->ring->mount->pool); /* nobody would answer: the mount ends */
	return false;
}

static void serve(struct entry *entry)
{
	if (!submit_stop(entry) || !submit(entry, FUSE_IO_URING_CMD_REGISTER))
		return;
	while (!atomic_load(&entry->ring->stopping)) {
		struct io_uring_cqe *cqe;
		uint64_t whose;
		int result = io_uring_submit_and_wait(&entry->uring, 1);

		if (result < 0 && result != -EINTR && result != -EAGAIN) {
			log_errno(result, "waiting for io_uring");
			return;
		}
		if (io_uring_peek_cqe(&entry->uring, &cqe) < 0)
			continue;
		whose = cqe->user_data;
		result = cqe->res;
		io_uring_cqe_seen(&entry->uring, cqe);
		if (!whose || !take(entry, result))
			return;
	}
}

/*
 * On the processor of its queue, where its clients are: there it is woken without waking a processor. Where that is none of
 * the daemon's (taskset(1), a cgroup) it is on any that is. False: there.
 */
static bool to_processor(const struct entry *entry)
{
	const cpu_set_t *ours = &entry->ring->mount->fs->processors;
	cpu_set_t one;

	CPU_ZERO(&one);
	if (entry->queue >= CPU_SETSIZE || !CPU_ISSET(entry->queue, ours)) {
		sched_setaffinity(0, sizeof(*ours), ours); /* who started it may keep to one */
		return false;
	}
	CPU_SET(entry->queue, &one);
	return sched_setaffinity(0, sizeof(one), &one) == 0;
}

static void *thread_main(void *arg)
{
	struct entry *entry = arg;
	struct ring *ring = entry->ring;
	struct queue *queue = &ring->queues[entry->queue];

	pthread_setname_np(pthread_self(), "ring");
	priority_init();
	entry->in_lane = to_processor(entry) && ring->lanes;
	cred_thread_init(ring->mount->fs);
	if (entry->in_lane)
		lanes_join(ring->lanes, entry->queue, &entry->give);
	mine = entry;
	serve(entry);
	mine = NULL;
	if (entry->in_lane)
		lanes_leave(ring->lanes, entry->queue, &entry->give);
	worker_thread_end();
	pthread_mutex_lock(&ring->lock);
	queue->running--;
	atomic_fetch_sub(&queue->idle, 1);
	ring->threads--;
	pthread_cond_broadcast(&ring->changed);
	pthread_mutex_unlock(&ring->lock);
	return NULL;
}

/* Under the lock. */
static int start_thread(struct entry *entry)
{
	struct queue *queue = &entry->ring->queues[entry->queue];
	int err;

	err = worker_thread_start(thread_main, entry, NULL);
	if (err == 0) {
		if (entry->ring->mount->fs->recorder)
			recorder_add_writer(entry->ring->mount->fs->recorder);
		entry->ring->threads++;
		queue->running++;
		atomic_fetch_add(&queue->idle, 1);
	}
	return err;
}

int ring_start(struct ring *ring)
{
	enum wait_mode wait = ring->mount->fs->options.wait;
	int err = 0;

	if ((wait == WAIT_AUTO || wait == WAIT_FOLLOW) && priority_may_be_idle())
		err = lanes_new(ring->mount->fs->guard, ring->n_queues, &ring->lanes);
	pthread_mutex_lock(&ring->lock);
	for (struct entry *entry = ring->entries; entry && err == 0; entry = entry->next)
		err = start_thread(entry);
	pthread_mutex_unlock(&ring->lock);
	return err;
}

void ring_stop(struct ring *ring)
{
	if (!ring)
		return;
	pthread_mutex_lock(&ring->lock);
	atomic_store(&ring->stopping, true);
	eventfd_write(ring->stop_fd, 1);
	pthread_cond_broadcast(&ring->changed);
	while (ring->threads > 0)
		pthread_cond_wait(&ring->changed, &ring->lock);
	pthread_mutex_unlock(&ring->lock);
	lanes_free(ring->lanes);
	ring->lanes = NULL;
}

/* --- answers ------------------------------------------------------------------------------------------------------- */

static void fill(struct entry *entry, const struct iovec *iov, int count)
{
	struct fuse_out_header *out = (void *)entry->header->in_out;
	size_t size = 0;

	*out = *(const struct fuse_out_header *)iov[0].iov_base;
	for (int i = 1; i < count; i++) {
		size_t room = WORKER_BUFFER_SIZE - size, part = iov[i].iov_len < room ? iov[i].iov_len : room;

		if (iov[i].iov_base != entry->payload + size)
			memcpy(entry->payload + size, iov[i].iov_base, part);
		size += part;
	}
	entry->header->ring_ent_in_out.payload_sz = (uint32_t)size;
}

static ssize_t length(const struct iovec *iov, int count)
{
	size_t total = 0;

	for (int i = 0; i < count; i++)
		total += iov[i].iov_len;
	return (ssize_t)total;
}

bool ring_answer(struct ring *ring, const struct iovec *iov, int count, ssize_t *ret_result)
{
	uint64_t unique = ((const struct fuse_out_header *)iov[0].iov_base)->unique;
	struct entry *entry = mine;

	*ret_result = length(iov, count);
	if (entry && entry->ring == ring && atomic_load_explicit(&entry->unique, memory_order_relaxed) == unique) {
		fill(entry, iov, count);
		atomic_store(&entry->answered, true);
		return true;
	}
	pthread_mutex_lock(&ring->lock);
	for (entry = ring->entries; entry && atomic_load(&entry->unique) != unique; entry = entry->next)
		;
	if (entry) {
		fill(entry, iov, count);
		atomic_store(&entry->answered, true);
		pthread_cond_broadcast(&ring->changed);
	}
	pthread_mutex_unlock(&ring->lock);
	return entry;
}
