/* SPDX-License-Identifier: MIT */
/*
 * html.h - bytes from outside as text of an HTML or SVG document, in elements and in quoted attributes.
 *
 * Markup is written with stdio as it is; everything that names, commands or databases consist of goes through
 * here. Failures stay in the stream: look at ferror().
 */
#ifndef FSTAPE_HTML_H
#define FSTAPE_HTML_H

#include <stddef.h>
#include <stdio.h>

/*
 * `len` bytes that show as text: markup is escaped; control characters (newlines too), characters that turn the
 * direction of writing, and bytes that are not UTF-8 become \xNN, as at a terminal.
 */
void html_text(FILE *out, const char *text, size_t len);

/* The same up to the NUL; NULL writes nothing. */
void html_str(FILE *out, const char *text);

#endif
