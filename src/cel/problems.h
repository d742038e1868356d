/* problems.h - mistakes in an expression, collected with their places; this room only. */
#ifndef CEL_PROBLEMS_H
#define CEL_PROBLEMS_H

#include "cel/cel.h"

/* Adds a problem at this byte of the text. A second one at the same position is dropped, because it
 * follows from the first. Beyond CEL_PROBLEMS_MAX all are dropped. */
void cel_problem_add(struct cel_problems *problems, struct str text, uint32_t offset,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Line and column (code points), 1-based, of a byte of the text. */
void cel_place(struct str text, uint32_t offset, uint32_t *ret_line, uint32_t *ret_column);
/* The same, from those of the byte `from` to those of `to`. */
void cel_place_on(struct str text, uint32_t from, uint32_t to, uint32_t *line, uint32_t *column);

/* Sorts them in the order of the text. */
void cel_problems_sort(struct cel_problems *problems);

#endif
