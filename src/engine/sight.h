/* sight.h - a token that a reactor meets for the first time.
 *
 * A good signature proves who had a signing key. That the token was minted, and with these very
 * claims, is known to its slot alone, so the slot is asked before anything is decided for it; what
 * it confirms is kept by the reactor (token_cache_keep), and later requests ask nobody. */
#ifndef ENGINE_SIGHT_H
#define ENGINE_SIGHT_H

#include "api/api.h"
#include "engine/errand.h"

/* Whether the claims are those that the token was minted with, by this key. */
bool sight_is_minted(const struct token_claims *c, const struct key *key,
                     const struct token_facts *t);

/* `then` follows at once where the caller needs no such question (a key, a token that is known);
 * else once its slot has confirmed the token. Otherwise `refused` follows: ERR_TOKEN_UNKNOWN,
 * ERR_CREDENTIAL_REVOKED, ERR_CREDENTIAL_EXPIRED (all noted as a refused token), or 503. `c` lives
 * in the errand's arena. Home thread; e->call is used up. */
void sight(struct errand *e, struct caller *c, void (*then)(struct errand *e),
           void (*refused)(struct errand *e, const struct fault *f));

#endif
