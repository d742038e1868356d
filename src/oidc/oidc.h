/* oidc.h - identity providers (OpenID Connect Core 1.0): their documents and keys, and what their
 * tokens prove.
 *
 *   discovery document ──▶ endpoints ──▶ authorization URL of a sign-in
 *          └─▶ JWKS ──▶ keys ──▶ token: signature ─▶ claims ─▶ identity (access/identity.h)
 *
 * One thread fetches, keeps and refreshes the documents of all providers, and exchanges codes. All
 * other functions may be called from any thread and never wait for a provider: they use the documents
 * that were fetched last. Keys are used while the provider is away for LIMIT_OIDC_KEYS_HOURS; after
 * that, every token of the provider is refused.
 *
 * A token is accepted with a signature of RS256, ES256 or EdDSA (Ed25519) by a key of its provider
 * only. No function here logs a token, a code or a secret. */
#ifndef OIDC_OIDC_H
#define OIDC_OIDC_H

#include "access/identity.h"
#include "base/arena.h"
#include "base/fault.h"
#include "base/limits.h"

enum {
    OIDC_PROVIDERS_MAX = 8,
    OIDC_URL_MAX = 2048,
    OIDC_NONCE_MAX = 128,
};

/* The options oidc.NAME.… of one provider. Texts are "" if they were not set, never NULL; they must
 * outlive the struct oidc. Lists are separated by commas. */
struct oidc_settings {
    const char *name;
    const char *issuer, *client_id, *client_secret_file, *scope;
    const char *audience; /* of bearer tokens; "": none is accepted */
    const char *tenant, *tenant_claim, *person_claim;
    const char *claims;      /* that policies may match: "groups,department" */
    const char *roles_claim; /* whose values the lists below have */
    const char *reviewer, *policy_admin, *auditor, *admin;
    bool allow_private;     /* its addresses may be of a private network, or of this machine */
    bool insecure_loopback; /* http:// is allowed for a loopback host, and its address */
};

struct oidc;

/* Checks the options and starts the thread, which fetches at once. `ca_file`: PEM file of authorities,
 * "": the system's. `changed` is called on that thread after each fetch, for requests that wait for one.
 * ERR_BAD_VALUE: an option is missing or wrong; the text names it. */
enum err oidc_start(const struct oidc_settings *settings, size_t count, const char *ca_file,
                    void (*changed)(void *context), void *context, struct oidc **ret,
                    struct fault *f);
/* Ends the exchanges under way with ERR_PROVIDER_UNAVAILABLE, and joins the thread. Accepts NULL. */
void oidc_stop(struct oidc *o);
void oidc_destroy(struct oidc *o); /* after oidc_stop(); accepts NULL */

size_t oidc_count(const struct oidc *o);
const struct oidc_settings *oidc_settings_of(const struct oidc *o, size_t provider);
/* The number of the provider with this name; oidc_count(): there is none. */
size_t oidc_find(const struct oidc *o, struct str name);

/* ---- for a sign-in ---- */

/* What the discovery document names; NUL-terminated. */
struct oidc_endpoints {
    char authorization[OIDC_URL_MAX + 1];
    char end_session[OIDC_URL_MAX + 1]; /* "": the provider has none */
    bool names_issuer;                  /* its answers have the parameter `iss` (RFC 9207) */
};
/* ERR_PROVIDER_UNAVAILABLE: its document or its keys could not be fetched, or are too old; the text
 * names the reason. *ret_may_change: a fetch is under way, after which `changed` is called. */
enum err oidc_endpoints(struct oidc *o, size_t provider, struct oidc_endpoints *ret,
                        bool *ret_may_change, struct fault *f);

/* application/x-www-form-urlencoded, as RFC 6749 (appendix B) wants it for URLs, bodies and Basic. */
void oidc_put_encoded(struct buf *out, struct str text);

/* One exchange of an authorization code for an ID token (RFC 6749 4.1.3, RFC 7636 4.5). The caller
 * owns it, and its memory and the texts stay until done() is called. */
struct oidc_exchange {
    size_t provider;
    struct str code, verifier, redirect_uri, nonce;
    struct arena *arena;                   /* for the outcome; only the thread uses it meanwhile */
    void (*done)(struct oidc_exchange *e); /* on the providers' thread, once */
    void *context;
    /* The outcome. ERR_PROVIDER_UNAVAILABLE; ERR_UNAUTHENTICATED: the provider refused the code, or
     * its token is not valid; ERR_IDENTITY_REFUSED: no role is mapped to this person, or the person or
     * tenant is missing. */
    enum err err;
    struct fault fault;
    struct identity identity; /* in the arena, as id_token */
    struct str id_token;      /* for the sign-out at the provider; a secret */
    struct oidc_exchange *next;
};
/* ERR_OVERLOADED: LIMIT_OIDC_EXCHANGES are under way. After an error, done() is not called. */
enum err oidc_exchange_begin(struct oidc *o, struct oidc_exchange *e, struct fault *f);

/* ---- for a bearer token ---- */

/* The number of the provider whose issuer the token names, without any proof; oidc_count(): none, or
 * it is not a JWT. */
size_t oidc_provider_of(const struct oidc *o, struct str token);
/* Whether a token of the provider was verified before, perhaps by earlier documents. */
bool oidc_has_bearer(struct oidc *o, size_t provider, struct str token);
/* ERR_UNAUTHENTICATED, ERR_CREDENTIAL_EXPIRED, ERR_IDENTITY_REFUSED, ERR_PROVIDER_UNAVAILABLE;
 * ERR_BODY_TOO_LARGE: the arena is full. *ret_may_change: the key is unknown and a fetch is under way,
 * after which `changed` is called and the outcome may be another. */
enum err oidc_verify_bearer(struct oidc *o, size_t provider, struct str token, uint64_t now_ms,
                            struct arena *arena, struct identity *ret, bool *ret_may_change,
                            struct fault *f);

/* ---- for /healthz ---- */

struct oidc_status {
    const char *name;
    bool is_usable;
    uint64_t fetched_at; /* ms; 0: never */
    char error[260];     /* of the last fetch; "": it succeeded */
};
void oidc_status_of(struct oidc *o, size_t provider, struct oidc_status *ret);

#endif
