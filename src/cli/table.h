/* table.h - rows for people to read.
 *
 * What comes from agents is shown, never obeyed: control characters and those that turn the
 * direction of writing are printed as \u00XX, so that a tool's name cannot repaint a terminal. */
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

/* Heads end with NULL; "*HEAD" marks a column that may be cut where a line is too wide. */
void table_init(struct table *t, struct arena *arena, const char *const *heads);
/* left to right, row by row; absent shows as "-" */
void table_add(struct table *t, struct str cell);
/* width: columns of the terminal, 0 where nothing is to be cut. */
void table_print(const struct table *t, FILE *out, unsigned width);

/* Text made safe to print, in the arena. */
struct str text_shown(struct arena *arena, struct str text);

/* Terminal columns that safe text takes: two for what is wide, as Chinese is, none
 * for an accent of its own. */
size_t text_columns(struct str text);

#endif
