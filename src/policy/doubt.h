/* doubt.h - patterns that mean something else than they seem to: drop_?, {drop,truncate}_x, !get_*,
 * Bash(rm:*). They are legal, because only * is special and every other character stands for
 * itself. A deny with such a pattern denies nothing. Pure. */
#ifndef POLICY_DOUBT_H
#define POLICY_DOUBT_H

#include "base/buf.h"

/* The kind of names that the pattern matches: resources may have brackets, commas, and a `?`. */
enum pattern_of { PATTERN_OF_ACTION, PATTERN_OF_SUBJECT, PATTERN_OF_RESOURCE };

/* True: writes the pattern's meaning, and the pattern that was probably meant. */
bool pattern_doubt(struct str pattern, enum pattern_of of, struct buf *out);

#endif
