/* SPDX-License-Identifier: MIT */
#include "op_stats.h"

#include <string.h>

#include "base.h"

/* The times of one operation, as they come. */
struct samples {
	int64_t *ns[CLOCK_KINDS];
	size_t count, size;
	int64_t errors;
};

static int add_sample(struct samples *samples, int64_t dur_ns, int64_t fs_ns)
{
	if (samples->count == samples->size) {
		size_t size = samples->size ? samples->size * 2 : 1024;

		for (size_t k = 0; k < CLOCK_KINDS; k++) {
			int64_t *grown = reallocarray(samples->ns[k], size, sizeof(*grown));

			if (!grown)
				return -ENOMEM;
			samples->ns[k] = grown;
		}
		samples->size = size;
	}
	samples->ns[CLOCK_DUR][samples->count] = dur_ns;
	samples->ns[CLOCK_FS][samples->count++] = fs_ns;
	return 0;
}

static int read_samples(struct trace *trace, int64_t run, struct samples by_op[static OP_COUNT])
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(trace, "SELECT op, dur_ns, fs_ns, result FROM op WHERE run = ?", &stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, run);
	while (err == 0 && (err = trace_step(stmt)) == 1) {
		int64_t code = trace_column_int(stmt, 0);

		err = 0;
		if (code < 0 || code >= OP_COUNT || !op_get((unsigned int)code))
			continue; /* not of a recorder of ours */
		by_op[code].errors += trace_column_int(stmt, 3) < 0;
		err = add_sample(&by_op[code], trace_column_int(stmt, 1), trace_column_int(stmt, 2));
	}
	return err;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int64_t nearest_rank(const int64_t *sorted, size_t count, unsigned int percent)
{
	size_t rank = (count * percent + 99) / 100;

	return sorted[rank ? rank - 1 : 0];
}

static struct time_stats describe(int64_t *ns, size_t count)
{
	struct time_stats stats = {};

	array_sort(ns, count, sizeof(*ns), by_value);
	for (size_t i = 0; i < count; i++)
		stats.total_ns = add_clamped(stats.total_ns, ns[i]);
	stats.mean_ns = (double)stats.total_ns / (double)count;
	stats.p50_ns = nearest_rank(ns, count, 50);
	stats.p95_ns = nearest_rank(ns, count, 95);
	stats.p99_ns = nearest_rank(ns, count, 99);
	stats.max_ns = ns[count - 1];
	return stats;
}

static void summarise(struct samples by_op[static OP_COUNT], struct run_stats *stats)
{
	for (unsigned int code = 0; code < OP_COUNT; code++) {
		struct samples *samples = &by_op[code];
		struct op_stats *op = &stats->ops[stats->n_ops];

		if (!samples->count)
			continue;
		*op = (struct op_stats){ .code = code,
			.name = op_get(code)->name,
			.count = (int64_t)samples->count,
			.errors = samples->errors };
		for (size_t k = 0; k < CLOCK_KINDS; k++) {
			op->time[k] = describe(samples->ns[k], samples->count);
			stats->total_ns[k] = add_clamped(stats->total_ns[k], op->time[k].total_ns);
		}
		stats->count += op->count;
		stats->errors += op->errors;
		stats->n_ops++;
	}
	for (size_t i = 0; i < stats->n_ops; i++)
		for (size_t k = 0; k < CLOCK_KINDS; k++)
			if (stats->total_ns[k])
				stats->ops[i].time[k].share =
					(double)stats->ops[i].time[k].total_ns / (double)stats->total_ns[k];
}

static int by_total(const void *a, const void *b, void *order)
{
	const struct op_stats *x = a, *y = b;
	enum op_clock k = *(enum op_clock *)order;
	int64_t tx = x->time[k].total_ns, ty = y->time[k].total_ns;

	return tx != ty ? (tx < ty) - (tx > ty) : strcmp(x->name, y->name);
}

int run_stats_read(struct trace *trace, int64_t run, enum op_clock order, struct run_stats *ret_stats)
{
	auto_free struct samples *by_op = calloc(OP_COUNT, sizeof(*by_op));
	int err = by_op ? read_samples(trace, run, by_op) : -ENOMEM;

	if (err == 0) {
		*ret_stats = (struct run_stats){};
		summarise(by_op, ret_stats);
		array_sort_r(ret_stats->ops, ret_stats->n_ops, sizeof(ret_stats->ops[0]), by_total, &order);
	}
	for (size_t i = 0; by_op && i < OP_COUNT; i++)
		for (size_t k = 0; k < CLOCK_KINDS; k++)
			free(by_op[i].ns[k]);
	return err;
}
