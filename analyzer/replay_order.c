/* SPDX-License-Identifier: MIT */
#include "replay_order.h"

#include <errno.h>
#include <stdlib.h>

/* The last action of one thread in a phase. */
struct last {
	uint32_t action, next;
};

struct resource {
	uint32_t now, before; /* lists of struct last: this phase and the former one */
	uint8_t use;
};

struct order {
	struct plan *plan;
	struct resource *resources; /* [1, n_resources] */
	uint32_t n_resources, resources_room;
	struct last *lasts; /* [1, n_lasts] */
	uint32_t n_lasts, lasts_room, free_last;
	uint32_t *known;   /* [thread][other]: how many of the other's actions this one has waited for */
	uint32_t *last_of; /* each thread's last action */
	uint32_t threads;
	uint32_t action, barrier;
	uint16_t thread;
	bool no_order;
};

static const struct {
	const char *name, *reason;
} rules[RULE_COUNT] = {
	[RULE_NAME] = { "name", "what a name means: uses after it is made, the next one after it is gone" },
	[RULE_OBJECT] = { "object", "a directory is made before what is in it, and removed after it" },
	[RULE_HANDLE] = { "handle", "a file is opened before it is used, and closed after that" },
	[RULE_DATA] = { "data", "writes to a file keep their order; reads and changes keep theirs with writes" },
	[RULE_LISTING] = { "listing", "a listing shows the changes before it, and none that came later" },
	[RULE_LOCK] = { "lock", "locks of a file are taken and given up in the recorded order" },
	[RULE_DIR_RENAME] = { "dir-rename", "a directory that moves takes all paths below it along" },
};

const char *wait_rule_name(enum wait_rule rule)
{
	return rules[rule].name;
}

const char *wait_rule_reason(enum wait_rule rule)
{
	return rules[rule].reason;
}

int order_new(struct plan *plan, uint32_t threads, bool no_order, struct order **ret_order)
{
	struct order *order = calloc(1, sizeof(*order));

	if (!order)
		return -ENOMEM;
	order->plan = plan;
	order->threads = threads;
	order->no_order = no_order;
	order->known = calloc((size_t)threads * threads, sizeof(*order->known));
	order->last_of = calloc(threads, sizeof(*order->last_of));
	if (!order->known || !order->last_of) {
		order_free(order);
		return -ENOMEM;
	}
	*ret_order = order;
	return 0;
}

void order_free(struct order *order)
{
	if (!order)
		return;
	free(order->resources);
	free(order->lasts);
	free(order->known);
	free(order->last_of);
	free(order);
}

static int wait_for(struct order *order, uint32_t before, enum wait_rule rule)
{
	struct plan *plan = order->plan;
	const struct action *other = &plan->actions[before];
	uint32_t *known = &order->known[(size_t)order->thread * order->threads + other->thread];
	uint32_t room = plan->waits_room;
	int err;

	if (other->thread == order->thread || *known > other->index || order->no_order)
		return 0;
	err = plan_grow(&plan->waits, &plan->waits_room, plan->n_waits, sizeof(*plan->waits));
	err = err ?: plan_grow(&plan->wait_rules, &room, plan->n_waits, sizeof(*plan->wait_rules));
	if (err < 0)
		return err;
	plan->waits[plan->n_waits] = before;
	plan->wait_rules[plan->n_waits++] = (uint8_t)rule;
	plan->counts.waits[rule]++;
	*known = other->index + 1;
	return 0;
}

void order_begin(struct order *order, uint32_t action)
{
	order->action = action;
	order->thread = order->plan->actions[action].thread;
	order->plan->actions[action].first_wait = order->plan->n_waits;
}

static void drop_list(struct order *order, uint32_t *list)
{
	while (*list) {
		uint32_t next = order->lasts[*list].next;

		order->lasts[*list].next = order->free_last;
		order->free_last = *list;
		*list = next;
	}
}

/* The action becomes its thread's last one in the list. */
static int note_last(struct order *order, uint32_t *list)
{
	uint32_t new;

	for (uint32_t i = *list; i; i = order->lasts[i].next)
		if (order->plan->actions[order->lasts[i].action].thread == order->thread) {
			order->lasts[i].action = order->action;
			return 0;
		}
	if (order->free_last) {
		new = order->free_last;
		order->free_last = order->lasts[new].next;
	} else {
		int err = plan_grow(&order->lasts, &order->lasts_room, order->n_lasts + 1, sizeof(*order->lasts));

		if (err < 0)
			return err;
		new = ++order->n_lasts;
	}
	order->lasts[new] = (struct last){ .action = order->action, .next = *list };
	*list = new;
	return 0;
}

static struct resource *resource_of(struct order *order, uint32_t *resource)
{
	if (!*resource) {
		uint32_t new = order->n_resources + 1;

		if (plan_grow(&order->resources, &order->resources_room, new, sizeof(*order->resources)) < 0)
			return NULL;
		order->resources[new] = (struct resource){};
		*resource = order->n_resources = new;
	}
	return &order->resources[*resource];
}

int order_use(struct order *order, uint32_t *resource, enum use use, enum wait_rule rule)
{
	struct resource *r;
	int err = 0;

	if (use == USE_NONE)
		return 0;
	r = resource_of(order, resource);
	if (!r)
		return -ENOMEM;
	if (r->now && (use != r->use || use == USE_EXCLUSIVE)) {
		drop_list(order, &r->before);
		r->before = r->now;
		r->now = 0;
	}
	r->use = (uint8_t)use;
	for (uint32_t i = r->before; i && err == 0; i = order->lasts[i].next)
		if (order->lasts[i].action != order->action) /* which may use a resource in two ways */
			err = wait_for(order, order->lasts[i].action, rule);
	return err ?: note_last(order, &r->now);
}

int order_barrier(struct order *order, enum wait_rule rule)
{
	int err = 0;

	for (uint32_t t = 0; t < order->threads && err == 0; t++)
		if (order->last_of[t] && order->last_of[t] != order->action)
			err = wait_for(order, order->last_of[t], rule);
	order->barrier = order->action;
	return err;
}

int order_end(struct order *order)
{
	int err = 0;

	if (order->barrier && order->barrier != order->action)
		err = wait_for(order, order->barrier, RULE_DIR_RENAME);
	order->last_of[order->thread] = order->action;
	return err;
}
