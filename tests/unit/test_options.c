/* SPDX-License-Identifier: MIT */
/* options.c: where options may stand, what values they take, what is refused, and how help looks. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "options.h"

struct values {
	bool flag, other;
	const char *text, *choice;
	struct text_list list;
	int64_t number, size;
};

static const struct option table[] = {
	{ "flag", NULL, "a flag", .type = OPTION_FLAG, .letter = 'f',
		.offset = offsetof(struct values, flag) },
	{ "other", NULL, "a flag", .type = OPTION_FLAG, .letter = 'o',
		.offset = offsetof(struct values, other) },
	{ "text", "TEXT", "a text", .type = OPTION_TEXT, .letter = 't',
		.offset = offsetof(struct values, text) },
	{ "choice", "one|two|twofold", "one of three", "two", .type = OPTION_CHOICE,
		.offset = offsetof(struct values, choice) },
	{ "list", "TEXT", "more than one", .type = OPTION_LIST, .offset = offsetof(struct values, list) },
	{ "number", "N", "a number", "7", .type = OPTION_INT, .min = -5, .max = 100,
		.offset = offsetof(struct values, number) },
	{ "size", "SIZE", "bytes", .type = OPTION_SIZE, .min = 1024,
		.offset = offsetof(struct values, size) },
	{},
};

/* A parsed command line; `words` is what options_parse() returned. */
struct parsed {
	struct values values;
	char *argv[16];
	int words;
};

static void parse(struct parsed *parsed, size_t command_after, ...)
{
	struct option_set set = { table, &parsed->values };
	va_list ap;
	size_t n = 0;

	*parsed = (struct parsed){};
	va_start(ap, command_after);
	while ((parsed->argv[n] = va_arg(ap, char *)))
		n++;
	va_end(ap);
	assert_int_equal(options_init(&set, 1), 0);
	parsed->words = options_parse(&set, 1, parsed->argv, command_after);
}

static void done(struct parsed *parsed)
{
	options_free(&(struct option_set){ table, &parsed->values }, 1);
	assert_null(parsed->values.list.items);
}

static void presets_stand_until_given(void **state)
{
	struct parsed p;

	(void)state;
	parse(&p, 0, "word", NULL);
	assert_int_equal(p.words, 1);
	assert_string_equal(p.values.choice, "two");
	assert_int_equal(p.values.number, 7);
	assert_null(p.values.text);
	assert_false(p.values.flag);
	done(&p);
	parse(&p, 0, "--choice=one", "--number", "-5", NULL);
	assert_int_equal(p.words, 0);
	assert_string_equal(p.values.choice, "one");
	assert_int_equal(p.values.number, -5);
	done(&p);
}

static void options_stand_anywhere(void **state)
{
	struct parsed p;

	(void)state;
	parse(&p, 0, "a", "-f", "b", "--list", "x", "-", "--list=y", "--text=", "c", NULL);
	assert_int_equal(p.words, 4);
	assert_string_equal(p.argv[0], "a");
	assert_string_equal(p.argv[1], "b");
	assert_string_equal(p.argv[2], "-");
	assert_string_equal(p.argv[3], "c");
	assert_null(p.argv[4]);
	assert_true(p.values.flag);
	assert_string_equal(p.values.text, "");
	assert_int_equal(p.values.list.count, 2);
	assert_string_equal(p.values.list.items[0], "x");
	assert_string_equal(p.values.list.items[1], "y");
	done(&p);
}

static void two_dashes_end_options(void **state)
{
	struct parsed p;

	(void)state;
	parse(&p, 0, "-f", "--", "-o", "--", NULL);
	assert_int_equal(p.words, 2);
	assert_string_equal(p.argv[0], "-o");
	assert_string_equal(p.argv[1], "--");
	assert_false(p.values.other);
	done(&p);
}

/* What follows the command is the command's, options and "--" included. */
static void a_command_keeps_its_options(void **state)
{
	struct parsed p;

	(void)state;
	parse(&p, 2, "-f", "db", "--text", "t", "dir", "-o", "git", "--text", "-f", "--", "x", NULL);
	assert_int_equal(p.words, 7);
	assert_string_equal(p.argv[2], "git");
	assert_string_equal(p.argv[3], "--text");
	assert_string_equal(p.argv[5], "--");
	assert_string_equal(p.values.text, "t");
	assert_true(p.values.other);
	done(&p);
	parse(&p, 2, "db", "dir", "--", "-f", NULL);
	assert_int_equal(p.words, 3);
	assert_string_equal(p.argv[2], "-f");
	assert_false(p.values.flag);
	done(&p);
}

static void short_options_join(void **state)
{
	struct parsed p;

	(void)state;
	parse(&p, 0, "-fotrest", NULL);
	assert_true(p.values.flag && p.values.other);
	assert_string_equal(p.values.text, "rest");
	done(&p);
	parse(&p, 0, "-ft", "next", NULL);
	assert_string_equal(p.values.text, "next");
	assert_int_equal(p.words, 0);
	done(&p);
}

static void what_is_wrong_is_refused(void **state)
{
	static const struct {
		const char *words[2];
		const char *message;
	} cases[] = {
		{ { "--nonsense" }, "unknown option --nonsense" },
		{ { "--fla" }, "unknown option --fla" },
		{ { "-fx" }, "unknown option -x" },
		{ { "--flag=yes" }, "--flag takes no value" },
		{ { "--text" }, "--text needs a value" },
		{ { "-t" }, "--text needs a value" },
		{ { "--choice", "three" }, "one|two|twofold" },
		{ { "--choice", "one|two" }, "one|two|twofold" },
		{ { "--choice", "fold" }, "one|two|twofold" },
		{ { "--choice=" }, "one|two|twofold" },
		{ { "--number", "101" }, "from -5 to 100" },
		{ { "--number", "-6" }, "from -5 to 100" },
		{ { "--number", "1x" }, "'1x'" },
		{ { "--number", "" }, "''" },
		{ { "--number", "99999999999999999999" }, "not a number" },
		{ { "--size", "1023" }, "not a size" },
		{ { "--size", "1KB" }, "not a size" },
		{ { "--size", "K" }, "not a size" },
		{ { "--size", "-1M" }, "not a size" },
		{ { "--size", "9999999999T" }, "not a size" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct parsed p;
		auto_free char *said = NULL;

		capture_begin(*state);
		parse(&p, 0, cases[i].words[0], cases[i].words[1], NULL);
		said = capture_end(*state);
		assert_int_equal(p.words, -EINVAL);
		assert_non_null(strstr(said, cases[i].message));
		done(&p);
	}
}

static void sizes(void **state)
{
	int64_t bytes;

	(void)state;
	assert_int_equal(parse_size("0", &bytes), 0);
	assert_int_equal(bytes, 0);
	assert_int_equal(parse_size("5k", &bytes), 0);
	assert_int_equal(bytes, 5 << 10);
	assert_int_equal(parse_size("64M", &bytes), 0);
	assert_int_equal(bytes, 64 << 20);
	assert_int_equal(parse_size("3G", &bytes), 0);
	assert_int_equal(bytes, 3LL << 30);
	assert_int_equal(parse_size("1T", &bytes), 0);
	assert_int_equal(bytes, 1LL << 40);
	assert_int_equal(parse_size("", &bytes), -EINVAL);
}

/* Every option once, with its default, in lines that fit. */
static void help_fits(void **state)
{
	auto_free char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	(void)state;
	options_help(table, out);
	options_wrap("a paragraph\n\nand one that is so long that it has to be broken into more than one "
		     "line, as its"
		     " words do not fit",
		4, 0, out);
	fclose(out);
	for (const struct option *option = table; option->name; option++) {
		char name[32];

		snprintf(name, sizeof(name), "--%s", option->name);
		assert_non_null(strstr(text, name));
		assert_true(!option->preset || strstr(text, option->preset));
	}
	for (const char *line = text; *line; line = strchr(line, '\n') + 1)
		assert_true(strcspn(line, "\n") <= 80);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(presets_stand_until_given),
		cmocka_unit_test(options_stand_anywhere),
		cmocka_unit_test(two_dashes_end_options),
		cmocka_unit_test(a_command_keeps_its_options),
		cmocka_unit_test(short_options_join),
		scratch_test(what_is_wrong_is_refused),
		cmocka_unit_test(sizes),
		cmocka_unit_test(help_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
