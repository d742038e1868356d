/* tokens.h - what the files of the tokens' routes share (mint.c, tokens.c, introspect.c). */
#ifndef ENGINE_TOKENS_H
#define ENGINE_TOKENS_H

#include "engine/runtime/caller_operation.h"
#include "engine/runtime/reactor_view.h"

/* Refuses with the text that the token routes have for a call's error. */
enum step_result token_refuse(struct operation *e, enum err err);
/* The error of a shard that has not answered; ERR_OK: all have. */
enum err token_gathered(const struct operation *e);
/* For an answer that shows that a token ended with its actor: asks all shards for suspended actors.
 * The origin knows a suspension before it is durable, and no record of the token itself contains
 * it. But a shard answers this only when the suspension is durable. */
enum step_result token_ask_who_is_suspended(struct operation *e);

/* Whether requests with this token are accepted now: not expired, a use left, not revoked, its key
 * valid. */
bool token_is_active(struct engine_reactor *w, const struct token_facts *t, uint64_t now_ms);

#endif
