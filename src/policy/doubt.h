/* doubt.h - patterns that are read otherwise than they look: drop_?, {drop,truncate}_x, !get_*,
 * Bash(rm:*). They are legal, since only * is special and all else stands for itself, and a deny by
 * one of them denies nothing. Pure. */
#ifndef POLICY_DOUBT_H
#define POLICY_DOUBT_H

#include "base/buf.h"

/* What the pattern is matched with: names of resources may have brackets, commas, and a `?`. */
enum pattern_of { PATTERN_OF_ACTION, PATTERN_OF_SUBJECT, PATTERN_OF_RESOURCE };

/* True: puts how the pattern is read, and how to write what was probably meant. */
bool pattern_doubt(struct str pattern, enum pattern_of of, struct buf *out);

#endif
