/* sight.h - a token that a reactor sees for the first time.
 *
 * A good signature only proves that the signer had a signing key. Only the token's slot knows that
 * it was minted, and with exactly these claims. So the slot is asked before any decision for the
 * token. The reactor keeps the confirmed token (token_cache_keep), and later requests need no
 * call. */
#ifndef ENGINE_SIGHT_H
#define ENGINE_SIGHT_H

#include "api/api.h"
#include "engine/runtime/operation.h"

/* Whether this key minted the token with exactly these claims. */
bool sight_is_minted(const struct token_claims *c, const struct key *key,
                     const struct token_facts *t);

/* A step: asks the slot of e->caller's token, if the caller is an unconfirmed token. Behind it, the
 * token is confirmed and kept. Otherwise the process refuses: ERR_TOKEN_UNKNOWN,
 * ERR_CREDENTIAL_REVOKED, ERR_CREDENTIAL_EXPIRED (all noted as a refused token), or 503. e->call is
 * used up. */
static inline bool sight_is_needed(const struct operation *e)
{
    return !str_is_absent(e->caller.unseen);
}
enum step_result sight_confirm(struct operation *e);
enum step_result sight_confirmed(struct operation *e);
#define SIGHT_STEP                                                                                 \
    {                                                                                              \
        "confirm the token", sight_confirm, sight_confirmed                                        \
    }

#endif
