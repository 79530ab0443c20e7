/* SPDX-License-Identifier: MIT */
#include "replay_readings.h"

#include <errno.h>
#include <stdlib.h>

#include "base.h"
#include "trace.h"

#define TIME_MAX (1LL << 52) /* ns, some weeks */

static bool possible(const struct times *times)
{
	return times->cpu_ns >= 0 && times->cpu_ns < TIME_MAX && times->delay_ns >= 0 && times->delay_ns < TIME_MAX;
}

static int add(struct readings *readings, const struct trace_stmt *stmt)
{
	struct reading reading = {
		.seq = trace_column_int(stmt, 0),
		.at = { trace_column_int(stmt, 1), trace_column_int(stmt, 2) },
	};

	if (!possible(&reading.at))
		return 0;
	if (readings->count == readings->room) {
		size_t room = readings->room ? readings->room * 2 : 256;
		struct reading *grown = reallocarray(readings->all, room, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		readings->all = grown;
		readings->room = room;
	}
	readings->all[readings->count++] = reading;
	return 0;
}

static int load_command(struct trace *trace, int64_t run, struct readings *readings)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace, "SELECT command_ns, real_ns FROM run WHERE id = ?", &stmt, NULL);
	int64_t start, real;

	readings->command_ns = readings->command_end_ns = -1;
	err = err ?: trace_bind_int(stmt, 1, run);
	err = err ?: trace_step(stmt);
	if (err <= 0 || trace_column_type(stmt, 0) != TRACE_INTEGER)
		return err < 0 ? err : 0;
	start = trace_column_int(stmt, 0);
	real = trace_column_int(stmt, 1);
	if (start < 0 || start > TIME_MAX)
		return 0;
	readings->command_ns = start;
	if (trace_column_type(stmt, 1) == TRACE_INTEGER && real >= 0 && real < TIME_MAX)
		readings->command_end_ns = start + real;
	return 0;
}

int readings_load(struct trace *trace, int64_t run, struct readings *ret_readings)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	struct readings readings = {};
	int err = load_command(trace, run, &readings);

	err = err ?: trace_prepare(trace,
		"SELECT seq, cpu_ns, delay_ns FROM client_cpu WHERE run = ? ORDER BY seq", &stmt, NULL);
	err = err ?: trace_bind_int(stmt, 1, run);
	while (err == 0 && (err = trace_step(stmt)) == 1)
		err = add(&readings, stmt);
	if (err < 0) {
		readings_free(&readings);
		return err;
	}
	*ret_readings = readings;
	return 0;
}

void readings_free(struct readings *readings)
{
	free(readings->all);
	*readings = (struct readings){};
}

static int by_seq(const void *key, const void *element)
{
	int64_t seq = *(const int64_t *)key;
	const struct reading *reading = element;

	return (seq > reading->seq) - (seq < reading->seq);
}

const struct reading *readings_of(const struct readings *readings, int64_t seq)
{
	return readings->count ? bsearch(&seq, readings->all, readings->count, sizeof(*readings->all), by_seq) : NULL;
}
