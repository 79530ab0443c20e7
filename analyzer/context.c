/* SPDX-License-Identifier: MIT */
/* context.c - what commands ask of their invocation; declared in command.h. */
#include <string.h>

#include "base.h"
#include "command.h"

struct table *context_table(const struct context *context)
{
	struct table *table = table_new(context->format, !context->common.no_color, stdout);

	if (!table)
		log_errno(ENOMEM, "%s", context->command->name);
	return table;
}

int context_print(struct table *table)
{
	int err = table_print(table);

	table_free(table);
	if (err < 0 && !ferror(stdout)) /* else main() says why */
		log_errno(err, "cannot write the result");
	return err;
}

int context_trace_error(const struct context *context, int err, const char *text)
{
	log_msg("%s: %s: %s", context->args[0], text,
		err == -ENOMEM || !trace_error(context->trace)[0] ? strerror(-err)
								  : trace_error(context->trace));
	return err;
}

static bool is_among(const int64_t *runs, size_t count, int64_t run)
{
	for (size_t i = 0; i < count; i++)
		if (runs[i] == run)
			return true;
	return false;
}

int context_runs(const struct context *context, int64_t **ret_runs)
{
	const struct text_list *names = &context->common.runs;
	size_t count = names->count ?: 1, found = 0;
	auto_free int64_t *runs = calloc(count, sizeof(*runs));

	if (!runs)
		return log_errno(ENOMEM, "%s", context->args[0]);
	for (size_t i = 0; i < count; i++) {
		const char *name = names->count ? names->items[i] : NULL;
		int err = trace_run_find(context->trace, name, &runs[i]);

		if (err == -ENOENT && name)
			log_msg("%s: no run has the number or label '%s'; 'fstape runs' lists them",
				context->args[0], name);
		else if (err == -ENOENT)
			log_msg("%s: there are no runs in it yet; 'fstape record' makes one",
				context->args[0]);
		else if (err < 0)
			context_trace_error(context, err, "cannot read the runs");
		if (err < 0)
			return err;
		/* named twice, by number and label perhaps: it is one run */
		if (!is_among(runs, found, runs[i]))
			runs[found++] = runs[i];
	}
	*ret_runs = steal_ptr(&runs);
	return (int)found;
}
