/* state_clients.h - what clients ask for in sim_state.c, and the model that holds each answer
 * against what was told before. */
#ifndef TESTS_STATE_CLIENTS_H
#define TESTS_STATE_CLIENTS_H

#include "sim/state_world.h"

/* ---- clients ---- */

static void op_free(struct story *t, struct op *o)
{
    for (struct op **at = &t->ops; *at != NULL; at = &(*at)->all_next) {
        if (*at != o) continue;
        *at = o->all_next;
        break;
    }
    arena_fini(&o->arena);
    free(o);
}

static void send_to(struct story *t, struct op *o, enum call_kind kind, unsigned shard)
{
    struct call *c = &o->call;
    c->kind = kind;
    c->to = (uint16_t)shard;
    c->now_ms = t->clock_ms;
    c->arena = &o->arena;
    c->tenant = tenant();
    c->id = new_id(t);
    c->err = ERR_OK;
    c->block = 0;
    o->at_origin = false;
    if (c->to != c->origin) sums.crossed++;
    queue_put(&t->mail[c->origin][c->to], o);
}

static void send(struct story *t, struct op *o, enum call_kind kind, unsigned slot)
{
    o->call.slot = (uint16_t)slot;
    send_to(t, o, kind, slot_owner(slot, t->shard_count));
}

static struct op *op_new(struct story *t, enum op_kind kind)
{
    struct op *o = calloc(1, sizeof *o);
    check(o != NULL);
    arena_init(&o->arena, 4096, ARENA_BYTES);
    o->kind = kind;
    o->call.origin = (uint16_t)below(t, t->shard_count);
    o->all_next = t->ops;
    t->ops = o;
    return o;
}

static void begin_mint(struct story *t, struct op *o)
{
    o->about = (unsigned)below(t, TOKENS);
    struct token_story *k = &t->tokens[o->about];
    if (k->told_minted && k->expires_ms > t->clock_ms) {
        op_free(t, o);
        return;
    }
    unsigned slot =
        (unsigned)(below(t, LIMIT_SLOTS / t->shard_count) * t->shard_count + o->call.origin) %
        LIMIT_SLOTS;
    struct token_facts *f = &o->call.mint.facts;
    o->call.requester = agent();
    *f = (struct token_facts){.id = slot_id(new_id(t), slot),
                              .tenant = tenant(),
                              .actor = actor_name(o->about % ACTORS, 0),
                              .scope = STR("get_* refund"),
                              .ordinal = ++t->ordinal,
                              .issued_ms = t->clock_ms,
                              .expires_ms = t->clock_ms + 1000 + below(t, 3600000),
                              .uses_max = (uint32_t)below(t, 4)};
    o->call.records[0] =
        event_of(t, &o->arena, "token.minted", trace_of(t, &o->arena), f->actor, "mint", f->id);
    send(t, o, CALL_MINT, slot_of_id(f->id));
}

static void begin_use(struct story *t, struct op *o)
{
    o->about = (unsigned)below(t, TOKENS);
    const struct token_story *k = &t->tokens[o->about];
    uint64_t dead_before;
    bool is_dead = revoked_view_token(t->views[o->call.origin], k->id);
    bool is_stopped = revoked_view_actor(t->views[o->call.origin], tenant(),
                                         actor_name(k->actor, 0), &dead_before);
    if (k->told_minted && k->expires_ms > t->clock_ms)
        must(t, !k->told_revoked || is_dead,
             "a reactor takes a token whose revocation was answered");
    if (k->told_minted && t->actors[k->actor].changing == 0)
        must(t, !t->actors[k->actor].told_suspended || is_stopped,
             "a reactor takes an actor whose suspension was answered");
    if (!k->told_minted || is_dead || is_stopped || k->max == 0 || k->expires_ms <= t->clock_ms) {
        op_free(t, o);
        return;
    }
    o->call.token.id = k->id;
    send(t, o, CALL_SPEND, slot_of_id(k->id));
}

static void begin_revoke(struct story *t, struct op *o)
{
    o->about = (unsigned)below(t, TOKENS);
    if (!t->tokens[o->about].told_minted || !chance_in(&t->chance, 3)) {
        op_free(t, o);
        return;
    }
    o->call.requester = agent();
    o->call.token.id = t->tokens[o->about].id;
    o->call.requester.sees_all = true;
    send(t, o, CALL_REVOKE, slot_of_id(o->call.token.id));
}

static void see_actor(const struct story *t, struct op *o, unsigned actor)
{
    const struct actor_story *a = &t->actors[actor];
    o->suspended_when_asked = a->told_suspended && a->changing == 0;
    o->denied_when_asked = a->told_denied && a->changing == 0;
    o->changes_when_asked = a->changes;
}

/* The suspension was answered before this was asked, and nothing has changed since. */
static bool is_suspended_throughout(const struct story *t, const struct op *o, unsigned actor)
{
    return o->suspended_when_asked && o->changes_when_asked == t->actors[actor].changes;
}

static struct str trace_text(struct op *o)
{
    char *text = arena_bytes(&o->arena, TRACE_TEXT);
    snprintf(text, TRACE_TEXT, "asked-%u", o->trace);
    return str_from(text);
}

/* It covers who asked. */
static struct review_digest request_digest(unsigned wish, unsigned actor, unsigned spelling)
{
    return (struct review_digest){
        {(uint8_t)(wish + 1), (uint8_t)(actor + 1), (uint8_t)(spelling + 1)}};
}

static struct review_digest binding_digest(struct review_digest request, struct id review)
{
    memcpy(request.bytes + REVIEW_DIGEST_BYTES - ID_BYTES, review.bytes, ID_BYTES);
    return request;
}

/* A review of its own, unless one is pending for it, or approved and below this ordinal. */
static void ask_for_review(struct story *t, struct op *o, uint64_t approved_below)
{
    struct call *c = &o->call;
    char *action = arena_bytes(&o->arena, 16);
    snprintf(action, 16, "wish-%u", o->wish);
    struct str trace = trace_text(o), actor = actor_name(o->about, o->spelling);
    unsigned slot = actor_slot(o->about, o->spelling);
    struct id id = slot_id(new_id(t), slot);
    o->stage = ASKING;
    c->requester = agent();
    c->for_actor = actor;
    c->records[0] = event_of(t, &o->arena, "decision", trace, actor, action, id);
    c->records[1] = event_of(t, &o->arena, "review.enqueued", trace, actor, action, id);
    bool brief = chance_in(&t->chance, 3);
    c->enqueue.facts = (struct review_facts){.id = id,
                                             .ordinal = ++t->ordinal,
                                             .tenant = tenant(),
                                             .subject = actor,
                                             .principal = c->requester.principal,
                                             .owner = c->requester.owner,
                                             .action = str_from(action),
                                             .trace_id = trace,
                                             .enqueued_ms = t->clock_ms,
                                             .expires_ms = t->clock_ms + (brief ? 500 : 1800000),
                                             .good_for_ms = brief ? 500 : 900000,
                                             .item = c->records[1],
                                             .requirements = STR("[{\"approvals\":1}]"),
                                             .votes_approved = STR("[[\"review\",\"p\",\"r\"]]"),
                                             .state = REVIEW_PENDING};
    c->enqueue.facts.request = request_digest(o->wish, o->about, o->spelling);
    c->enqueue.facts.binding = binding_digest(c->enqueue.facts.request, id);
    c->enqueue.approved_below = approved_below;
    send(t, o, CALL_ENQUEUE, slot);
}

/* One is: its decision is of that one. */
static void share_review(struct story *t, struct op *o)
{
    struct call *c = &o->call;
    struct id review = c->enqueue.facts.id;
    struct str trace = trace_text(o);
    o->stage = SHARING;
    c->records[0] = event_of(t, &o->arena, "decision", trace, c->for_actor, "wish", review);
    o->is_approved = c->enqueue.facts.state == REVIEW_APPROVED;
    c->enqueue.facts =
        (struct review_facts){.id = review, .trace_id = trace, .state = c->enqueue.facts.state};
    send(t, o, CALL_SHARE, slot_of_id(review));
}

static void begin_enqueue(struct story *t, struct op *o)
{
    if (t->review_count == REVIEWS || t->trace_count == TRACES) {
        op_free(t, o);
        return;
    }
    o->about = (unsigned)below(t, ACTORS);
    o->spelling = (unsigned)below(t, SPELLINGS);
    o->wish = (unsigned)below(t, 2);
    o->trace = t->trace_count++;
    t->traces[o->trace].slot = actor_slot(o->about, o->spelling);
    see_actor(t, o, o->about);
    ask_for_review(t, o, UINT64_MAX);
}

static void begin_on(struct story *t, struct op *o, unsigned about)
{
    o->about = about;
    const struct review_story *r = &t->reviews[o->about];
    struct call *c = &o->call;
    unsigned who = (unsigned)below(t, 3);
    c->review.id = r->id;
    c->requester = o->kind == OP_CANCEL || o->kind == OP_REDEEM || o->kind == OP_WAIT
                       ? agent()
                       : reviewer(who);
    c->review.principal = c->review.owner = c->review.by = c->requester.principal;
    c->review.meets = 1;
    c->review.deadline_ms = t->clock_ms + below(t, 20000);
    unsigned wish = chance_in(&t->chance, 8) ? 77 : r->wish;
    c->review.binding = binding_digest(request_digest(wish, r->actor, r->spelling), r->id);
    see_actor(t, o, r->actor);
    o->ended_when_asked = r->told_ended;
    if (o->kind == OP_REDEEM) {
        struct str actor = actor_name(r->actor, r->spelling), trace = trace_of(t, &o->arena);
        c->for_actor = actor;
        o->retry = 1 + below(t, 3);
        c->review.retry.given = true;
        c->review.retry.key.bytes[0] = (uint8_t)o->retry;
        c->records[0] = event_of(t, &o->arena, "decision", trace, actor, "wish", r->id);
        c->records[1] = event_of(t, &o->arena, "review.redeemed", trace, actor, "wish", r->id);
    }
    static const enum call_kind kinds[OP_KINDS] = {
        [OP_APPROVE] = CALL_APPROVE,     [OP_DENY] = CALL_DENY,     [OP_CANCEL] = CALL_CANCEL,
        [OP_TAKE_BACK] = CALL_TAKE_BACK, [OP_REDEEM] = CALL_REDEEM, [OP_WAIT] = CALL_REVIEW_WAIT};
    /* One with limits claims the approval first. */
    bool claims = o->kind == OP_REDEEM && !chance_in(&t->chance, 3);
    o->stage = claims ? CLAIMING : DIRECT;
    send(t, o, claims ? CALL_CLAIM : kinds[o->kind], slot_of_id(r->id));
}

static void begin_on_review(struct story *t, struct op *o)
{
    if (t->review_count == 0)
        op_free(t, o);
    else
        begin_on(t, o, (unsigned)below(t, t->review_count));
}

static void begin_find(struct story *t, struct op *o)
{
    if (t->trace_count == 0) {
        op_free(t, o);
        return;
    }
    o->trace = (unsigned)below(t, t->trace_count);
    o->call.requester = agent();
    o->call.list.trace_id = trace_text(o);
    o->call.list.limit = CALL_TRACES_MAX;
    send(t, o, CALL_REVIEW_FIND, t->traces[o->trace].slot);
}

static void begin_count(struct story *t, struct op *o)
{
    o->about = (unsigned)below(t, COUNTERS);
    struct limit_request *ask = &o->call.limit.ask;
    *ask = (struct limit_request){.window_ms = WINDOW_MS, .count_max = COUNT_MAX};
    ask->key.bytes[1] = (uint8_t)(o->about * 91);
    ask->key.bytes[5] = 7;
    ask->tenant = tenant();
    ask->asker.bytes[0] = (uint8_t)(1 + below(t, 3));
    send(t, o, CALL_COUNT, slot_of_key(ask->key));
}

static void begin_actor(struct story *t, struct op *o)
{
    o->about = (unsigned)below(t, ACTORS);
    struct actor_story *a = &t->actors[o->about];
    if (a->changing > 0 || !chance_in(&t->chance, 4)) {
        op_free(t, o);
        return;
    }
    a->changing++;
    a->changes++;
    if (o->kind == OP_RESUME) a->told_denied = false;
    for (size_t i = 0; i < t->review_count; i++)
        if (t->reviews[i].actor == o->about && t->reviews[i].told_approved)
            o->approved_when_asked |= UINT32_C(1) << i;
    o->call.requester = reviewer(0);
    o->call.actor.actor = actor_name(o->about, a->spelling);
    o->call.actor.reason = STR("because");
    send(t, o, o->kind == OP_SUSPEND ? CALL_SUSPEND : CALL_RESUME,
         actor_slot(o->about, a->spelling));
}

/* Everybody knows that it is suspended: what it has pending under other spellings. */
static void deny_spellings(struct story *t, struct op *whole)
{
    whole->stage = DENYING;
    whole->parts_left = t->shard_count;
    for (unsigned i = 0; i < t->shard_count; i++) {
        struct op *o = op_new(t, OP_SPELLINGS);
        o->call.origin = whole->call.origin;
        o->about = whole->about;
        o->whole = whole;
        o->call.requester = whole->call.requester;
        o->call.list.actor = actor_name(o->about, t->actors[o->about].spelling);
        send_to(t, o, CALL_DENY_SPELLINGS, i);
    }
}

static void begin(struct story *t)
{
    static void (*const beginnings[OP_KINDS])(struct story * t, struct op * o) = {
        [OP_MINT] = begin_mint,         [OP_USE] = begin_use,
        [OP_REVOKE] = begin_revoke,     [OP_ENQUEUE] = begin_enqueue,
        [OP_APPROVE] = begin_on_review, [OP_DENY] = begin_on_review,
        [OP_CANCEL] = begin_on_review,  [OP_TAKE_BACK] = begin_on_review,
        [OP_REDEEM] = begin_on_review,  [OP_WAIT] = begin_on_review,
        [OP_FIND] = begin_find,         [OP_COUNT] = begin_count,
        [OP_SUSPEND] = begin_actor,     [OP_RESUME] = begin_actor};
    struct op *o = op_new(t, (enum op_kind)below(t, OP_SPELLINGS));
    beginnings[o->kind](t, o);
}

/* ---- what a client is told ---- */

/* Origin's own record of a decision, with what it spent elsewhere; the client waits for its block. */
static void record_at_origin(struct story *t, struct op *o, struct str delta)
{
    unsigned p = o->call.origin;
    struct str event = event_of(t, &o->arena, "decision", trace_of(t, &o->arena), actor_name(0, 0),
                                "get_x", new_id(t));
    char *to = reserve(t, p, event.size + delta.size, false);
    o->stage = 1;
    if (to == NULL || chance_in(&t->chance, 10)) { /* no record came of it: it is given back */
        o->stage = 2;
        send(t, o, o->kind == OP_USE ? CALL_UNSPEND : CALL_UNCOUNT,
             o->kind == OP_USE ? slot_of_id(o->call.token.id) : slot_of_key(o->call.limit.ask.key));
        return;
    }
    memcpy(to, event.bytes, event.size);
    memcpy(to + event.size, delta.bytes, delta.size);
    struct journal_producer *producer = journal_producer(t->journal, p);
    journal_commit(producer, event.size, delta.size, true);
    park(t, p, o, journal_block(producer));
}

static bool told_use(struct story *t, struct op *o)
{
    struct token_story *k = &t->tokens[o->about];
    if (o->stage == 2) return true; /* given back */
    if (o->stage == 1) {
        /* a token of before */
        if (!(memcmp(k->id.bytes, o->call.token.id.bytes, sizeof k->id.bytes) == 0)) return true;
        k->told_spent++;
        must(t, k->told_spent <= k->max, "a token was spent more often than it may be");
        return true;
    }
    if (o->call.err != ERR_OK) return true;
    if (o->call.token.use == TOKEN_NONE_LEFT) sums.none_left++;
    if (o->call.token.use == TOKEN_DEAD) sums.dead++;
    if (o->call.token.use != TOKEN_SPENT) return true;
    char *bytes = arena_bytes(&o->arena, 64);
    struct buf b = buf_over(bytes, 64);
    delta_put_spent(&b, o->call.token.id, 1);
    record_at_origin(t, o, buf_view(&b));
    return false;
}

static bool told_count(struct story *t, struct op *o)
{
    struct counter_story *k = &t->counters[o->about];
    if (o->stage == 2) return true;
    if (o->stage == 1) {
        uint64_t at = o->call.limit.told.stamp_ms;
        size_t within = 1;
        for (size_t i = 0; i < k->count; i++) {
            uint64_t other = k->times[i], apart = other > at ? other - at : at - other;
            within += apart < WINDOW_MS && other <= at;
        }
        must(t, within <= COUNT_MAX, "more was counted in a window than the limit");
        if (k->count == TIMES) memmove(k->times, k->times + 1, (--k->count) * sizeof *k->times);
        k->times[k->count++] = at;
        return true;
    }
    if (o->call.err != ERR_OK) return true;
    if (!o->call.limit.told.counted) {
        sums.over++;
        return true;
    }
    char *bytes = arena_bytes(&o->arena, 256);
    struct buf b = buf_over(bytes, 256);
    delta_put_counted(&b, &o->call.limit.ask, &o->call.limit.told);
    record_at_origin(t, o, buf_view(&b));
    return false;
}

static void told_mint(struct story *t, const struct op *o)
{
    const struct token_facts *f = &o->call.mint.facts;
    if (o->call.err != ERR_OK) return;
    t->tokens[o->about] = (struct token_story){.id = f->id,
                                               .told_minted = true,
                                               .max = f->uses_max,
                                               .actor = o->about % ACTORS,
                                               .expires_ms = f->expires_ms};
}

static void told_revoke(struct story *t, const struct op *o)
{
    struct token_story *k = &t->tokens[o->about];
    bool same = memcmp(k->id.bytes, o->call.token.id.bytes, sizeof k->id.bytes) == 0;
    if (same && o->call.err == ERR_OK) k->told_revoked = true;
}

static void told_new_review(struct story *t, const struct op *o)
{
    const struct review_facts *f = &o->call.enqueue.facts;
    if (t->review_count == REVIEWS) return;
    t->reviews[t->review_count++] = (struct review_story){.id = f->id,
                                                          .actor = o->about,
                                                          .spelling = o->spelling,
                                                          .wish = o->wish,
                                                          .told_pending = true,
                                                          .expires_ms = f->expires_ms};
}

/* False: it goes on. */
static bool told_enqueue(struct story *t, struct op *o)
{
    if (o->stage == SHARING && o->call.err == ERR_NOT_FOUND) { /* resolved meanwhile */
        sums.share_late++;
        ask_for_review(t, o, UINT64_MAX);
        return false;
    }
    if (o->call.err != ERR_OK) return true;
    must(t, !is_suspended_throughout(t, o, o->about),
         "a review was taken of an actor whose suspension was answered");
    if (o->stage == ASKING && o->call.enqueue.same) {
        const struct review_facts *f = &o->call.enqueue.facts;
        if (f->state == REVIEW_PENDING) {
            sums.self_dedupe++;
            share_review(t, o);
            return false;
        }
        must(t, f->state == REVIEW_APPROVED && o->call.now_ms < f->approval_expires_ms,
             "a request was answered with a review that permits nothing");
        sums.approved_again++;
        if (below(t, 3) == 0) /* its votes are not enough */
            ask_for_review(t, o, f->ordinal);
        else
            share_review(t, o);
        return false;
    }
    t->traces[o->trace].told = true;
    if (o->stage == ASKING) {
        told_new_review(t, o);
        return true;
    }
    must(t, !o->was_resolved, "a review was shared whose resolution was answered");
    sums.shared++;
    return true;
}

/* Who waited for this approval redeems it at once, and several at a time. */
static void begin_redemptions(struct story *t, unsigned about, unsigned most)
{
    for (unsigned left = (unsigned)below(t, most + 1); left > 0; left--)
        begin_on(t, op_new(t, OP_REDEEM), about);
}

static void told_resolution(struct story *t, const struct op *o)
{
    struct review_story *r = &t->reviews[o->about];
    const struct review_facts *f = &o->call.review.facts;
    if (o->call.err == ERR_ALREADY_RESOLVED) sums.already++;
    if (o->call.err != ERR_OK) return;
    bool repeated = o->call.review.repeated;
    if (o->kind == OP_APPROVE) {
        must(t,
             repeated || !o->denied_when_asked ||
                 t->actors[r->actor].changes != o->changes_when_asked,
             "an approval for an actor whose suspension was answered");
        must(t, !r->told_denied && !r->told_cancelled,
             "an approval after another outcome was told");
        must(t, repeated || o->call.now_ms < r->expires_ms, "an approval after the deadline");
        must(t,
             f->state == REVIEW_APPROVED || f->state == REVIEW_REDEEMED ||
                 f->state == REVIEW_EXPIRED,
             "approved, and it is not");
        r->told_approved = true;
        r->approval_expires_ms = f->approval_expires_ms;
        if (!repeated) begin_redemptions(t, o->about, 6);
    } else if (o->kind == OP_TAKE_BACK) {
        must(t, !r->told_redeemed && !r->told_denied, "what was redeemed was taken back");
        sums.taken_back++;
        r->told_ended = true;
        return;
    } else if (o->kind == OP_DENY) {
        must(t, !r->told_approved && !r->told_cancelled, "a denial after another outcome was told");
        r->told_denied = true;
    } else {
        must(t, !r->told_approved && !r->told_denied,
             "a cancellation after another outcome was told");
        r->told_cancelled = true;
    }
    r->wins += !repeated;
    must(t, r->wins <= 1, "a review has two winners");
}

static void told_redeem(struct story *t, const struct op *o)
{
    struct review_story *r = &t->reviews[o->about];
    if (o->call.err == ERR_NOT_REDEEMABLE) sums.not_redeemable++;
    if (o->call.err != ERR_OK) return;
    must(t, !r->told_denied && !r->told_cancelled, "a redemption of what was denied");
    if (o->call.review.replayed) {
        sums.replayed++;
        must(t, r->retry == 0 || r->retry == o->retry,
             "a redemption was replayed under another key");
        return;
    }
    must(t, o->call.review.binding.bytes[0] == r->wish + 1u, "a redemption of another request");
    must(t, !r->told_redeemed, "an approval was redeemed twice");
    must(t, !o->ended_when_asked, "a redemption of an approval whose end was answered");
    must(t, !is_suspended_throughout(t, o, r->actor),
         "a redemption for an actor whose suspension was answered");
    must(t, r->approval_expires_ms == 0 || o->call.now_ms < r->approval_expires_ms,
         "a redemption after the approval's end");
    r->told_redeemed = true;
    r->retry = o->retry;
}

static void unclaim(struct story *t, struct op *o)
{
    o->stage = UNCLAIMING;
    t->reviews[o->about].claimed = false;
    send(t, o, CALL_UNCLAIM, slot_of_id(o->call.review.id));
}

static bool told_claim(struct story *t, struct op *o)
{
    struct review_story *r = &t->reviews[o->about];
    if (o->call.err != ERR_OK || !o->call.review.claimed) return true;
    must(t, !r->claimed, "two redemptions have claimed one approval");
    must(t, o->call.review.facts.state == REVIEW_APPROVED, "a claim of what is not approved");
    sums.claimed++;
    sums.claimed_after += o->was_woken;
    r->claimed = true;
    begin_redemptions(t, o->about, 4);
    if (chance_in(&t->chance, 2)) { /* its limits are over: nothing is redeemed */
        unclaim(t, o);
        return false;
    }
    o->stage = CLAIMED;
    send(t, o, CALL_REDEEM, slot_of_id(r->id));
    return false;
}

/* The whole of a redemption; false: it goes on. */
static bool told_redemption(struct story *t, struct op *o)
{
    if (o->stage == CLAIMING) return told_claim(t, o);
    if (o->stage == UNCLAIMING) return true;
    told_redeem(t, o);
    if (o->stage == DIRECT) return true;
    if (o->call.err != ERR_OK) {
        unclaim(t, o);
        return false;
    }
    t->reviews[o->about].claimed = false;
    return true;
}

/* The whole of a suspension, or of a resumption; false: it goes on. */
static bool told_actor(struct story *t, struct op *o)
{
    struct actor_story *a = &t->actors[o->about];
    if (o->kind == OP_SUSPEND && o->stage == SUSPENDING && o->call.err == ERR_OK) {
        deny_spellings(t, o);
        return false;
    }
    a->changing--;
    if (o->call.err != ERR_OK) return true;
    a->told_suspended = a->told_denied = o->kind == OP_SUSPEND;
    for (size_t i = 0; i < t->review_count && o->kind == OP_SUSPEND; i++) {
        if ((o->approved_when_asked >> i & 1) == 0 || t->reviews[i].told_redeemed) continue;
        sums.ended_by_suspension++;
        t->reviews[i].told_ended = true;
    }
    sums.suspended += a->told_suspended;
    return true;
}

static void return_to_origin(struct story *t, struct op *o);

static void told_spellings(struct story *t, const struct op *o)
{
    struct op *whole = o->whole;
    if (o->call.err != ERR_OK) whole->call.err = o->call.err;
    if (--whole->parts_left == 0) return_to_origin(t, whole);
}

/* The client's answer; false: the request goes on. */
static bool tell(struct story *t, struct op *o)
{
    switch (o->kind) {
    case OP_USE: return told_use(t, o);
    case OP_COUNT: return told_count(t, o);
    case OP_MINT: told_mint(t, o); return true;
    case OP_REVOKE: told_revoke(t, o); return true;
    case OP_ENQUEUE: return told_enqueue(t, o);
    case OP_APPROVE:
    case OP_DENY:
    case OP_TAKE_BACK:
    case OP_CANCEL: told_resolution(t, o); return true;
    case OP_REDEEM: return told_redemption(t, o);
    case OP_SUSPEND:
    case OP_RESUME: return told_actor(t, o);
    case OP_SPELLINGS: told_spellings(t, o); return true;
    case OP_FIND:
        if (o->call.err == ERR_OK && o->call.list.count > 0) t->traces[o->trace].told = true;
        return true;
    case OP_WAIT:
    case OP_KINDS: return true;
    }
    return true;
}

static void return_to_origin(struct story *t, struct op *o)
{
    if (!tell(t, o)) return;
    sums.told[o->kind]++;
    sums.answers++;
    op_free(t, o);
}

#endif
