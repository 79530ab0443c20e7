/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <string.h>

#include "base.h"

#define HELP_COLUMN 26 /* where descriptions begin */
#define HELP_WIDTH  80

/* Where parsing stands. */
struct parser {
	const struct option_set *sets;
	size_t count;
	char **next; /* the word after the one being looked at */
};

struct found {
	const struct option *option; /* NULL: there is none of that name */
	void *value;
};

int parse_int(const char *text, int64_t *ret_value)
{
	char *end;
	long long value;

	errno = 0;
	value = strtoll(text, &end, 10);
	if (errno || end == text || *end || text[0] == ' ' || text[0] == '+')
		return -EINVAL;
	*ret_value = value;
	return 0;
}

int parse_size(const char *text, int64_t *ret_bytes)
{
	static const char units[] = "KMGT";
	size_t len = strlen(text);
	const char *unit = len > 1 ? strchr(units, text[len - 1] & ~0x20) : NULL;
	char digits[24];
	int64_t value;
	unsigned int shift = unit ? 10 * (unsigned int)(unit - units + 1) : 0;

	if (unit)
		len--;
	if (len >= sizeof(digits))
		return -EINVAL;
	memcpy(digits, text, len);
	digits[len] = '\0';
	if (parse_int(digits, &value) < 0 || value < 0 || value > INT64_MAX >> shift)
		return -EINVAL;
	*ret_bytes = value << shift;
	return 0;
}

/* Whether `text` is one of "a|b|c". */
static bool is_choice(const char *choices, const char *text)
{
	size_t len = strlen(text);

	if (!len || strchr(text, '|'))
		return false;
	for (const char *at = choices; (at = strstr(at, text)); at++)
		if ((at == choices || at[-1] == '|') && (at[len] == '|' || at[len] == '\0'))
			return true;
	return false;
}

static int list_add(struct text_list *list, const char *text)
{
	const char **items = reallocarray(list->items, list->count + 1, sizeof(*items));

	if (!items)
		return -ENOMEM;
	list->items = items;
	list->items[list->count++] = text;
	return 0;
}

static int set_number(const struct option *option, int64_t *value, const char *text)
{
	int err = option->type == OPTION_SIZE ? parse_size(text, value) : parse_int(text, value);

	if (err < 0 || *value < option->min || (option->max && *value > option->max))
		return -EINVAL;
	return 0;
}

/* -EINVAL: not a value of this option. */
static int set_value(const struct option *option, void *value, const char *text)
{
	switch (option->type) {
	case OPTION_FLAG:
		*(bool *)value = true;
		return 0;
	case OPTION_CHOICE:
		if (!is_choice(option->argument, text))
			return -EINVAL;
		*(const char **)value = text;
		return 0;
	case OPTION_TEXT:
		*(const char **)value = text;
		return 0;
	case OPTION_LIST:
		return list_add(value, text);
	case OPTION_INT:
	case OPTION_SIZE:
		return set_number(option, value, text);
	}
	return -EINVAL;
}

int options_init(const struct option_set *sets, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (const struct option *option = sets[i].table; option && option->name; option++) {
			void *value = (char *)sets[i].values + option->offset;
			int err = option->preset ? set_value(option, value, option->preset) : 0;

			if (err < 0)
				return err;
		}
	return 0;
}

static struct found find_option(const struct parser *p, const char *name, size_t len, char letter)
{
	for (size_t i = 0; i < p->count; i++)
		for (const struct option *option = p->sets[i].table; option && option->name; option++)
			if (letter ? option->letter == letter
				   : strncmp(option->name, name, len) == 0 && option->name[len] == '\0')
				return (struct found){ option, (char *)p->sets[i].values + option->offset };
	return (struct found){};
}

static int refuse_value(const struct option *option, const char *text)
{
	if (option->type == OPTION_CHOICE)
		log_msg("--%s: '%s' is not one of %s", option->name, text, option->argument);
	else if (option->type == OPTION_SIZE)
		log_msg("--%s: '%s' is not a size that it takes; sizes look like 512K, 64M or 1G",
			option->name, text);
	else if (option->max)
		log_msg("--%s: '%s' is not a number from %lld to %lld", option->name, text,
			(long long)option->min, (long long)option->max);
	else
		log_msg("--%s: '%s' is not a number of at least %lld", option->name, text,
			(long long)option->min);
	return -EINVAL;
}

/* The value: what is joined to the option, or the next word. */
static int take_value(struct parser *p, struct found found, const char *joined)
{
	const struct option *option = found.option;
	const char *text = joined ?: *p->next;
	int err;

	if (option->type == OPTION_FLAG && joined) {
		log_msg("--%s takes no value", option->name);
		return -EINVAL;
	}
	if (option->type != OPTION_FLAG && !joined) {
		if (!text) {
			log_msg("--%s needs a value: %s", option->name, option->argument);
			return -EINVAL;
		}
		p->next++;
	}
	err = set_value(option, found.value, text);
	return err == -EINVAL ? refuse_value(option, text) : err;
}

static int parse_long(struct parser *p, const char *word)
{
	const char *equals = strchr(word, '=');
	size_t len = equals ? (size_t)(equals - word) : strlen(word);
	struct found found = find_option(p, word, len, 0);

	if (!found.option) {
		log_msg("unknown option --%.*s", (int)len, word);
		return -EINVAL;
	}
	return take_value(p, found, equals ? equals + 1 : NULL);
}

static int parse_short(struct parser *p, const char *letters)
{
	for (; *letters; letters++) {
		struct found found = find_option(p, NULL, 0, *letters);
		const char *joined = letters[1] ? letters + 1 : NULL;
		int err;

		if (!found.option) {
			log_msg("unknown option -%c", *letters);
			return -EINVAL;
		}
		if (found.option->type != OPTION_FLAG)
			return take_value(p, found, joined);
		err = take_value(p, found, NULL);
		if (err < 0)
			return err;
	}
	return 0;
}

int options_parse(const struct option_set *sets, size_t count, char **argv, size_t command_after)
{
	struct parser p = { .sets = sets, .count = count, .next = argv };
	int words = 0;
	bool ended = false;

	while (*p.next) {
		char *word = *p.next++;
		int err = 0;

		if (ended || word[0] != '-' || word[1] == '\0') {
			ended |= command_after && (size_t)words == command_after;
			argv[words++] = word; /* never beyond p.next */
		} else if (word[1] != '-') {
			err = parse_short(&p, word + 1);
		} else if (word[2]) {
			err = parse_long(&p, word + 2);
		} else {
			ended = true;
		}
		if (err < 0)
			return err;
	}
	argv[words] = NULL;
	return words;
}

static void add_word(struct strbuf *json, const char *name, const char *value)
{
	struct strbuf auto_strbuf word = {};

	strbuf_addf(&word, value ? "--%s=%s" : "--%s", name, value);
	strbuf_addf(json, json->len > 1 ? "," : "");
	if (word.buf)
		strbuf_add_json(json, word.buf, word.len);
	json->failed |= word.failed;
}

static void add_option(struct strbuf *json, const struct option *option, const void *value)
{
	const struct text_list *list = value;
	char number[24];

	switch (option->type) {
	case OPTION_FLAG:
		if (*(const bool *)value)
			add_word(json, option->name, NULL);
		break;
	case OPTION_CHOICE:
	case OPTION_TEXT:
		if (*(const char *const *)value)
			add_word(json, option->name, *(const char *const *)value);
		break;
	case OPTION_LIST:
		for (size_t i = 0; i < list->count; i++)
			add_word(json, option->name, list->items[i]);
		break;
	case OPTION_INT:
	case OPTION_SIZE:
		snprintf(number, sizeof(number), "%lld", (long long)*(const int64_t *)value);
		add_word(json, option->name, number);
		break;
	}
}

void options_words(const struct option_set *set, const char *but, struct strbuf *json)
{
	strbuf_addf(json, "[");
	for (const struct option *option = set->table; option && option->name; option++) {
		if (strcmp(option->name, but) != 0)
			add_option(json, option, (const char *)set->values + option->offset);
	}
	strbuf_addf(json, "]");
}

void options_free(const struct option_set *sets, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (const struct option *option = sets[i].table; option && option->name; option++) {
			struct text_list *list = (void *)((char *)sets[i].values + option->offset);

			if (option->type != OPTION_LIST)
				continue;
			free(list->items);
			*list = (struct text_list){};
		}
}

void options_wrap(const char *text, unsigned int indent, unsigned int column, FILE *out)
{
	while (*text) {
		size_t word = strcspn(text, " \n");

		if (column > indent && column + 1 + word > HELP_WIDTH) {
			fprintf(out, "\n%*s", (int)indent, "");
			column = indent;
		}
		if (column > indent) {
			fputc(' ', out);
			column++;
		}
		fwrite(text, 1, word, out);
		column += (unsigned int)word;
		text += word;
		for (; *text == ' ' || *text == '\n'; text++) {
			if (*text != '\n')
				continue;
			fprintf(out, "\n%*s", (int)indent, "");
			column = indent;
		}
	}
	fputc('\n', out);
}

void options_help(const struct option *table, FILE *out)
{
	for (const struct option *option = table; option && option->name; option++) {
		auto_free char *left = NULL, *right = NULL;
		char letter[5] = "    ";
		int len;

		if (!option->help)
			continue;
		if (option->letter)
			snprintf(letter, sizeof(letter), "-%c, ", option->letter);
		len = asprintf(&left, "  %s--%s%s%s", letter, option->name, option->argument ? " " : "",
			option->argument ?: "");
		if (len < 0 || asprintf(&right, "%s%s%s%s", option->help, option->preset ? " (default: " : "",
				       option->preset ?: "", option->preset ? ")" : "") < 0)
			return;
		if (len < HELP_COLUMN - 1)
			fprintf(out, "%-*s", HELP_COLUMN, left);
		else
			fprintf(out, "%s\n%*s", left, HELP_COLUMN, "");
		options_wrap(right, HELP_COLUMN, HELP_COLUMN, out);
	}
}
