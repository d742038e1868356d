/* tokens.h - jsmn's tokens of one text: where strings and primitives begin and end; this room only.
 *
 * They are hints and no more: what is no JSON may have tokens all the same, see read.c. */
#ifndef JSON_TOKENS_H
#define JSON_TOKENS_H

#ifndef JSMN_H
#define JSMN_PARENT_LINKS
#define JSMN_HEADER
#include <jsmn.h>
#endif

#include "json/json.h"

/* `list` has room for `capacity` tokens and one more, which begins nowhere and ends them. */
struct tokens {
    jsmntok_t *list;
    unsigned count, capacity;
};

/* The tokens of `text`, as far as jsmn gets, into t->list: the caller's, or where that is too short
 * a longer one in the arena. *ret_plain is text_is_plain(). False: the arena is full. */
bool tokens_take(struct tokens *t, struct str text, unsigned depth_max, struct arena *arena,
                 bool *ret_plain);

#endif
