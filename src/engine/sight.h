/* sight.h - a token that a reactor sees for the first time.
 *
 * A good signature only proves that the signer had a signing key. Only the token's slot knows that
 * it was minted, and with exactly these claims. So the slot is asked before any decision for the
 * token. The reactor keeps the confirmed token (token_cache_keep), and later requests need no
 * call. */
#ifndef ENGINE_SIGHT_H
#define ENGINE_SIGHT_H

#include "api/api.h"
#include "engine/operation.h"

/* Whether this key minted the token with exactly these claims. */
bool sight_is_minted(const struct token_claims *c, const struct key *key,
                     const struct token_facts *t);

/* `then` follows at once if the caller needs no confirmation (a key, a known token), and otherwise
 * once the slot has confirmed the token. If not, `refused` follows: ERR_TOKEN_UNKNOWN,
 * ERR_CREDENTIAL_REVOKED, ERR_CREDENTIAL_EXPIRED (all noted as a refused token), or 503. `c` lives
 * in the operation's arena. Origin thread; e->call is used up. */
void sight(struct operation *e, struct caller *c, void (*then)(struct operation *e),
           void (*refused)(struct operation *e, const struct fault *f));

#endif
