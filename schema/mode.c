/* SPDX-License-Identifier: MIT */
#include "mode.h"

#include <string.h>

static const struct mode_desc {
	const char *name;
	const char *hides; /* what is not in the recording, for people */
} mode_table[MODE_COUNT] = {
	[MODE_NOFLUSH] = { "noflush", "no flush but the first, and no POSIX locks: the kernel keeps them" },
	[MODE_WRITEBACK] = { "writeback", "writes are the kernel's: fewer, later, of who opened the file; no lseek but the first" },
	[MODE_DATA_PASSTHROUGH] = { "data_passthrough", "no reads and writes: the kernel does them below by itself" },
};

char *mode_names(unsigned int set)
{
	struct strbuf text = {};

	for (size_t i = 0; i < MODE_COUNT; i++)
		if (set & MODE_BIT(i))
			strbuf_addf(&text, "%s%s", text.len ? " " : "", mode_table[i].name);
	return text.buf;
}

static const struct mode_desc *find(const char *name, size_t len)
{
	for (size_t i = 0; i < MODE_COUNT; i++)
		if (strlen(mode_table[i].name) == len && memcmp(mode_table[i].name, name, len) == 0)
			return &mode_table[i];
	return NULL;
}

void mode_explain(const char *names, struct strbuf *text)
{
	const char *separator = "";

	for (const char *at = names + strspn(names, " "); *at; at += strspn(at, " ")) {
		size_t len = strcspn(at, " ");
		const struct mode_desc *mode = find(at, len);

		strbuf_addf(text, "%s", separator);
		strbuf_add(text, at, len);
		if (mode)
			strbuf_addf(text, " (%s)", mode->hides);
		separator = ", ";
		at += len;
	}
}
