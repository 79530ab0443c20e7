/* SPDX-License-Identifier: MIT */
/*
 * fuzz_node.c - a libFuzzer target: the input is a sequence of requests as a kernel could send them, and of changes made
 * behind the mount's back, on a small directory. The handlers run as in the daemon, over the node table (node.c), open
 * files (handle.c), the descriptor cache (fdcache.c) with very few descriptors, and paths (path.c).
 *
 * What is checked besides memory errors: that each node has as many look-ups as were handed out, is found again as
 * the same node, and shows its own inode; and that nothing is left, neither node nor descriptor, once everything has been
 * released and forgotten.
 */
#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

#include "dir.h"
#include "fdcache.h"
#include "handle.h"
#include "lock.h"
#include "mount.h"
#include "node.h"
#include "path.h"
#include "recorder.h"
#include "worker.h"

#define NODES_MAX 64
#define OPEN_MAX_HERE 12
#define DESCRIPTORS 92 /* a few more than fdcache.c keeps for other things */
#define STEPS_MAX 400

/* What the kernel remembers. */
struct kernel {
	struct fs fs;
	struct mount mount;
	struct known {
		struct node *node;
		uint64_t lookups;
		bool dir;
	} known[NODES_MAX];
	size_t count; /* known[0] is the root */
	struct open {
		struct handle *handle;
		bool dir;
	} open[OPEN_MAX_HERE];
	size_t opened;
	int top; /* the directory, as somebody beside the mount has it */
};

struct input {
	const uint8_t *data;
	size_t size;
};

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);                  \
			abort();                                                                                       \
		}                                                                                                      \
	} while (0)

/* --- what the handlers need of the rest of the daemon -------------------------------------------------------------- */

uint32_t recorder_path(struct recorder *recorder, uint32_t parent, const char *text, size_t len)
{
	uint32_t *last = (void *)recorder; /* this target's recorder is a counter */

	(void)parent;
	CHECK(len == 0 || (text[0] != '/' && memchr(text, 0, len) == NULL));
	return ++*last;
}

void recorder_initial(struct recorder *recorder, struct initial_record *initial, const char *target, size_t len)
{
	(void)recorder, (void)target, (void)len;
	CHECK(initial->path);
}

void recorder_thread_end(void)
{
}

bool recorder_is_older(const struct recorder *recorder, int64_t btime_ns, int64_t ctime_ns)
{
	(void)recorder, (void)btime_ns, (void)ctime_ns;
	return true;
}

void *worker_buffer(void)
{
	static char buffer[WORKER_BUFFER_SIZE];

	return buffer;
}

bool lock_drop_owner(struct fs *fs, struct node *node, uint64_t owner)
{
	(void)fs, (void)node, (void)owner;
	return false;
}

void lock_drop_handle(struct fs *fs, struct node *node, uint64_t handle)
{
	(void)fs, (void)node, (void)handle;
}

void mount_attributes_changed(struct mount *mount, const struct node *node)
{
	(void)mount, (void)node;
}

/* --- the kernel's side --------------------------------------------------------------------------------------------- */

static uint8_t take(struct input *in)
{
	if (!in->size)
		return 0;
	in->size--;
	return *in->data++;
}

static struct known *take_known(struct kernel *k, struct input *in)
{
	return &k->known[take(in) % k->count];
}

static struct known *take_dir(struct kernel *k, struct input *in)
{
	struct known *known = take_known(k, in);

	return known->dir ? known : &k->known[0];
}

/* Few, so that they meet; one of the longest. */
static const char *take_name(struct input *in, char name[static 256])
{
	unsigned int number = take(in) % 9;

	memset(name, 0, 256);
	memset(name, (int)('a' + number), number == 8 ? 255 : 1);
	return name;
}

/* A look-up was handed out. */
static void learn(struct kernel *k, const struct call *c)
{
	struct node *node = mount_node(&k->mount, c->entry.ino);

	CHECK(node && node == c->node && node->id == c->entry.generation);
	CHECK(node->ino == c->entry.attr.st_ino);
	for (size_t i = 0; i < k->count; i++) {
		struct known *known = &k->known[i];

		if (known->node != node) {
			/* One inode is one node, unless the old one has gone and its number was given out again. */
			CHECK(known->node->gone || known->node->ino != node->ino || known->node->dev != node->dev ||
				node->gone || known->node->btime_ns != node->btime_ns);
			continue;
		}
		known->lookups++;
		return;
	}
	if (k->count == NODES_MAX) {
		node_forget(&k->fs, NULL, node, 1);
		return;
	}
	k->known[k->count++] = (struct known){ node, 1, S_ISDIR(c->entry.attr.st_mode) };
}

static void forget(struct kernel *k, size_t i, uint64_t count)
{
	struct known *known = &k->known[i];
	struct call c = { .mount = &k->mount, .node = known->node, .length = count };

	known->lookups -= count;
	do_forget(&k->fs, &c);
	if (!known->lookups)
		*known = k->known[--k->count];
}

static bool holds(const struct kernel *k, const struct node *node)
{
	for (size_t i = 0; i < k->opened; i++)
		if (k->open[i].handle->node == node)
			return true;
	return false;
}

static void on_forget(struct kernel *k, struct input *in)
{
	size_t i = take(in) % k->count;
	uint64_t some = take(in);

	/* The kernel keeps an inode for as long as a file of it is open. */
	if (i == 0 || holds(k, k->known[i].node))
		return;
	forget(k, i, some & 1 ? k->known[i].lookups : 1 + some % k->known[i].lookups);
}

static void on_lookup(struct kernel *k, struct input *in)
{
	char name[256];
	struct call c = { .mount = &k->mount, .parent = take_dir(k, in)->node, .name = take_name(in, name) };

	c.path = path_of_name(&k->fs, c.parent, c.name);
	if (do_lookup(&k->fs, &c) == 0)
		learn(k, &c);
}

static void on_getattr(struct kernel *k, struct input *in)
{
	struct known *known = take_known(k, in);
	struct call c = { .mount = &k->mount, .node = known->node };

	path_of_node(&k->fs, c.node);
	if (do_getattr(&k->fs, &c) == 0 && known->node != k->mount.root) {
		CHECK(c.stat.st_ino == known->node->ino);
		CHECK((c.stat.st_mode & S_IFMT) == known->node->type);
	}
}

static void on_setattr(struct kernel *k, struct input *in)
{
	static const uint32_t flags[] = { 0, FUSE_SET_ATTR_MODE, FUSE_SET_ATTR_SIZE, FUSE_SET_ATTR_MTIME_NOW };
	struct known *known = take_known(k, in);
	struct stat st = { .st_mode = 0755, .st_size = take(in) };
	struct call c = { .mount = &k->mount, .node = known->node, .attr = &st, .flags = flags[take(in) % 4] };

	if (c.flags == FUSE_SET_ATTR_SIZE && known->node->type != S_IFREG) /* the kernel has looked already */
		return;
	if (known->node->type == S_IFLNK)
		return;
	do_setattr(&k->fs, &c);
}

static void add_open(struct kernel *k, struct call *c, bool dir)
{
	CHECK(c->fh && c->fh->node == c->node);
	k->open[k->opened++] = (struct open){ c->fh, dir };
}

static void on_create(struct kernel *k, struct input *in)
{
	char name[256];
	struct fuse_file_info fi = {};
	struct call c = { .mount = &k->mount, .parent = take_dir(k, in)->node, .name = take_name(in, name), .fi = &fi,
		.mode = 0644, .flags = O_RDWR | O_CREAT | (take(in) & 1 ? O_EXCL : 0) };

	if (k->opened == OPEN_MAX_HERE || k->count == NODES_MAX)
		return;
	c.path = path_of_name(&k->fs, c.parent, c.name);
	if (do_create(&k->fs, &c) < 0)
		return;
	learn(k, &c);
	add_open(k, &c, false);
}

static void on_make(struct kernel *k, struct input *in)
{
	char name[256];
	struct call c = { .mount = &k->mount, .parent = take_dir(k, in)->node, .name = take_name(in, name),
		.name2 = "a/b", .mode = 0755 };
	unsigned int kind = take(in) % 4;
	int64_t result;

	c.path = path_of_name(&k->fs, c.parent, c.name);
	if (kind == 0) {
		result = do_symlink(&k->fs, &c);
	} else if (kind == 1) {
		c.mode = S_IFIFO | 0644;
		result = do_mknod(&k->fs, &c);
	} else {
		result = do_mkdir(&k->fs, &c);
	}
	if (result == 0)
		learn(k, &c);
}

static void on_link(struct kernel *k, struct input *in)
{
	char name[256];
	struct known *known = take_known(k, in);
	struct call c = { .mount = &k->mount, .node = known->node, .parent = take_dir(k, in)->node,
		.name = take_name(in, name) };

	if (known->dir)
		return;
	c.path = path_of_name(&k->fs, c.parent, c.name);
	if (do_link(&k->fs, &c) == 0)
		learn(k, &c);
}

static void on_remove(struct kernel *k, struct input *in)
{
	char name[256];
	struct call c = { .mount = &k->mount, .parent = take_dir(k, in)->node, .name = take_name(in, name) };

	c.path = path_of_name(&k->fs, c.parent, c.name);
	if (do_unlink(&k->fs, &c) == -EISDIR)
		do_rmdir(&k->fs, &c);
}

static void on_rename(struct kernel *k, struct input *in)
{
	static const uint32_t flags[] = { 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE };
	char name[256], name2[256];
	struct call c = { .mount = &k->mount, .parent = take_dir(k, in)->node, .name = take_name(in, name),
		.parent2 = take_dir(k, in)->node, .name2 = take_name(in, name2), .flags = flags[take(in) % 4] };

	c.path = path_of_name(&k->fs, c.parent, c.name);
	c.path2 = path_of_name(&k->fs, c.parent2, c.name2);
	do_rename(&k->fs, &c);
}

static void on_open(struct kernel *k, struct input *in)
{
	struct known *known = take_known(k, in);
	struct fuse_file_info fi = {};
	struct call c = { .mount = &k->mount, .node = known->node, .fi = &fi };
	unsigned int how = take(in);

	if (k->opened == OPEN_MAX_HERE || (!known->dir && known->node->type != S_IFREG))
		return;
	c.flags = how & 1 ? O_RDWR : how & 2 ? O_RDWR | O_TRUNC : O_RDONLY;
	if ((known->dir ? do_opendir(&k->fs, &c) : do_open(&k->fs, &c)) == 0)
		add_open(k, &c, known->dir);
}

static void release(struct kernel *k, size_t i)
{
	struct open open = k->open[i];
	struct call c = { .mount = &k->mount, .node = open.handle->node, .fh = open.handle };

	k->open[i] = k->open[--k->opened];
	if (open.dir) {
		do_releasedir(&k->fs, &c);
	} else {
		do_flush(&k->fs, &c);
		do_release(&k->fs, &c);
	}
}

static void on_release(struct kernel *k, struct input *in)
{
	if (k->opened)
		release(k, take(in) % k->opened);
}

/* As the kernel does with a readdirplus answer: each entry with a node is a look-up. */
static void learn_entries(struct kernel *k, const char *buf, size_t len)
{
	while (len > 0) {
		const struct fuse_direntplus_head {
			uint64_t nodeid, generation;
			char rest[136]; /* times, attributes, and the entry up to its name: linux/fuse.h */
		} *head = (const void *)buf;
		uint32_t name_len;
		struct call c = { .mount = &k->mount };
		size_t size;

		CHECK(len >= 152);
		memcpy(&name_len, buf + 144, sizeof(name_len));
		size = (152 + name_len + 7) & ~7ul;
		CHECK(size <= len);
		if (head->nodeid) {
			c.entry.ino = head->nodeid;
			c.node = mount_node(&k->mount, head->nodeid);
			c.entry.generation = head->generation;
			c.entry.attr.st_ino = c.node->ino;
			c.entry.attr.st_mode = c.node->type;
			learn(k, &c);
		}
		buf += size;
		len -= size;
	}
}

static void on_use(struct kernel *k, struct input *in)
{
	struct open *open = k->opened ? &k->open[take(in) % k->opened] : NULL;
	struct fuse_file_info fi = {};
	struct call c = { .mount = &k->mount, .fi = &fi, .length = 64 + 4 * take(in) };
	bool plus = take(in) & 1;
	int64_t got;

	if (!open)
		return;
	c.fh = open->handle;
	c.node = open->handle->node;
	if (open->dir) {
		c.offset = take(in) & 1 ? 0 : c.fh->id % 3;
		got = plus ? do_readdirplus(&k->fs, &c) : do_readdir(&k->fs, &c);
		if (got > 0 && plus)
			learn_entries(k, c.buf, (size_t)got);
	} else if (c.length & 4) {
		c.data = "0123456789abcdef";
		c.length = 16;
		do_write(&k->fs, &c);
	} else {
		do_read(&k->fs, &c);
	}
}

/* Somebody who works in the directory itself. */
static void behind_our_back(struct kernel *k, struct input *in)
{
	char name[256], name2[256];
	int fd;

	take_name(in, name);
	take_name(in, name2);
	switch (take(in) % 6) {
	case 0: unlinkat(k->top, name, 0); break;
	case 1: unlinkat(k->top, name, AT_REMOVEDIR); break;
	case 2: renameat2(k->top, name, k->top, name2, 0); break;
	case 3: renameat2(k->top, name, k->top, name2, RENAME_EXCHANGE); break;
	case 4: mkdirat(k->top, name, 0755); break;
	default:
		fd = openat(k->top, name, O_WRONLY | O_CREAT | O_NONBLOCK | O_NOFOLLOW, 0644);
		if (fd >= 0)
			close(fd);
	}
}

static void on_xattr_and_others(struct kernel *k, struct input *in)
{
	struct known *known = take_known(k, in);
	struct call c = { .mount = &k->mount, .node = known->node, .name = "user.a", .length = 16, .data = "0123456789abcdef" };

	switch (take(in) % 5) {
	case 0: do_setxattr(&k->fs, &c); break;
	case 1: do_getxattr(&k->fs, &c); break;
	case 2: do_removexattr(&k->fs, &c); break;
	case 3: do_statfs(&k->fs, &c); break;
	default:
		if (known->node->type == S_IFLNK)
			do_readlink(&k->fs, &c);
	}
}

/* --- one input ----------------------------------------------------------------------------------------------------- */

static void set_capability(unsigned int cap, bool on)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &header, data) < 0)
		return;
	if (on)
		data[0].effective |= data[0].permitted & 1u << cap;
	else
		data[0].effective &= ~(1u << cap);
	syscall(SYS_capset, &header, data);
}

static size_t count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t count = 0;

	CHECK(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void remove_below(int at, const char *name)
{
	int fd;
	DIR *dir;
	struct dirent *entry;

	if (unlinkat(at, name, 0) == 0)
		return;
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	dir = fd < 0 ? NULL : fdopendir(fd);
	while (dir && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			remove_below(fd, entry->d_name);
	if (dir)
		closedir(dir);
	unlinkat(at, name, AT_REMOVEDIR);
}

static void start(struct kernel *k, const char *top, uint32_t *path_count, bool by_handle)
{
	struct inode_info info;

	set_capability(CAP_DAC_READ_SEARCH, by_handle); /* what opening file handles takes */
	k->fs.options.entry_timeout = k->fs.options.attr_timeout = 1;
	k->fs.source_fd = open(top, O_RDONLY | O_DIRECTORY);
	k->top = open(top, O_PATH | O_DIRECTORY);
	k->fs.recorder = (void *)path_count;
	CHECK(k->fs.source_fd >= 0 && k->top >= 0);
	CHECK(node_table_new(&k->fs.nodes) == 0 && fdcache_new(&k->fs, &k->fs.fdcache) == 0 &&
		path_table_new(&k->fs.paths) == 0);
	CHECK(inode_info_at(k->fs.source_fd, "", &info) == 0 && node_make_root(&k->fs, &info) == 0);
	k->mount = (struct mount){ .fs = &k->fs, .root = k->fs.nodes->root };
	k->known[k->count++] = (struct known){ k->mount.root, 1, true };
}

static void check_lookups(const struct kernel *k)
{
	for (size_t i = 1; i < k->count; i++)
		CHECK(k->known[i].node->lookups == k->known[i].lookups);
}

static void finish(struct kernel *k)
{
	while (k->opened)
		release(k, 0);
	while (k->count > 1)
		forget(k, k->count - 1, k->known[k->count - 1].lookups);
	CHECK(k->fs.nodes->count == 1);
	path_table_free(&k->fs);
	node_table_free(&k->fs);
	fdcache_free(&k->fs);
	dir_thread_end();
	close(k->fs.source_fd);
	close(k->top);
	set_capability(CAP_DAC_READ_SEARCH, true);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct rlimit limit = { DESCRIPTORS, DESCRIPTORS };

	(void)argc, (void)argv;
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const requests[])(struct kernel *, struct input *) = {
		on_lookup, on_lookup, on_lookup, on_forget, on_forget, on_getattr, on_setattr, on_create, on_create, on_make,
		on_make, on_link, on_remove, on_remove, on_rename, on_rename, on_open, on_release, on_use, behind_our_back,
		on_xattr_and_others,
	};
	struct kernel *k = calloc(1, sizeof(*k));
	struct input in = { data, size };
	char top[64];
	uint32_t path_count = 0;
	size_t before = count_descriptors();

	snprintf(top, sizeof(top), "%s/fuzz-node-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	CHECK(k && mkdtemp(top));
	start(k, top, &path_count, take(&in) & 1);
	for (int step = 0; in.size && step < STEPS_MAX; step++) {
		requests[take(&in) % ARRAY_SIZE(requests)](k, &in);
		check_lookups(k);
	}
	finish(k);
	remove_below(AT_FDCWD, top);
	free(k);
	CHECK(count_descriptors() == before);
	return 0;
}
