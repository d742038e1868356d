/* tokens.h - what the files of the tokens' routes share (mint.c, tokens.c, introspect.c). */
#ifndef ENGINE_TOKENS_H
#define ENGINE_TOKENS_H

#include "engine/engine.h"
#include "engine/caller_operation.h"

/* Refuses with the text that the token routes have for a call's error. */
void token_refuse(struct caller_operation *t, enum err err);
/* Whether all shards have answered; otherwise refuses, with the error of one of them. */
bool token_gathered(struct operation *e);
/* For an answer that shows that a token ended with its actor. The origin knows a suspension before
 * it is durable, and no record of the token itself contains it. But a shard answers the call for
 * suspended actors only when the suspension is durable: `then` follows with those answers. */
void token_ask_who_is_suspended(struct operation *e, void (*then)(struct operation *e));

/* Whether requests with this token are accepted now: not expired, a use left, not revoked, its key
 * valid. */
bool token_is_active(const struct engine_reactor *w, const struct token_facts *t, uint64_t now_ms);

#endif
