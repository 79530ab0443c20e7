/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int scratch_setup(void **state)
{
	struct scratch *scratch = calloc(1, sizeof(*scratch));
	const char *tmp = getenv("TMPDIR") ?: "/tmp";

	assert_non_null(scratch);
	scratch->stderr_fd = -1;
	snprintf(scratch->dir, sizeof(scratch->dir), "%s/fstape-unit-XXXXXX", tmp);
	assert_non_null(mkdtemp(scratch->dir));
	snprintf(scratch->db, sizeof(scratch->db), "%s/t.db", scratch->dir);
	snprintf(scratch->root, sizeof(scratch->root), "%s-spool", scratch->db);
	*state = scratch;
	return 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

int scratch_teardown(void **state)
{
	struct scratch *scratch = *state;
	int err;

	if (scratch->stderr_fd >= 0) {
		dup2(scratch->stderr_fd, STDERR_FILENO);
		close(scratch->stderr_fd);
	}
	err = nftw(scratch->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	free(scratch);
	return err;
}

void capture_begin(struct scratch *scratch)
{
	char *path = path_in(scratch->dir, "messages");
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	scratch->stderr_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	assert_true(scratch->stderr_fd >= 0);
	assert_true(dup2(fd, STDERR_FILENO) >= 0);
	close(fd);
	free(path);
}

char *capture_end(struct scratch *scratch)
{
	char *path = path_in(scratch->dir, "messages"), *text;

	dup2(scratch->stderr_fd, STDERR_FILENO);
	close(scratch->stderr_fd);
	scratch->stderr_fd = -1;
	text = slurp(path, NULL);
	free(path);
	return text;
}

char *path_in(const char *dir, const char *name)
{
	char *path;

	assert_true(asprintf(&path, "%s/%s", dir, name) > 0);
	return path;
}

void write_file(const char *path, const void *data, size_t len)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, len, file), len);
	assert_int_equal(fclose(file), 0);
}

char *slurp(const char *path, size_t *ret_len)
{
	struct strbuf sb = {};

	assert_int_equal(read_file_at(AT_FDCWD, path, 64 << 20, &sb), 0);
	if (ret_len)
		*ret_len = sb.len;
	return sb.buf;
}

int count_entries(const char *path, const char *prefix)
{
	DIR *dir = opendir(path);
	int count = 0;

	if (!dir)
		return -1;
	for (struct dirent *entry; (entry = readdir(dir));)
		count += strncmp(entry->d_name, prefix, strlen(prefix)) == 0 && strcmp(entry->d_name, ".") &&
			 strcmp(entry->d_name, "..");
	closedir(dir);
	return count;
}

char *db_text(const char *path, const char *sql)
{
	sqlite3 *db;
	sqlite3_stmt *stmt;
	char *text = NULL;

	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	sqlite3_busy_timeout(db, 10000);
	if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	if (sqlite3_column_type(stmt, 0) != SQLITE_NULL) {
		text = strdup((const char *)sqlite3_column_text(stmt, 0));
		assert_non_null(text);
	}
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	return text;
}

int64_t db_int(const char *path, const char *sql)
{
	char *text = db_text(path, sql), *end;
	int64_t value;

	if (!text)
		fail_msg("%s: NULL", sql);
	value = strtoll(text, &end, 10);
	if (*end || end == text)
		fail_msg("%s: '%s' is not a number", sql, text);
	free(text);
	return value;
}

void db_exec(const char *path, const char *sql)
{
	sqlite3 *db;
	char *message = NULL;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
		fail_msg("%s: %s", sql, message);
	sqlite3_close(db);
}

bool put_event(struct spool_writer *writer, uint64_t seq)
{
	struct event *event = spool_reserve(writer, sizeof(*event));

	if (!event)
		return false;
	*event = (struct event){
		.seq = seq, .start_ns = (int64_t)seq * 1000, .dur_ns = 500, .fs_ns = 200,
		.node = 1, .parent = 1, .process = 1, .path = 1, .op = OP_lookup,
		.result = seq % 3 ? 0 : -ENOENT,
	};
	spool_publish(writer, RECORD_EVENT, sizeof(*event));
	return true;
}

bool put_path(struct spool_writer *writer, uint32_t id, const char *text)
{
	size_t len = strlen(text);
	struct path_record *path = spool_reserve(writer, sizeof(*path) + len);

	if (!path)
		return false;
	*path = (struct path_record){ .id = id, .text_len = (uint32_t)len };
	memcpy(path + 1, text, len);
	spool_publish(writer, RECORD_PATH, sizeof(*path) + len);
	return true;
}

bool put_process(struct spool_writer *writer, uint32_t id, int32_t pid, const char *comm)
{
	static const char cmdline[] = "git\0status";
	size_t len = strlen(comm), size = sizeof(struct process_record) + len + sizeof(cmdline);
	struct process_record *process = spool_reserve(writer, size);

	if (!process)
		return false;
	*process = (struct process_record){
		.id = id, .tid = pid, .tgid = pid, .ppid = 1, .start_ticks = 1,
		.comm_len = (uint16_t)len, .cmdline_len = sizeof(cmdline),
	};
	memcpy(process + 1, comm, len);
	memcpy((char *)(process + 1) + len, cmdline, sizeof(cmdline));
	spool_publish(writer, RECORD_PROCESS, size);
	return true;
}

void recording_start(const struct scratch *scratch, const char *label, uint64_t limit, struct recording *ret_recording)
{
	struct recording recording = {};

	assert_int_equal(trace_open(scratch->db, TRACE_CREATE, &recording.trace), 0);
	assert_int_equal(trace_run_create(recording.trace, label, &recording.run), 0);
	assert_int_equal(spool_create(scratch->root, recording.run, trace_uuid(recording.trace), limit,
				 &recording.spool),
		0);
	snprintf(spool_state(recording.spool)->label, sizeof(spool_state(recording.spool)->label), "%s", label);
	recording.writer = spool_writer_new(recording.spool);
	assert_non_null(recording.writer);
	*ret_recording = recording;
}

void recording_abandon(struct recording *recording)
{
	spool_writer_free(recording->writer);
	spool_free(recording->spool);
	trace_close(recording->trace);
	*recording = (struct recording){};
}
