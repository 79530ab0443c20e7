/* SPDX-License-Identifier: MIT */
/* trace.c - opening: version, identity, safety; transactions. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base.h"
#include "embedded.h"
#include "op.h"
#include "trace_internal.h"

#define BUSY_TIMEOUT_MS 5000
#define LONGEST_VALUE (64 << 20) /* bytes; what we write is far below it */

static int errno_of(int result)
{
	switch (result & 0xff) {
	case SQLITE_OK:
	case SQLITE_ROW:
	case SQLITE_DONE:
		return 0;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_READONLY:
		return -EROFS;
	case SQLITE_AUTH:
	case SQLITE_PERM:
		return -EACCES;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return -EUCLEAN;
	case SQLITE_CONSTRAINT:
		return -EEXIST;
	case SQLITE_INTERRUPT:
		return -EINTR;
	case SQLITE_IOERR:
	case SQLITE_CANTOPEN:
		return -EIO;
	default:
		return -EINVAL;
	}
}

/* The system's error of the last of its calls for this file that failed, or 0. Successful ones leave it as it is. */
static int last_errno(sqlite3 *db, int which)
{
	sqlite3_file *file = NULL;
	int sys = 0;

	if (sqlite3_file_control(db, "main", which, &file) == SQLITE_OK && file && file->pMethods)
		file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &sys);
	return sys;
}

/* EIO or ENXIO, if a call for the database or its log has failed with that; or 0. */
static int disk_errno(const struct trace *trace)
{
	static const int files[] = { SQLITE_FCNTL_FILE_POINTER, SQLITE_FCNTL_JOURNAL_POINTER };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		int sys = last_errno(trace->db, files[i]);

		if (sys == EIO || sys == ENXIO)
			return sys;
	}
	return 0;
}

static int disk_failed(struct trace *trace, int sys)
{
	snprintf(trace->error, sizeof(trace->error), "the disk or the file system below it fails: %s", strerror(sys));
	return -EIO;
}

int trace_check_disk(struct trace *trace)
{
	int sys = disk_errno(trace);

	return sys ? disk_failed(trace, sys) : 0;
}

int trace_fail(struct trace *trace, int result)
{
	int err = errno_of(result);

	if (err < 0) {
		int sys = sqlite3_system_errno(trace->db);

		snprintf(trace->error, sizeof(trace->error), "%s", sqlite3_errmsg(trace->db));
		/* SQLite takes EIO of a read for a sign that the file system is broken, and the database with it. */
		if (err == -EUCLEAN && disk_errno(trace))
			err = disk_failed(trace, disk_errno(trace));
		else if (err == -EIO && (sys == EIO || sys == ENXIO))
			disk_failed(trace, sys);
		if (err == -EIO && (sys == ENOSPC || sys == EDQUOT))
			err = -ENOSPC;
		else if (err == -EIO && sys == EROFS)
			err = -EROFS;
		if (err == -EBUSY && trace->mode == TRACE_READ)
			snprintf(trace->error, sizeof(trace->error), "another program has the database locked; try again when it"
				" is through");
		/* Nothing is written into the file that is read: it is the sorting that needs room. */
		if (err == -ENOSPC && trace->mode == TRACE_READ)
			snprintf(trace->error, sizeof(trace->error), "%s for temporary files; SQLITE_TMPDIR names another"
				" directory for them", strerror(ENOSPC));
	}
	return err;
}

const char *trace_error(const struct trace *trace)
{
	return trace->error;
}

const char *trace_path(const struct trace *trace)
{
	return trace->path;
}

const char *trace_uuid(const struct trace *trace)
{
	return trace->uuid;
}

const char *trace_sqlite_version(void)
{
	return sqlite3_libversion();
}

char *trace_spool_root(const char *path)
{
	char *root;

	return asprintf(&root, "%s-spool", path) < 0 ? NULL : root;
}

char *trace_story_dir(const char *path, int64_t run)
{
	char *dir;

	return asprintf(&dir, "%s-spool/git-%lld", path, (long long)run) < 0 ? NULL : dir;
}

void trace_set_busy_timeout(struct trace *trace, int ms)
{
	sqlite3_busy_timeout(trace->db, ms);
}

int trace_exec(struct trace *trace, const char *sql)
{
	return trace_fail(trace, sqlite3_exec(trace->db, sql, NULL, NULL, NULL));
}

int trace_begin(struct trace *trace)
{
	return trace_exec(trace, "BEGIN IMMEDIATE");
}

int trace_commit(struct trace *trace)
{
	return trace_exec(trace, "COMMIT");
}

void trace_rollback(struct trace *trace)
{
	trace_events_undone(trace);
	if (!sqlite3_get_autocommit(trace->db))
		sqlite3_exec(trace->db, "ROLLBACK", NULL, NULL, NULL);
}

void trace_settle(struct trace *trace)
{
	trace_set_busy_timeout(trace, 0);
	trace_exec(trace, "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE");
	trace_set_busy_timeout(trace, BUSY_TIMEOUT_MS);
}

int trace_checkpoint(struct trace *trace)
{
	int pages = 0, moved = 0;
	int err = trace_fail(trace, sqlite3_wal_checkpoint_v2(trace->db, NULL, SQLITE_CHECKPOINT_PASSIVE, &pages, &moved));

	return err < 0 ? err : moved >= pages;
}

bool trace_is_deleted(const struct trace *trace)
{
	struct stat st;

	return trace->path_fd >= 0 && fstat(trace->path_fd, &st) == 0 && st.st_nlink == 0;
}

void trace_release_memory(struct trace *trace)
{
	sqlite3_db_release_memory(trace->db);
	trace_memory_release();
}

void trace_interrupt(struct trace *trace)
{
	trace->interrupted = 1;
	sqlite3_interrupt(trace->db); /* nothing, when no statement runs just now: hence the flag */
}

/* A single integer, such as a pragma's value. */
static int query_int(struct trace *trace, const char *sql, int64_t *ret_value)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace, sql, &stmt, NULL);

	if (err < 0)
		return err;
	err = trace_step(stmt);
	if (err < 0)
		return err;
	*ret_value = err ? trace_column_int(stmt, 0) : 0;
	return 0;
}

int trace_size(struct trace *trace, int64_t *ret_bytes)
{
	int64_t pages = 0, unused = 0, size = 0;
	int err = query_int(trace, "PRAGMA page_count", &pages);

	err = err ?: query_int(trace, "PRAGMA freelist_count", &unused);
	err = err ?: query_int(trace, "PRAGMA page_size", &size);
	if (err == 0)
		*ret_bytes = (pages - unused) * size;
	return err;
}

/* RFC 9562, version 4. */
static void make_uuid(char uuid[static SPOOL_UUID_LEN + 1])
{
	unsigned char b[16] = {};

	if (getrandom(b, sizeof(b), 0) != sizeof(b))
		memcpy(b, &(int64_t){ clock_ns(CLOCK_REALTIME) }, sizeof(int64_t));
	b[6] = (b[6] & 0x0f) | 0x40;
	b[8] = (b[8] & 0x3f) | 0x80;
	snprintf(uuid, SPOOL_UUID_LEN + 1,
		"%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2],
		b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

static int fill_constants(struct trace *trace)
{
	struct trace_stmt auto_stmt *op = NULL, *name = NULL;
	int err = trace_prepare(trace, "INSERT OR REPLACE INTO op_type VALUES (?, ?, ?, ?)", &op, NULL);

	for (unsigned int code = 0; code < OP_COUNT && err == 0; code++) {
		const struct op_desc *desc = op_get(code);

		if (!desc)
			continue;
		sqlite3_reset(op->sql);
		trace_bind_int(op, 1, code);
		trace_bind_text(op, 2, desc->name);
		trace_bind_text(op, 3, op_class_name(desc->class));
		trace_bind_int(op, 4, desc->replay);
		err = trace_step(op);
	}
	err = err ?: trace_prepare(trace, "INSERT OR REPLACE INTO errno VALUES (?, ?)", &name, NULL);
	for (int code = 1; code < 256 && err == 0; code++) {
		if (!strerrorname_np(code))
			continue;
		sqlite3_reset(name->sql);
		trace_bind_int(name, 1, code);
		trace_bind_text(name, 2, strerrorname_np(code));
		err = trace_step(name);
	}
	return err;
}

static int initialise(struct trace *trace)
{
	char pragmas[128], uuid[SPOOL_UUID_LEN + 1], insert[128];
	int err;

	make_uuid(uuid);
	snprintf(pragmas, sizeof(pragmas), "PRAGMA application_id = %d; PRAGMA user_version = %d", TRACE_APPLICATION_ID,
		TRACE_VERSION);
	snprintf(insert, sizeof(insert), "INSERT INTO meta VALUES ('uuid', '%s')", uuid);
	err = trace_exec(trace, embedded_schema_sql);
	err = err ?: trace_exec(trace, embedded_views_sql);
	err = err ?: trace_exec(trace, pragmas);
	err = err ?: trace_exec(trace, insert);
	return err ?: fill_constants(trace);
}

/*
 * migrations[N] turns a database of version N into one of version N + 1; views and constants are made anew after the
 * last one, so a migration is about tables alone.
 */
static const char *const migrations[TRACE_VERSION] = {
	[0] = NULL, /* version 0 is a file that we did not write */
};

/* The name that follows `what` ("CREATE TABLE ") in the text from *at on, and *at after it; 0: there is no more. */
static size_t next_name(const char **at, const char *what, const char **ret_name)
{
	const char *found = strstr(*at, what);

	if (!found)
		return 0;
	*ret_name = found + strlen(what);
	*at = *ret_name + strcspn(*ret_name, " (\n");
	return (size_t)(*at - *ret_name);
}

static int drop_views(struct trace *trace)
{
	struct strbuf auto_strbuf sql = {};
	const char *at = embedded_views_sql, *name;
	size_t len;

	while ((len = next_name(&at, "CREATE VIEW ", &name)))
		strbuf_addf(&sql, "DROP VIEW IF EXISTS %.*s;", (int)len, name);
	return sql.failed ? -ENOMEM : trace_exec(trace, sql.buf);
}

static int migrate(struct trace *trace, int64_t version)
{
	char pragma[64];
	int err = drop_views(trace);

	for (int64_t v = version; v < TRACE_VERSION && err == 0; v++)
		err = migrations[v] ? trace_exec(trace, migrations[v]) : -EPROTO;
	snprintf(pragma, sizeof(pragma), "PRAGMA user_version = %d", TRACE_VERSION);
	err = err ?: trace_exec(trace, embedded_views_sql);
	err = err ?: fill_constants(trace);
	return err ?: trace_exec(trace, pragma);
}

/* Whether the file is ours and of a version that we can handle; makes or migrates it when that is asked for. */
static int check_version(struct trace *trace)
{
	int64_t id = 0, version = 0, objects = 0;
	int err = query_int(trace, "PRAGMA application_id", &id);

	err = err ?: query_int(trace, "PRAGMA user_version", &version);
	err = err ?: query_int(trace, "SELECT count(*) FROM sqlite_schema", &objects);
	if (err < 0)
		return err;
	if (id == 0 && version == 0 && objects == 0 && trace->mode == TRACE_CREATE)
		return initialise(trace);
	if (id != TRACE_APPLICATION_ID) {
		snprintf(trace->error, sizeof(trace->error), "not a recording of fstape");
		return -EPROTO;
	}
	if (version > TRACE_VERSION || version < 1) {
		snprintf(trace->error, sizeof(trace->error),
			"made by a newer fstape: its format is version %lld, this program knows up to %d",
			(long long)version, TRACE_VERSION);
		return -EPROTO;
	}
	if (version == TRACE_VERSION)
		return 0;
	if (trace->mode == TRACE_READ) {
		snprintf(trace->error, sizeof(trace->error),
			"format version %lld is older than %d; 'fstape recover' brings it up to date",
			(long long)version, TRACE_VERSION);
		return -EPROTO;
	}
	return migrate(trace, version);
}

/* A table that is a view or virtual would run code of the file's author when it is read. */
static int check_tables(struct trace *trace)
{
	struct strbuf auto_strbuf sql = {};
	const char *at = embedded_schema_sql, *name;
	int64_t expected = 0, plain = 0;
	size_t len;
	int err;

	strbuf_addf(&sql, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 AND name IN (''");
	for (; (len = next_name(&at, "CREATE TABLE ", &name)); expected++)
		strbuf_addf(&sql, ", '%.*s'", (int)len, name);
	strbuf_addf(&sql, ")");
	err = sql.failed ? -ENOMEM : query_int(trace, sql.buf, &plain);
	if (err == 0 && plain != expected) {
		snprintf(trace->error, sizeof(trace->error), "damaged: tables are missing, or are not plain tables");
		return -EUCLEAN;
	}
	return err;
}

static int read_uuid(struct trace *trace)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace, "SELECT value FROM meta WHERE key = 'uuid'", &stmt, NULL);

	err = err ?: trace_step(stmt);
	if (err < 0)
		return err;
	if (!err || trace_column_type(stmt, 0) != TRACE_TEXT || trace_column_bytes(stmt, 0) != SPOOL_UUID_LEN) {
		snprintf(trace->error, sizeof(trace->error), "damaged: it has no uuid");
		return -EUCLEAN;
	}
	snprintf(trace->uuid, sizeof(trace->uuid), "%s", trace_column_text(stmt, 0));
	return 0;
}

/* Reading never attaches, and so never writes, another file; VACUUM INTO attaches too. */
static int authorize(void *arg, int action, const char *a, const char *b, const char *c, const char *d)
{
	(void)arg, (void)a, (void)b, (void)c, (void)d;
	return action == SQLITE_ATTACH || action == SQLITE_DETACH ? SQLITE_DENY : SQLITE_OK;
}

static int own_views(struct trace *trace)
{
	struct strbuf auto_strbuf sql = {};
	const char *rest = embedded_views_sql, *found;

	while ((found = strstr(rest, "CREATE VIEW"))) {
		strbuf_add(&sql, rest, (size_t)(found - rest));
		strbuf_addf(&sql, "CREATE TEMP VIEW");
		rest = found + strlen("CREATE VIEW");
	}
	strbuf_addf(&sql, "%s", rest);
	return sql.failed ? -ENOMEM : trace_exec(trace, sql.buf);
}

static int configure(struct trace *trace)
{
	sqlite3 *db = trace->db;

	sqlite3_extended_result_codes(db, 1);
	sqlite3_busy_timeout(db, BUSY_TIMEOUT_MS);
	sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	sqlite3_limit(db, SQLITE_LIMIT_LENGTH, LONGEST_VALUE);
	/*
	 * Sorting in chunks that fit the processor's caches, and merging them from temporary files, takes half the time
	 * of sorting millions of rows in memory, and keeps the memory small. A writer has little to sort.
	 */
	return trace_exec(trace, trace->mode == TRACE_READ ? "PRAGMA cell_size_check = ON"
							   : "PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY");
}

/* SQLite does not wait when it changes the journal's mode, and others that open the file just now are in the way. */
static int use_log(struct trace *trace)
{
	int64_t until = clock_ns(CLOCK_MONOTONIC) + BUSY_TIMEOUT_MS * 1000000LL;
	int err;

	while ((err = trace_exec(trace, "PRAGMA journal_mode = WAL")) == -EBUSY && clock_ns(CLOCK_MONOTONIC) < until)
		usleep(2000);
	return err;
}

/*
 * In one transaction, so that two openers make or migrate the file once and a crash leaves the old one. The journal
 * mode is stored in the file, so it changes only when the file is known to be ours.
 */
static int prepare_for_writing(struct trace *trace)
{
	int err = trace_begin(trace);

	err = err ?: check_version(trace);
	err = err ?: trace_commit(trace);
	trace_rollback(trace);
	err = err ?: use_log(trace);
	return err ?: trace_exec(trace, "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 4000; PRAGMA cache_size = -8000");
}

/* A FIFO would be waited for, and a device may never end: -ENOTSUP. */
static int check_kind(const struct trace *trace)
{
	struct stat st;

	if (stat(trace->path, &st) < 0)
		return errno == ENOENT && trace->mode == TRACE_CREATE ? 0 : -errno;
	return S_ISREG(st.st_mode) ? 0 : S_ISDIR(st.st_mode) ? -EISDIR : -ENOTSUP;
}

static int open_db(struct trace *trace)
{
	int flags = trace->mode == TRACE_READ ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
	int err, fd;

	err = check_kind(trace);
	if (err == -ENOTSUP) {
		snprintf(trace->error, sizeof(trace->error), "not a regular file");
		return -EINVAL;
	}
	errno = -err;
	if (err < 0)
		goto system_error;
	/* SQLite would make the file readable by all. */
	if (trace->mode == TRACE_CREATE) {
		fd = open(trace->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0)
			goto system_error;
		close(fd);
	} else if (access(trace->path, trace->mode == TRACE_READ ? R_OK : R_OK | W_OK) < 0) {
		goto system_error;
	}
	err = trace_fail(trace, sqlite3_open_v2(trace->path, &trace->db, flags | SQLITE_OPEN_NOMUTEX, NULL));
	err = err ?: configure(trace);
	err = err ?: (trace->mode == TRACE_READ ? check_version(trace) : prepare_for_writing(trace));
	err = err ?: check_tables(trace);
	err = err ?: read_uuid(trace);
	err = err ?: own_views(trace);
	if (err == 0 && trace->mode == TRACE_READ) {
		sqlite3_set_authorizer(trace->db, authorize, NULL);
	}
	return err;
system_error:
	err = -errno;
	snprintf(trace->error, sizeof(trace->error), "%s", strerror(-err));
	return err;
}

int trace_open(const char *path, enum trace_mode mode, struct trace **ret_trace)
{
	struct trace *trace = calloc(1, sizeof(*trace));
	int err;

	if (!trace || !(trace->path = strdup(path))) {
		free(trace);
		return log_errno(ENOMEM, "%s", path);
	}
	trace->mode = mode;
	trace->path_fd = -1;
	err = open_db(trace);
	/* O_PATH: closing any other descriptor of the file would end the locks that SQLite has on it, fcntl(2). */
	if (err == 0)
		trace->path_fd = open(path, O_PATH | O_CLOEXEC);
	if (err < 0) {
		log_msg("%s: %s", path, trace->error[0] ? trace->error : strerror(-err));
		trace_close(trace);
		return err;
	}
	*ret_trace = trace;
	return 0;
}

void trace_close(struct trace *trace)
{
	if (!trace)
		return;
	for (int i = 0; i < INSERT_COUNT; i++)
		sqlite3_finalize(trace->inserts[i]);
	trace_events_end(trace);
	trace_content_end(trace);
	sqlite3_close(trace->db);
	if (trace->path_fd >= 0)
		close(trace->path_fd);
	free(trace->path);
	free(trace);
}
