/* compile.h - a checked tree to a shorter tree (fold.c) and to a program (compile.c); this room
 * only. */
#ifndef POLICY_CEL_COMPILE_H
#define POLICY_CEL_COMPILE_H

#include "policy/cel/ast.h"
#include "policy/cel/code.h"
#include "policy/cel/problems.h"

/* Replaces what is known now by its value: calls of constants, lists and maps of constants, choices
 * and && and || with a constant side. What fails is left to fail when it is run, and what
 * *cost_left, from which it is paid, does not reach for, to be worked out then. */
struct cel_node *cel_fold(struct cel_node *n, struct arena *arena, uint64_t *cost_left);

struct cel_compilation {
    struct str text;
    const struct cel_environment *environment;
    struct arena *scratch; /* gone afterwards */
    struct arena *arena;   /* the program's */
    struct cel_problems *problems;
    const struct cel_type *type; /* of the whole, as it was written */
};

/* ERR_INVALID_POLICY with a problem told, or ERR_FULL. */
enum err cel_compile_tree(const struct cel_compilation *c, const struct cel_node *root,
                          struct cel_program **ret);

#endif
