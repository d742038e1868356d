/* session_store.h - sessions of people who signed in, as rows, so that they survive a restart and
 * several platforms share them.
 *
 * A session is found by the SHA-256 of its cookie's value. The value itself is not stored, so a
 * reader of the store cannot continue a session. A row ends with its session, so a sign-out holds on
 * every platform that reads the row again. Sessions do not raise the store's revision: engines do not
 * know them.
 *
 * Blocking; belongs to the thread of its store; changes need a writer. */
#ifndef STORE_SESSION_STORE_H
#define STORE_SESSION_STORE_H

#include "access/assertion.h"
#include "base/limits.h"
#include "store/store.h"

enum {
    SESSION_NAME_BYTES = LIMIT_ID_CHARACTERS * 4,
    SESSION_CLIENT_BYTES = 64,
    SESSION_PROVIDER_BYTES = 64,
    SESSION_SUBJECT_BYTES = 255, /* OpenID Connect Core 1.0, 2: no more characters, of ASCII */
    /* as JSON, each byte escaped at worst */
    SESSION_CLAIMS_BYTES = 2 * LIMIT_CLAIMS_BYTES + 8 * LIMIT_CLAIMS + 2,
};

struct session {
    struct sha256 hash; /* of the cookie's value */
    struct id id;
    struct id key; /* PROOF_KEY: the API key that was shown at the sign-in; PROOF_OIDC: zero */
    enum proof proof;
    uint32_t
        roles; /* PROOF_OIDC: of ROLES_OF_PEOPLE; PROOF_KEY: 0, because those of the key count */
    /* NUL-terminated */
    char tenant[SESSION_NAME_BYTES + 1]; /* or "*" */
    char person[SESSION_NAME_BYTES + 1];
    char client[SESSION_CLIENT_BYTES + 1];     /* where the sign-in came from */
    char provider[SESSION_PROVIDER_BYTES + 1]; /* its name in the configuration; PROOF_KEY: "" */
    char subject[SESSION_SUBJECT_BYTES + 1];   /* the person there; PROOF_KEY: "" */
    char claims[SESSION_CLAIMS_BYTES + 1];     /* [["groups","finance"],…]; PROOF_KEY: "[]" */
    uint64_t created_at, seen_at, expires_at;  /* ms */
};

/* What a sign-in ends and uses up. Zeros: nothing. */
struct sign_in {
    struct sha256 replaces; /* the session that the browser had; its row is removed */
    struct sha256 state;    /* of the way by a provider: one session for each */
    uint64_t state_ends_at; /* ms; from then on the platform refuses this state anyway */
};

/* Whether it has ended by now: after its time, or when it was not used for so long. */
bool session_is_over(const struct session *s, uint64_t idle_ms, uint64_t now_ms);

/* A row for a new session, and the event `session.started`. Sessions that are over are removed before,
 * and so are the oldest ones of its person above LIMIT_SESSIONS_OF_ONE. `by` has its key, if there is
 * one: ERR_CREDENTIAL_REVOKED, ERR_CREDENTIAL_EXPIRED: it has ended. ERR_EXISTS: a session was started
 * with this state before. ERR_OVERLOADED: LIMIT_SESSIONS. */
enum err session_store_start(struct store *s, const struct session *new, const struct sign_in *from,
                             uint64_t idle_ms, const struct actor *by, struct fault *f);
/* ERR_NOT_FOUND. */
enum err session_store_find(struct store *s, const struct sha256 *hash, struct session *ret,
                            struct fault *f);
/* Its last use, which never goes back. No error if it has ended. */
enum err session_store_touch(struct store *s, const struct sha256 *hash, uint64_t seen_at,
                             struct fault *f);
/* Removes the session of this id, of the same person as `own` (known by the same key, or by the same
 * provider), and records `session.ended` from the address `client`. ERR_NOT_FOUND. */
enum err session_store_end(struct store *s, struct id id, const struct session *own,
                           struct str client, const struct actor *by, struct sha256 *ret_hash,
                           struct fault *f);
/* The same for all sessions of a person, however they signed in. `tenant` absent: of any tenant.
 * *ret_count: how many there were. */
enum err session_store_end_person(struct store *s, struct str tenant, struct str person,
                                  struct str client, const struct actor *by, uint64_t *ret_count,
                                  struct fault *f);
/* {"sessions": […]}: those of the same person as `own`, known in the same way, that are not over, the
 * newest first. */
enum err session_store_list(struct store *s, const struct session *own, uint64_t idle_ms,
                            uint64_t now_ms, struct buf *out, struct fault *f);

/* "name":"2026-11-27T08:00:00.000Z" */
void session_put_time(struct buf *out, const char *name, uint64_t ms);

#endif
