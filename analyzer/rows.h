/* SPDX-License-Identifier: MIT */
/* rows.h - rows of a statement as rows of a table, whatever types their values have. Not for threads. */
#ifndef FSTAPE_ROWS_H
#define FSTAPE_ROWS_H

#include "table.h"
#include "trace.h"

/* The cells of the current row from column `first` on; the row is not ended. */
void rows_add_cells(struct table *table, const struct trace_stmt *stmt, int first);

#endif
