/* roles.h - which roles a condition names: the literals that it compares with `roles`. */
#ifndef POLICY_CEL_ROLES_H
#define POLICY_CEL_ROLES_H

#include "base/str.h"

/* Tells each, as often as it stands there:
 *
 *   'x' in roles                             x
 *   ['x', 'y'].exists(r, r in roles)         x, y
 *   roles.exists(r, r == 'x' || r in ['y'])  x, y
 *
 * and so for every macro and cel.bind, and for !=. Nothing of a text that does not compile in the
 * environment of policies. A name is good while it is being told. */
void cel_each_role(struct str text, void (*each)(void *context, struct str role), void *context);

#endif
