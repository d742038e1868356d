/* token_facts.h - the facts of a token: as minted, its uses, its revocation.
 *
 *   LIVE --revoke--> REVOKED
 *     \---deadline--> gone (a token past its time needs no memory)
 *
 * A token is a signed text that agents carry (access/token.h). The shard has what the signature
 * cannot show: how often it was used, and that it was revoked. A use is spent in memory before the
 * decision is recorded, and given back if no record is made. The decision's record contains the
 * use, so a crash between the two has spent nothing. At most 264 bytes each, with strings of 24.
 * Belongs to its shard's thread. */
#ifndef SHARDS_TOKEN_FACTS_H
#define SHARDS_TOKEN_FACTS_H

#include "base/id.h"
#include "base/str.h"

/* All facts of a token: as it is minted, saved, and shown. Views are borrowed. */
struct token_facts {
    struct id id;  /* contains its slot */
    struct id key; /* the API key that minted it */
    /* scope: globs with blanks between; absent: none */
    struct str tenant, actor, acting_for, scope, audience;
    uint32_t signer;  /* number of the signing key */
    uint64_t ordinal; /* its position in lists: rises with every mint of the engine */
    uint64_t issued_ms, expires_ms;
    uint64_t revoked_ms; /* 0: not revoked */
    uint32_t uses_max;   /* 0: not counted */
    uint32_t uses;       /* spent so far */
    bool is_active;      /* in a list, set by the origin: the engine would accept it */
};

enum token_use { TOKEN_NONE_LEFT, TOKEN_DEAD, TOKEN_SPENT }; /* zero refuses */

#endif
