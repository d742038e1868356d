/* oidc.c - the thread that fetches documents and exchanges codes.
 *
 * A fetch is two requests: the discovery document, then the keys that it names. Only both together
 * replace what was fetched before, so keys and endpoints are always of one moment. After a failure the
 * documents before it stay, up to their age, and the fetch is repeated with growing waits.
 *
 *   IDLE ──due, or asked for──▶ DISCOVERY ──▶ KEYS ──▶ IDLE       (a failure: IDLE)
 *
 *   exchange: WAITING ──▶ SENDING ──▶ verified, or refused
 *                            └──its key is unknown──▶ NEEDS_KEYS ──a fetch has ended──▶ the same */
#include <stdio.h>
#include <stdlib.h>

#include "base/backoff.h"
#include "base/check.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/world.h"
#include "oidc/inside.h"

enum { LOOK_MS = 1000, URL_TEXT = OIDC_URL_MAX + 64, ARENA_FIRST = 16 << 10, ARENA_MAX = 8 << 20 };

static const struct backoff retry = {.first_ms = 1000, .most_ms = 60000};

enum step { STEP_IDLE, STEP_DISCOVERY, STEP_KEYS };

struct fetch { /* of one provider; the thread's */
    enum step step;
    uint64_t due_ns;
    uint64_t failures;
    struct discovery discovery;
};

enum exchange_state { EXCHANGE_FREE, EXCHANGE_SENDING, EXCHANGE_NEEDS_KEYS };

struct running {
    enum exchange_state state;
    struct oidc_exchange *exchange;
};

struct oidc {
    struct provider providers[OIDC_PROVIDERS_MAX];
    size_t count;
    struct bearers bearers;
    void (*changed)(void *context);
    void *context;

    pthread_mutex_t lock; /* of the following */
    struct oidc_exchange *first, **last;
    size_t waiting; /* exchanges that have begun and not ended */
    bool is_stopping;

    /* the thread's; but any thread may wake it */
    struct outbound *outbound; /* a place for each provider, then one for each running exchange */
    struct fetch fetches[OIDC_PROVIDERS_MAX];
    struct running running[EXCHANGES_AT_ONCE];
    struct arena arena;
    pthread_t thread;
    bool has_thread;
};

/* ---- fetches ---- */

static bool send_get(struct oidc *o, size_t i, const char *url)
{
    const struct outbound_request r = {.method = OUTBOUND_GET,
                                       .url = url,
                                       .headers = {"accept: application/json"},
                                       .header_count = 1,
                                       .answer_max = LIMIT_OIDC_DOCUMENT_BYTES,
                                       .allow_private = allows_private(&o->providers[i].settings)};
    return outbound_begin(o->outbound, i, &r);
}

/* Once for each reason, not for each attempt. */
static void fetch_failed(struct oidc *o, size_t i, const char *what, const char *why)
{
    struct provider *p = &o->providers[i];
    struct fetch *fetch = &o->fetches[i];
    char text[sizeof p->error];
    snprintf(text, sizeof text, "%s%s", what, why);
    if (strcmp(text, p->error) != 0)
        log_line(LOG_WARNING, "provider_unavailable", "provider", p->settings.name, "why", text,
                 NULL);
    fetch->step = STEP_IDLE;
    fetch->due_ns =
        world_monotonic_ns() + (uint64_t)backoff_ms(&retry, ++fetch->failures) * 1000000;
    provider_failed(p, text);
    o->changed(o->context);
}

static void fetch_begin(struct oidc *o, size_t i)
{
    char url[URL_TEXT];
    const char *issuer = o->providers[i].settings.issuer;
    size_t size = strlen(issuer);
    while (size > 0 && issuer[size - 1] == '/') size--;
    snprintf(url, sizeof url, "%.*s/.well-known/openid-configuration", (int)size, issuer);
    o->fetches[i].step = STEP_DISCOVERY;
    if (!send_get(o, i, url)) fetch_failed(o, i, "", "there was no memory for the request");
}

static enum err check_answer(const struct outbound_result *r, struct fault *f)
{
    if (r->status == 200 && r->is_delivered) return ERR_OK;
    if (r->is_delivered)
        return fault_set(f, ERR_PROVIDER_UNAVAILABLE, "", "it answered HTTP %ld", r->status);
    return fault_set(f, ERR_PROVIDER_UNAVAILABLE, "", "%s", r->error);
}

static void take_discovery(struct oidc *o, size_t i, const struct outbound_result *r)
{
    struct fetch *fetch = &o->fetches[i];
    struct fault f;
    enum err err = check_answer(r, &f);
    if (err == ERR_OK)
        err =
            discovery_read(r->answer, &o->providers[i].settings, &o->arena, &fetch->discovery, &f);
    if (err != ERR_OK) {
        fetch_failed(o, i, "its discovery document cannot be used: ", f.text);
        return;
    }
    fetch->step = STEP_KEYS;
    if (!send_get(o, i, fetch->discovery.keys))
        fetch_failed(o, i, "", "there was no memory for the request");
}

static void take_keys(struct oidc *o, size_t i, const struct outbound_result *r)
{
    struct fetch *fetch = &o->fetches[i];
    struct provider *p = &o->providers[i];
    struct jwks *keys = NULL;
    struct fault f;
    enum err err = check_answer(r, &f);
    if (err == ERR_OK) err = jwks_read(r->answer, &o->arena, &keys, &f);
    if (err != ERR_OK) {
        fetch_failed(o, i, "its keys cannot be used: ", f.text);
        return;
    }
    if (p->error[0] != '\0' || p->documents == NULL)
        log_line(LOG_INFO, "provider_usable", "provider", p->settings.name, NULL);
    fetch->step = STEP_IDLE;
    fetch->failures = 0;
    fetch->due_ns = world_monotonic_ns() + LIMIT_OIDC_REFRESH_SECONDS * UINT64_C(1000000000);
    provider_fetched(p, &fetch->discovery, keys, world_monotonic_ns(), world_now_ms());
    o->changed(o->context);
}

static bool is_wanted(struct provider *p)
{
    pthread_mutex_lock(&p->lock);
    bool is_fetching = p->is_fetching;
    pthread_mutex_unlock(&p->lock);
    return is_fetching;
}

static void begin_fetch_if_due(struct oidc *o, size_t i, uint64_t now_ns)
{
    struct provider *p = &o->providers[i];
    if (o->fetches[i].step != STEP_IDLE) return;
    if (!is_wanted(p) && now_ns < o->fetches[i].due_ns) return;
    pthread_mutex_lock(&p->lock);
    p->is_fetching = true;
    pthread_mutex_unlock(&p->lock);
    fetch_begin(o, i);
}

static void step_fetch(struct oidc *o, size_t i)
{
    struct outbound_result result;
    begin_fetch_if_due(o, i, world_monotonic_ns());
    if (o->fetches[i].step == STEP_IDLE || !outbound_take(o->outbound, i, &result)) return;
    arena_reset(&o->arena);
    if (o->fetches[i].step == STEP_DISCOVERY)
        take_discovery(o, i, &result);
    else
        take_keys(o, i, &result);
}

/* ---- exchanges ---- */

static void end_exchange(struct oidc *o, struct oidc_exchange *e)
{
    pthread_mutex_lock(&o->lock);
    o->waiting--;
    pthread_mutex_unlock(&o->lock);
    e->done(e);
}

static struct oidc_exchange *next_exchange(struct oidc *o)
{
    pthread_mutex_lock(&o->lock);
    struct oidc_exchange *e = o->first;
    if (e != NULL) o->first = e->next;
    if (o->first == NULL) o->last = &o->first;
    pthread_mutex_unlock(&o->lock);
    return e;
}

static size_t place_of(const struct oidc *o, const struct running *r)
{
    return o->count + (size_t)(r - o->running);
}

static void start_exchange(struct oidc *o, struct running *r, struct oidc_exchange *e)
{
    struct provider *p = &o->providers[e->provider];
    struct documents *d = NULL;
    bool ignored;
    e->err = provider_documents(p, world_monotonic_ns(), &d, &ignored, &e->fault);
    bool has_begun = e->err == ERR_OK &&
                     exchange_begin(e, &p->settings, &d->discovery, o->outbound, place_of(o, r));
    documents_release(d);
    if (has_begun)
        *r = (struct running){.state = EXCHANGE_SENDING, .exchange = e};
    else
        end_exchange(o, e);
}

/* `is_last`: an unknown key causes no further fetch. */
static void verify_exchange(struct oidc *o, struct running *r, bool is_last)
{
    struct oidc_exchange *e = r->exchange;
    struct provider *p = &o->providers[e->provider];
    struct documents *d = NULL;
    uint64_t now_ns = world_monotonic_ns();
    bool ignored;
    e->err = provider_documents(p, now_ns, &d, &ignored, &e->fault);
    if (e->err == ERR_OK)
        e->err = verify_token(&p->settings, d, e->id_token, e->nonce,
                              world_expiry_ms(world_now_ms()), e->arena, &e->identity, &e->fault);
    documents_release(d);
    if (e->err == ERR_NOT_FOUND && !is_last && provider_ask(p, now_ns, &ignored)) {
        r->state = EXCHANGE_NEEDS_KEYS;
        return;
    }
    if (e->err == ERR_NOT_FOUND) e->err = e->fault.err = ERR_UNAUTHENTICATED;
    if (e->err == ERR_BODY_TOO_LARGE)
        e->err = fault_set(&e->fault, ERR_OVERLOADED, "", "there was no memory for the sign-in");
    *r = (struct running){0};
    end_exchange(o, e);
}

static void step_exchange(struct oidc *o, struct running *r)
{
    struct outbound_result result;
    if (r->state == EXCHANGE_NEEDS_KEYS && !is_wanted(&o->providers[r->exchange->provider]))
        verify_exchange(o, r, true);
    if (r->state == EXCHANGE_SENDING && outbound_take(o->outbound, place_of(o, r), &result)) {
        exchange_read(r->exchange, &result);
        if (r->exchange->err == ERR_OK) {
            verify_exchange(o, r, false);
        } else {
            struct oidc_exchange *e = r->exchange;
            *r = (struct running){0};
            end_exchange(o, e);
        }
    }
    while (r->state == EXCHANGE_FREE) {
        struct oidc_exchange *e = next_exchange(o);
        if (e == NULL) return;
        start_exchange(o, r, e);
    }
}

static void refuse_all(struct oidc *o)
{
    struct oidc_exchange *e;
    for (size_t i = 0; i < EXCHANGES_AT_ONCE; i++)
        if (o->running[i].state != EXCHANGE_FREE) {
            e = o->running[i].exchange;
            e->err = fault_set(&e->fault, ERR_PROVIDER_UNAVAILABLE, "", "shutting down");
            end_exchange(o, e);
        }
    while ((e = next_exchange(o)) != NULL) {
        e->err = fault_set(&e->fault, ERR_PROVIDER_UNAVAILABLE, "", "shutting down");
        end_exchange(o, e);
    }
}

static bool is_stopping(struct oidc *o)
{
    pthread_mutex_lock(&o->lock);
    bool stops = o->is_stopping;
    pthread_mutex_unlock(&o->lock);
    return stops;
}

static void *run(void *context)
{
    struct oidc *o = context;
    while (!is_stopping(o)) {
        for (size_t i = 0; i < o->count; i++) step_fetch(o, i);
        for (size_t i = 0; i < EXCHANGES_AT_ONCE; i++) step_exchange(o, &o->running[i]);
        for (size_t i = 0; i < o->count; i++) step_fetch(o, i); /* an exchange may have asked */
        outbound_work(o->outbound, LOOK_MS);
    }
    refuse_all(o);
    return NULL;
}

/* ---- life ---- */

enum err oidc_start(const struct oidc_settings *settings, size_t count, const char *ca_file,
                    void (*changed)(void *context), void *context, struct oidc **ret,
                    struct fault *f)
{
    check(count > 0 && count <= OIDC_PROVIDERS_MAX);
    enum err err = settings_check_all(settings, count, f);
    if (err != ERR_OK) return err;
    struct oidc *o = calloc(1, sizeof *o);
    check(o != NULL);
    o->count = count;
    o->changed = changed;
    o->context = context;
    o->last = &o->first;
    for (size_t i = 0; i < count; i++) provider_init(&o->providers[i], &settings[i]);
    bearers_init(&o->bearers);
    pthread_mutex_init(&o->lock, NULL);
    arena_init(&o->arena, ARENA_FIRST, ARENA_MAX);
    o->outbound = outbound_create(count + EXCHANGES_AT_ONCE, ca_file);
    check(o->outbound != NULL);
    thread_start(&o->thread, "providers", run, o);
    o->has_thread = true;
    *ret = o;
    return ERR_OK;
}

void oidc_stop(struct oidc *o)
{
    if (o == NULL || !o->has_thread) return;
    pthread_mutex_lock(&o->lock);
    o->is_stopping = true;
    pthread_mutex_unlock(&o->lock);
    outbound_wake(o->outbound);
    pthread_join(o->thread, NULL);
    o->has_thread = false;
}

void oidc_destroy(struct oidc *o)
{
    if (o == NULL) return;
    check(!o->has_thread && o->waiting == 0);
    outbound_destroy(o->outbound);
    for (size_t i = 0; i < o->count; i++) provider_fini(&o->providers[i]);
    bearers_fini(&o->bearers);
    arena_fini(&o->arena);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

/* ---- any thread ---- */

size_t oidc_count(const struct oidc *o) { return o->count; }

const struct oidc_settings *oidc_settings_of(const struct oidc *o, size_t provider)
{
    check(provider < o->count);
    return &o->providers[provider].settings;
}

size_t oidc_find(const struct oidc *o, struct str name)
{
    size_t i = 0;
    while (i < o->count && !str_equal(name, str_from(o->providers[i].settings.name))) i++;
    return i;
}

enum err oidc_endpoints(struct oidc *o, size_t provider, struct oidc_endpoints *ret,
                        bool *ret_may_change, struct fault *f)
{
    struct documents *d = NULL;
    enum err err =
        provider_documents(&o->providers[provider], world_monotonic_ns(), &d, ret_may_change, f);
    if (err != ERR_OK) return err;
    memcpy(ret->authorization, d->discovery.authorization, sizeof ret->authorization);
    memcpy(ret->end_session, d->discovery.end_session, sizeof ret->end_session);
    ret->names_issuer = d->discovery.names_issuer;
    documents_release(d);
    return ERR_OK;
}

enum err oidc_exchange_begin(struct oidc *o, struct oidc_exchange *e, struct fault *f)
{
    check(e->provider < o->count && e->nonce.size > 0 && e->nonce.size <= OIDC_NONCE_MAX);
    e->next = NULL;
    e->err = ERR_OK;
    pthread_mutex_lock(&o->lock);
    bool has_room = !o->is_stopping && o->waiting < LIMIT_OIDC_EXCHANGES;
    if (has_room) {
        *o->last = e;
        o->last = &e->next;
        o->waiting++;
    }
    pthread_mutex_unlock(&o->lock);
    if (!has_room)
        return fault_set(f, ERR_OVERLOADED, "", "%d sign-ins are under way: try again later",
                         LIMIT_OIDC_EXCHANGES);
    outbound_wake(o->outbound);
    return ERR_OK;
}

/* ---- bearer tokens ---- */

size_t oidc_provider_of(const struct oidc *o, struct str token)
{
    struct arena arena;
    struct jws jws;
    struct fault ignored;
    size_t found = o->count;
    arena_init(&arena, ARENA_FIRST, ARENA_MAX);
    if (jws_read(token, &arena, &jws, &ignored) == ERR_OK) {
        struct str issuer = json_text(jws.claims, STR("iss"));
        for (size_t i = 0; i < o->count && found == o->count; i++) {
            const struct oidc_settings *s = &o->providers[i].settings;
            if (*s->audience != '\0' && str_equal(issuer, str_from(s->issuer))) found = i;
        }
    }
    arena_fini(&arena);
    return found;
}

bool oidc_has_bearer(struct oidc *o, size_t provider, struct str token)
{
    return bearers_have(&o->bearers, provider, token);
}

enum err oidc_verify_bearer(struct oidc *o, size_t provider, struct str token, uint64_t now_ms,
                            struct arena *arena, struct identity *ret, bool *ret_may_change,
                            struct fault *f)
{
    struct provider *p = &o->providers[provider];
    bool wakes = false;
    enum err err =
        bearers_verify(&o->bearers, p, provider, token, now_ms, arena, ret, ret_may_change, f);
    if (err != ERR_NOT_FOUND) return err;
    *ret_may_change = provider_ask(p, world_monotonic_ns(), &wakes);
    if (wakes) outbound_wake(o->outbound);
    return f->err = ERR_UNAUTHENTICATED;
}

/* ---- /healthz ---- */

void oidc_status_of(struct oidc *o, size_t provider, struct oidc_status *ret)
{
    struct provider *p = &o->providers[provider];
    pthread_mutex_lock(&p->lock);
    const struct documents *d = p->documents;
    *ret = (struct oidc_status){.name = p->settings.name,
                                .is_usable = d != NULL &&
                                             documents_hold(d->fetched_ns, world_monotonic_ns()),
                                .fetched_at = d != NULL ? d->fetched_at_ms : 0};
    snprintf(ret->error, sizeof ret->error, "%s", p->error);
    pthread_mutex_unlock(&p->lock);
}
