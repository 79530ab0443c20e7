/* SPDX-License-Identifier: MIT */
/* main.c - the list of commands, and everything that they have in common around their run functions. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <locale.h>

#include "base.h"
#include "command.h"
#include "sink.h"

extern const struct command cmd_record, cmd_runs, cmd_stats, cmd_git, cmd_query, cmd_report, cmd_export, cmd_compare,
	cmd_replay, cmd_bench, cmd_recover, cmd_check;

/* In the order of help. */
static const struct command *const commands[] = {
	&cmd_record,
	&cmd_runs,
	&cmd_stats,
	&cmd_git,
	&cmd_query,
	&cmd_report,
	&cmd_export,
	&cmd_compare,
	&cmd_replay,
	&cmd_bench,
	&cmd_recover,
	&cmd_check,
};

static const struct option general_options[] = {
	{ "quiet", NULL, "no progress and no summaries, only results and errors", .type = OPTION_FLAG, .letter = 'q',
		.offset = offsetof(struct common_options, quiet) },
	{ "no-color", NULL, "no colours (also when NO_COLOR is set)", .type = OPTION_FLAG,
		.offset = offsetof(struct common_options, no_color) },
	{ "help", NULL, "this text", .type = OPTION_FLAG, .letter = 'h', .offset = offsetof(struct common_options, help) },
	{ "version", NULL, "the version", .type = OPTION_FLAG, .offset = offsetof(struct common_options, version) },
	{},
};

static const struct option run_options[] = {
	{ "run", "N|LABEL", "a run's number or label; may be repeated (default: the last run)", .type = OPTION_LIST,
		.offset = offsetof(struct common_options, runs) },
	{},
};

static const struct option format_options[] = {
	{ "format", "table|csv|json", "how results are written; csv and json have times in ns", "table",
		.type = OPTION_CHOICE, .offset = offsetof(struct common_options, format) },
	{},
};

/* The tables that apply to one command, in the order of its help. */
struct command_options {
	struct option_set sets[4];
	size_t count;
};

static void add_set(struct command_options *all, const struct option *table, void *values)
{
	if (table)
		all->sets[all->count++] = (struct option_set){ table, values };
}

static struct command_options command_options(const struct command *command, struct context *context)
{
	struct command_options all = {};

	add_set(&all, command->options, context->options);
	add_set(&all, command->flags & COMMAND_RUN ? run_options : NULL, &context->common);
	add_set(&all, command->flags & COMMAND_FORMAT ? format_options : NULL, &context->common);
	add_set(&all, general_options, &context->common);
	return all;
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	return NULL;
}

static void print_commands(FILE *out)
{
	fprintf(out, "Usage: fstape COMMAND [OPTION...] ARGUMENT...\n"
		     "       fstape help [COMMAND]\n\n"
		     "Records what programs do on a filesystem, and answers questions about it.\n\n"
		     "Commands:\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		fprintf(out, "  %-10s", commands[i]->name);
		options_wrap(commands[i]->summary, 12, 12, out);
	}
	fprintf(out, "\nDB is the database file. 'fstape COMMAND --help' describes a command.\n");
}

static void print_help(const struct command *command, FILE *out)
{
	struct context context = {};
	struct command_options all = command_options(command, &context);

	fprintf(out, "Usage: fstape %s [OPTION...] %s\n\n", command->name, command->arguments);
	options_wrap(command->summary, 0, 0, out);
	if (command->details) {
		fputc('\n', out);
		options_wrap(command->details, 0, 0, out);
	}
	fprintf(out, "\nOptions:\n");
	for (size_t i = 0; i < all.count; i++)
		options_help(all.sets[i].table, out);
}

static void print_version(FILE *out)
{
	fprintf(out, "fstape %s (database format %d, SQLite %s)\n", FSTAPE_VERSION, TRACE_VERSION,
		trace_sqlite_version());
}

/* A hint that fits, below the message that said what is wrong. */
static int usage_error(const struct command *command)
{
	if (command)
		log_msg("see 'fstape %s --help'", command->name);
	else
		log_msg("see 'fstape help'");
	return STATUS_USAGE;
}

static int check_words(const struct command *command, size_t count)
{
	if (count >= command->min_args && (!command->max_args || count <= command->max_args))
		return 0;
	log_msg("%s: %s arguments; usage: fstape %s [OPTION...] %s", command->name,
		count < command->min_args ? "too few" : "too many", command->name, command->arguments);
	return -EINVAL;
}

static int open_and_run(struct context *context)
{
	const struct command *command = context->command;
	int failed = command->failure_status ?: STATUS_FAILED;
	int status;

	if (command->trace != NEED_NO_TRACE &&
		trace_open(context->args[0], command->trace == NEED_TRACE_READ ? TRACE_READ : TRACE_WRITE,
			&context->trace) < 0)
		return failed;
	status = command->run(context);
	trace_close(context->trace);
	return status < 0 ? failed : status;
}

static int parse_and_run(struct context *context, const struct command_options *all, char **argv)
{
	const struct command *command = context->command;
	int words = options_init(all->sets, all->count);

	if (words == 0)
		words = options_parse(all->sets, all->count, argv, command->command_after);
	if (words < 0)
		return words == -EINVAL ? usage_error(command) : STATUS_FAILED;
	if (context->common.help) {
		print_help(command, stdout);
		return STATUS_OK;
	}
	if (context->common.version) {
		print_version(stdout);
		return STATUS_OK;
	}
	if (check_words(command, (size_t)words) < 0)
		return usage_error(command);
	context->args = argv;
	context->n_args = (size_t)words;
	context->common.no_color |= getenv("NO_COLOR") && *getenv("NO_COLOR");
	if (context->common.format && strcmp(context->common.format, "csv") == 0)
		context->format = TABLE_CSV;
	else if (context->common.format && strcmp(context->common.format, "json") == 0)
		context->format = TABLE_JSON;
	return open_and_run(context);
}

static int run_command(const struct command *command, char **argv)
{
	struct context context = { .command = command };
	auto_free void *options = calloc(1, command->options_size ?: 1);
	struct command_options all;
	int status;

	if (!options) {
		log_errno(ENOMEM, "%s", command->name);
		return STATUS_FAILED;
	}
	context.options = options;
	all = command_options(command, &context);
	status = parse_and_run(&context, &all, argv);
	options_free(all.sets, all.count);
	return status;
}

static int dispatch(char **argv)
{
	const struct command *command;
	bool help = *argv && strcmp(*argv, "help") == 0;

	if (!*argv) {
		log_msg("which command?");
		return usage_error(NULL);
	}
	if (strcmp(*argv, "--version") == 0) {
		print_version(stdout);
		return STATUS_OK;
	}
	if (strcmp(*argv, "--help") == 0 || strcmp(*argv, "-h") == 0 || (help && !argv[1])) {
		print_commands(stdout);
		return STATUS_OK;
	}
	command = find_command(argv[help]);
	if (!command) {
		log_msg("'%s' is not a command", argv[help]);
		return usage_error(NULL);
	}
	if (help) {
		print_help(command, stdout);
		return STATUS_OK;
	}
	return run_command(command, argv + 1);
}

/* Output that did not arrive is a failure; a reader that has seen enough (head(1)) is no news. */
static int finish_stdout(struct sink *sink, int status)
{
	char name[PATH_MAX] = "";
	bool named = readlink("/proc/self/fd/1", name, sizeof(name) - 1) > 0 && name[0] == '/';
	int err = sink_close(sink, stdout);

	if (err == 0)
		return status;
	if (err != -EPIPE && named)
		log_errno(err, "cannot write to standard output, %s", name);
	else if (err != -EPIPE)
		log_errno(err, "cannot write to standard output");
	return status ?: STATUS_FAILED;
}

int main(int argc, char **argv)
{
	struct sink sink;
	FILE *out;
	int status;

	setlocale(LC_CTYPE, ""); /* widths of what names consist of */
	log_set_program("fstape");
	out = sink_open(&sink, STDOUT_FILENO);
	if (!out) {
		log_errno(errno, "standard output");
		return STATUS_FAILED;
	}
	stdout = out;
	status = dispatch(argc ? argv + 1 : argv);
	return finish_stdout(&sink, status);
}
