/* person.h - whether two names may be one person's: what separates duties compares by this, never
 * by bytes.
 *
 * The same name may be spelled in another case, composed otherwise (NFC, NFD), in compatibility
 * forms (full width, ligatures), with characters that nobody sees, or with other blanks and dashes.
 * Both are folded as Unicode's NFKC_Casefold does (UAX #31, UTS #39 4), blanks are trimmed and
 * drawn together. Letters of two scripts that only look alike stay different. */
#ifndef PERSON_PERSON_H
#define PERSON_PERSON_H

#include "base/str.h"

/* Also true where a name cannot be folded (no memory, not UTF-8): then nobody knows. Two ASCII
 * names take no memory. Any thread. */
bool person_is_same(struct str a, struct str b);

#endif
