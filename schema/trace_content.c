/* SPDX-License-Identifier: MIT */
/* trace_content.c - contents in and out of the database; content.h has what there is to know. */
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base.h"
#include "content.h"
#include "trace_internal.h"

#define LEVEL 3
#define WORTH_IT(len) ((len) - (len) / 16) /* a packed piece that is not smaller than this is stored as it is */
#define SMALLEST 64			    /* bytes: not worth a try */

enum { PLAIN, ZSTD_FRAME };

struct packer {
	sqlite3_stmt *known;
#ifdef HAVE_ZSTD
	ZSTD_CCtx *context;
#endif
	char buf[CONTENT_PIECE];
};

struct content_reader {
	struct trace *trace;
	int64_t run;
	struct trace_stmt *of_op, *of_initial;
	unsigned char buf[CONTENT_PIECE];
};

void content_hash(const void *bytes, size_t len, struct content_hash *ret_hash)
{
	XXH128_canonical_t canonical;

	XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, len));
	static_assert(sizeof(canonical.digest) == sizeof(ret_hash->bytes), "128 bits");
	memcpy(ret_hash->bytes, canonical.digest, sizeof(ret_hash->bytes));
}

/* --- in ------------------------------------------------------------------------------------------------------------ */

static struct packer *packer_of(struct trace *trace)
{
	if (!trace->packer)
		trace->packer = calloc(1, sizeof(*trace->packer));
#ifdef HAVE_ZSTD
	if (trace->packer && !trace->packer->context)
		trace->packer->context = ZSTD_createCCtx();
#endif
	return trace->packer;
}

void trace_content_end(struct trace *trace)
{
	if (!trace->packer)
		return;
	sqlite3_finalize(trace->packer->known);
#ifdef HAVE_ZSTD
	ZSTD_freeCCtx(trace->packer->context);
#endif
	free(trace->packer);
	trace->packer = NULL;
}

/* The packed length, in packer->buf; 0: better left as it is. */
static size_t pack(struct packer *packer, const void *bytes, size_t len)
{
#ifdef HAVE_ZSTD
	size_t packed;

	if (len < SMALLEST || !packer->context)
		return 0;
	packed = ZSTD_compressCCtx(packer->context, packer->buf, WORTH_IT(len), bytes, len, LEVEL);
	return ZSTD_isError(packed) ? 0 : packed; /* too big for the room is an error, too */
#else
	(void)packer, (void)bytes, (void)len;
	return 0;
#endif
}

/* 1: it is in the database. To know it beforehand saves compressing it. */
static int is_known(struct trace *trace, struct packer *packer, const struct content_hash *hash)
{
	int result = SQLITE_OK;

	if (!packer->known)
		result = sqlite3_prepare_v3(trace->db, "SELECT 1 FROM content WHERE hash = ?", -1,
			SQLITE_PREPARE_PERSISTENT, &packer->known, NULL);
	if (result == SQLITE_OK)
		result = sqlite3_bind_blob(packer->known, 1, hash->bytes, sizeof(hash->bytes), SQLITE_STATIC);
	if (result == SQLITE_OK)
		result = sqlite3_step(packer->known);
	if (packer->known)
		sqlite3_reset(packer->known);
	return result == SQLITE_ROW ? 1 : trace_fail(trace, result);
}

int trace_add_content(struct trace *trace, const struct content_hash *hash, const void *bytes, uint32_t len)
{
	struct packer *packer = packer_of(trace);
	sqlite3_stmt *stmt;
	size_t packed;
	int err = packer ? is_known(trace, packer, hash) : -ENOMEM;

	if (err)
		return err < 0 ? err : 0;
	stmt = insert_begin(trace, INSERT_CONTENT, &err);
	if (err < 0)
		return err;
	packed = pack(packer, bytes, len);
	sqlite3_bind_blob(stmt, 1, hash->bytes, sizeof(hash->bytes), SQLITE_STATIC);
	sqlite3_bind_int64(stmt, 2, len);
	sqlite3_bind_int64(stmt, 3, packed ? ZSTD_FRAME : PLAIN);
	if (packed)
		sqlite3_bind_blob64(stmt, 4, packer->buf, packed, SQLITE_STATIC);
	else if (len)
		sqlite3_bind_blob64(stmt, 4, bytes, len, SQLITE_STATIC);
	else
		sqlite3_bind_zeroblob(stmt, 4, 0);
	return insert_end(trace, stmt);
}

int trace_add_data(struct trace *trace, int64_t run, const struct data_record *data)
{
	int err;
	sqlite3_stmt *stmt = insert_begin(trace, INSERT_DATA, &err);

	if (err < 0)
		return err;
	sqlite3_bind_int64(stmt, 1, run);
	sqlite3_bind_int64(stmt, 2, (sqlite3_int64)data->seq);
	sqlite3_bind_int64(stmt, 3, data->offset);
	sqlite3_bind_int64(stmt, 4, data->length);
	sqlite3_bind_blob(stmt, 5, data->hash.bytes, sizeof(data->hash.bytes), SQLITE_STATIC);
	return insert_end(trace, stmt);
}

/* --- out ----------------------------------------------------------------------------------------------------------- */

int content_reader_new(struct trace *trace, int64_t run, struct content_reader **ret_reader)
{
	struct content_reader *reader = calloc(1, sizeof(*reader));
	int err;

	if (!reader)
		return -ENOMEM;
	reader->trace = trace;
	reader->run = run;
	err = trace_prepare(trace,
		"SELECT d.offset, d.length, d.hash, c.length, c.packed, c.bytes FROM data AS d"
		" LEFT JOIN content AS c ON c.hash = d.hash WHERE d.run = ? AND d.seq = ? ORDER BY d.offset",
		&reader->of_op, NULL);
	err = err ?: trace_prepare(trace,
		"SELECT d.offset, d.length, d.hash, c.length, c.packed, c.bytes FROM initial_data AS d"
		" LEFT JOIN content AS c ON c.hash = d.hash WHERE d.run = ? AND d.path = ? ORDER BY d.offset",
		&reader->of_initial, NULL);
	if (err < 0) {
		content_reader_free(reader);
		return err;
	}
	*ret_reader = reader;
	return 0;
}

void content_reader_free(struct content_reader *reader)
{
	if (!reader)
		return;
	trace_finalize(reader->of_op);
	trace_finalize(reader->of_initial);
	free(reader);
}

static int unpack(const void *bytes, size_t size, void *buf, size_t len)
{
#ifdef HAVE_ZSTD
	size_t got = ZSTD_decompress(buf, len, bytes, size);

	return ZSTD_isError(got) || got != len ? -EUCLEAN : 0;
#else
	(void)bytes, (void)size, (void)buf, (void)len;
	return -ENOTSUP;
#endif
}

/* The piece of the current row. */
static int piece(struct content_reader *reader, sqlite3_stmt *sql, const void **ret_bytes, size_t *ret_len)
{
	int64_t length = sqlite3_column_int64(sql, 1), packed = sqlite3_column_int64(sql, 4);
	const void *bytes = sqlite3_column_blob(sql, 5), *hash = sqlite3_column_blob(sql, 2);
	size_t size = (size_t)sqlite3_column_bytes(sql, 5);
	struct content_hash found;
	int err;

	if (sqlite3_column_type(sql, 3) == SQLITE_NULL)
		return -ENODATA;
	if (length < 0 || length > CONTENT_PIECE || length != sqlite3_column_int64(sql, 3) ||
		sqlite3_column_bytes(sql, 2) != sizeof(found.bytes) || sqlite3_column_int64(sql, 0) < 0)
		return -EUCLEAN;
	if (packed == ZSTD_FRAME) {
		err = unpack(bytes, size, reader->buf, (size_t)length);
		if (err < 0)
			return err;
		bytes = reader->buf;
	} else if (packed != PLAIN || size != (size_t)length) {
		return -EUCLEAN;
	}
	content_hash(bytes, (size_t)length, &found);
	if (memcmp(found.bytes, hash, sizeof(found.bytes)) != 0)
		return -EUCLEAN;
	*ret_bytes = bytes;
	*ret_len = (size_t)length;
	return 0;
}

static int64_t each(struct content_reader *reader, struct trace_stmt *stmt, int64_t key, content_take take, void *arg)
{
	int64_t count = 0;
	int err;

	sqlite3_reset(stmt->sql);
	err = trace_bind_int(stmt, 1, reader->run);
	err = err ?: trace_bind_int(stmt, 2, key);
	while (err >= 0 && (err = trace_step(stmt)) == 1) {
		const void *bytes;
		size_t len;

		err = piece(reader, stmt->sql, &bytes, &len);
		if (err == 0)
			err = take(arg, sqlite3_column_int64(stmt->sql, 0), bytes, len);
		count++;
	}
	sqlite3_reset(stmt->sql);
	return err < 0 ? err : count;
}

int64_t content_of_op(struct content_reader *reader, uint64_t seq, content_take take, void *arg)
{
	return each(reader, reader->of_op, (int64_t)seq, take, arg);
}

int64_t content_of_initial(struct content_reader *reader, uint32_t path, content_take take, void *arg)
{
	return each(reader, reader->of_initial, path, take, arg);
}
