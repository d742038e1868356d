/* compile.h - turns a checked tree into a shorter tree (fold.c) and into a program (compile.c);
 * this room only. */
#ifndef CEL_COMPILE_H
#define CEL_COMPILE_H

#include "cel/ast.h"
#include "cel/code.h"
#include "cel/problems.h"

/* Replaces constant parts by their values: calls of constants, lists and maps of constants, choices
 * and && and || with a constant side. A part that fails is left to fail at run time. A part that
 * costs more than *cost_left is left to be computed at run time. */
struct cel_node *cel_fold(struct cel_node *n, struct arena *arena, uint64_t *cost_left);

struct cel_compilation {
    struct str text;
    const struct cel_environment *environment;
    struct arena *scratch; /* gone afterwards */
    struct arena *arena;   /* the program's */
    struct cel_problems *problems;
    const struct cel_type *type; /* of the whole, as it was written */
};

/* ERR_INVALID_POLICY with a problem, or ERR_FULL. */
enum err cel_compile_tree(const struct cel_compilation *c, const struct cel_node *root,
                          struct cel_program **ret);

#endif
