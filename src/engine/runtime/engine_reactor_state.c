/* engine_reactor_state.c - the state of a reactor that its turn and the engine read. */
#include "base/check.h"
#include "engine/engine.h"
#include "engine/runtime/operation.h"
#include "engine/runtime/signing.h"

void engine_reactor_check(const struct engine_reactor *w)
{
    const bool is_old_in_use = w->pins_before > 0;
    check(w->index < w->engine->reactor_count && !w->is_stepping);
    check((w->bundle != atomic_load_explicit(&w->in_use, memory_order_relaxed)) == is_old_in_use);
    check(!list_is_empty(&w->away) || (w->pins == 0 && !is_old_in_use));
    check((w->waits.shares.all.count == 0) == list_is_empty(&w->waiting));
    check(w->sealed_ns == 0 || w->sealed_block != 0);
}

bool engine_stands_still(const struct engine *e)
{
    return atomic_load_explicit(&e->standing_still, memory_order_relaxed) != 0;
}

const char *engine_why_empty(const struct engine *e)
{
    return e->config.platform_url[0] != '\0'
               ? "no policies and keys have come from the platform yet"
               : "there are no policies and keys, because platform.url is not set";
}

void engine_reactor_moved(struct engine_reactor *w)
{
    check(w->pins_before == 0 && w->bundle != NULL);
    atomic_store_explicit(&w->in_use, w->bundle, memory_order_release);
    sem_post(&w->engine->bundle_seen);
}

void engine_reactor_flush(struct engine_reactor *w)
{
    uint64_t written, durable;
    journal_seal(w->commit.producer);
    journal_progress(w->commit.producer, &written, &durable);
    http_server_release(w->server, written, durable);
}

struct api *engine_reactor_api(struct engine_reactor *w) { return &w->api; }

const struct digest_keys *engine_reactor_digest_keys(const struct engine_reactor *w)
{
    return &w->engine->digest_keys;
}

const struct signers *engine_reactor_signers_now(const struct engine_reactor *w)
{
    return signing_now(w->engine->signing);
}

unsigned engine_reactor_own_slot(const struct engine_reactor *w, unsigned slot)
{
    unsigned count = w->engine->reactor_count, own = slot - slot % count + w->index;
    return own < LIMIT_SLOTS ? own : own - count;
}

bool operation_actor_is_suspended(const struct operation *e, struct str tenant, struct str actor)
{
    return engine_reactor_actor_is_suspended(e->engine_reactor, tenant, actor);
}

uint64_t engine_reactor_actor_dead_until(const struct engine_reactor *w, struct str tenant,
                                         struct str actor)
{
    uint64_t dead_until_ms;
    (void)revoked_view_actor(w->revoked, tenant, actor, &dead_until_ms);
    return dead_until_ms;
}

bool engine_reactor_token_is_dead(void *engine_reactor, const struct token_claims *t)
{
    const struct engine_reactor *w = engine_reactor;
    uint64_t dead_until_ms;
    if (!signers_have(w->api.signers, t->signer)) return true;
    if (revoked_view_token(w->revoked, t->id)) return true;
    bool suspended = revoked_view_actor(w->revoked, t->tenant, t->actor, &dead_until_ms);
    return suspended || id_time_ms(t->id) <= dead_until_ms;
}

uint64_t engine_reactor_ordinal_next(const struct engine_reactor *w)
{
    return atomic_load_explicit(&w->engine->ordinal, memory_order_relaxed);
}
uint64_t engine_reactor_ordinal(struct engine_reactor *w)
{
    return atomic_fetch_add_explicit(&w->engine->ordinal, 1, memory_order_relaxed);
}
