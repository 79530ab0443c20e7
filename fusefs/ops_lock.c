/* SPDX-License-Identifier: MIT */
/* ops_lock.c - locks taken, asked about and waited for; lock.h says how they map. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "dispatch.h"
#include "fdcache.h"
#include "handle.h"
#include "lock_internal.h"
#include "node.h"
#include "worker.h"

int lock_table_new(struct lock_table **ret_table)
{
	struct lock_table *table = calloc(1, sizeof(*table));

	if (!table)
		return -ENOMEM;
	pthread_mutex_init(&table->mutex, NULL);
	pthread_cond_init(&table->ended, NULL);
	*ret_table = table;
	return 0;
}

/* --- owners -------------------------------------------------------------------------------------------------------- */

static struct owner *find_owner(struct lock_table *table, struct node *node, uint64_t id)
{
	struct owner *owner = table->owners;

	while (owner && (owner->node != node || owner->id != id))
		owner = owner->next;
	return owner;
}

static void owner_put(struct fs *fs, struct owner *owner)
{
	bool last;

	pthread_mutex_lock(&fs->locks->mutex);
	last = --owner->refs == 0;
	pthread_mutex_unlock(&fs->locks->mutex);
	if (!last)
		return;
	close(owner->fd);
	fdcache_handles(fs, -1);
	node_unref(fs, owner->node);
	free(owner);
}

/* A file of its own on the inode. For writing too, as a write lock needs that; without it where there is no right to. */
static int open_for_locks(struct fs *fs, struct node *node)
{
	static const int modes[] = { O_RDWR, O_RDONLY, O_WRONLY };
	struct proc_path path;
	struct fdref ref;
	int fd = -1, err = fdref_get(fs, node, &ref);

	if (err < 0)
		return err;
	path = fdref_path(&ref);
	for (size_t i = 0; i < ARRAY_SIZE(modes) && fd < 0; i++)
		fd = open(path.text, modes[i] | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	err = fd < 0 ? -errno : fd;
	fdref_put(fs, &ref);
	return err;
}

/* The owner of the call's lock, with a reference; made when it has none yet. */
static int owner_get(struct fs *fs, struct call *c, struct owner **ret_owner)
{
	struct lock_table *table = fs->locks;
	struct owner *owner, *fresh;
	int fd;

	pthread_mutex_lock(&table->mutex);
	owner = find_owner(table, c->node, c->lock_owner);
	if (owner) {
		owner->refs++;
		owner->tid = c->tid;
		owner->handle = c->fh->id;
	}
	pthread_mutex_unlock(&table->mutex);
	if (owner) {
		*ret_owner = owner;
		return 0;
	}
	fd = open_for_locks(fs, c->node);
	if (fd < 0)
		return fd;
	fresh = calloc(1, sizeof(*fresh));
	if (!fresh) {
		close(fd);
		return -ENOMEM;
	}
	*fresh = (struct owner){ .node = c->node, .id = c->lock_owner, .tid = c->tid, .handle = c->fh->id, .fd = fd,
		.refs = 2 };
	node_ref(fs, c->node);
	fdcache_handles(fs, 1);
	pthread_mutex_lock(&table->mutex);
	owner = find_owner(table, c->node, c->lock_owner);
	if (owner) {
		owner->refs++;
		fresh->refs = 1;
	} else {
		fresh->next = table->owners;
		table->owners = fresh;
		atomic_fetch_add(&table->n_owners, 1);
	}
	pthread_mutex_unlock(&table->mutex);
	if (owner)
		owner_put(fs, fresh);
	*ret_owner = owner ?: fresh;
	return 0;
}

static bool belongs(const struct owner *owner, const struct node *node, const uint64_t *id, const uint64_t *handle)
{
	return owner->node == node && (!id || owner->id == *id) && (!handle || owner->handle == *handle);
}

/* Drops one owner that fits, by its id or by its handle, whichever is given. False: there is none. */
static bool drop_one(struct fs *fs, const struct node *node, const uint64_t *id, const uint64_t *handle)
{
	struct lock_table *table = fs->locks;
	struct owner **link, *owner;

	if (atomic_load_explicit(&table->n_owners, memory_order_relaxed) == 0)
		return false;
	pthread_mutex_lock(&table->mutex);
	for (link = &table->owners; *link && !belongs(*link, node, id, handle); link = &(*link)->next)
		;
	owner = *link;
	if (owner) {
		*link = owner->next;
		atomic_fetch_sub(&table->n_owners, 1);
	}
	pthread_mutex_unlock(&table->mutex);
	if (!owner)
		return false;
	/* A wait of the same owner keeps the file open: its locks must go now. */
	fcntl(owner->fd, F_OFD_SETLK, &(struct flock){ .l_type = F_UNLCK, .l_whence = SEEK_SET });
	owner_put(fs, owner);
	return true;
}

bool lock_drop_owner(struct fs *fs, struct node *node, uint64_t id)
{
	return drop_one(fs, node, &id, NULL);
}

void lock_drop_handle(struct fs *fs, struct node *node, uint64_t handle)
{
	while (drop_one(fs, node, NULL, &handle))
		;
}

/* --- waits --------------------------------------------------------------------------------------------------------- */

static void on_wake(int signal)
{
	(void)signal; /* only so that fcntl(2) and flock(2) return EINTR */
}

/* Until it has left the system call: a signal that comes just before the call is entered would be lost. */
static void wake(struct wait *wait)
{
	atomic_store(&wait->interrupted, true);
	for (int tries = 0; tries < 1000 && !atomic_load(&wait->over); tries++) {
		pthread_kill(wait->thread, SIGUSR1);
		usleep(200);
	}
}

static void on_interrupt(fuse_req_t req, void *data)
{
	(void)req;
	wake(data);
}

static int wait_for_lock(struct wait *wait)
{
	struct call *c = &wait->call;
	int result;

	do
		result = wait->op == OP_flock ?
			FS_CALL(c, flock(c->fh->fd, (int)c->flags)) :
			FS_CALL(c, fcntl(wait->owner->fd, F_OFD_SETLKW, &wait->lock));
	while (result < 0 && errno == EINTR && !atomic_load(&wait->interrupted));
	return result < 0 ? -errno : 0;
}

static void wait_remove(struct lock_table *table, struct wait *wait)
{
	struct wait **link;

	pthread_mutex_lock(&table->mutex);
	for (link = &table->waits; *link && *link != wait; link = &(*link)->next)
		;
	if (*link)
		*link = wait->next;
	pthread_cond_broadcast(&table->ended);
	pthread_mutex_unlock(&table->mutex);
}

static void *wait_main(void *arg)
{
	struct wait *wait = arg;
	struct fs *fs = wait->fs;
	sigset_t only_wake;
	int result;

	pthread_setname_np(pthread_self(), "lock");
	sched_setaffinity(0, sizeof(fs->processors), &fs->processors); /* who started it may keep to one of them */
	sigemptyset(&only_wake);
	sigaddset(&only_wake, SIGUSR1);
	pthread_sigmask(SIG_UNBLOCK, &only_wake, NULL);
	fuse_req_interrupt_func(wait->req, on_interrupt, wait);
	result = wait_for_lock(wait);
	atomic_store(&wait->over, true);
	fuse_req_interrupt_func(wait->req, NULL, NULL);
	dispatch_complete(wait->req, wait->op, &wait->call, result);
	if (wait->op == OP_flock)
		handle_put(fs, wait->call.fh);
	else
		owner_put(fs, wait->owner);
	worker_thread_end();
	wait_remove(fs->locks, wait);
	free(wait);
	return NULL;
}

/* Under the mutex, so that two who would wait for each other do not miss one another. */
static int wait_start(struct lock_table *table, struct wait *wait)
{
	int err = -worker_thread_start(wait_main, wait, &wait->thread);

	if (err)
		return err;
	pthread_detach(wait->thread);
	wait->next = table->waits;
	table->waits = wait;
	return 0;
}

/* Takes over the reference to `owner`, or takes one to the handle. CALL_DEFERRED or -errno. */
static int64_t defer(struct fs *fs, struct call *c, enum op_id op, struct owner *owner)
{
	struct wait *wait = calloc(1, sizeof(*wait));
	int err = ENOMEM;

	if (wait) {
		*wait = (struct wait){ .fs = fs, .req = dispatch_request(), .op = op, .call = *c, .owner = owner };
		if (c->lock) {
			wait->lock = *c->lock;
			wait->call.lock = &wait->lock;
		}
		if (op == OP_flock)
			handle_hold(c->fh);
		pthread_mutex_lock(&fs->locks->mutex);
		if (owner && lock_would_deadlock(fs->locks, c->node, owner->id, c->lock))
			err = EDEADLK;
		else
			err = wait_start(fs->locks, wait);
		pthread_mutex_unlock(&fs->locks->mutex);
		if (err == 0)
			return CALL_DEFERRED;
		if (op == OP_flock)
			handle_put(fs, c->fh);
		free(wait);
	}
	if (owner)
		owner_put(fs, owner);
	return -err;
}

void lock_table_stop(struct fs *fs)
{
	struct lock_table *table = fs->locks;
	struct timespec step;

	pthread_mutex_lock(&table->mutex);
	while (table->waits) {
		for (struct wait *wait = table->waits; wait; wait = wait->next) {
			atomic_store(&wait->interrupted, true);
			pthread_kill(wait->thread, SIGUSR1);
		}
		clock_gettime(CLOCK_REALTIME, &step);
		step.tv_nsec += 10 * 1000000;
		if (step.tv_nsec >= NSEC_PER_SEC) {
			step.tv_sec++;
			step.tv_nsec -= NSEC_PER_SEC;
		}
		pthread_cond_timedwait(&table->ended, &table->mutex, &step);
	}
	pthread_mutex_unlock(&table->mutex);
}

void lock_table_free(struct fs *fs)
{
	if (!fs->locks)
		return;
	while (fs->locks->owners)
		lock_drop_owner(fs, fs->locks->owners->node, fs->locks->owners->id);
	pthread_cond_destroy(&fs->locks->ended);
	pthread_mutex_destroy(&fs->locks->mutex);
	free(fs->locks);
	fs->locks = NULL;
}

/* --- the operations ------------------------------------------------------------------------------------------------ */

/* The process that holds what is in the way, 0 when it is none of this mount: F_OFD_GETLK names no process. */
static pid_t holder_pid(struct fs *fs, const struct call *c, const struct flock *lock)
{
	struct strbuf auto_strbuf status = {};
	struct owner *owner;
	char path[32];
	const char *at;
	pid_t tid;

	pthread_mutex_lock(&fs->locks->mutex);
	owner = lock_holder(fs->locks, c->node, c->lock_owner, lock);
	tid = owner ? owner->tid : 0;
	pthread_mutex_unlock(&fs->locks->mutex);
	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	at = tid && read_file_at(-1, path, 8192, &status) == 0 ? strstr(status.buf, "\nTgid:") : NULL;
	return at ? atoi(at + 6) : tid;
}

int64_t do_getlk(struct fs *fs, struct call *c)
{
	struct flock wanted = *c->lock;
	struct owner *owner;
	int err = owner_get(fs, c, &owner);

	if (err < 0)
		return err;
	c->lock->l_pid = 0;
	err = FS_CALL(c, fcntl(owner->fd, F_OFD_GETLK, c->lock)) < 0 ? -errno : 0;
	owner_put(fs, owner);
	if (err == 0 && c->lock->l_type != F_UNLCK && c->lock->l_pid <= 0)
		c->lock->l_pid = holder_pid(fs, c, &wanted);
	return err;
}

int64_t do_setlk(struct fs *fs, struct call *c)
{
	struct owner *owner;
	int err = owner_get(fs, c, &owner);

	if (err < 0)
		return err;
	c->lock->l_pid = 0;
	err = FS_CALL(c, fcntl(owner->fd, F_OFD_SETLK, c->lock)) < 0 ? -errno : 0;
	if ((err == -EAGAIN || err == -EACCES) && c->sleep)
		return defer(fs, c, OP_setlk, owner);
	owner_put(fs, owner);
	return err;
}

int64_t do_flock(struct fs *fs, struct call *c)
{
	int err = FS_CALL(c, flock(c->fh->fd, (int)c->flags | LOCK_NB)) < 0 ? -errno : 0;

	if (err == -EWOULDBLOCK && !(c->flags & LOCK_NB))
		return defer(fs, c, OP_flock, NULL);
	return err;
}

/* Once, before there are workers. */
void lock_signal_init(void)
{
	struct sigaction action = { .sa_handler = on_wake };

	sigemptyset(&action.sa_mask);
	sigaction(SIGUSR1, &action, NULL);
}
