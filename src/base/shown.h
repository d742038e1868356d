/* shown.h - the part of a configured address that may be logged. */
#ifndef BASE_SHOWN_H
#define BASE_SHOWN_H

#include "base/str.h"

/* "…" if the address may have a password or a key in it: before an @, or after a ?. */
struct str shown_address(struct str address);

#endif
