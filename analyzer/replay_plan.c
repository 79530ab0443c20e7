/* SPDX-License-Identifier: MIT */
#include "replay_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "replay_pace.h"

int plan_grow(void *array_pointer, uint32_t *room, uint32_t used, size_t element)
{
	void **array = array_pointer;
	uint64_t more = *room ? (uint64_t)*room + *room / 2 : 64;
	void *grown;

	if (used < *room)
		return 0;
	if (more > UINT32_MAX)
		more = UINT32_MAX;
	if (more <= used)
		return -ENOMEM;
	grown = reallocarray(*array, more, element);
	if (!grown)
		return -ENOMEM;
	*array = grown;
	*room = (uint32_t)more;
	return 0;
}

/* Room for `len` more bytes and a NUL. */
static int texts_room(struct plan *plan, size_t len)
{
	uint64_t need = (uint64_t)plan->texts_len + len + 1, room = plan->texts_room ?: 4096;
	char *grown;

	if (need <= plan->texts_room)
		return 0;
	while (room < need)
		room += room / 2;
	if (room > UINT32_MAX)
		return -ENOMEM;
	grown = realloc(plan->texts, room);
	if (!grown)
		return -ENOMEM;
	plan->texts = grown;
	plan->texts_room = (uint32_t)room;
	return 0;
}

int plan_intern(struct plan *plan, const char *text, size_t len, uint32_t *ret_text)
{
	uint64_t hash = XXH3_64bits(text, len), place = IDMAP_START;
	uint32_t found;
	int err;

	while ((found = idmap_probe(&plan->text_ids, hash, &place)))
		if (strlen(plan_text(plan, found)) == len && memcmp(plan_text(plan, found), text, len) == 0) {
			*ret_text = found;
			return 0;
		}
	if (plan->texts_len == 0) { /* number 0 is "none", and an empty text */
		err = texts_room(plan, 0);
		if (err < 0)
			return err;
		plan->texts[plan->texts_len++] = '\0';
	}
	if (len == 0) {
		*ret_text = 0;
		return 0;
	}
	err = texts_room(plan, len);
	err = err ?: idmap_add(&plan->text_ids, hash, plan->texts_len);
	if (err < 0)
		return err;
	*ret_text = plan->texts_len;
	memcpy(plan->texts + plan->texts_len, text, len);
	plan->texts[plan->texts_len + len] = '\0';
	plan->texts_len += (uint32_t)len + 1;
	return 0;
}

int64_t plan_arg(const struct plan *plan, const struct action *action, enum arg_key key, bool *ret_found)
{
	bool found = false;
	int64_t value = 0;

	for (uint32_t i = action->args; i && !found; i = plan->args[i].last ? 0 : i + 1)
		if (plan->args[i].key == key) {
			found = true;
			value = plan->args[i].value;
		}
	if (ret_found)
		*ret_found = found;
	return value;
}

void plan_free(struct plan *plan)
{
	free(plan->actions);
	free(plan->waits);
	free(plan->wait_rules);
	free(plan->objects);
	free(plan->args);
	free(plan->texts);
	idmap_free(&plan->text_ids);
	free(plan->threads);
	free(plan->turns);
	pace_free(&plan->pace);
	*plan = (struct plan){};
}
