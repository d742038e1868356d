/* retry_step.c - Idempotency-Keys of decisions: hold, keep, drop; replay, save and load.
 *
 *   saved outcome   a delta entry RETRY_KEPT, then the record's public bytes
 *
 * Nothing is recorded here: the record of the decision contains the entry, whichever reactor
 * journals it. The origin sends RETRY_KEEP when that record is durable, so no retry learns of an
 * outcome that a crash could still undo. */
#include "base/check.h"
#include "shards/inside.h"

static enum err damaged(struct fault *f, const char *what)
{
    return fault_set(f, ERR_CORRUPT, "", "%s", what);
}

/* ---- calls ---- */

static bool is_over(const struct retry_entry *r, uint64_t now_ms)
{
    return r->is_kept && now_ms >= r->facts.at_ms + (uint64_t)LIMIT_OUTCOME_SECONDS * 1000;
}

static enum err show(const struct retry_entry *r, struct call *c)
{
    check(r->is_kept);
    c->outcome.facts.verdict = r->facts.verdict;
    c->outcome.facts.at_ms = r->facts.at_ms;
    c->outcome.facts.has_record = r->facts.has_record;
    c->outcome.facts.record = (struct str){0};
    if (str_is_empty(r->facts.record)) return ERR_OK;
    c->outcome.facts.record = arena_copy(c->arena, r->facts.record);
    return str_is_absent(c->outcome.facts.record) ? ERR_OVERLOADED : ERR_OK;
}

static void begin(struct shard *s, struct call *c)
{
    struct retry_table *t = &s->retries;
    const struct retry_outcome *f = &c->outcome.facts;
    struct retry_entry *r = retry_find(t, f->key);
    c->outcome.is_held = false;
    if (r != NULL) retry_entry_check(r);
    if (r != NULL && is_over(r, c->now_ms)) {
        retry_drop(t, r);
        r = NULL;
    }
    if (r != NULL && !review_digest_equal(&r->facts.body, &f->body)) {
        c->err = ERR_IDEMPOTENCY_MISMATCH;
    } else if (r != NULL && r->is_kept) {
        c->err = show(r, c);
    } else if (r != NULL && r->waiter_count == LIMIT_WAITERS_PER_OUTCOME) {
        c->err = ERR_OVERLOADED;
    } else if (r != NULL) {
        retry_waiter_add(r, c);
    } else {
        c->err = retry_ask(t, f, c->now_ms, &c->quota);
        if (c->err == ERR_OK) c->err = retry_take(t, f, c->now_ms, &r);
        if (c->err == ERR_FULL) c->err = ERR_OVERLOADED;
        c->outcome.is_held = c->err == ERR_OK;
    }
}

static void keep(struct shard *s, struct call *c, struct effects *e)
{
    struct retry_entry *r = retry_find(&s->retries, c->outcome.facts.key);
    check(r != NULL && !r->is_kept);
    retry_keep(&s->retries, r, &c->outcome.facts);
    for (struct call *w; (w = retry_waiter_take(r)) != NULL;) {
        w->err = show(r, w);
        effects_wake(e, w);
    }
    check(r->is_kept && r->waiters == NULL);
}

/* Passes the key to one that waits, which decides the request. */
static void drop(struct shard *s, struct call *c, struct effects *e)
{
    struct retry_entry *r = retry_find(&s->retries, c->outcome.facts.key);
    check(r != NULL && !r->is_kept);
    struct call *next = retry_waiter_take(r);
    if (next == NULL) {
        retry_drop(&s->retries, r);
        return;
    }
    next->outcome.is_held = true;
    retry_entry_check(r);
    effects_wake(e, next);
}

void retry_step(struct shard *s, struct call *c, struct effects *e)
{
    check(slot_of_key(c->outcome.facts.key) == c->slot);
    switch (c->kind) {
    case CALL_RETRY_BEGIN: begin(s, c); return;
    case CALL_RETRY_KEEP: keep(s, c, e); return;
    case CALL_RETRY_DROP: drop(s, c, e); return;
    default: check(false);
    }
}

/* ---- replay, save, load ---- */

enum err retry_apply(struct shard *s, const struct delta_entry *e, struct str event,
                     struct fault *f)
{
    struct retry_outcome facts;
    if (!delta_read_kept(e->body, &facts) || slot_of_key(facts.key) != e->slot)
        return damaged(f, "the outcome of an Idempotency-Key is damaged");
    if (facts.has_record) facts.record = event;
    struct retry_entry *r = retry_find(&s->retries, facts.key);
    if (r == NULL && retry_take(&s->retries, &facts, facts.at_ms, &r) != ERR_OK)
        return fault_set(f, ERR_FULL, "", "there is not enough memory for the state");
    retry_keep(&s->retries, r, &facts);
    check(r->is_kept);
    return ERR_OK;
}

enum err retry_save(const struct shard *s, struct buf *out,
                    enum err (*put)(void *context, struct str entry), void *context)
{
    size_t cursor = 0;
    enum err err = ERR_OK;
    for (const struct retry_entry *r;
         err == ERR_OK && (r = retry_table_next(&s->retries, &cursor)) != NULL;) {
        check(shard_owns(s, slot_of_key(r->facts.key)));
        save_begin(out, SHARD_RETRIES, slot_of_key(r->facts.key),
                   str_of((const char *)r->facts.key.bytes, SLOT_KEY_BYTES));
        delta_put_kept(out, &r->facts);
        buf_put(out, r->facts.record);
        err = out->overflow ? ERR_FULL : put(context, buf_view(out));
    }
    return err;
}

enum err retry_load(struct shard *s, const struct shard_entry *entry, struct str body,
                    struct fault *f)
{
    struct delta_entry e;
    enum err err;
    if (!delta_next(&body, &e, &err) || e.kind != DELTA_RETRY_KEPT || e.slot != entry->slot)
        return damaged(f, "a saved outcome of an Idempotency-Key is damaged");
    return retry_apply(s, &e, body, f);
}
