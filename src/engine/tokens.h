/* tokens.h - what the files of the tokens' routes share (mint.c, tokens.c, introspect.c). */
#ifndef ENGINE_TOKENS_H
#define ENGINE_TOKENS_H

#include "engine/engine.h"
#include "engine/trip.h"

/* Refuses with the sentence that tokens have for what a call said. */
void token_refuse(struct trip *t, enum err err);
/* Whether all shards have answered what they were asked; else it is refused, with what one said. */
bool token_gathered(struct errand *e);
/* For an answer that tells of a token's end with its actor. A suspension is known to home before it is
 * durable, and no record of the token's own tells of it; but a shard that is asked who of the tenant is
 * suspended answers when that is: `then` follows with that gathered. */
void token_ask_who_is_suspended(struct errand *e, void (*then)(struct errand *e));

/* Whether requests with this token are let in now: not over, a use left,
 * not revoked, its key alive. */
bool token_is_active(const struct worker *w, const struct token_facts *t, uint64_t now_ms);

#endif
