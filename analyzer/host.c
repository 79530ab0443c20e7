/* SPDX-License-Identifier: MIT */
/* host.c - sampling: files, numbers in them, the thread. */
#include "host.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "host_internal.h"

#define PERIOD_NS 100000000
#define ANCHOR_PERIOD_NS (5 * NSEC_PER_SEC)
#define STEP_NS 500000 /* more than slewing does between two samples */

static const struct host_field memory_fields[] = {
	{ "nr_dirty ", NULL, 0, "dirty", "gauge", "bytes", 0 },
	{ "nr_writeback ", NULL, 0, "writeback", "gauge", "bytes", 0 },
	{ "nr_dirtied ", NULL, 0, "dirtied", "counter", "bytes", 0 },
	{ "nr_written ", NULL, 0, "written", "counter", "bytes", 0 },
};

static const struct host_field pressure_fields[] = {
	{ "some ", "total=", 0, "some", "counter", "ns", 1000 },
	{ "full ", "total=", 0, "full", "counter", "ns", 1000 },
};

static const struct host_field cpu_fields[] = {
	{ "cpu ", NULL, 0, "user", "counter", "ns", -1 },
	{ "cpu ", NULL, 2, "system", "counter", "ns", -1 },
	{ "cpu ", NULL, 3, "idle", "counter", "ns", -1 },
	{ "cpu ", NULL, 4, "iowait", "counter", "ns", -1 },
	{ "cpu ", NULL, 7, "steal", "counter", "ns", -1 },
};

int host_add_file(struct host *host, const char *path, const char *source, const struct host_field *fields,
	size_t n_fields)
{
	int auto_close fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct host_file *grown;
	char *copy;

	if (fd < 0)
		return 0;
	copy = strdup(source);
	grown = reallocarray(host->files, host->n_files + 1, sizeof(*grown));
	if (grown)
		host->files = grown;
	if (!copy || !grown) {
		free(copy);
		return -ENOMEM;
	}
	host->files[host->n_files++] = (struct host_file){ steal_fd(&fd), copy, fields, n_fields, host->n_counters };
	host->n_counters += n_fields;
	return 0;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Numbers are runs of digits; false: the line or the number is not there. */
static bool find_number(const char *text, const struct host_field *field, int64_t *ret_value)
{
	const char *at = strstr(text, field->line);
	int index = field->index;

	if (!at)
		return false;
	while (!field->after && at > text && at[-1] != '\n')
		at--;
	if (field->after && !(at = strstr(at, field->after)))
		return false;
	for (; *at && *at != '\n'; at++) {
		if (!is_digit(*at))
			continue;
		if (index-- == 0) {
			*ret_value = strtoll(at, NULL, 10);
			return true;
		}
		while (is_digit(at[1]))
			at++;
	}
	return false;
}

static int64_t scale_of(const struct host_field *field)
{
	if (field->scale == 0)
		return sysconf(_SC_PAGESIZE);
	return field->scale < 0 ? NSEC_PER_SEC / sysconf(_SC_CLK_TCK) : field->scale;
}

/* Room for one more in an array that has room for powers of two. */
static bool make_room(struct host *host, void *array, size_t count, size_t size)
{
	void *grown;

	if (host->failed)
		return false;
	if (count & (count - 1))
		return true;
	grown = reallocarray(*(void **)array, count ? count * 2 : 1, size);
	if (grown)
		*(void **)array = grown;
	host->failed = !grown;
	return grown;
}

static void keep_value(struct host *host, size_t counter, int64_t mono_ns, int64_t value, bool always)
{
	if ((!always && host->last[counter] == value) ||
		!make_room(host, &host->samples, host->n_samples, sizeof(*host->samples)))
		return;
	host->last[counter] = value;
	host->samples[host->n_samples++] = (struct host_sample){ mono_ns, value, (uint32_t)counter };
}

static void keep_anchor(struct host *host, const struct host_anchor *anchor)
{
	if (make_room(host, &host->anchors, host->n_anchors, sizeof(*host->anchors)))
		host->anchors[host->n_anchors++] = *anchor;
}

/* Before and after a step of the wall clock, and otherwise now and then. */
static void read_clocks(struct host *host)
{
	struct host_anchor now = { .before_ns = clock_ns(CLOCK_MONOTONIC) };
	const struct host_anchor *kept = host->n_anchors ? &host->anchors[host->n_anchors - 1] : NULL, *seen = &host->seen;

	now.real_ns = clock_ns(CLOCK_REALTIME);
	now.after_ns = clock_ns(CLOCK_MONOTONIC);
	if (kept && now.after_ns - now.before_ns < STEP_NS &&
		llabs((now.real_ns - now.before_ns) - (seen->real_ns - seen->before_ns)) > STEP_NS) {
		keep_anchor(host, seen);
		keep_anchor(host, &now);
	} else if (!kept || now.before_ns - kept->before_ns > ANCHOR_PERIOD_NS) {
		keep_anchor(host, &now);
	}
	host->seen = now;
}

/* `always`: also what has not changed, as the last sample has to say until when a value holds. */
static void sample(struct host *host, bool always)
{
	read_clocks(host);
	for (size_t i = 0; i < host->n_files; i++) {
		const struct host_file *file = &host->files[i];
		ssize_t len = pread(file->fd, host->buf, sizeof(host->buf) - 1, 0);
		int64_t now = clock_ns(CLOCK_MONOTONIC), value;

		host->buf[len > 0 ? len : 0] = '\0';
		for (size_t k = 0; k < file->n_fields; k++)
			if (find_number(host->buf, &file->fields[k], &value))
				keep_value(host, file->first + k, now, value * scale_of(&file->fields[k]), always);
	}
}

static int find_files(struct host *host, const char *source)
{
	int err = host_find_devices(host, source);

	err = err ?: host_add_file(host, "/proc/vmstat", "memory", memory_fields, ARRAY_SIZE(memory_fields));
	err = err ?: host_add_file(host, "/proc/pressure/io", "pressure:io", pressure_fields, ARRAY_SIZE(pressure_fields));
	err = err ?: host_add_file(host, "/proc/pressure/cpu", "pressure:cpu", pressure_fields, 1);
	err = err ?: host_add_file(host, "/proc/pressure/memory", "pressure:memory", pressure_fields,
			     ARRAY_SIZE(pressure_fields));
	return err ?: host_add_file(host, "/proc/stat", "cpu", cpu_fields, ARRAY_SIZE(cpu_fields));
}

int host_open(const char *source, struct host **ret_host)
{
	struct host *host = calloc(1, sizeof(*host));
	pthread_condattr_t attr;

	if (!host)
		return -ENOMEM;
	pthread_mutex_init(&host->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&host->wake, &attr);
	pthread_condattr_destroy(&attr);
	if (find_files(host, source) < 0 || !(host->last = malloc((host->n_counters + 1) * sizeof(*host->last)))) {
		host_free(host);
		return -ENOMEM;
	}
	for (size_t i = 0; i < host->n_counters; i++)
		host->last[i] = INT64_MIN;
	sample(host, true);
	*ret_host = host;
	return 0;
}

static void *sampler_main(void *arg)
{
	struct host *host = arg;
	int64_t until = clock_ns(CLOCK_MONOTONIC);
	bool stop = false;

	pthread_setname_np(pthread_self(), "sampler");
	while (!stop) {
		int64_t now = clock_ns(CLOCK_MONOTONIC);
		struct timespec ts;

		until = until + PERIOD_NS > now ? until + PERIOD_NS : now + PERIOD_NS;
		ts = (struct timespec){ until / NSEC_PER_SEC, until % NSEC_PER_SEC };
		pthread_mutex_lock(&host->lock);
		while (!host->stop && pthread_cond_timedwait(&host->wake, &host->lock, &ts) == 0)
			;
		stop = host->stop;
		pthread_mutex_unlock(&host->lock);
		sample(host, stop);
	}
	return NULL;
}

int host_start(struct host *host)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&host->thread, NULL, sampler_main, host);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	host->started = err == 0;
	return -err;
}

void host_stop(struct host *host)
{
	if (!host->started) {
		sample(host, true);
		return;
	}
	pthread_mutex_lock(&host->lock);
	host->stop = true;
	pthread_cond_signal(&host->wake);
	pthread_mutex_unlock(&host->lock);
	pthread_join(host->thread, NULL);
	host->started = false;
}

static int store_counters(const struct host *host, struct trace *trace, int64_t run)
{
	struct trace_stmt auto_stmt *insert = NULL;
	int err = trace_prepare(trace,
		"INSERT INTO host_counter (run, id, source, name, kind, unit) VALUES (?, ?, ?, ?, ?, ?)", &insert, NULL);

	for (size_t i = 0; i < host->n_files; i++) {
		const struct host_file *file = &host->files[i];

		for (size_t k = 0; k < file->n_fields && err == 0; k++) {
			trace_reset(insert);
			err = trace_bind_int(insert, 1, run);
			err = err ?: trace_bind_int(insert, 2, (int64_t)(file->first + k));
			err = err ?: trace_bind_text(insert, 3, file->source);
			err = err ?: trace_bind_text(insert, 4, file->fields[k].name);
			err = err ?: trace_bind_text(insert, 5, file->fields[k].kind);
			err = err ?: trace_bind_text(insert, 6, file->fields[k].unit);
			err = err ?: trace_step(insert);
		}
	}
	return err;
}

int host_store(const struct host *host, struct trace *trace, int64_t run, int64_t start_mono_ns)
{
	struct trace_stmt auto_stmt *insert = NULL;
	int err = store_counters(host, trace, run);

	err = err ?: trace_prepare(trace, "INSERT OR REPLACE INTO host_value (run, counter, time_ns, value) VALUES (?, ?, ?, ?)",
			     &insert, NULL);
	for (size_t i = 0; i < host->n_samples && err == 0; i++) {
		const struct host_sample *s = &host->samples[i];

		trace_reset(insert);
		err = trace_bind_int(insert, 1, run);
		err = err ?: trace_bind_int(insert, 2, s->counter);
		err = err ?: trace_bind_int(insert, 3, s->mono_ns - start_mono_ns);
		err = err ?: trace_bind_int(insert, 4, s->value);
		err = err ?: trace_step(insert);
	}
	for (size_t i = 0; i < host->n_anchors && err == 0; i++) {
		const struct host_anchor *a = &host->anchors[i];

		err = trace_add_anchor(trace, run, a->before_ns - start_mono_ns, a->real_ns, a->after_ns - start_mono_ns);
	}
	return err;
}

void host_free(struct host *host)
{
	if (!host)
		return;
	if (host->started)
		host_stop(host);
	for (size_t i = 0; i < host->n_files; i++) {
		close(host->files[i].fd);
		free(host->files[i].source);
	}
	pthread_cond_destroy(&host->wake);
	pthread_mutex_destroy(&host->lock);
	free(host->files), free(host->last), free(host->samples), free(host->anchors);
	free(host);
}
