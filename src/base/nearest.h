/* nearest.h - the word that a mistyped word probably means. Pure, any thread. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include "base/str.h"

/* The candidate that is one or two edits away (Damerau-Levenshtein, restricted form), or that
 * begins with `word`, or that `word` begins with; NULL: there is none. */
const char *nearest_word(struct str word, const char *const *candidates, size_t count);

#endif
