/* SPDX-License-Identifier: MIT */
/* embedded.h - the text files that embed.py builds into the library. */
#ifndef FSTAPE_EMBEDDED_H
#define FSTAPE_EMBEDDED_H

extern const char embedded_schema_sql[];
extern const char embedded_views_sql[];

#endif
