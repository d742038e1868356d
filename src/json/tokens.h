/* tokens.h - jsmn's tokens of one text: where strings and primitives begin and end; this room only.
 *
 * They are only hints: a text that is not JSON may also have tokens, see read.c. */
#ifndef JSON_TOKENS_H
#define JSON_TOKENS_H

#ifndef JSMN_H
#define JSMN_PARENT_LINKS
#define JSMN_HEADER
#include <jsmn.h>
#endif

#include "json/json.h"

/* `list` has room for `capacity` tokens and one more: it marks the end and begins nowhere. */
struct tokens {
    jsmntok_t *list;
    unsigned count, capacity;
};

/* The tokens of `text`, up to the point at which jsmn gives up, in t->list: the caller's, or a
 * longer one in the arena if that is too short. *ret_plain is text_is_plain(). False: the arena
 * is full. */
bool tokens_take(struct tokens *t, struct str text, unsigned depth_max, struct arena *arena,
                 bool *ret_plain);

#endif
