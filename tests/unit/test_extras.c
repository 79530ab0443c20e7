/* SPDX-License-Identifier: MIT */
/* trace_extras.c: operations share what they have besides, each gets its own back, and nothing refers to what was undone. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "op.h"
#include "trace.h"

static int add(struct trace *trace, int64_t run, struct event event, const char *args)
{
	event.process = 1;
	event.args_len = (uint16_t)strlen(args);
	return trace_add_event(trace, run, &event, args);
}

static struct trace *open_trace(struct scratch *scratch)
{
	struct trace *trace;

	assert_int_equal(trace_open(scratch->db, TRACE_CREATE, &trace), 0);
	return trace;
}

#define EXTRAS "SELECT count(*) FROM op_extra"
#define LOST "SELECT count(*) FROM op WHERE extra IS NOT NULL AND (run, extra) NOT IN (SELECT run, id FROM op_extra)"

static void alike_share_a_row(void **state)
{
	struct scratch *scratch = *state;
	struct trace *trace = open_trace(scratch);
	static const char name[] = "{\"name\":\"user.x\"}";
	struct event create = { .op = OP_create, .flags = 0101, .mode = 0644 }, plain = { .op = OP_getattr, .flags = 5 };
	int64_t run;

	assert_int_equal(trace_run_create(trace, NULL, &run), 0);
	for (uint64_t seq = 1; seq <= 5; seq++) {
		create.seq = seq;
		plain.seq = seq + 10;
		assert_int_equal(add(trace, run, create, ""), 0);
		assert_int_equal(add(trace, run, plain, ""), 0);
		assert_int_equal(add(trace, run, (struct event){ .seq = seq + 20, .op = OP_getxattr }, name), 0);
	}
	trace_close(trace);
	assert_int_equal(db_int(scratch->db, EXTRAS), 2);
	assert_int_equal(db_int(scratch->db, LOST), 0);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM ops WHERE op = 'create' AND (flags, mode) = (65, 420)"), 5);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM ops WHERE args = '{\"name\":\"user.x\"}'"), 5);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM op WHERE extra IS NULL"), 5); /* has no flags of its own */
}

/* Whichever of the values differs, and where there are too many to be remembered. */
static void what_differs_is_kept_apart(void **state)
{
	struct scratch *scratch = *state;
	struct trace *trace = open_trace(scratch);
	char args[200], padding[121];
	int64_t run;

	memset(padding, 'x', sizeof(padding));
	assert_int_equal(trace_run_create(trace, NULL, &run), 0);
	assert_int_equal(trace_begin(trace), 0);
	for (unsigned int i = 1; i <= 6000; i++) {
		struct event event = { .seq = i, .op = OP_rename, .path2 = i % 7 + 1, .flags = i % 5 };

		if (i % 2)
			event = (struct event){ .seq = i, .op = OP_mknod, .mode = i };
		snprintf(args, sizeof(args), "{\"n\":%u,\"pad\":\"%.*s\"}", i % 1500, i % 3 ? 5 : 120, padding);
		assert_int_equal(add(trace, run, event, args), 0);
	}
	assert_int_equal(trace_commit(trace), 0);
	trace_close(trace);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM op"), 6000);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM op JOIN op_extra AS e ON e.run = op.run AND e.id = extra"
					     " WHERE json_extract(e.args, '$.n') = seq % 1500 AND e.flags IS iif(seq % 2, NULL, seq % 5)"
					     " AND e.path2 IS iif(seq % 2, NULL, seq % 7 + 1) AND e.mode IS iif(seq % 2, seq, NULL)"), 6000);
}

/* Rows that a rollback took back are made again, and a later loader of the run takes no id twice. */
static void what_was_undone_is_forgotten(void **state)
{
	struct scratch *scratch = *state;
	struct trace *trace = open_trace(scratch);
	struct event event = { .seq = 1, .op = OP_create, .flags = 1 };
	int64_t run, other;

	assert_int_equal(trace_run_create(trace, NULL, &run), 0);
	assert_int_equal(trace_run_create(trace, NULL, &other), 0);
	assert_int_equal(trace_begin(trace), 0);
	assert_int_equal(add(trace, run, event, ""), 0);
	trace_rollback(trace);
	assert_int_equal(add(trace, run, event, ""), 0);
	assert_int_equal(add(trace, other, event, ""), 0);
	event.seq = 2;
	assert_int_equal(add(trace, run, event, ""), 0);
	trace_close(trace);
	trace = open_trace(scratch);
	event = (struct event){ .seq = 3, .op = OP_create, .flags = 2 };
	assert_int_equal(add(trace, run, event, ""), 0);
	trace_close(trace);
	assert_int_equal(db_int(scratch->db, LOST), 0);
	assert_int_equal(db_int(scratch->db, "SELECT sum(flags) FROM ops"), 5);
}

static void ids_of_a_stranger_do_not_overflow(void **state)
{
	struct scratch *scratch = *state;
	struct trace *trace = open_trace(scratch);
	int64_t run;

	assert_int_equal(trace_run_create(trace, NULL, &run), 0);
	db_exec(scratch->db, "INSERT INTO op_extra (run, id) SELECT id, 9223372036854775807 FROM run");
	assert_int_equal(add(trace, run, (struct event){ .seq = 1, .op = OP_create }, ""), -EUCLEAN);
	trace_close(trace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(alike_share_a_row),
		scratch_test(what_differs_is_kept_apart),
		scratch_test(what_was_undone_is_forgotten),
		scratch_test(ids_of_a_stranger_do_not_overflow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
