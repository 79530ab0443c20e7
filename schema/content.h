/* SPDX-License-Identifier: MIT */
/*
 * content.h - contents of files in a recording (data=full): pieces of at most CONTENT_PIECE bytes, named by their hash,
 * stored once each and compressed with zstd where the build has it and it helps.
 *
 * A recording may come from a stranger, so lengths are checked and a piece whose bytes do not have its hash is -EUCLEAN.
 * Like their struct trace, readers are for one thread.
 */
#ifndef FSTAPE_CONTENT_H
#define FSTAPE_CONTENT_H

#include <stddef.h>
#include <stdint.h>

#include "event.h"

struct trace;
struct content_reader;

void content_hash(const void *bytes, size_t len, struct content_hash *ret_hash);

/* For one run. The trace is borrowed. */
int content_reader_new(struct trace *trace, int64_t run, struct content_reader **ret_reader);
void content_reader_free(struct content_reader *reader);

/*
 * Hands the pieces of operation `seq` to `take`, by rising offset; or of the file that was at path `path` when the run
 * began, as it was after it. A negative result of `take` ends it and is returned. Returns the number of pieces (0: no
 * contents were recorded), -ENODATA when a piece is missing, -ENOTSUP when it is compressed and this build has no
 * zstd, -EUCLEAN when it is damaged.
 */
typedef int (*content_take)(void *arg, int64_t offset, const void *bytes, size_t len);
int64_t content_of_op(struct content_reader *reader, uint64_t seq, content_take take, void *arg);
int64_t content_of_initial(struct content_reader *reader, uint32_t path, content_take take, void *arg);

#endif
