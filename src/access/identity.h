/* identity.h - a person as an identity provider's token describes them (OpenID Connect).
 *
 * An identity has no API key: key_of_person() makes the key for one call. Views are borrowed from the
 * arena that each function names. Pure, any thread. */
#ifndef ACCESS_IDENTITY_H
#define ACCESS_IDENTITY_H

#include "access/assertion.h"

struct identity {
    struct str provider;  /* NAME of the options oidc.NAME.… */
    struct str subject;   /* the claim `sub` */
    struct str person;    /* never empty, without `*` */
    struct str tenant;    /* one tenant, never "*" or empty */
    uint32_t roles;       /* of ROLES_OF_PEOPLE; never 0 */
    struct claim *claims; /* that policies may match; claims_check() has accepted them */
    size_t claim_count;
    uint64_t expires_at; /* of the token, ms */
};

/* The same identity with its own copies in the arena. False: the arena is full. */
bool identity_copy(const struct identity *from, struct arena *arena, struct identity *ret);

#endif
