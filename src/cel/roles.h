/* roles.h - which roles a condition names: the literals that it compares with `roles`. */
#ifndef CEL_ROLES_H
#define CEL_ROLES_H

#include "base/str.h"

/* Calls back with each literal, as often as the text has it:
 *
 *   'x' in roles                             x
 *   ['x', 'y'].exists(r, r in roles)         x, y
 *   roles.exists(r, r == 'x' || r in ['y'])  x, y
 *
 * and the same for every macro and cel.bind, and for !=. No literals if the text does not compile
 * in the environment of policies. A name is valid during the callback. */
void cel_each_role(struct str text, void (*each)(void *context, struct str role), void *context);

#endif
