/* export_row.h - one stored event as a row of an export. Pure.
 *
 *   ndjson  the event's bytes as they were recorded. (An event that was posted over several lines is
 *           written canonically, RFC 8785, because a row must be one line.)
 *   csv     RFC 4180, CRLF, a head row; columns as those of the view `events` (schemas/store.sql)
 *           without its last. Objects and lists are JSON; an absent member is an empty cell, an
 *           empty text is "".
 *
 * Agents choose what tools and arguments are called, and a spreadsheet takes a cell that begins
 * with = + - @ for a formula. So a text that begins with one of these (or their full-width forms,
 * a tab, a line end, or an apostrophe) gets an apostrophe in front: taking one apostrophe off each
 * text that begins with one gives back exactly what was recorded. */
#ifndef CLI_EXPORT_ROW_H
#define CLI_EXPORT_ROW_H

#include "base/buf.h"
#include "json/json.h"

enum export_format { EXPORT_NDJSON, EXPORT_CSV };

/* A row of GET /api/v1/audit?exact=true. */
void export_put_row(struct buf *out, const struct json *row, enum export_format format,
                    bool guarded);
/* The beginning of a file: nothing, or the head row of CSV. */
void export_put_head(struct buf *out, enum export_format format);

/* One text as a cell. */
void export_put_cell(struct buf *out, struct str text, bool guarded);

#endif
