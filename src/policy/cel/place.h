/* place.h - address ranges as text, for who checks constants (place.c has the functions of
 * conditions); this room only. */
#ifndef POLICY_CEL_PLACE_H
#define POLICY_CEL_PLACE_H

#include "policy/cel/value.h"

/* "10.0.0.0/8", "2001:db8::/48", or one address. Bits behind the prefix are cleared. */
bool cel_cidr_read(struct str text, struct cel_cidr *ret);

#endif
