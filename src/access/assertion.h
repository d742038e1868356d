/* assertion.h - one call of a signed-in person, from the platform to an engine.
 *
 * The platform keeps sessions, and the engine does not know them. So for each call the platform
 * makes an assertion: which person, of which tenant, with which roles and proof, may make exactly
 * this request (method and target, so also which review and which outcome) within a minute. It
 * has a MAC under a key that is derived from the pepper. The pepper is in both programs, but in no
 * request, and an API key of any role does not lead to it.
 *
 *   wa2.BASE64URL(members).BASE64URL(HMAC-SHA-256 of everything before the last point)
 *
 *   {"id", "key", "made_at", "method", "person", "proof": "key", "roles", "target", "tenant"}
 *   {"claims": [["groups", "finance"], …], "id", …, "proof": "oidc", …}, without "key"
 *
 * Where the person signed in with an API key, the key bounds what the call may do: the engine looks it
 * up in its own bundle. Where an identity provider knows the person, there is no key: the roles are
 * those that the platform's configuration derives from the provider's verified token, and `claims` are
 * the statements of that token about the person. The roles of policies match these claims only.
 *
 * An engine accepts an assertion once, and only if it was made after the engine started, because
 * the list of the accepted ones is in its memory. */
#ifndef ACCESS_ASSERTION_H
#define ACCESS_ASSERTION_H

#include "access/claims.h"
#include "access/key.h"

#define ASSERTION_PREFIX "wa2." /* the digit is the format */

enum {
    ASSERTION_LIFE_MS = 60000,
    ASSERTION_SKEW_MS = 5000, /* by which the platform's clock may be ahead of the engine's */
    ASSERTION_TEXT_MAX = 8 << 10,
};

/* How a session knows its person, the weakest first. */
enum proof {
    PROOF_KEY,  /* an API key was shown at sign-in */
    PROOF_OIDC, /* an identity provider's token was verified */
    PROOFS
};
const char *proof_name(enum proof p); /* "key" */
bool proof_read(struct str name, enum proof *ret);

struct assertion {
    struct id id;
    struct id key;             /* PROOF_KEY: the API key of the sign-in; PROOF_OIDC: zero */
    struct str tenant, person; /* tenant: or "*" */
    struct str method;         /* of the request: "POST" */
    struct sha256 target;      /* of its path and query, as they are sent */
    /* PROOF_KEY: no more than the key has, counts; PROOF_OIDC: of ROLES_OF_PEOPLE */
    uint32_t roles;
    enum proof proof;
    const struct claim *claims; /* PROOF_OIDC only, as claims_check() wants them */
    size_t claim_count;
    uint64_t made_at; /* ms; it ends ASSERTION_LIFE_MS later */
};

/* The key of all MACs. */
struct sha256 assertion_key(const struct pepper *p);

/* Also one of another format, which assertion_read() refuses. */
bool assertion_shown(struct str credential);
/* False: `out` has no room, or it is longer than ASSERTION_TEXT_MAX, or its members do not fit each
 * other. */
bool assertion_put(struct buf *out, const struct sha256 *key, const struct assertion *a);
/* Its MAC and its form; the views are in the arena. ERR_UNAUTHENTICATED, ERR_BODY_TOO_LARGE (the
 * arena is full). */
enum err assertion_read(struct str credential, const struct sha256 *key, struct arena *arena,
                        struct assertion *ret, struct fault *f);
/* Whether it may be used now, for this request, by an engine that started at `started_ms`.
 * ERR_ASSERTION_REFUSED. */
enum err assertion_fits(const struct assertion *a, struct str method, struct str target,
                        uint64_t now_ms, uint64_t started_ms, struct fault *f);

/* ---- accepted once ---- */

struct assertions; /* those of the last minute; any thread */
struct assertions *assertions_create(void);
void assertions_destroy(struct assertions *a);
/* ERR_ASSERTION_REFUSED: it was accepted before. ERR_OVERLOADED: too many were accepted within a
 * minute. */
enum err assertions_accept(struct assertions *all, const struct assertion *a, uint64_t now_ms,
                           struct fault *f);

#endif
