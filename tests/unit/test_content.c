/* SPDX-License-Identifier: MIT */
/* Contents in and out of a database: whole, missing, damaged, of strangers. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "content.h"

struct taken {
	struct strbuf bytes;
	int64_t offsets[8];
	int pieces;
};

static int take(void *arg, int64_t offset, const void *bytes, size_t len)
{
	struct taken *taken = arg;

	taken->offsets[taken->pieces++ % 8] = offset;
	strbuf_add(&taken->bytes, bytes, len);
	return 0;
}

static struct trace *trace_with_run(const struct scratch *scratch)
{
	struct trace *trace;
	int64_t run;

	assert_int_equal(trace_open(scratch->db, TRACE_CREATE, &trace), 0);
	assert_int_equal(trace_run_create(trace, "contents", &run), 0);
	assert_int_equal(run, 1);
	return trace;
}

static void put(struct trace *trace, uint64_t seq, int64_t offset, const void *bytes, uint32_t len, bool with_content)
{
	struct data_record data = { .seq = seq, .offset = offset, .length = len };

	content_hash(bytes, len, &data.hash);
	if (with_content)
		assert_int_equal(trace_add_content(trace, &data.hash, bytes, len), 0);
	assert_int_equal(trace_add_data(trace, 1, &data), 0);
}

static int64_t get(struct trace *trace, uint64_t seq, struct taken *taken)
{
	struct content_reader *reader;
	int64_t got;

	*taken = (struct taken){};
	assert_int_equal(content_reader_new(trace, 1, &reader), 0);
	got = content_of_op(reader, seq, take, taken);
	content_reader_free(reader);
	return got;
}

static void what_goes_in_comes_out(void **state)
{
	const struct scratch *scratch = *state;
	struct trace *trace = trace_with_run(scratch);
	auto_free char *text = malloc(CONTENT_PIECE), *noise = malloc(CONTENT_PIECE);
	struct taken taken;

	for (size_t i = 0; i < CONTENT_PIECE; i++) {
		text[i] = "text that repeats "[i % 18];
		noise[i] = (char)((i * i * 2654435761u) >> 13);
	}
	put(trace, 7, CONTENT_PIECE, noise, CONTENT_PIECE, true);
	put(trace, 7, 0, text, CONTENT_PIECE, true);
	put(trace, 8, 5, text, CONTENT_PIECE, true);
	put(trace, 9, 0, "", 0, true);
	assert_int_equal(get(trace, 7, &taken), 2);
	assert_int_equal(taken.offsets[1], CONTENT_PIECE);
	assert_int_equal(taken.bytes.len, 2 * CONTENT_PIECE);
	assert_memory_equal(taken.bytes.buf, text, CONTENT_PIECE);
	assert_memory_equal(taken.bytes.buf + CONTENT_PIECE, noise, CONTENT_PIECE);
	strbuf_free(&taken.bytes);
	assert_int_equal(get(trace, 8, &taken), 1);
	assert_int_equal(taken.offsets[0], 5);
	strbuf_free(&taken.bytes);
	assert_int_equal(get(trace, 9, &taken), 1);
	strbuf_free(&taken.bytes);
	assert_int_equal(get(trace, 10, &taken), 0);
	assert_int_equal(db_int(scratch->db, "SELECT count(*) FROM content"), 3);
	trace_close(trace);
}

static int refuse_the_second(void *arg, int64_t offset, const void *bytes, size_t len)
{
	(void)offset, (void)bytes, (void)len;
	return (*(int *)arg)++ ? -ENOSPC : 0;
}

static void the_end_of_taking_is_the_takers(void **state)
{
	struct trace *trace = trace_with_run(*state);
	struct content_reader *reader;
	int calls = 0;

	for (int i = 0; i < 5; i++)
		put(trace, 1, i * 10, "0123456789", 10, true);
	assert_int_equal(content_reader_new(trace, 1, &reader), 0);
	assert_int_equal(content_of_op(reader, 1, refuse_the_second, &calls), -ENOSPC);
	assert_int_equal(calls, 2);
	content_reader_free(reader);
	trace_close(trace);
}

static void damage_is_noticed(void **state)
{
	static const struct { const char *sql; int err; } cases[] = {
		{ "DELETE FROM content", -ENODATA },
		{ "UPDATE content SET bytes = zeroblob(length)", -EUCLEAN },
		{ "UPDATE content SET packed = 1, bytes = x'28b52ffd'", -EUCLEAN },
		{ "UPDATE content SET packed = 7", -EUCLEAN },
		{ "UPDATE content SET length = 1 << 40", -EUCLEAN },
		{ "UPDATE data SET length = 1 << 40; UPDATE content SET length = 1 << 40", -EUCLEAN },
		{ "UPDATE data SET length = -1; UPDATE content SET length = -1", -EUCLEAN },
		{ "UPDATE data SET offset = -1", -EUCLEAN },
		{ "UPDATE data SET hash = x'00'; UPDATE content SET hash = x'00'", -EUCLEAN },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct trace *trace = i ? NULL : trace_with_run(*state);
		const struct scratch *scratch = *state;
		struct taken taken;
		int64_t got;

		if (i) {
			assert_int_equal(trace_open(scratch->db, TRACE_WRITE, &trace), 0);
			assert_int_equal(trace_exec(trace, "DELETE FROM content; DELETE FROM data"), 0);
		}
		put(trace, 1, 0, "some contents", 13, true);
		assert_int_equal(trace_exec(trace, cases[i].sql), 0);
		got = get(trace, 1, &taken);
		if (got != cases[i].err && got != -ENOTSUP) /* of a build without zstd */
			fail_msg("%s: %d pieces", cases[i].sql, taken.pieces);
		assert_int_equal(taken.pieces, 0);
		strbuf_free(&taken.bytes);
		trace_close(trace);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(what_goes_in_comes_out),
		scratch_test(the_end_of_taking_is_the_takers),
		scratch_test(damage_is_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
