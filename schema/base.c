/* SPDX-License-Identifier: MIT */
#include "base.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

static const char *program = "fstape";
static bool to_syslog;

void log_set_program(const char *name)
{
	program = name;
}

void log_use_syslog(void)
{
	openlog(program, LOG_PID, LOG_DAEMON);
	to_syslog = true;
}

static void log_line(const char *suffix, const char *fmt, va_list ap)
{
	struct strbuf auto_strbuf sb = {};
	char text[2048];

	vsnprintf(text, sizeof(text), fmt, ap);
	if (to_syslog) {
		syslog(LOG_WARNING, "%s%s%s", text, suffix ? ": " : "", suffix ? suffix : "");
		return;
	}
	strbuf_addf(&sb, "%s: %s%s%s\n", program, text, suffix ? ": " : "", suffix ? suffix : "");
	if (!sb.failed && write(STDERR_FILENO, sb.buf, sb.len) < 0)
		return; /* nowhere left to complain */
}

void log_msg(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_line(NULL, fmt, ap);
	va_end(ap);
}

int log_errno(int err, const char *fmt, ...)
{
	va_list ap;

	err = abs(err);
	va_start(ap, fmt);
	log_line(strerrordesc_np(err) ?: "unknown error", fmt, ap);
	va_end(ap);
	return -err;
}

const char *errno_name(int err, char buf[static 16])
{
	const char *name = strerrorname_np(abs(err));

	if (name)
		return name;
	snprintf(buf, 16, "E%d", abs(err));
	return buf;
}

static bool strbuf_room(struct strbuf *sb, size_t extra)
{
	size_t want = sb->len + extra + 1;
	char *grown;

	if (sb->failed)
		return false;
	if (want <= sb->size)
		return true;
	if (want < sb->size * 2)
		want = sb->size * 2;
	grown = realloc(sb->buf, want);
	if (!grown) {
		sb->failed = true;
		return false;
	}
	sb->buf = grown;
	sb->size = want;
	return true;
}

void strbuf_add(struct strbuf *sb, const void *data, size_t len)
{
	if (!strbuf_room(sb, len))
		return;
	if (len)
		memcpy(sb->buf + sb->len, data, len);
	sb->len += len;
	sb->buf[sb->len] = '\0';
}

void strbuf_addf(struct strbuf *sb, const char *fmt, ...)
{
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (len < 0 || !strbuf_room(sb, (size_t)len))
		return;
	va_start(ap, fmt);
	vsnprintf(sb->buf + sb->len, (size_t)len + 1, fmt, ap);
	va_end(ap);
	sb->len += (size_t)len;
}

void strbuf_free(struct strbuf *sb)
{
	free(sb->buf);
	*sb = (struct strbuf){};
}

size_t utf8_sequence(const unsigned char *s, size_t len)
{
	static const uint32_t lowest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc2 ? 2 : 0;
	uint32_t code;

	if (n <= 1)
		return n;
	if (n > len || s[0] > 0xf4)
		return 0;
	code = s[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (s[i] & 0x3f);
	}
	if (code < lowest[n] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return 0;
	return n;
}

static bool is_plain_json(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* What is not plain at the start of `s`; its length there. */
static size_t add_json_sequence(struct strbuf *sb, const unsigned char *s, size_t len)
{
	size_t n = utf8_sequence(s, len);

	if (!n)
		strbuf_add(sb, "\xef\xbf\xbd", 3);
	else if (s[0] == '"' || s[0] == '\\')
		strbuf_addf(sb, "\\%c", s[0]);
	else if (s[0] < 0x20 || s[0] == 0x7f)
		strbuf_addf(sb, "\\u%04x", s[0]);
	else
		strbuf_add(sb, s, n);
	return n ?: 1;
}

void strbuf_add_json(struct strbuf *sb, const char *data, size_t len)
{
	const unsigned char *s = (const unsigned char *)data;

	strbuf_add(sb, "\"", 1);
	for (size_t i = 0; i < len;) {
		size_t start = i;

		while (i < len && is_plain_json(s[i]))
			i++;
		strbuf_add(sb, s + start, i - start);
		if (i < len)
			i += add_json_sequence(sb, s + i, len - i);
	}
	strbuf_add(sb, "\"", 1);
}

void strbuf_add_utf8(struct strbuf *sb, const char *data, size_t len)
{
	const unsigned char *s = (const unsigned char *)data;

	strbuf_add(sb, "", 0);
	for (size_t i = 0, n; i < len; i += n ?: 1) {
		n = utf8_sequence(s + i, len - i);
		strbuf_add(sb, n ? data + i : "\xef\xbf\xbd", n ?: 3);
	}
}

int read_file_at(int dirfd, const char *path, size_t max, struct strbuf *ret_text)
{
	int auto_close fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
	char chunk[4096];
	ssize_t got;

	if (fd < 0)
		return -errno;
	strbuf_add(ret_text, "", 0);
	while (ret_text->len < max) {
		size_t left = max - ret_text->len;

		got = read(fd, chunk, left < sizeof(chunk) ? left : sizeof(chunk));
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0 || ret_text->failed)
			break;
		strbuf_add(ret_text, chunk, (size_t)got);
	}
	return ret_text->failed ? -ENOMEM : 0;
}

char *path_resolve_new(const char *path)
{
	auto_free char *copy = NULL, *directory = NULL;
	char *resolved = realpath(path, NULL), *slash;

	if (resolved || errno != ENOENT)
		return resolved;
	copy = strdup(path);
	if (!copy)
		return NULL;
	slash = strrchr(copy, '/');
	if (slash)
		*slash = '\0';
	directory = realpath(!slash ? "." : slash == copy ? "/" : copy, NULL);
	if (!directory || asprintf(&resolved, "%s/%s", directory, slash ? slash + 1 : path) < 0)
		return NULL;
	return resolved;
}
