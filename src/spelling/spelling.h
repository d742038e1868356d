/* spelling.h - names that may differ only in their spelling.
 *
 * A name may be spelled in another case, composed otherwise (NFC, NFD), in compatibility forms
 * (full width, ligatures), with invisible characters, or with other blanks and dashes. All are
 * folded as Unicode's NFKC_Casefold does (UAX #31, UTS #39 4); blanks are trimmed and runs of
 * them reduced to one. Letters of two scripts that only look alike stay different, except for
 * spelling_same_person(). Use this only to restrict; a permission must match the exact spelling.
 * Any thread. */
#ifndef SPELLING_SPELLING_H
#define SPELLING_SPELLING_H

#include "base/arena.h"
#include "base/err.h"

/* Whether both may be one person's name. Also true if one cannot be folded (no memory, not
 * UTF-8), because the answer is then unknown. Two ASCII names need no memory. */
bool spelling_same(struct str a, struct str b);

/* Whether both may name one person to the eye of a reader. True for all that spelling_same() takes
 * as one, and for names of the same skeleton (UTS #39 4, with Unicode 15.0): Cyrillic "\u0435rin"
 * is "erin", and "Ian" with a small l is "Ian". Of an address counts only its local part, without a
 * tag: "erin+x@corp.example" is "erin", so addresses of two domains may be one person's. Also true
 * if one is not UTF-8. ERR_OVERLOADED: there was no memory to find out. */
enum err spelling_same_person(struct str a, struct str b, bool *ret);

/* Whether folding can change only the case: ASCII without control bytes, and without blanks at
 * its ends or in a row. */
bool spelling_is_plain(struct str name);

/* The common form of all spellings of a name, in the arena; absent: it cannot be folded. */
struct str spelling_fold(struct str name, struct arena *arena);

/* A number that is the same for all spellings of a name, in this process; 0: it cannot be
 * folded. */
uint64_t spelling_hash(struct str name);

/* The name itself if it is plain, else folded. */
struct str spelling_plainly(struct str name, struct arena *arena);

#endif
