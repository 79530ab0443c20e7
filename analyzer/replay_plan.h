/* SPDX-License-Identifier: MIT */
/*
 * replay_plan.h - a run compiled into what a replay does: actions, and what each of them waits for.
 *
 *   replay_load.c     the run's rows, checked: nothing in them is believed
 *   replay_names.c    the namespace as the run went on: which object had which name when
 *   replay_compile.c  rows -> actions, in one order that agrees with every result; what is not issued
 *   replay_order.c    which of these actions must wait for which: the partial order (docs/replay-order.md)
 *   replay_pace.c     how long each thread thought between its actions, for --speed recorded
 *   replay_run.c      threads that perform the actions; replay_ops.c has the system calls
 *   replay_check.c    results against the recording, times against the order
 *   replay_report.c, replay_store.c  what is told of it
 *
 * Everything is an index into arrays of the plan (0: none), so that two million operations take less than 500 MB.
 * Actions stand in a linear order that is a possible history of the run; every wait leads backwards in it. So there are
 * no cycles, and threads that each do their actions in this order cannot wait for each other for ever, however the
 * actions are dealt out to them. A finished plan does not change: threads read it freely.
 */
#ifndef FSTAPE_REPLAY_PLAN_H
#define FSTAPE_REPLAY_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "idmap.h"
#include "op.h"

#define PLAN_ROOT 1		   /* the object that is TARGET itself */
#define PLAN_THREADS_MAX 1024	   /* more are dealt out to so many */
#define PLAN_ACTIONS_MAX (1u << 29)
#define PLAN_OFFSET_MAX (1LL << 50) /* bytes; nobody recorded a larger file that is not made to do harm */
#define PLAN_LENGTH_MAX (16LL << 20) /* of one read or write */

enum action_how {
	ACTION_ISSUED,	    /* a system call */
	ACTION_FORGET,	    /* the kernel dropping what it had cached */
	ACTION_DUPLICATE,   /* a look-up of the kernel's own, within the system call that follows */
	ACTION_KERNEL,	    /* another request of the kernel's own: the filesystem below does it unasked */
	ACTION_UNREACHABLE, /* its object has no name and no open file: the recorder answered from memory */
	ACTION_NOT_RECORDED, /* an argument that it takes is not in the recording */
	ACTION_NOT_ALLOWED,  /* it would give rights away, and plan_options.allow_setid is not set */
	ACTION_TOO_LONG,     /* its name is longer than one that can be: it was refused for that */
	ACTION_HOW_COUNT,
};

/* One operation. Which members mean something depends on `op`. */
struct action {
	int64_t start_ns;   /* recorded, the run's time */
	int64_t result;	    /* recorded: count, 0 or -errno */
	int64_t offset;
	int64_t length;
	uint32_t dur_ns, fs_ns; /* recorded; UINT32_MAX: so long or longer */
	uint32_t seq;
	uint32_t process;
	uint32_t path, path2;	/* ids in the recording, for people */
	uint32_t object;	/* what it is about; of what makes a name, the new object */
	uint32_t dir, name;	/* where that has a name: object of the directory, text */
	uint32_t dir2, name2;	/* rename: where to; link: where from; symlink: what it says (name2) */
	uint32_t handle;
	uint32_t handle2;	/* copy: the target; locks: the file they are taken through; rename: the *object* that had the new name */
	uint32_t flags, mode;
	uint32_t args;		/* the first in plan.args, up to the one marked last */
	uint32_t index;		/* among the actions of its thread */
	uint32_t first_wait;	/* its waits end where those of the next action begin */
	uint16_t thread;
	uint8_t op;
	uint8_t how : 4;
	uint8_t listing_end : 1; /* of a listing that began at the first entry: its entries are compared */
	uint8_t drops_locks : 1; /* flush: the owner of locks closes a file */
	uint8_t by_handle : 1;	 /* the object is reached through `handle` */
	uint8_t begins : 1;	 /* with a pace: the first of its recorded thread, or of what that executed */
};

/* Why an action waits; the names and reasons are in replay_order.c. */
enum wait_rule {
	RULE_NAME,
	RULE_OBJECT,
	RULE_HANDLE,
	RULE_DATA,
	RULE_LISTING,
	RULE_LOCK,
	RULE_DIR_RENAME,
	RULE_COUNT,
};

enum arg_key {
	ARG_MODE, ARG_UID, ARG_GID, ARG_SIZE, ARG_ATIME, ARG_MTIME, ARG_ATIME_NOW, ARG_MTIME_NOW,
	ARG_RDEV, ARG_NAME, ARG_TYPE, ARG_OWNER, ARG_FH_OUT, ARG_OFFSET_OUT, ARG_VALUE_INT, ARG_VALUE, ARG_FSUID, ARG_FSGID,
	ARG_PARENT2, ARG_VICTIM, ARG_MADE, ARG_UMASK, ARG_WRITEPAGE, ARG_NODE_OUT, ARG_ENTRIES, ARG_NAMES, ARG_IN,
	ARG_UNKNOWN,
};

struct arg {
	int64_t value; /* of texts: their number */
	uint8_t key;   /* enum arg_key */
	bool last;
};

enum object_type { OBJECT_UNKNOWN, OBJECT_DIR, OBJECT_OTHER };

struct object {
	uint32_t dir, name;	/* where it was first: object of the directory, text */
	uint8_t type;		/* enum object_type */
	bool used_after_removal; /* of a directory: somebody in it goes on */
	bool removed;
};

/* A thread of the replay: does the actions of one recorded thread, or of several that followed one another. */
struct plan_thread {
	uint32_t first;	 /* in plan.turns */
	uint32_t count;
};

/* What threads did between their actions; replay_pace.c. By action: before it begins, after its thread's former one. */
struct pace {
	int64_t *think_ns;   /* kept a processor busy; NULL: no pace is wanted */
	int64_t *blocked_ns; /* waited for something, before that */
	uint32_t *after;     /* think_ns counts from the end of this action of another thread; 0: of its own; itself: the start */
	int64_t idle_ns;	/* all of think_ns and blocked_ns, */
	int64_t all_blocked_ns; /* and all of blocked_ns */
	int64_t round_trip_ns;	/* taken off each gap for the recorder, by the clock; */
	int64_t round_cpu_ns;	/* of the thread's own processor time, where that was read */
	uint64_t gaps, read_gaps; /* in all; between readings of the processor time */
	int64_t tail_ns;	/* from the last action to the end of the recorded command, */
	bool known_end;		/* if that is known */
};

struct plan_counts {
	uint64_t how[ACTION_HOW_COUNT];
	uint64_t waits[RULE_COUNT];
	uint64_t ambiguous;    /* results that no order explains: the order of arrival was taken */
	uint64_t reordered;    /* operations that took effect after one that arrived later */
	uint64_t bytes_written; /* that all writes and allocations would write, at most */
	uint64_t devices;
};

struct plan {
	int64_t run;
	struct action *actions; /* [1, n_actions] */
	uint32_t n_actions, actions_room;
	uint32_t *waits; /* actions that another waits for */
	uint8_t *wait_rules;
	uint32_t n_waits, waits_room;
	struct object *objects; /* [1, n_objects] */
	uint32_t n_objects, objects_room;
	uint32_t n_handles;
	struct arg *args;
	uint32_t n_args, args_room;
	char *texts; /* NUL-terminated, one after the other */
	uint32_t texts_len, texts_room;
	struct idmap text_ids;
	struct plan_thread *threads; /* [0, n_threads) */
	uint32_t n_threads, recorded_threads;
	uint32_t *turns; /* actions by thread, each thread's in order */
	struct pace pace;
	struct plan_counts counts;
};

struct plan_options {
	bool allow_devices;
	bool allow_setid; /* set-id bits of files, attributes such as security.capability */
	bool no_order;	      /* compile no waits at all: to show what they are good for */
	unsigned int threads; /* 0: as many as recorded */
	bool pace;	      /* think_ns is wanted */
	const volatile int *stop; /* not 0: end with -EINTR, without a message; or NULL */
	void (*progress)(void *arg, uint64_t done, uint64_t total); /* or NULL */
	void *progress_arg;
};

static inline const char *plan_text(const struct plan *plan, uint32_t text)
{
	return plan->texts + text;
}

static inline bool action_is_dir(const struct plan *plan, const struct action *a)
{
	return plan->objects[a->object].type == OBJECT_DIR;
}

/* The value of an argument; `*ret_found` (not NULL) says whether there is one. */
int64_t plan_arg(const struct plan *plan, const struct action *action, enum arg_key key, bool *ret_found);

struct trace;

/*
 * Compiles a run. 0, or -errno after a message on standard error: among others -EBADMSG for a recording that says what
 * no recorder can have seen, -EPERM for one with devices. Reads the database once and a half, holds no lock on it
 * afterwards. About 2 us and 200 bytes per operation.
 */
int plan_compile(struct trace *trace, int64_t run, const struct plan_options *options, struct plan *ret_plan);
void plan_free(struct plan *plan);

/* --- for the files replay_*.c that make a plan ------------------------------------------------------------------- */

/* Makes room for one more element; 0 or -ENOMEM. */
int plan_grow(void *array_pointer, uint32_t *room, uint32_t used, size_t element);

/* The number of a text, the same for the same bytes. 0: no memory (number 0 is the empty text's, too: ask `len`). */
int plan_intern(struct plan *plan, const char *text, size_t len, uint32_t *ret_text);

#endif
