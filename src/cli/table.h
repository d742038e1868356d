/* table.h - rows for people to read.
 *
 * Agents choose some of the texts. Control characters and characters that change the direction of
 * text are printed as \u00XX, so that a tool's name cannot repaint a terminal. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdio.h>

#include "base/arena.h"
#include "base/buf.h"

enum { TABLE_COLUMNS_MAX = 10 };

struct table {
    struct arena *arena; /* borrowed; holds the cells */
    const char *heads[TABLE_COLUMNS_MAX];
    size_t columns, rows, capacity;
    struct str *cells; /* rows × columns */
    size_t cell_count;
};

/* Heads end with NULL; "*HEAD" marks a column that may be cut if a line is too wide. */
void table_init(struct table *t, struct arena *arena, const char *const *heads);
/* left to right, row by row; absent shows as "-" */
void table_add(struct table *t, struct str cell);
/* width: columns of the terminal; 0: nothing is cut. */
void table_print(const struct table *t, FILE *out, unsigned width);

/* Text made safe to print, in the arena. */
struct str text_shown(struct arena *arena, struct str text);

/* Terminal columns of safe text: two for a wide character such as a Chinese one, none for a
 * combining accent. */
size_t text_columns(struct str text);

#endif
