/* tokens.h - what the files of the tokens' routes share (mint.c, tokens.c, introspect.c). */
#ifndef ENGINE_TOKENS_H
#define ENGINE_TOKENS_H

#include "engine/engine.h"
#include "engine/trip.h"

/* Refuses with the sentence that tokens have for what a call said. */
void token_refuse(struct trip *t, enum err err);

/* Whether requests with this token are let in now: not over, a use left,
 * not revoked, its key alive. */
bool token_is_active(const struct worker *w, const struct token_facts *t, uint64_t now_ms);

#endif
