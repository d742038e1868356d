/* token_facts.h - the tokens of a shard: what was minted, what is left of it, what was revoked.
 *
 *   LIVE --revoke--> REVOKED
 *     \---deadline--> gone (a token past its time needs no memory)
 *
 * A token is a signed text that agents carry (access/token.h); here is what the signature cannot
 * tell: how often it was used, and that it was revoked. A use is spent in memory before the
 * decision is recorded, and given back where no record comes of it; the decision's record says
 * what it spent, so a crash between the two has spent nothing. At most 256 bytes each, with
 * strings of 24. Belongs to its shard's thread. */
#ifndef SHARDS_TOKEN_FACTS_H
#define SHARDS_TOKEN_FACTS_H

#include "base/id.h"
#include "base/str.h"

/* All there is to tell of a token: as it is minted, saved, and shown. Views are borrowed. */
struct token_facts {
    struct id id;  /* its slot is in it */
    struct id key; /* the API key that minted it */
    /* scope: globs with blanks between; absent: none */
    struct str tenant, actor, acting_for, scope, audience;
    uint32_t signer;  /* number of the signing key */
    uint64_t ordinal; /* its place in lists: rises with every mint of the engine */
    uint64_t issued_ms, expires_ms;
    uint64_t revoked_ms; /* 0: it is not */
    uint32_t uses_max;   /* 0: not counted */
    uint32_t uses;       /* spent so far */
    bool is_active;      /* of a list, and home's: it would be let in */
};

enum token_use { TOKEN_NONE_LEFT, TOKEN_DEAD, TOKEN_SPENT }; /* zero is closed */

#endif
