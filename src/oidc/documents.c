/* documents.c - what was fetched last of a provider, and how long it may be used. */
#include "oidc/inside.h"

#include <stdio.h>
#include <stdlib.h>

#define SECOND_NS UINT64_C(1000000000)

void provider_init(struct provider *p, const struct oidc_settings *s)
{
    *p = (struct provider){.settings = *s, .is_fetching = true};
    pthread_mutex_init(&p->lock, NULL);
}

void provider_fini(struct provider *p)
{
    documents_release(p->documents);
    pthread_mutex_destroy(&p->lock);
}

void documents_release(struct documents *d)
{
    if (d == NULL || atomic_fetch_sub(&d->holders, 1) > 1) return;
    jwks_destroy(d->keys);
    free(d);
}

bool documents_hold(uint64_t fetched_ns, uint64_t now_ns)
{
    return now_ns - fetched_ns < LIMIT_OIDC_KEYS_HOURS * 3600 * SECOND_NS;
}

bool documents_may_ask(uint64_t asked_ns, uint64_t now_ns)
{
    return asked_ns == 0 || now_ns - asked_ns >= LIMIT_OIDC_UNKNOWN_KEY_SECONDS * SECOND_NS;
}

enum err provider_documents(struct provider *p, uint64_t now_ns, struct documents **ret,
                            bool *ret_may_change, struct fault *f)
{
    enum err err = ERR_OK;
    pthread_mutex_lock(&p->lock);
    struct documents *d = p->documents;
    *ret_may_change = p->is_fetching;
    if (d != NULL && documents_hold(d->fetched_ns, now_ns)) {
        atomic_fetch_add(&d->holders, 1);
        *ret = d;
    } else {
        err = fault_set(f, ERR_PROVIDER_UNAVAILABLE, "",
                        "the identity provider %s cannot be used now: %s%s", p->settings.name,
                        d != NULL ? "its keys are older than 24 h; " : "",
                        p->error[0] != '\0' ? p->error : "its keys are not fetched yet");
    }
    pthread_mutex_unlock(&p->lock);
    return err;
}

bool provider_ask(struct provider *p, uint64_t now_ns, bool *ret_wake)
{
    pthread_mutex_lock(&p->lock);
    *ret_wake = !p->is_fetching && documents_may_ask(p->asked_ns, now_ns);
    if (*ret_wake) {
        p->is_fetching = true;
        p->asked_ns = now_ns;
    }
    bool is_fetching = p->is_fetching;
    pthread_mutex_unlock(&p->lock);
    return is_fetching;
}

void provider_fetched(struct provider *p, const struct discovery *discovery, struct jwks *keys,
                      uint64_t now_ns, uint64_t now_ms)
{
    struct documents *d = malloc(sizeof *d);
    if (d == NULL) {
        jwks_destroy(keys);
        provider_failed(p, "there was no memory for its keys");
        return;
    }
    *d = (struct documents){.holders = 1,
                            .fetched_ns = now_ns,
                            .fetched_at_ms = now_ms,
                            .discovery = *discovery,
                            .keys = keys};
    pthread_mutex_lock(&p->lock);
    d->number = ++p->fetches;
    struct documents *before = p->documents;
    p->documents = d;
    p->error[0] = '\0';
    p->is_fetching = false;
    pthread_mutex_unlock(&p->lock);
    documents_release(before);
}

void provider_failed(struct provider *p, const char *why)
{
    pthread_mutex_lock(&p->lock);
    snprintf(p->error, sizeof p->error, "%s", why);
    p->is_fetching = false;
    pthread_mutex_unlock(&p->lock);
}
