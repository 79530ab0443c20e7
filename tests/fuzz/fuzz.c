/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include "fuzz.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "loader.h"
#include "op.h"

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)st, (void)kind;
	return where->level ? remove(path) : 0;
}

static int remove_all(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)st, (void)kind, (void)where;
	return remove(path);
}

void fuzz_clear(const struct fuzz_place *place)
{
	nftw(place->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

void fuzz_write(const char *path, const void *data, size_t size)
{
	int auto_close fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
}

void fuzz_database(const struct fuzz_place *place)
{
	fuzz_write(place->db, place->template, place->template_size);
}

bool fuzz_take(struct fuzz_input *in, void *to, size_t len)
{
	if (len > in->size)
		return false;
	memcpy(to, in->data, len);
	in->data += len;
	in->size -= len;
	return true;
}

uint8_t fuzz_byte(struct fuzz_input *in)
{
	uint8_t byte = 0;

	fuzz_take(in, &byte, 1);
	return byte;
}

bool fuzz_is_intact(struct trace *trace)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace, "PRAGMA integrity_check(1)", &stmt, NULL);

	err = err ?: trace_step(stmt);
	return err == 1 && strcmp(trace_column_text(stmt, 0) ?: "", "ok") == 0;
}

static void add_rows(struct trace *trace, int64_t run)
{
	struct path_record path = { .id = 1, .text_len = 3 };
	struct process_record process = { .id = 1, .tid = 7, .tgid = 7, .ppid = 1, .comm_len = 3 };
	struct event event = { .path = 1, .process = 1, .dur_ns = 9, .fs_ns = 5 };

	if (trace_add_path(trace, run, &path, "a/b") < 0 || trace_add_process(trace, run, &process, "git") < 0)
		abort();
	for (unsigned int code = 1; code < OP_COUNT; code++) {
		if (!op_get(code))
			continue;
		event.op = (uint16_t)code;
		event.seq++;
		event.start_ns += 10;
		if (trace_add_event(trace, run, &event, "") < 0)
			abort();
	}
	trace_run_set_int(trace, run, "requests", (int64_t)event.seq);
	trace_run_set_int(trace, run, "recorded", (int64_t)event.seq);
	trace_run_set_int(trace, run, "dropped", 0);
	trace_run_set_int(trace, run, "damaged", 0);
	trace_run_set_int(trace, run, "end_ns", event.start_ns + 10);
	trace_run_set_int(trace, run, "clean_end", 1);
	trace_run_set_text(trace, run, "state", "done");
}

static void make_template(struct fuzz_place *place)
{
	struct strbuf text = {};
	struct trace *trace;
	int64_t run;

	if (trace_open(place->db, TRACE_CREATE, &trace) < 0 || trace_run_create(trace, "template", &run) < 0)
		abort();
	add_rows(trace, run);
	trace_settle(trace);
	trace_close(trace);
	if (read_file_at(AT_FDCWD, place->db, 16 << 20, &text) < 0)
		abort();
	place->template = (unsigned char *)text.buf;
	place->template_size = text.len;
}

static struct fuzz_place the_place; /* libFuzzer hands nothing from one call to the next */

static void leave(void)
{
	nftw(the_place.dir, remove_all, 8, FTW_DEPTH | FTW_PHYS);
	free(the_place.template);
}

const struct fuzz_place *fuzz_place(void)
{
	if (the_place.dir[0])
		return &the_place;
	strcpy(the_place.dir, "/dev/shm/fstape-fuzz-XXXXXX");
	if (!mkdtemp(the_place.dir))
		abort();
	atexit(leave);
	snprintf(the_place.db, sizeof(the_place.db), "%s/t.db", the_place.dir);
	make_template(&the_place);
	fuzz_clear(&the_place);
	return &the_place;
}
