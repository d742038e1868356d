/* inside.h - what the files of this room share.
 *
 *   settings.c    the options, checked
 *   documents.c   what was fetched last, and how long it may be used
 *   verify.c      tokens: those of sign-ins, and bearer tokens
 *   exchange.c    the request to the token endpoint, and its answer
 *   oidc.c        the thread
 *
 * Each file calls only those above it. */
#ifndef OIDC_INSIDE_H
#define OIDC_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "oidc/claims.h"
#include "oidc/discovery.h"
#include "oidc/jwks.h"
#include "oidc/oidc.h"
#include "oidc/person.h"
#include "outbound/outbound.h"

enum { EXCHANGES_AT_ONCE = 8 };

/* ---- documents.c ---- */

struct documents { /* immutable, counted */
    atomic_uint holders;
    uint64_t number; /* of the fetch, so that others notice a new one */
    uint64_t fetched_ns, fetched_at_ms;
    struct discovery discovery;
    struct jwks *keys;
};

struct provider {
    struct oidc_settings settings;
    pthread_mutex_t lock;                 /* of the following */
    struct documents *documents;          /* NULL: none was fetched yet */
    char error[OUTBOUND_ERROR_TEXT + 60]; /* of the last fetch; "": it succeeded */
    bool is_fetching;                     /* one is under way, or is wanted at once */
    uint64_t asked_ns;                    /* when an unknown key last caused a fetch; 0: never */
    uint64_t fetches;
};

void provider_init(struct provider *p, const struct oidc_settings *s);
void provider_fini(struct provider *p);

/* Whether documents of that age may be used. */
bool documents_hold(uint64_t fetched_ns, uint64_t now_ns);
/* Whether an unknown key may cause another fetch. */
bool documents_may_ask(uint64_t asked_ns, uint64_t now_ns);

/* Those in force; the caller releases them. ERR_PROVIDER_UNAVAILABLE. */
enum err provider_documents(struct provider *p, uint64_t now_ns, struct documents **ret,
                            bool *ret_may_change, struct fault *f);
void documents_release(struct documents *d); /* accepts NULL */
/* A key is unknown. True: a fetch is under way now; *ret_wake: the thread has to begin it. */
bool provider_ask(struct provider *p, uint64_t now_ns, bool *ret_wake);
/* The end of a fetch: takes `keys`. */
void provider_fetched(struct provider *p, const struct discovery *d, struct jwks *keys,
                      uint64_t now_ns, uint64_t now_ms);
void provider_failed(struct provider *p, const char *why);

/* ---- settings.c ---- */

enum err settings_check(const struct oidc_settings *s, struct fault *f);
/* Two providers of which a bearer token could be. */
enum err settings_check_all(const struct oidc_settings *all, size_t count, struct fault *f);

/* ---- verify.c ---- */

/* Signature, claims and person. `nonce` absent: a bearer token. ERR_NOT_FOUND: no key has its kid. */
enum err verify_token(const struct oidc_settings *s, const struct documents *d, struct str token,
                      struct str nonce, uint64_t now_ms, struct arena *arena, struct identity *ret,
                      struct fault *f);

struct bearer { /* a token that was verified; free: digest and fetch are zero */
    struct sha256 digest;
    size_t provider;
    uint64_t fetch; /* the number of the documents */
    struct arena arena;
    struct identity identity;
};

struct bearers {
    pthread_mutex_t lock;
    struct bearer list[LIMIT_OIDC_BEARERS];
    size_t next; /* the oldest */
};

void bearers_init(struct bearers *b);
void bearers_fini(struct bearers *b);
bool bearers_have(struct bearers *b, size_t provider, struct str token); /* oidc_has_bearer() */
/* As oidc_verify_bearer(), but ERR_NOT_FOUND: no key has its kid. */
enum err bearers_verify(struct bearers *b, struct provider *p, size_t provider, struct str token,
                        uint64_t now_ms, struct arena *arena, struct identity *ret,
                        bool *ret_may_change, struct fault *f);

/* ---- exchange.c ---- */

/* False: the secret's file cannot be read, or there is no memory; e->err and e->fault are set. */
bool exchange_begin(struct oidc_exchange *e, const struct oidc_settings *s,
                    const struct discovery *d, struct outbound *out, size_t place);
/* Sets e->id_token, or e->err and e->fault. */
void exchange_read(struct oidc_exchange *e, const struct outbound_result *r);

static inline bool allows_private(const struct oidc_settings *s)
{
    return s->allow_private || s->insecure_loopback;
}

#endif
