/* SPDX-License-Identifier: MIT */
#include "fdcache.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>

#include "handle.h"

#define RESERVED_FDS 64u     /* database, spool, /proc, workers' epoll: the daemon's own */
#define CACHED_MAX 4096u     /* each holds an inode of the real filesystem in memory */
#define CACHED_MIN 16u
#define EVICTIONS 4u	     /* at most, per descriptor that comes in */
#define MAX_DEVICES 64u

/* A directory's descriptor on a mounted filesystem: open_by_handle_at(2) wants one that is not O_PATH. */
struct device {
	dev_t dev;
	int fd;
};

struct fdcache {
	struct node *head, *tail; /* least recently used last; under the table's lock */
	unsigned int count;
	unsigned int room; /* descriptors for nodes and open files together */
	_Atomic int handles;
	bool by_handle;
	struct device devices[MAX_DEVICES]; /* under the table's lock; filled from the front, never changed */
	unsigned int n_devices;
};

int inode_info_at(int fd, const char *name, struct inode_info *ret_info)
{
	struct statx x;
	struct stat *st = &ret_info->stat;

	if (statx(fd, name, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT, STATX_BASIC_STATS | STATX_BTIME,
		    &x) < 0)
		return -errno;
	*st = (struct stat){
		.st_dev = makedev(x.stx_dev_major, x.stx_dev_minor),
		.st_ino = x.stx_ino,
		.st_mode = x.stx_mode,
		.st_nlink = x.stx_nlink,
		.st_uid = x.stx_uid,
		.st_gid = x.stx_gid,
		.st_rdev = makedev(x.stx_rdev_major, x.stx_rdev_minor),
		.st_size = (off_t)x.stx_size,
		.st_blksize = x.stx_blksize,
		.st_blocks = (blkcnt_t)x.stx_blocks,
		.st_atim = { x.stx_atime.tv_sec, x.stx_atime.tv_nsec },
		.st_mtim = { x.stx_mtime.tv_sec, x.stx_mtime.tv_nsec },
		.st_ctim = { x.stx_ctime.tv_sec, x.stx_ctime.tv_nsec },
	};
	ret_info->btime_ns =
		x.stx_mask & STATX_BTIME ? x.stx_btime.tv_sec * NSEC_PER_SEC + x.stx_btime.tv_nsec : 0;
	return 0;
}

bool node_is(const struct node *node, const struct inode_info *info)
{
	return node->ino == info->stat.st_ino && node->dev == info->stat.st_dev &&
	       (!node->btime_ns || !info->btime_ns || node->btime_ns == info->btime_ns);
}

/* The handle of what a descriptor is of, the caller's to free; NULL where there is none. */
static struct file_handle *take_handle(int fd)
{
	union {
		struct file_handle handle;
		char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} u = { .handle.handle_bytes = MAX_HANDLE_SZ };
	struct file_handle *copy;
	size_t size;
	int mount_id;

	if (name_to_handle_at(fd, "", &u.handle, &mount_id, AT_EMPTY_PATH) < 0)
		return NULL;
	size = sizeof(struct file_handle) + u.handle.handle_bytes;
	copy = malloc(size);
	if (copy)
		memcpy(copy, &u.handle, size);
	return copy;
}

/* Whether handles can be opened at all: not without CAP_DAC_READ_SEARCH, nor on filesystems that have none. */
static bool handles_work(int source_fd)
{
	auto_free struct file_handle *handle = take_handle(source_fd);
	int auto_close fd = handle ? open_by_handle_at(source_fd, handle, O_PATH | O_CLOEXEC) : -1;

	return fd >= 0;
}

int fdcache_new(struct fs *fs, struct fdcache **ret_cache)
{
	struct fdcache *cache = calloc(1, sizeof(*cache));
	struct rlimit limit = {};
	struct inode_info info;
	int err;

	if (!cache)
		return -ENOMEM;
	err = inode_info_at(fs->source_fd, "", &info);
	if (err < 0) {
		free(cache);
		return err;
	}
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	getrlimit(RLIMIT_NOFILE, &limit);
	cache->room = limit.rlim_cur > 1u << 20 ? 1u << 20 : (unsigned int)limit.rlim_cur;
	cache->room = cache->room > RESERVED_FDS + CACHED_MIN ? cache->room - RESERVED_FDS : CACHED_MIN;
	cache->by_handle = handles_work(fs->source_fd);
	cache->devices[cache->n_devices++] = (struct device){ info.stat.st_dev, fs->source_fd };
	*ret_cache = cache;
	return 0;
}

void fdcache_free(struct fs *fs)
{
	struct fdcache *cache = fs->fdcache;

	if (!cache)
		return;
	for (unsigned int i = 1; i < cache->n_devices; i++)
		close(cache->devices[i].fd);
	free(cache);
	fs->fdcache = NULL;
}

/* --- the list; all under the table's lock -------------------------------------------------------------------------- */

static bool is_listed(const struct fdcache *cache, const struct node *node)
{
	return node->lru_prev || cache->head == node;
}

static void list_remove(struct fdcache *cache, struct node *node)
{
	if (!is_listed(cache, node))
		return;
	*(node->lru_prev ? &node->lru_prev->lru_next : &cache->head) = node->lru_next;
	*(node->lru_next ? &node->lru_next->lru_prev : &cache->tail) = node->lru_prev;
	node->lru_prev = node->lru_next = NULL;
	cache->count--;
}

static void list_add(struct fdcache *cache, struct node *node)
{
	node->lru_next = cache->head;
	node->lru_prev = NULL;
	*(cache->head ? &cache->head->lru_prev : &cache->tail) = node;
	cache->head = node;
	cache->count++;
}

void fdcache_detach(struct fs *fs, struct node *node)
{
	list_remove(fs->fdcache, node);
}

static unsigned int limit_now(struct fdcache *cache)
{
	int handles = atomic_load_explicit(&cache->handles, memory_order_relaxed);
	unsigned int left = (unsigned int)handles + CACHED_MIN < cache->room ? cache->room - (unsigned int)handles :
									       CACHED_MIN;

	/* A quarter stays for files that will be opened. */
	left -= left / 4;
	return left < CACHED_MAX ? left : CACHED_MAX;
}

void fdcache_handles(struct fs *fs, int change)
{
	atomic_fetch_add_explicit(&fs->fdcache->handles, change, memory_order_relaxed);
}

bool fdcache_full(struct fs *fs)
{
	int handles = atomic_load_explicit(&fs->fdcache->handles, memory_order_relaxed);

	return (unsigned int)handles + CACHED_MIN >= fs->fdcache->room;
}

/* --- eviction ------------------------------------------------------------------------------------------------------ */

/* Takes the least recently used node that can do without its descriptor, with a reference and the descriptor in use. */
static struct node *pick_victim(struct fs *fs, unsigned int keep, bool *ret_has_handle)
{
	struct fdcache *cache = fs->fdcache;
	struct node *node = NULL;

	pthread_mutex_lock(&fs->nodes->lock);
	if (cache->count > keep) {
		unsigned int looked = 0;

		for (node = cache->tail; node && looked < 64; node = node->lru_prev, looked++)
			if (!node->fd_users && !node->pinned)
				break;
		if (node && (node->fd_users || node->pinned))
			node = NULL;
	}
	if (node) {
		node->refs++;
		node->fd_users++;
		*ret_has_handle = node->file_handle != NULL;
	}
	pthread_mutex_unlock(&fs->nodes->lock);
	return node;
}

static bool evict_one(struct fs *fs, unsigned int keep)
{
	bool has_handle = false;
	struct node *node = pick_victim(fs, keep, &has_handle);
	struct file_handle *handle = NULL;
	int fd = -1;

	if (!node)
		return false;
	if (!has_handle && fs->fdcache->by_handle)
		handle = take_handle(node->fd);
	pthread_mutex_lock(&fs->nodes->lock);
	if (!node->file_handle)
		node->file_handle = steal_ptr(&handle);
	if (--node->fd_users == 0 && !node->pinned) {
		list_remove(fs->fdcache, node);
		fd = node->fd;
		node->fd = -1;
	}
	pthread_mutex_unlock(&fs->nodes->lock);
	free(handle);
	if (fd >= 0)
		close(fd);
	node_unref(fs, node);
	return true;
}

bool fdcache_relieve(struct fs *fs)
{
	bool any = false;

	for (unsigned int i = 0; i < 2 * EVICTIONS && evict_one(fs, 0); i++)
		any = true;
	return any;
}

/* --- opening again ------------------------------------------------------------------------------------------------- */

static int device_fd(struct fs *fs, dev_t dev)
{
	int fd = -1;

	pthread_mutex_lock(&fs->nodes->lock);
	for (unsigned int i = 0; i < fs->fdcache->n_devices && fd < 0; i++)
		if (fs->fdcache->devices[i].dev == dev)
			fd = fs->fdcache->devices[i].fd;
	pthread_mutex_unlock(&fs->nodes->lock);
	return fd;
}

/* A directory on a filesystem that is mounted inside the source: kept, so that handles of it can be opened. */
static void learn_device(struct fs *fs, struct node *node, int fd)
{
	struct proc_path path;
	struct fdcache *cache = fs->fdcache;
	int mine;

	if (!cache->by_handle || node->type != S_IFDIR || device_fd(fs, node->dev) >= 0)
		return;
	path = fdref_path(&(struct fdref){ .fd = fd });
	mine = open(path.text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (mine < 0)
		return;
	pthread_mutex_lock(&fs->nodes->lock);
	if (cache->n_devices < MAX_DEVICES)
		cache->devices[cache->n_devices++] = (struct device){ node->dev, steal_fd(&mine) };
	pthread_mutex_unlock(&fs->nodes->lock);
	if (mine >= 0)
		close(mine);
}

static int open_by_handle(struct fs *fs, struct node *node)
{
	struct file_handle *handle;
	int fd, mount_fd;

	pthread_mutex_lock(&fs->nodes->lock);
	handle = node->file_handle; /* stays as it is for as long as the node lives */
	pthread_mutex_unlock(&fs->nodes->lock);
	mount_fd = handle ? device_fd(fs, node->dev) : -1;
	if (mount_fd < 0)
		return -ESTALE;
	do
		fd = open_by_handle_at(mount_fd, handle, O_PATH | O_CLOEXEC | O_NOFOLLOW);
	while (fd < 0 && errno == EMFILE && fdcache_relieve(fs));
	return fd < 0 ? -errno : fd;
}

static int open_by_name(struct fs *fs, struct node *node)
{
	struct node *parent;
	struct fdref dir;
	char name[256];
	int fd, err = node_where(fs, node, &parent, name);

	if (err < 0)
		return err;
	err = fdref_get(fs, parent, &dir);
	if (err == 0) {
		do
			fd = openat(dir.fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		while (fd < 0 && errno == EMFILE && fdcache_relieve(fs));
		err = fd < 0 ? -errno : fd;
		fdref_put(fs, &dir);
	}
	node_unref(fs, parent);
	return err;
}

/*
 * A descriptor that is the node's inode for sure. A rename through the mount may be half-way when we look for the name,
 * so a failure counts only when no rename was under way or has ended meanwhile.
 */
static int reopen(struct fs *fs, struct node *node)
{
	struct inode_info info;
	int fd;

	for (int tries = 0; tries < 1000; tries++) {
		uint32_t renames = atomic_load(&fs->nodes->renames);

		fd = open_by_handle(fs, node);
		if (fd >= 0)
			return fd;
		fd = open_by_name(fs, node);
		if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -EACCES)
			return fd;
		if (fd >= 0 && inode_info_at(fd, "", &info) == 0 && node_is(node, &info))
			return fd;
		if (fd >= 0)
			close(fd);
		if (!atomic_load(&fs->nodes->renaming) && atomic_load(&fs->nodes->renames) == renames)
			break;
		sched_yield();
	}
	return -ESTALE;
}

/* Takes a descriptor of the node's that is there already. */
static bool take_ready(struct fs *fs, struct node *node, struct fdref *ref)
{
	struct fdcache *cache = fs->fdcache;
	bool found = true;

	pthread_mutex_lock(&fs->nodes->lock);
	if (node == fs->nodes->root) {
		*ref = (struct fdref){ .fd = node->fd };
	} else if (node->fd >= 0) {
		node->fd_users++;
		if (cache->head != node) {
			list_remove(cache, node);
			list_add(cache, node);
		}
		*ref = (struct fdref){ .fd = node->fd, .node = node };
	} else if (node->handles) {
		*ref = (struct fdref){ .fd = handle_hold(node->handles), .handle = node->handles };
	} else {
		found = false;
	}
	pthread_mutex_unlock(&fs->nodes->lock);
	return found;
}

int fdref_get(struct fs *fs, struct node *node, struct fdref *ret_ref)
{
	struct fdcache *cache = fs->fdcache;
	int fd;

	if (take_ready(fs, node, ret_ref))
		return 0;
	fd = reopen(fs, node);
	if (fd < 0)
		return take_ready(fs, node, ret_ref) ? 0 : fd; /* another thread may have been luckier */
	learn_device(fs, node, fd);
	pthread_mutex_lock(&fs->nodes->lock);
	if (node->fd < 0) {
		node->fd = steal_fd(&fd);
		list_add(cache, node);
	}
	node->fd_users++;
	*ret_ref = (struct fdref){ .fd = node->fd, .node = node };
	pthread_mutex_unlock(&fs->nodes->lock);
	if (fd >= 0)
		close(fd);
	for (unsigned int i = 0; i < EVICTIONS && evict_one(fs, limit_now(cache)); i++)
		;
	return 0;
}

void fdref_put(struct fs *fs, const struct fdref *ref)
{
	if (ref->node) {
		pthread_mutex_lock(&fs->nodes->lock);
		ref->node->fd_users--;
		pthread_mutex_unlock(&fs->nodes->lock);
	} else if (ref->handle) {
		handle_put(fs, ref->handle);
	}
}

struct proc_path fdref_path(const struct fdref *ref)
{
	struct proc_path path;

	snprintf(path.text, sizeof(path.text), "/proc/self/fd/%d", ref->fd);
	return path;
}

int fdcache_pin(struct fs *fs, struct node *node)
{
	struct fdref ref;
	int err;

	pthread_mutex_lock(&fs->nodes->lock);
	node->pinned = true;
	pthread_mutex_unlock(&fs->nodes->lock);
	err = fdref_get(fs, node, &ref);
	if (err == 0)
		fdref_put(fs, &ref);
	return err;
}

void fdcache_drop(struct fs *fs, struct node *node)
{
	int fd = -1;

	pthread_mutex_lock(&fs->nodes->lock);
	if (node->fd >= 0 && !node->fd_users && !node->pinned && node != fs->nodes->root) {
		list_remove(fs->fdcache, node);
		fd = node->fd;
		node->fd = -1;
	}
	pthread_mutex_unlock(&fs->nodes->lock);
	if (fd >= 0)
		close(fd);
}

/* --- attributes ---------------------------------------------------------------------------------------------------- */

static int stat_by_name(struct fs *fs, struct call *c, struct node *node, struct inode_info *info)
{
	struct node *parent;
	struct fdref dir;
	char name[256];
	int err = node_where(fs, node, &parent, name);

	if (err < 0)
		return err;
	err = fdref_get(fs, parent, &dir);
	if (err == 0) {
		err = FS_CALL(c, inode_info_at(dir.fd, name, info));
		fdref_put(fs, &dir);
	}
	node_unref(fs, parent);
	return err ?: node_is(node, info) ? 0 : -ESTALE;
}

static bool stat_ghost(struct fs *fs, struct node *node, struct inode_info *info)
{
	bool found;

	pthread_mutex_lock(&fs->nodes->lock);
	found = node->gone && node->ghost && !node->handles;
	if (found)
		info->stat = node->ghost->stat;
	pthread_mutex_unlock(&fs->nodes->lock);
	return found;
}

int node_stat(struct fs *fs, struct call *c, struct node *node, struct inode_info *ret_info)
{
	struct fdref ref;
	int err;

	if (stat_ghost(fs, node, ret_info))
		return 0;
	if (!take_ready(fs, node, &ref)) {
		/* A directory will be needed again, as the parent of what is in it: it gets a descriptor. */
		if (node->type != S_IFDIR && stat_by_name(fs, c, node, ret_info) == 0)
			return 0;
		err = fdref_get(fs, node, &ref);
		if (err < 0)
			return stat_ghost(fs, node, ret_info) ? 0 : err;
	}
	err = FS_CALL(c, inode_info_at(ref.fd, "", ret_info));
	fdref_put(fs, &ref);
	return err;
}
