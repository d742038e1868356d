/* reactor_view.h - what a request's steps see of the reactor that serves them. The whole reactor, and
 * the engine, are in engine.h. Its thread only. */
#ifndef ENGINE_REACTOR_VIEW_H
#define ENGINE_REACTOR_VIEW_H

#include "access/token.h"
#include "api/api.h"

struct digest_keys;
struct engine_reactor;
struct operation;
struct signers;

/* For ERR_OVERLOADED: calls at other reactors, or the objects of a shard, have reached their limit. */
#define OVERLOADED_TEXT                                                                            \
    "the engine is at the limit of its waiting requests, reviews, tokens, counters or Idempotency-Keys; try again later"

struct api *engine_reactor_api(struct engine_reactor *w);
const struct digest_keys *engine_reactor_digest_keys(const struct engine_reactor *w);
/* The newest signing keys, which `api` has from the next turn on. */
const struct signers *engine_reactor_signers_now(const struct engine_reactor *w);
/* The slot of this reactor that is nearest to `slot`. */
unsigned engine_reactor_own_slot(const struct engine_reactor *w, unsigned slot);

/* As of the begin of this turn, or of the last return of a call in it. */
bool operation_actor_is_suspended(const struct operation *e, struct str tenant, struct str actor);
/* All tokens of this actor that were minted up to then are dead (0: none is). */
uint64_t engine_reactor_actor_dead_until(const struct engine_reactor *w, struct str tenant,
                                         struct str actor);
/* Its signing key verifies no more; or it was revoked; or its actor is suspended; or it was minted
 * no later than its actor's last suspension or resume. Does not check its own expiry. */
bool engine_reactor_token_is_dead(void *engine_reactor, const struct token_claims *t);
/* The key, or the token that it minted (NULL: none), was admitted, and had ended when its answer
 * was made. */
void auth_failed_note_ended(struct engine_reactor *w, struct id key,
                            const struct token_claims *token, const struct client_address *client,
                            enum err err);

#endif
