/* shard.c - one reactor's state: dispatches calls, handles time, remembers blocks.
 *
 * A shard is independent tables; the step files connect them. Nothing here reads a clock or
 * waits. */
#include "shards/shard.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/planted.h"
#include "shards/inside.h"

enum {
    SCRATCH_FIRST_BYTES = 64 << 10,
    TICK_OBJECTS_MAX = 256, /* dropped in one tick, so that none takes long */
    TICK_WAITS_MAX = 32,    /* answered in one tick */
    SMALL_TABLE_PLACES = 32,
    TICK_RETRY_MS = 1000, /* after an expiry could not be recorded for want of memory */
};

static size_t share(size_t given, size_t limit, unsigned count)
{
    if (given > 0) return given;
    if (planted("small_tables")) return SMALL_TABLE_PLACES;
    return limit / count > 0 ? limit / count : 1;
}

struct shard *shard_create(const struct shard_options *options)
{
    check(options->count > 0 && options->index < options->count);
    struct shard *s = calloc(1, sizeof *s);
    if (s == NULL) return NULL;
    const unsigned count = options->count;
    s->index = options->index;
    s->count = count;
    s->signers.rotate_ms = options->rotate_ms;
    token_table_init(&s->tokens, share(options->tokens_max, LIMIT_TOKENS, count));
    limit_table_init(&s->limits, share(options->counters_max, LIMIT_COUNTERS, count));
    limit_table_init(&s->shadow_limits, share(0, LIMIT_SHADOW_COUNTERS, count));
    review_table_init(&s->reviews, share(options->reviews_max, LIMIT_REVIEWS, count),
                      LIMIT_REVIEW_BYTES / count);
    actor_table_init(&s->actors, share(0, LIMIT_SUSPENDED, count));
    retry_table_init(&s->retries, share(options->outcomes_max, LIMIT_OUTCOMES, count),
                     LIMIT_OUTCOME_BYTES / count);
    arena_init(&s->scratch, SCRATCH_FIRST_BYTES, LIMIT_REQUEST_ARENA_BYTES);
    return s;
}

void shard_destroy(struct shard *s)
{
    if (s == NULL) return;
    token_table_fini(&s->tokens);
    limit_table_fini(&s->limits);
    limit_table_fini(&s->shadow_limits);
    review_table_fini(&s->reviews);
    actor_table_fini(&s->actors);
    retry_table_fini(&s->retries);
    arena_fini(&s->scratch);
    free(s);
}

/* ---- invariants ---- */

/* Between two calls. Constant time. */
static void shard_check(const struct shard *s)
{
    check(s->index < s->count && s->count <= LIMIT_REACTORS);
    check(s->block_count <= SHARD_BLOCKS_MAX);
    token_table_check(&s->tokens);
    limit_table_check(&s->limits);
    limit_table_check(&s->shadow_limits);
    review_table_check(&s->reviews);
    actor_table_check(&s->actors);
    retry_table_check(&s->retries);
    signer_check(&s->signers);
}

void shard_recount(const struct shard *s)
{
    shard_check(s);
    shares_recount(&s->tokens.shares);
    shares_recount(&s->limits.shares);
    shares_recount(&s->shadow_limits.shares);
    shares_recount(&s->reviews.shares);
    shares_recount(&s->retries.shares);
}

/* ---- calls ---- */

static void dispatch(struct shard *s, struct call *c, struct effects *e)
{
    switch (c->kind) {
    case CALL_MINT:
    case CALL_SPEND:
    case CALL_UNSPEND:
    case CALL_TOKEN_GET:
    case CALL_TOKEN_LIST:
    case CALL_REVOKE: token_step(s, c, e); return;
    case CALL_ROTATE: signer_step(s, c, e); return;
    case CALL_COUNT:
    case CALL_UNCOUNT: limit_step(s, c); return;
    case CALL_RETRY_BEGIN:
    case CALL_RETRY_KEEP:
    case CALL_RETRY_DROP: retry_step(s, c, e); return;
    case CALL_ENQUEUE:
    case CALL_SHARE:
    case CALL_REVIEW_GET:
    case CALL_REVIEW_WAIT:
    case CALL_APPROVE:
    case CALL_DENY:
    case CALL_CANCEL:
    case CALL_TAKE_BACK:
    case CALL_CLAIM:
    case CALL_UNCLAIM:
    case CALL_REDEEM: review_step(s, c, e); return;
    case CALL_REVIEW_LIST: review_list_step(s, c, e); return;
    case CALL_REVIEW_FIND: review_find_step(s, c, e); return;
    case CALL_SUSPEND:
    case CALL_RESUME: actor_step(s, c, e); return;
    case CALL_DENY_SPELLINGS: actor_deny_spellings_step(s, c, e); return;
    case CALL_ACTOR_LIST: actor_list_step(s, c, e); return;
    case CALL_KINDS: break;
    }
    check(false);
}

void shard_step(struct shard *s, struct call *c, struct effects *ret)
{
    call_check(c);
    check(call_asks_each_shard(c->kind) || shard_owns(s, c->slot));
    check(c->previous == NULL);
    effects_reset(ret);
    s->block_count = 0;
    c->answered = false;
    c->err = ERR_OK;
    c->block = 0;
    dispatch(s, c, ret);
    c->answered = !ret->again && c->previous == NULL;
    /* A change is recorded: each object of the step has the block of a record. */
    check(s->block_count == 0 || ret->record_count > 0);
    check(!ret->again || c->err == ERR_OK);
    call_check(c);
    effects_check(ret);
    shard_check(s);
}

void shard_recorded(struct shard *s, uint64_t block)
{
    check(s->block_count == 0 || block > 0); /* 0 would be: it was recovered */
    for (size_t i = 0; i < s->block_count; i++) *s->blocks[i] = block;
    s->block_count = 0;
}

bool shard_may_record(const struct shard *s, const struct call *c)
{
    if (c->kind != CALL_REVIEW_GET && c->kind != CALL_REVIEW_WAIT && c->kind != CALL_CLAIM)
        return call_record_most(c) > 0;
    const struct review *r = review_find(&s->reviews, c->review.id);
    return r != NULL && review_is_overdue(r, c->now_ms);
}

bool shard_actor_goes_on(const struct shard *s, struct str tenant, struct str actor,
                         uint64_t durable)
{
    const struct actor *a = actor_find(&s->actors, tenant, actor);
    return a == NULL || (a->resumed_ms > 0 && a->block <= durable);
}

bool shard_forget(struct shard *s, struct call *c)
{
    if (c->previous == NULL) return false;
    review_waiter_remove(&s->reviews, c);
    return true;
}

/* ---- time ---- */

/* Ends waits without a resolution. */
static bool tick_waits(struct shard *s, uint64_t now_ms, struct effects *e)
{
    struct wheel_entry *due;
    unsigned count = 0;
    while (count < TICK_WAITS_MAX && (due = wheel_due(&s->reviews.waits, now_ms)) != NULL) {
        struct call *c = link_owner(due, struct call, timer);
        struct review *r = review_find(&s->reviews, c->review.id);
        check(c->previous != NULL && r != NULL);
        review_answer_waiter(s, r, c, now_ms, e);
        count++;
    }
    return count > 0;
}

/* Ends reviews of suspended actors that remain after a crash or a lack of memory. */
static bool tick_denials(struct shard *s, uint64_t now_ms, struct chance *chance, struct effects *e)
{
    while (!list_is_empty(&s->actors.to_deny)) {
        struct actor *a = link_owner(s->actors.to_deny.head.next, struct actor, to_deny);
        actor_check(a);
        enum err err = actor_deny_next(s, a, now_ms, id_make(now_ms, chance), (struct str){0}, e);
        if (err != ERR_END) return err == ERR_OK;
    }
    return false;
}

static bool tick_expiry(struct shard *s, uint64_t now_ms, struct chance *chance, struct effects *e)
{
    struct wheel_entry *due;
    while ((due = wheel_due(&s->reviews.wheel, now_ms)) != NULL) {
        struct review *r = link_owner(due, struct review, timer);
        check(!review_state_is_end(r->facts.state));
        if (review_is_overdue(r, now_ms) &&
            review_expire(s, r, now_ms, id_make(now_ms, chance), e) == ERR_OK)
            return true;
        wheel_add(&s->reviews.wheel, &r->timer, now_ms + TICK_RETRY_MS);
    }
    return false;
}

static uint64_t sooner(uint64_t a, uint64_t b) { return a < b ? a : b; }

static uint64_t next_due(const struct shard *s, uint64_t now_ms)
{
    uint64_t next = sooner(wheel_next_ms(&s->reviews.wheel), wheel_next_ms(&s->reviews.waits));
    next = sooner(next, review_forget_ms(&s->reviews));
    next = sooner(next, wheel_next_ms(&s->actors.wheel));
    next = sooner(next, token_table_next_ms(&s->tokens));
    next = sooner(next, limit_table_next_ms(&s->limits));
    next = sooner(next, limit_table_next_ms(&s->shadow_limits));
    next = sooner(next, retry_table_next_ms(&s->retries));
    if (shard_owns(s, SIGNER_SLOT)) next = sooner(next, signer_due_ms(&s->signers));
    if (!list_is_empty(&s->actors.to_deny)) next = sooner(next, now_ms + TICK_RETRY_MS);
    return next;
}

bool shard_tick(struct shard *s, uint64_t now_ms, struct chance *chance, struct effects *ret,
                uint64_t *ret_next_ms)
{
    effects_reset(ret);
    s->block_count = 0;
    bool more = token_table_prune(&s->tokens, now_ms, TICK_OBJECTS_MAX);
    more = limit_table_prune(&s->limits, now_ms, TICK_OBJECTS_MAX) || more;
    more = limit_table_prune(&s->shadow_limits, now_ms, TICK_OBJECTS_MAX) || more;
    more = retry_table_prune(&s->retries, now_ms, TICK_OBJECTS_MAX) || more;
    actor_table_prune(&s->actors, now_ms);
    review_table_prune(&s->reviews, now_ms, TICK_OBJECTS_MAX);
    bool did = tick_waits(s, now_ms, ret);
    did = more || did;
    did = (tick_denials(s, now_ms, chance, ret) || tick_expiry(s, now_ms, chance, ret) ||
           signer_tick(s, now_ms, chance, ret)) ||
          did;
    if (!did) *ret_next_ms = next_due(s, now_ms);
    check(s->block_count == 0 || ret->record_count > 0);
    effects_check(ret);
    shard_check(s);
    return did;
}

bool shard_tick_waits(struct shard *s, uint64_t now_ms, struct effects *ret, uint64_t *ret_next_ms)
{
    effects_reset(ret);
    s->block_count = 0;
    bool did = tick_waits(s, now_ms, ret);
    *ret_next_ms = wheel_next_ms(&s->reviews.waits);
    check(ret->record_count == 0);
    return did;
}

/* ---- totals ---- */

uint64_t shard_ordinal_max(const struct shard *s)
{
    uint64_t most = s->tokens.ordinal_max;
    if (s->reviews.ordinal_max > most) most = s->reviews.ordinal_max;
    return s->actors.ordinal_max > most ? s->actors.ordinal_max : most;
}

void shard_totals(const struct shard *s, struct shard_totals *ret)
{
    *ret = (struct shard_totals){.reviews = s->reviews.shares.all.count,
                                 .reviews_pending = s->reviews.count_by_state[REVIEW_PENDING],
                                 .review_bytes = s->reviews.shares.all.bytes,
                                 .approvals_lapsed = s->approvals_lapsed,
                                 .waiters = s->reviews.waiter_count,
                                 .suspended = s->actors.suspended,
                                 .tokens = s->tokens.count,
                                 .counted_tokens = s->tokens.counted,
                                 .token_bytes = s->tokens.bytes,
                                 .counters = s->limits.by_key.count,
                                 .outcomes = s->retries.by_key.count};
}
