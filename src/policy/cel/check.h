/* check.h - what names mean and which types things have; this room only. */
#ifndef POLICY_CEL_CHECK_H
#define POLICY_CEL_CHECK_H

#include "policy/cel/ast.h"
#include "policy/cel/problems.h"

/* Resolves names and gives every node its type. Unchecked environments get no problems: what is
 * wrong stays unresolved and fails when it is run. */
void cel_check(struct cel_node *root, struct str text, const struct cel_environment *environment,
               struct arena *arena, struct cel_problems *problems);

#endif
