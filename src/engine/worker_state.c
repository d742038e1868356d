/* worker_state.c - what is asked of a worker within its beat, and what it tells the engine. */
#include "engine/engine.h"

bool worker_has_room(const struct worker *w) { return journal_has_room(w->commit.producer); }

bool engine_stands_still(const struct engine *e)
{
    return atomic_load_explicit(&e->standing_still, memory_order_relaxed) != 0;
}

const char *engine_why_empty(const struct engine *e)
{
    return e->config.platform_url[0] != '\0'
               ? "no policies and keys have come from the platform yet"
               : "there are no policies and keys, and platform.url, where they come from, is not set";
}

void worker_moved(struct worker *w)
{
    atomic_store_explicit(&w->in_use, w->bundle, memory_order_release);
    sem_post(&w->engine->bundle_seen);
}

bool worker_actor_is_suspended(const struct worker *w, struct str tenant, struct str actor)
{
    uint64_t dead_until_ms;
    return revoked_view_actor(w->revoked, tenant, actor, &dead_until_ms);
}

uint64_t worker_actor_dead_until(const struct worker *w, struct str tenant, struct str actor)
{
    uint64_t dead_until_ms;
    (void)revoked_view_actor(w->revoked, tenant, actor, &dead_until_ms);
    return dead_until_ms;
}

bool worker_token_is_dead(void *worker, const struct token_claims *t)
{
    const struct worker *w = worker;
    uint64_t dead_until_ms;
    if (!signers_have(w->api.signers, t->signer)) return true;
    if (revoked_view_token(w->revoked, t->id)) return true;
    bool suspended = revoked_view_actor(w->revoked, t->tenant, t->actor, &dead_until_ms);
    return suspended || id_time_ms(t->id) <= dead_until_ms;
}

uint64_t worker_ordinal_next(const struct worker *w)
{
    return atomic_load_explicit(&w->engine->ordinal, memory_order_relaxed);
}
uint64_t worker_ordinal(struct worker *w)
{
    return atomic_fetch_add_explicit(&w->engine->ordinal, 1, memory_order_relaxed);
}
