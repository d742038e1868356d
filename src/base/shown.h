/* shown.h - what may be told of an address that somebody wrote. */
#ifndef BASE_SHOWN_H
#define BASE_SHOWN_H

#include "base/str.h"

/* "…" where it may have a password or a key in it: before an @, or behind a ?. */
struct str shown_address(struct str address);

#endif
