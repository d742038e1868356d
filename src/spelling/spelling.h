/* spelling.h - names that may be the same but for their spelling.
 *
 * A name may be spelled in another case, composed otherwise (NFC, NFD), in compatibility forms (full
 * width, ligatures), with characters that nobody sees, or with other blanks and dashes. All are folded
 * as Unicode's NFKC_Casefold does (UAX #31, UTS #39 4); blanks are trimmed and drawn together. Letters
 * of two scripts that only look alike stay different. For what restricts only: what permits is
 * spelled out. Any thread. */
#ifndef SPELLING_SPELLING_H
#define SPELLING_SPELLING_H

#include "base/arena.h"

/* Whether both may be one person's name. Also true where one cannot be folded (no memory, not
 * UTF-8): then nobody knows. Two ASCII names take no memory. */
bool spelling_same(struct str a, struct str b);

/* Whether case is all that could be folded: ASCII without control bytes, and without blanks at its
 * ends or in a row. */
bool spelling_is_plain(struct str name);

/* What all spellings of a name have in common, in the arena; absent: it cannot be folded. */
struct str spelling_fold(struct str name, struct arena *arena);

/* The same for all spellings of a name, in this process; 0: it cannot be folded. */
uint64_t spelling_hash(struct str name);

/* The name itself where it is plain, else folded. */
struct str spelling_plainly(struct str name, struct arena *arena);

#endif
