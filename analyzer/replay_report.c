/* SPDX-License-Identifier: MIT */
#include "replay_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base.h"
#include "replay_load.h"
#include "replay_prediction.h"
#include "replay_order.h"

#define MISMATCHES_SHOWN 20 /* in text, unless they are asked for */

static const char *const how_names[ACTION_HOW_COUNT] = {
	[ACTION_ISSUED] = "issued",
	[ACTION_FORGET] = "not issued: the kernel's cache dropping inodes",
	[ACTION_DUPLICATE] = "not issued: the kernel's own look-up before a name is made",
	[ACTION_KERNEL] = "not issued: the kernel's own look for capabilities",
	[ACTION_UNREACHABLE] = "not issued: an object without a name that nobody has open",
	[ACTION_NOT_RECORDED] = "not issued: what it takes is not recorded",
	[ACTION_NOT_ALLOWED] = "not issued: needs --allow-setid",
	[ACTION_TOO_LONG] = "not issued: a name of more than 255 bytes, which was refused",
};

/* --- summary ----------------------------------------------------------------------------------------------------- */

/* A row of it: a stable name for programs, words for people. */
static void row_real(struct table *table, const char *name, const char *words, double value)
{
	table_text(table, name);
	table_text(table, words);
	table_real(table, value);
	table_end_row(table);
}

static struct table *value_table(const struct context *context)
{
	struct table *table = context_table(context);

	if (table) {
		table_add_column(table, "name", NULL, COLUMN_TEXT, COLUMN_DATA_ONLY);
		table_add_column(table, "what", NULL, COLUMN_TEXT, 0);
		table_add_column(table, "value", NULL, COLUMN_ANY, 0);
	}
	return table;
}

static int print_summary(const struct context *context, const struct plan *plan, const struct replay_result *result,
	const struct fidelity *f)
{
	struct table *table = value_table(context);

	if (!table)
		return -ENOMEM;
	replay_row(table, "recorded", "operations recorded", (int64_t)f->all.recorded);
	replay_row(table, "issued", "issued", (int64_t)f->all.issued);
	replay_row(table, "matched", "with the recorded result", (int64_t)f->all.matched);
	replay_row(table, "mismatched", "with another result", (int64_t)f->all.mismatched);
	row_real(table, "match_rate", "match rate (1: all)",
		f->all.issued ? (double)f->all.matched / (double)f->all.issued : 1);
	replay_row(table, "waits", "waits compiled", (int64_t)f->waits);
	replay_row(table, "violations", "order violations", (int64_t)f->violations);
	replay_row(table, "threads", "threads", plan->n_threads);
	row_real(table, "concurrency", "operations at once, mean", f->concurrency);
	row_real(table, "original_concurrency", "... when recorded", f->original_concurrency);
	replay_row(table, "most_at_once", "operations at once, most", f->most_at_once);
	replay_row(table, "wall_ns", "wall time, ns", result->wall_ns);
	replay_row(table, "original_wall_ns", "... when recorded, ns", f->original_span_ns);
	replay_row(table, "fs_ns", "in the filesystem, ns", f->all.fs_ns);
	replay_row(table, "original_fs_ns", "... when recorded, ns", f->all.original_fs_ns);
	replay_row(table, "idle_ns", "pauses kept, ns", (int64_t)f->idle_ns);
	if (result->pace > 0)
		replay_time_rows(table, plan, result);
	replay_row(table, "own_ns", "the replayer's own time in operations, ns", f->all.dur_ns - f->all.fs_ns);
	replay_row(table, "own_p50_ns", "... of one operation, median, ns", f->own_p50_ns);
	return context_print(table);
}

/* --- operations -------------------------------------------------------------------------------------------------- */

static void operation_row(struct table *table, const char *name, const struct op_fidelity *f)
{
	int64_t issued = (int64_t)f->issued;

	table_text(table, name);
	table_int(table, (int64_t)f->recorded);
	table_int(table, issued);
	table_int(table, (int64_t)f->matched);
	table_int(table, (int64_t)f->mismatched);
	table_int(table, f->fs_ns);
	table_int(table, f->original_fs_ns);
	if (issued) {
		table_int(table, f->fs_ns / issued);
		table_int(table, f->original_fs_ns / issued);
	} else { /* no time of it is known here, and zero would be one */
		table_null(table);
		table_null(table);
	}
	if (f->original_fs_ns > 0)
		table_real(table, (double)f->fs_ns / (double)f->original_fs_ns);
	else
		table_null(table);
	table_end_row(table);
}

static int print_operations(const struct context *context, const struct fidelity *f)
{
	static const struct table_heading headings[] = {
		{ "op", NULL, COLUMN_TEXT },
		{ "recorded", NULL, COLUMN_INT },
		{ "issued", NULL, COLUMN_INT },
		{ "matched", NULL, COLUMN_INT },
		{ "mismatched", "differ", COLUMN_INT },
		{ "fs_ns", "fs total", COLUMN_DURATION },
		{ "original_fs_ns", "recorded", COLUMN_DURATION },
		{ "fs_mean_ns", "fs mean", COLUMN_DURATION },
		{ "original_fs_mean_ns", "recorded", COLUMN_DURATION },
		{ "ratio", NULL, COLUMN_RATIO },
	};
	struct table *table = context_table(context);

	if (!table)
		return -ENOMEM;
	table_add_columns(table, headings, ARRAY_SIZE(headings));
	for (unsigned int op = 0; op < OP_COUNT; op++)
		if (f->ops[op].recorded)
			operation_row(table, op_get(op)->name, &f->ops[op]);
	if (context->format == TABLE_TEXT)
		operation_row(table, "all", &f->all);
	return context_print(table);
}

/* --- mismatches -------------------------------------------------------------------------------------------------- */

static void result_cell(struct table *table, const struct action *a, int64_t result)
{
	char name[16], text[32];
	enum op_reply reply = op_get(a->op)->reply;
	bool count = reply == REPLY_COUNT || reply == REPLY_BUF || reply == REPLY_XATTR || reply == REPLY_LINK ||
		     reply == REPLY_LSEEK;

	if (result < 0)
		table_text(table, errno_name((int)-result, name));
	else if (!count)
		table_text(table, "ok");
	else {
		snprintf(text, sizeof(text), "%" PRId64, result);
		table_text(table, text);
	}
}

static int mismatch_row(const struct context *context, struct table *table, const struct plan *plan,
	const struct action *a, const struct outcome *o)
{
	auto_free char *path = NULL;
	int err = a->path ? path_text(context->trace, plan->run, a->path, &path) : 0;

	if (err < 0 && err != -ENOENT)
		return context_trace_error(context, err, "cannot read a path");
	table_int(table, a->seq);
	table_text(table, op_get(a->op)->name);
	table_text(table, path);
	if (o->state == OUTCOME_RESULT) {
		result_cell(table, a, a->result);
		result_cell(table, a, o->result);
	} else {
		table_text(table, o->state == OUTCOME_TYPE ? "the recorded type" : "the recorded entries");
		table_text(table, o->state == OUTCOME_TYPE ? "another type" : "other entries");
	}
	table_end_row(table);
	return 0;
}

static int print_mismatches(
	const struct context *context, const struct plan *plan, const struct replay_result *result, uint64_t limit)
{
	static const struct table_heading headings[] = {
		{ "seq", NULL, COLUMN_INT },
		{ "op", NULL, COLUMN_TEXT },
		{ "path", NULL, COLUMN_TEXT },
		{ "expected", NULL, COLUMN_TEXT },
		{ "got", NULL, COLUMN_TEXT },
	};
	struct table *table = context_table(context);
	uint64_t shown = 0;
	int err = 0;

	if (!table)
		return -ENOMEM;
	table_add_columns(table, headings, ARRAY_SIZE(headings));
	for (uint32_t i = 1; i <= plan->n_actions && shown < limit && err == 0; i++) {
		const struct outcome *o = &result->outcomes[i];

		if (o->state == OUTCOME_NONE || o->state == OUTCOME_MATCH)
			continue;
		err = mismatch_row(context, table, plan, &plan->actions[i], o);
		shown++;
	}
	if (err < 0) {
		table_free(table);
		return err;
	}
	return context_print(table);
}

static int print_all(const struct context *context, const struct plan *plan, const struct replay_result *result,
	const struct fidelity *f)
{
	char wall[24], original[24], idle[24];
	double rate = f->all.issued ? 100.0 * (double)f->all.matched / (double)f->all.issued : 100;
	int err = print_operations(context, f);

	if (err < 0)
		return err;
	printf("\n%" PRIu64 " of %" PRIu64 " results as recorded (%s%.*f%%); %" PRIu64 " of %" PRIu64
	       " waits violated\n",
		f->all.matched, f->all.issued, "", f->all.mismatched ? 3 : 0,
		f->all.mismatched && rate > 99.999 ? 99.999 : rate, f->violations, f->waits);
	printf("%s, recorded %s; pauses kept %s; %u threads, operations at once %.2f (recorded %.2f), at most %u\n",
		format_duration(result->wall_ns, wall), format_duration(f->original_span_ns, original),
		format_duration((int64_t)f->idle_ns, idle), plan->n_threads, f->concurrency, f->original_concurrency,
		f->most_at_once);
	if (result->pace > 0)
		replay_time_print(plan, result, f);
	if (!f->all.mismatched)
		return 0;
	printf("\nResults that differ%s:\n",
		f->all.mismatched > MISMATCHES_SHOWN ? " (the first 20; --show mismatches has all)" : "");
	return print_mismatches(context, plan, result, MISMATCHES_SHOWN);
}

int replay_report(const struct context *context, const struct plan *plan, const struct replay_result *result,
	const struct fidelity *fidelity, enum replay_show show)
{
	switch (show) {
	case SHOW_ALL:
		return print_all(context, plan, result, fidelity);
	case SHOW_SUMMARY:
		return print_summary(context, plan, result, fidelity);
	case SHOW_OPERATIONS:
		return print_operations(context, fidelity);
	case SHOW_MISMATCHES:
		return print_mismatches(context, plan, result, UINT64_MAX);
	}
	return -EINVAL;
}

int replay_report_plan(const struct context *context, const struct plan *plan)
{
	static const char *const how_fields[ACTION_HOW_COUNT] = { "issued", "forget", "duplicate", "kernel",
		"unreachable", "not_recorded", "not_allowed", "too_long" };
	struct table *table = value_table(context);
	char name[40], words[160];

	if (!table)
		return -ENOMEM;
	replay_row(table, "operations", "operations", plan->n_actions);
	for (int how = 0; how < ACTION_HOW_COUNT; how++)
		replay_row(table, how_fields[how], how_names[how], (int64_t)plan->counts.how[how]);
	replay_row(table, "recorded_threads", "threads recorded", plan->recorded_threads);
	replay_row(table, "threads", "threads of the replay", plan->n_threads);
	for (int rule = 0; rule < RULE_COUNT; rule++) {
		snprintf(name, sizeof(name), "waits_%s", wait_rule_name(rule));
		snprintf(words, sizeof(words), "waits by %s: %s", wait_rule_name(rule), wait_rule_reason(rule));
		replay_row(table, name, words, (int64_t)plan->counts.waits[rule]);
	}
	replay_row(table, "reordered", "took effect after one that arrived later", (int64_t)plan->counts.reordered);
	replay_row(table, "ambiguous", "results that no order explains", (int64_t)plan->counts.ambiguous);
	replay_row(table, "bytes_written", "bytes written, at most", (int64_t)plan->counts.bytes_written);
	replay_pace_rows(table, plan);
	return context_print(table);
}

/* --- explain ----------------------------------------------------------------------------------------------------- */

/* The ids of paths with this text, which may recur; `table` counts them by being set. */
static int paths_called(
	const struct context *context, const struct plan *plan, const char *text, struct idmap *ret_ids)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = trace_prepare(context->trace, "SELECT id FROM path WHERE run = ? AND path = ?", &stmt, NULL);

	err = err ?: trace_bind_int(stmt, 1, plan->run);
	err = err ?: trace_bind_text(stmt, 2, text);
	while (err == 0 && (err = trace_step(stmt)) == 1)
		err = idmap_set(ret_ids, (uint64_t)trace_column_int(stmt, 0), 1);
	return err < 0 ? context_trace_error(context, err, "cannot read the paths") : 0;
}

static void explain_row(
	struct table *table, const struct plan *plan, const struct action *a, const char *rule, uint32_t before)
{
	const struct action *other = before ? &plan->actions[before] : NULL;
	char name[16];

	table_int(table, a->seq);
	table_text(table, op_get(a->op)->name);
	table_text(table, a->result < 0 ? errno_name((int)-a->result, name) : NULL);
	table_int(table, a->thread);
	table_text(table, a->how == ACTION_ISSUED ? NULL : how_names[a->how] + strlen("not issued: "));
	table_text(table, rule);
	if (other) {
		table_int(table, other->seq);
		table_text(table, op_get(other->op)->name);
		table_int(table, other->thread);
	} else {
		table_null(table);
		table_null(table);
		table_null(table);
	}
	table_end_row(table);
}

static void explain_action(struct table *table, const struct plan *plan, uint32_t number)
{
	const struct action *a = &plan->actions[number];
	uint32_t before = a->index ? plan->turns[plan->threads[a->thread].first + a->index - 1] : 0;

	explain_row(table, plan, a, before ? "thread" : NULL, before);
	for (uint32_t w = a->first_wait; w < plan->actions[number + 1].first_wait; w++)
		explain_row(table, plan, a, wait_rule_name(plan->wait_rules[w]), plan->waits[w]);
}

int replay_explain(const struct context *context, const struct plan *plan, const char *what)
{
	static const struct table_heading headings[] = {
		{ "seq", NULL, COLUMN_INT },
		{ "op", NULL, COLUMN_TEXT },
		{ "error", NULL, COLUMN_TEXT },
		{ "thread", NULL, COLUMN_INT },
		{ "not_issued", "not issued", COLUMN_TEXT },
		{ "rule", "waits by", COLUMN_TEXT },
		{ "wait_seq", "for seq", COLUMN_INT },
		{ "wait_op", "op", COLUMN_TEXT },
		{ "wait_thread", "thread", COLUMN_INT },
	};
	struct idmap ids = {};
	struct table *table;
	int64_t seq = 0;
	uint32_t found = 0;
	int err = 0;

	if (parse_int(what, &seq) < 0)
		err = paths_called(context, plan, what, &ids);
	table = err < 0 ? NULL : context_table(context);
	if (!table) {
		idmap_free(&ids);
		return err ?: -ENOMEM;
	}
	table_add_columns(table, headings, ARRAY_SIZE(headings));
	for (uint32_t i = 1; i <= plan->n_actions; i++) {
		const struct action *a = &plan->actions[i];

		if (a->seq != seq && !(a->path && idmap_get(&ids, a->path)) &&
			!(a->path2 && idmap_get(&ids, a->path2)))
			continue;
		explain_action(table, plan, i);
		found++;
	}
	idmap_free(&ids);
	if (!found) {
		table_free(table);
		log_msg("run %" PRId64 " has no operation with the number or path '%s'", plan->run, what);
		return -ENOENT;
	}
	return context_print(table);
}
