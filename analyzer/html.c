/* SPDX-License-Identifier: MIT */
#include "html.h"

#include <string.h>

#include "base.h"

/*
 * Characters that are no text: C0 and C1 controls, DEL, the marks, embeddings and isolates that make what follows
 * appear in another order than it has (https://www.unicode.org/reports/tr9/), and line separators.
 */
static bool invisible(const unsigned char *s, size_t n)
{
	if (n == 1)
		return s[0] < 0x20 || s[0] == 0x7f;
	if (n == 2)
		return (s[0] == 0xc2 && s[1] < 0xa0) || (s[0] == 0xd8 && s[1] == 0x9c);
	if (n == 3 && s[0] == 0xe2 && s[1] == 0x80)
		return s[2] == 0x8e || s[2] == 0x8f || (s[2] >= 0xa8 && s[2] <= 0xae);
	if (n == 3 && s[0] == 0xe2 && s[1] == 0x81)
		return s[2] >= 0xa6 && s[2] <= 0xa9;
	return n == 3 && s[0] == 0xef && s[1] == 0xbb && s[2] == 0xbf;
}

static const char *entity(unsigned char c)
{
	switch (c) {
	case '&':
		return "&amp;";
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '"':
		return "&quot;";
	case '\'':
		return "&#39;";
	default:
		return NULL;
	}
}

void html_text(FILE *out, const char *text, size_t len)
{
	const unsigned char *s = (const unsigned char *)text;

	for (size_t i = 0, n; i < len; i += n) {
		const char *name = entity(s[i]);
		size_t valid = utf8_sequence(s + i, len - i);

		n = valid ?: 1;
		if (name)
			fputs(name, out);
		else if (valid && !invisible(s + i, n))
			fwrite(s + i, 1, n, out);
		else
			for (size_t j = 0; j < n; j++)
				fprintf(out, "\\x%02x", s[i + j]);
	}
}

void html_str(FILE *out, const char *text)
{
	if (text)
		html_text(out, text, strlen(text));
}
