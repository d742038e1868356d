/* claim.h - a statement of a verified token about its person: groups=finance.
 *
 * A list of the token is one claim for each of its elements. access/claims.h has the bounds. */
#ifndef BASE_CLAIM_H
#define BASE_CLAIM_H

#include "base/str.h"

struct claim {
    struct str name, value;
};

#endif
