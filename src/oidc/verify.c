/* verify.c - tokens of sign-ins and bearer tokens, verified; and those that are known. */
#include "oidc/inside.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/world.h"

enum { BEARER_FIRST_BYTES = 512, BEARER_BYTES_MAX = 16 << 10 };

enum err verify_token(const struct oidc_settings *s, const struct documents *d, struct str token,
                      struct str nonce, uint64_t now_ms, struct arena *arena, struct identity *ret,
                      struct fault *f)
{
    struct jws jws;
    uint64_t expires_at_ms = 0;
    const struct claims_rule rule = {
        .issuer = str_from(s->issuer),
        .audience = str_from(str_is_absent(nonce) ? s->audience : s->client_id),
        .nonce = nonce,
        .now_ms = now_ms};
    enum err err = jws_read(token, arena, &jws, f);
    if (err != ERR_OK) return err;
    switch (jws_verify(&jws, d->keys)) {
    case JWS_UNKNOWN_KEY:
        return fault_set(f, ERR_NOT_FOUND, "",
                         "the token is not valid: the provider has no key with its kid");
    case JWS_FORGED:
        return fault_set(f, ERR_UNAUTHENTICATED, "",
                         "the token is not valid: its signature is not that of the provider's key");
    case JWS_VERIFIED: break;
    }
    err = claims_check_token(&jws, &rule, &expires_at_ms, f);
    if (err == ERR_OK) err = person_read(s, jws.claims, arena, ret, f);
    if (err == ERR_OK) ret->expires_at = expires_at_ms;
    return err;
}

/* ---- bearer tokens that are known ---- */

void bearers_init(struct bearers *b) { pthread_mutex_init(&b->lock, NULL); }

void bearers_fini(struct bearers *b)
{
    for (size_t i = 0; i < LIMIT_OIDC_BEARERS; i++)
        if (b->list[i].fetch != 0) arena_fini(&b->list[i].arena);
    pthread_mutex_destroy(&b->lock);
}

bool bearers_have(struct bearers *b, size_t provider, struct str token)
{
    const struct sha256 digest = sha256_once(token);
    bool has = false;
    pthread_mutex_lock(&b->lock);
    for (size_t i = 0; i < LIMIT_OIDC_BEARERS && !has; i++)
        has = b->list[i].fetch != 0 && b->list[i].provider == provider &&
              memcmp(&b->list[i].digest, &digest, sizeof digest) == 0;
    pthread_mutex_unlock(&b->lock);
    return has;
}

/* A linear search of 32 bytes each: at most some microseconds. NULL: it is not known. */
static const struct bearer *find(const struct bearers *b, size_t provider,
                                 const struct sha256 *digest, uint64_t fetch)
{
    for (size_t i = 0; i < LIMIT_OIDC_BEARERS; i++) {
        const struct bearer *one = &b->list[i];
        if (one->fetch == fetch && one->provider == provider &&
            memcmp(&one->digest, digest, sizeof *digest) == 0)
            return one;
    }
    return NULL;
}

/* Without memory it is not kept. */
static void keep(struct bearers *b, size_t provider, const struct sha256 *digest, uint64_t fetch,
                 const struct identity *identity)
{
    struct bearer *one = &b->list[b->next];
    if (one->fetch != 0)
        arena_reset(&one->arena);
    else
        arena_init(&one->arena, BEARER_FIRST_BYTES, BEARER_BYTES_MAX);
    one->digest = *digest;
    one->provider = provider;
    one->fetch = fetch;
    if (!identity_copy(identity, &one->arena, &one->identity)) {
        memset(&one->digest, 0, sizeof one->digest);
        return;
    }
    b->next = (b->next + 1) % LIMIT_OIDC_BEARERS;
}

static enum err verify_known(struct bearers *b, struct provider *p, size_t provider,
                             const struct documents *d, struct str token, uint64_t now_ms,
                             struct arena *arena, struct identity *ret, struct fault *f)
{
    const struct sha256 digest = sha256_once(token);
    const struct bearer *known = find(b, provider, &digest, d->number);
    if (known == NULL) {
        enum err err = verify_token(&p->settings, d, token, (struct str){0}, now_ms, arena, ret, f);
        if (err == ERR_OK) keep(b, provider, &digest, d->number, ret);
        return err;
    }
    if (now_ms >= known->identity.expires_at + (uint64_t)LIMIT_OIDC_SKEW_SECONDS * 1000)
        return fault_set(f, ERR_CREDENTIAL_EXPIRED, "", "the provider's token has expired");
    return identity_copy(&known->identity, arena, ret) ? ERR_OK
                                                       : fault_plain(f, ERR_BODY_TOO_LARGE);
}

enum err bearers_verify(struct bearers *b, struct provider *p, size_t provider, struct str token,
                        uint64_t now_ms, struct arena *arena, struct identity *ret,
                        bool *ret_may_change, struct fault *f)
{
    struct documents *d = NULL;
    enum err err = provider_documents(p, world_monotonic_ns(), &d, ret_may_change, f);
    if (err != ERR_OK) return err;
    *ret_may_change = false;
    pthread_mutex_lock(&b->lock);
    err = verify_known(b, p, provider, d, token, now_ms, arena, ret, f);
    pthread_mutex_unlock(&b->lock);
    documents_release(d);
    return err;
}
