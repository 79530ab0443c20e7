/* SPDX-License-Identifier: MIT */
/* page_host.c - what the machine did meanwhile: requests to devices, flushes and commits. */
#include <inttypes.h>
#include <string.h>

#include "base.h"
#include "page_internal.h"

#define MAX_COUNTERS	CHART_SERIES
#define SAMPLE_EVERY_NS 100000000 /* as host.h says: a change happened at most so long before it was seen */

/* Some counters of host_sample as increments per interval of time. */
struct counters {
	char *names[MAX_COUNTERS];
	double values[MAX_COUNTERS][PROFILE_STEPS];
	size_t count;
};

/* `added` came about between the sample before and the one at `time`. */
static void add_increment(struct counters *counters, struct chart_time axis, double time, double since, double added)
{
	double step = (double)axis.length_ns / PROFILE_STEPS;
	double from = (time - SAMPLE_EVERY_NS > since ? time - SAMPLE_EVERY_NS : since) - (double)axis.begin_ns;
	double to = time - (double)axis.begin_ns;
	double *values = counters->values[counters->count - 1];

	if (to <= from)
		return;
	for (size_t i = from > 0 ? (size_t)(from / step) : 0; i < PROFILE_STEPS && (double)i * step < to; i++) {
		double begin = from > (double)i * step ? from : (double)i * step;
		double end = to < (double)(i + 1) * step ? to : (double)(i + 1) * step;

		if (end > begin)
			values[i] += added * (end - begin) / (to - from);
	}
}

/* Rows come by counter and time. */
static int read_counters(const struct page *page, const struct page_run *run, const char *condition,
	struct counters *counters)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	struct strbuf auto_strbuf sql = {};
	int64_t counter = -1;
	double time = 0, value = 0;
	int err;

	strbuf_addf(&sql,
		"SELECT counter, substr(source, instr(source, ':') + 1) || ' ' || name, time_ns, value FROM host_sample"
		" WHERE run = ? AND kind = 'counter' AND (%s) ORDER BY counter, time_ns",
		condition);
	err = sql.failed ? -ENOMEM : trace_prepare(page->trace, sql.buf, &stmt, NULL);
	err = err ?: trace_bind_int(stmt, 1, run->info.id);
	while (err == 0 && (err = trace_step(stmt)) == 1) {
		err = 0;
		if (trace_column_int(stmt, 0) != counter) {
			if (counters->count == MAX_COUNTERS)
				break;
			counter = trace_column_int(stmt, 0);
			counters->names[counters->count++] = strdup(trace_column_text(stmt, 1) ?: "");
			if (!counters->names[counters->count - 1])
				return -ENOMEM;
		} else if (trace_column_double(stmt, 3) > value) {
			add_increment(counters, page_time(run), trace_column_double(stmt, 2), time,
				trace_column_double(stmt, 3) - value);
		}
		time = trace_column_double(stmt, 2);
		value = trace_column_double(stmt, 3);
	}
	return err;
}

static bool any_value(const struct counters *counters)
{
	for (size_t i = 0; i < counters->count * PROFILE_STEPS; i++) {
		if ((&counters->values[0][0])[i] > 0)
			return true;
	}
	return false;
}

static int write_rates(const struct page *page, const struct page_run *run, const char *condition, struct chart chart)
{
	auto_free struct counters *counters = calloc(1, sizeof(*counters));
	double step = (double)page_time(run).length_ns / PROFILE_STEPS;
	int err = counters ? read_counters(page, run, condition, counters) : -ENOMEM;

	if (err == 0 && any_value(counters)) {
		for (size_t i = 0; i < counters->count * PROFILE_STEPS; i++)
			(&counters->values[0][0])[i] *= 1e9 / step;
		chart_area(page->out, &chart,
			&(struct matrix){ .rows = counters->count,
				.columns = PROFILE_STEPS,
				.row_names = (const char *const *)counters->names,
				.values = &counters->values[0][0] },
			page_time(run), 1);
	}
	for (size_t i = 0; counters && i < counters->count; i++)
		free(counters->names[i]);
	return err;
}

int page_host(const struct page *page, const struct page_run *run)
{
	static const char waits[] =
		"(source LIKE 'disk:%' AND name = 'flushes') OR (source LIKE 'jbd2:%' AND name = 'transactions')"
		" OR (source LIKE 'xfs:%' AND name = 'log_force') OR (source LIKE 'btrfs:%' AND name = 'commits')";
	char id[48];
	int err = write_rates(page, run, "source LIKE 'disk:%' AND name IN ('reads', 'writes')",
		(struct chart){ .id = page_chart_id(run, "disk", id),
			.title = "Requests to the devices",
			.subtitle = "Reads and writes that the kernel sent to the devices below the filesystem, for "
				    "anybody.",
			.description = "Stacked areas of reads and writes per second for each device over time.",
			.unit = UNIT_RATE });

	return err ?: write_rates(page, run, waits,
			      (struct chart){ .id = page_chart_id(run, "flushes", id),
				      .title = "Flushes and commits",
				      .subtitle = "Flushes of a device's cache, and commits of the filesystem's journal "
						  "or tree, which others may have to wait for.",
				      .description = "Stacked areas of flushes and commits per second over time.",
				      .unit = UNIT_RATE });
}
