/* SPDX-License-Identifier: MIT */
#include "report.h"

#include <stdio.h>
#include <string.h>

#include "base.h"

const struct report *report_find(const char *name)
{
	for (const struct report *report = reports; report->name; report++)
		if (strcmp(report->name, name) == 0)
			return report;
	return NULL;
}

/* The value of a parameter that `set` has last, or its preset. */
static const char *value_of(const struct report_param *param, const struct text_list *set)
{
	size_t len = strlen(param->name);

	for (size_t i = set ? set->count : 0; i > 0; i--) {
		const char *text = set->items[i - 1];

		if (strncmp(text, param->name, len) == 0 && text[len] == '=')
			return text + len + 1;
	}
	return param->preset;
}

static int check_names(const struct report *report, const struct text_list *set)
{
	for (size_t i = 0; set && i < set->count; i++) {
		const struct report_param *param = report->params;
		size_t len = strcspn(set->items[i], "=");

		while (param->name &&
			(strncmp(param->name, set->items[i], len) != 0 || param->name[len]))
			param++;
		if (param->name && set->items[i][len])
			continue;
		log_msg("report %s: '%s' is not NAME=VALUE of one of its parameters; 'fstape query "
			"--list' has them",
			report->name, set->items[i]);
		return -EDOM;
	}
	return 0;
}

static int bind_param(struct trace_stmt *stmt, const struct report *report,
	const struct report_param *param, const char *value)
{
	char name[64];
	int64_t number;
	int index;

	snprintf(name, sizeof(name), ":%s", param->name);
	index = trace_parameter(stmt, name);
	if (parse_int(param->preset, &number) < 0)
		return trace_bind_text(stmt, index, value);
	if (parse_int(value, &number) < 0) {
		log_msg("report %s: %s takes a number, not '%s'", report->name, param->name, value);
		return -EDOM;
	}
	return trace_bind_int(stmt, index, number);
}

int report_prepare(struct trace *trace, const struct report *report, int64_t run,
	const struct text_list *set, struct trace_stmt **ret_stmt)
{
	struct trace_stmt auto_stmt *stmt = NULL;
	int err = check_names(report, set);

	err = err ?: trace_prepare(trace, report->sql, &stmt, NULL);
	err = err ?: trace_bind_int(stmt, trace_parameter(stmt, ":run"), run);
	for (const struct report_param *param = report->params; param->name && err == 0; param++)
		err = bind_param(stmt, report, param, value_of(param, set));
	if (err == 0)
		*ret_stmt = steal_ptr(&stmt);
	return err;
}

static bool ends_in(const char *name, const char *end)
{
	size_t len = strlen(name), end_len = strlen(end);

	return len >= end_len && strcmp(name + len - end_len, end) == 0;
}

enum column_kind report_column(const char *name, char title[static REPORT_TITLE_LEN])
{
	enum column_kind kind = COLUMN_ANY;
	size_t len = strlen(name);

	if (ends_in(name, "_ns")) {
		kind = COLUMN_DURATION;
		len -= strlen("_ns");
	} else if (ends_in(name, "share")) {
		kind = COLUMN_SHARE;
	} else if (strstr(name, "_per_") || ends_in(name, "_ratio")) {
		kind = COLUMN_RATIO;
	}
	snprintf(title, REPORT_TITLE_LEN, "%.*s", (int)len, name);
	for (char *at = title; (at = strchr(at, '_')); at++)
		*at = ' ';
	return kind;
}

void report_add_columns(struct table *table, const struct trace_stmt *stmt)
{
	for (int i = 0; i < trace_columns(stmt); i++) {
		const char *name = trace_column_name(stmt, i);
		char title[REPORT_TITLE_LEN];
		enum column_kind kind = report_column(name, title);

		table_add_column(table, name, title, kind, 0);
	}
}
