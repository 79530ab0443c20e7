/* SPDX-License-Identifier: MIT */
#include "replay_args.h"

#include <errno.h>
#include <string.h>
#include <xxhash.h>

#include "base.h"

#define REMEMBERED 512

struct args_reader {
	struct trace_stmt *stmt;
	struct {
		XXH128_hash_t hash;
		uint32_t first;
	} seen[REMEMBERED];
};

static const char *const key_names[ARG_UNKNOWN] = {
	[ARG_MODE] = "mode",
	[ARG_UID] = "uid",
	[ARG_GID] = "gid",
	[ARG_SIZE] = "size",
	[ARG_ATIME] = "atime",
	[ARG_MTIME] = "mtime",
	[ARG_RDEV] = "rdev",
	[ARG_NAME] = "name",
	[ARG_TYPE] = "type",
	[ARG_OWNER] = "owner",
	[ARG_FH_OUT] = "fh_out",
	[ARG_OFFSET_OUT] = "offset_out",
	[ARG_VALUE] = "value",
	[ARG_FSUID] = "fsuid",
	[ARG_FSGID] = "fsgid",
	[ARG_PARENT2] = "parent2",
	[ARG_VICTIM] = "victim",
	[ARG_MADE] = "made",
	[ARG_UMASK] = "umask",
	[ARG_WRITEPAGE] = "writepage",
	[ARG_NODE_OUT] = "node_out",
	[ARG_ENTRIES] = "entries",
	[ARG_NAMES] = "names",
	[ARG_IN] = "in",
};

int args_reader_new(struct trace *trace, struct args_reader **ret_reader)
{
	static const char sql[] =
		"SELECT key, value, type = 'text' FROM json_each(?1) WHERE type IN ('text', 'integer')";
	struct args_reader *reader = calloc(1, sizeof(*reader));
	int err = reader ? trace_prepare(trace, sql, &reader->stmt, NULL) : -ENOMEM;

	if (err < 0) {
		args_reader_free(reader);
		return err;
	}
	*ret_reader = reader;
	return 0;
}

void args_reader_free(struct args_reader *reader)
{
	if (!reader)
		return;
	trace_finalize(reader->stmt);
	free(reader);
}

static enum arg_key key_of(const char *name, bool text)
{
	for (int key = 0; name && key < ARG_UNKNOWN; key++)
		if (key_names[key] && strcmp(key_names[key], name) == 0) {
			if (text && key == ARG_ATIME)
				return ARG_ATIME_NOW;
			if (text && key == ARG_MTIME)
				return ARG_MTIME_NOW;
			return !text && key == ARG_VALUE ? ARG_VALUE_INT : (enum arg_key)key;
		}
	return ARG_UNKNOWN;
}

static int add_arg(struct plan *plan, const struct trace_stmt *stmt)
{
	bool text = trace_column_int(stmt, 2);
	enum arg_key key = key_of(trace_column_text(stmt, 0), text);
	struct arg arg = { .key = (uint8_t)key, .value = trace_column_int(stmt, 1) };
	int err;

	if (key == ARG_UNKNOWN)
		return 0;
	if (key == ARG_NAMES) /* 64 bits, in hexadecimal */
		arg.value = (int64_t)strtoull(trace_column_text(stmt, 1) ?: "", NULL, 16);
	else if (text) {
		uint32_t number;

		err = plan_intern(plan, trace_column_text(stmt, 1), trace_column_bytes(stmt, 1), &number);
		if (err < 0)
			return err;
		arg.value = number;
	}
	err = plan_grow(&plan->args, &plan->args_room, plan->n_args, sizeof(arg));
	if (err == 0)
		plan->args[plan->n_args++] = arg;
	return err;
}

static int read_all(struct args_reader *reader, struct plan *plan, const char *json)
{
	uint32_t first = plan->n_args;
	int err = trace_bind_text(reader->stmt, 1, json);

	while (err == 0 && (err = trace_step(reader->stmt)) == 1)
		err = add_arg(plan, reader->stmt);
	if (err == -EINVAL) /* SQLite's "malformed JSON" is a plain error */
		err = -EBADMSG;
	if (err == 0 && plan->n_args > first)
		plan->args[plan->n_args - 1].last = true;
	return err;
}

int args_read(struct args_reader *reader, struct plan *plan, const char *json, size_t len, uint32_t *ret_first)
{
	XXH128_hash_t hash = XXH3_128bits(json, len);
	size_t at = hash.low64 % REMEMBERED;
	uint32_t first;
	int err = 0;

	if (!json || json[0] != '{')
		return -EBADMSG;
	if (plan->n_args == 0) /* number 0 is "none" */
		err = plan_grow(&plan->args, &plan->args_room, plan->n_args++, sizeof(*plan->args));
	first = plan->n_args;
	if (reader->seen[at].first && XXH128_isEqual(reader->seen[at].hash, hash)) {
		*ret_first = reader->seen[at].first;
		return 0;
	}
	trace_reset(reader->stmt);
	err = err ?: read_all(reader, plan, json);
	if (err < 0)
		return err;
	*ret_first = plan->n_args > first ? first : 0;
	if (*ret_first) {
		reader->seen[at].hash = hash;
		reader->seen[at].first = first;
	}
	return 0;
}
