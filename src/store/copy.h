/* copy.h - many values at once for PostgreSQL; inside this room only.
 *
 * Rows in the binary form of COPY:
 *
 *   PGCOPY\n \377 \r\n \0, flags (4 bytes), length of an extension (4): then for each row the
 *   number of its columns (2 bytes) and each column's length (4; -1: NULL) and bytes; then -1 (2).
 *
 * All numbers are big-endian. (PostgreSQL's manual, COPY, Binary Format.) No byte of a text needs
 * an escape, and no number is converted to digits and back.
 *
 * The arrays are parameters: '{1,2}', '{"a","b\\"c"}'. The caller adds the closing brace. Pure. */
#ifndef STORE_COPY_H
#define STORE_COPY_H

#include "base/buf.h"

void copy_begin(struct buf *b);
void copy_row(struct buf *b, unsigned columns); /* exactly so many columns must follow */
void copy_text(struct buf *b, struct str text); /* absent: NULL */
void copy_bigint(struct buf *b, uint64_t value);
void copy_null(struct buf *b);
void copy_end(struct buf *b);

void array_put_number(struct buf *b, int64_t value);
void array_put_text(struct buf *b, struct str text);

#endif
