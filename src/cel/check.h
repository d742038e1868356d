/* check.h - resolves names and types; this room only. */
#ifndef CEL_CHECK_H
#define CEL_CHECK_H

#include "cel/ast.h"
#include "cel/problems.h"

/* Resolves names and gives every node its type. Unchecked environments get no problems: a wrong
 * node stays unresolved and fails at run time. */
void cel_check(struct cel_node *root, struct str text, const struct cel_environment *environment,
               struct arena *arena, struct cel_problems *problems);

#endif
