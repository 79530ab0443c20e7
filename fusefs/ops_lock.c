/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>

#include "dispatch.h"
#include "fdcache.h"
#include "handle.h"
#include "lock.h"
#include "node.h"
#include "worker.h"

/* One owner's locks on one inode. */
struct owner {
	struct owner *next;
	struct node *node; /* held by a reference */
	uint64_t id;
	pid_t tid; /* who asked last */
	uint64_t handle; /* id of the open file that it locked through last */
	int fd;
	unsigned int refs; /* the table's and those of waits */
};

/* A lock that is being waited for. */
struct wait {
	struct wait *next;
	struct fs *fs;
	fuse_req_t req;
	enum op_id op;
	struct call call;
	struct flock lock;
	struct owner *owner; /* of a POSIX lock */
	pthread_t thread;
	_Atomic bool interrupted, over;
};

struct lock_table {
	pthread_mutex_t mutex;
	pthread_cond_t ended;
	struct owner *owners;
	struct wait *waits;
	_Atomic unsigned int n_owners;
};

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

void lock_drop_owner(struct fs *fs, struct node *node, uint64_t id)
{
	drop_one(fs, node, &id, NULL);
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
		wait->next = fs->locks->waits;
		fs->locks->waits = wait;
		err = pthread_create(&wait->thread, NULL, wait_main, wait);
		if (err == 0)
			pthread_detach(wait->thread);
		pthread_mutex_unlock(&fs->locks->mutex);
		if (err == 0)
			return CALL_DEFERRED;
		wait_remove(fs->locks, wait);
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

/* Some other owner of locks on the inode, 0 when there is none: a lock that is not ours names no process. */
static pid_t other_owner(struct fs *fs, const struct call *c)
{
	pid_t tid = 0;

	pthread_mutex_lock(&fs->locks->mutex);
	for (struct owner *owner = fs->locks->owners; owner && !tid; owner = owner->next)
		if (owner->node == c->node && owner->id != c->lock_owner)
			tid = owner->tid;
	pthread_mutex_unlock(&fs->locks->mutex);
	return tid;
}

int64_t do_getlk(struct fs *fs, struct call *c)
{
	struct owner *owner;
	int err = owner_get(fs, c, &owner);

	if (err < 0)
		return err;
	c->lock->l_pid = 0;
	err = FS_CALL(c, fcntl(owner->fd, F_OFD_GETLK, c->lock)) < 0 ? -errno : 0;
	owner_put(fs, owner);
	if (err == 0 && c->lock->l_type != F_UNLCK && c->lock->l_pid <= 0)
		c->lock->l_pid = other_owner(fs, c);
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
