/* SPDX-License-Identifier: MIT */
#include "replay_dirs.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base.h"
#include "beneath.h"

#define CLOSING   0x80000000u /* in `users`: the descriptor is about to go */
#define DEPTH_MAX BENEATH_DEPTH_MAX

struct dir {
	_Atomic int fd; /* -1: not open */
	_Atomic uint32_t users;
	uint32_t dir, name; /* where it is; under the lock. dir 0: nowhere */
};

struct dirs {
	const struct plan *plan;
	struct dir *dirs;     /* by object */
	pthread_mutex_t lock; /* of opening and closing */
	uint32_t *open;       /* objects that have a descriptor, in no order */
	uint32_t n_open, limit, hand;
};

int dirs_new(const struct plan *plan, int root_fd, uint32_t limit, struct dirs **ret_dirs)
{
	struct dirs *dirs = calloc(1, sizeof(*dirs));

	if (!dirs)
		return -ENOMEM;
	pthread_mutex_init(&dirs->lock, NULL);
	dirs->plan = plan;
	dirs->limit = limit;
	dirs->dirs = calloc((size_t)plan->n_objects + 1, sizeof(*dirs->dirs));
	dirs->open = calloc((size_t)plan->n_objects + 1, sizeof(*dirs->open));
	if (!dirs->dirs || !dirs->open) {
		dirs_free(dirs);
		return -ENOMEM;
	}
	for (uint32_t i = 1; i <= plan->n_objects; i++) {
		atomic_init(&dirs->dirs[i].fd, i == PLAN_ROOT ? root_fd : -1);
		dirs->dirs[i].dir = plan->objects[i].dir;
		dirs->dirs[i].name = plan->objects[i].name;
	}
	*ret_dirs = dirs;
	return 0;
}

void dirs_free(struct dirs *dirs)
{
	if (!dirs)
		return;
	for (uint32_t i = 0; i < dirs->n_open; i++)
		close(atomic_load(&dirs->dirs[dirs->open[i]].fd));
	pthread_mutex_destroy(&dirs->lock);
	free(dirs->dirs);
	free(dirs->open);
	free(dirs);
}

/* Under the lock. Whether one was closed: the first that nobody uses, from where the last search ended. */
static bool close_one(struct dirs *dirs)
{
	for (uint32_t tries = 0; tries < dirs->n_open; tries++) {
		uint32_t place = dirs->hand++ % dirs->n_open, nobody = 0;
		struct dir *dir = &dirs->dirs[dirs->open[place]];

		/* A directory that is nowhere could not be opened again. */
		if (!dir->dir || !atomic_compare_exchange_strong(&dir->users, &nobody, CLOSING))
			continue;
		close(atomic_exchange(&dir->fd, -1));
		atomic_fetch_sub(&dir->users, CLOSING);
		dirs->open[place] = dirs->open[--dirs->n_open];
		return true;
	}
	return false;
}

/* Under the lock: the chain of directories above that are not open, from the outermost one inwards. */
static int open_dir(struct dirs *dirs, uint32_t object)
{
	uint32_t chain[DEPTH_MAX], depth = 0, above;

	for (above = object; atomic_load(&dirs->dirs[above].fd) < 0; above = dirs->dirs[above].dir) {
		if (!dirs->dirs[above].dir)
			return -ENOENT;
		if (depth == DEPTH_MAX)
			return -ENAMETOOLONG;
		chain[depth++] = above;
	}
	while (depth-- > 0) {
		struct dir *dir = &dirs->dirs[chain[depth]];
		const char *name = plan_text(dirs->plan, dir->name);
		int fd, err;

		atomic_fetch_add(&dirs->dirs[above].users, 1); /* or it might be the one that is closed */
		if (dirs->n_open >= dirs->limit)
			close_one(dirs);
		do
			err = beneath_dir(atomic_load(&dirs->dirs[above].fd), name, strlen(name), &fd);
		while (err == -EMFILE && close_one(dirs));
		atomic_fetch_sub(&dirs->dirs[above].users, 1);
		if (err < 0)
			return err;
		atomic_store(&dir->fd, fd);
		dirs->open[dirs->n_open++] = above = chain[depth];
	}
	return atomic_load(&dirs->dirs[object].fd);
}

void dirs_open_ahead(struct dirs *dirs)
{
	const struct plan *plan = dirs->plan;
	auto_free bool *made = calloc((size_t)plan->n_objects + 1, sizeof(*made));

	if (!made)
		return;
	/* what is made later may have the name that another one has now */
	for (uint32_t i = 1; i <= plan->n_actions; i++)
		if (plan->actions[i].op == OP_mkdir)
			made[plan->actions[i].object] = true;
	pthread_mutex_lock(&dirs->lock);
	for (uint32_t i = 1; i <= plan->n_objects && dirs->n_open < dirs->limit; i++)
		if (plan->objects[i].type == OBJECT_DIR && plan->objects[i].dir && !made[i])
			open_dir(dirs, i);
	pthread_mutex_unlock(&dirs->lock);
}

int dirs_get(struct dirs *dirs, uint32_t object)
{
	struct dir *dir = &dirs->dirs[object];
	uint32_t users = atomic_fetch_add(&dir->users, 1);
	int fd = atomic_load(&dir->fd);

	if (!(users & CLOSING) && fd >= 0)
		return fd;
	pthread_mutex_lock(&dirs->lock); /* whoever is closing it has done so when we have the lock */
	fd = open_dir(dirs, object);
	pthread_mutex_unlock(&dirs->lock);
	if (fd < 0)
		atomic_fetch_sub(&dir->users, 1);
	return fd;
}

void dirs_put(struct dirs *dirs, uint32_t object)
{
	atomic_fetch_sub(&dirs->dirs[object].users, 1);
}

void dirs_moved(struct dirs *dirs, uint32_t object, uint32_t dir, uint32_t name)
{
	pthread_mutex_lock(&dirs->lock);
	dirs->dirs[object].dir = dir;
	dirs->dirs[object].name = name;
	pthread_mutex_unlock(&dirs->lock);
}

void dirs_removed(struct dirs *dirs, uint32_t object)
{
	pthread_mutex_lock(&dirs->lock);
	dirs->dirs[object].dir = 0;
	pthread_mutex_unlock(&dirs->lock);
}

bool dirs_relieve(struct dirs *dirs)
{
	bool closed;

	pthread_mutex_lock(&dirs->lock);
	closed = close_one(dirs);
	pthread_mutex_unlock(&dirs->lock);
	return closed;
}
