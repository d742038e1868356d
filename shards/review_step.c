/* review_step.c - what calls do to a review.
 *
 * Each step finds the review and checks that the requester may use it. If the review is past its
 * deadline, the step expires it first and is repeated (timers only give hints). It refuses what the
 * state forbids, puts event and delta together, changes the state, and adds the effects. ERR_FULL
 * of a lower layer becomes ERR_OVERLOADED: nothing was changed, or it was and cannot be shown
 * (call.h). */
#include "base/check.h"
#include "base/planted.h"
#include "spelling/spelling.h"
#include "shards/inside.h"
#include "shards/review_people.h"

/* ---- visibility ---- */

/* A principal is a key's name, and keys of several owners may share one. A requester must not see
 * or use what another owner's key requested. */
bool review_is_visible(const struct review *r, const struct call *c)
{
    const struct review_facts *f = &r->facts;
    const struct requester *who = &c->requester;
    if (!str_equal(f->tenant, c->tenant)) return false;
    if (who->sees_all) return true;
    if (!str_equal(f->principal, who->principal) || !str_equal(f->owner, who->owner)) return false;
    return str_is_absent(who->token_actor) ||
           (!f->is_user && str_equal(f->subject, who->token_actor) &&
            str_equal(f->acting_for, who->token_acting_for));
}

/* A requester that may see all reviews may still use only its own. */
static bool asked_for_it(const struct review *r, const struct call *c)
{
    struct call own = {.tenant = c->tenant, .requester = c->requester};
    own.requester.sees_all = false;
    return review_is_visible(r, &own);
}

static struct str text_copy(char **to, struct str text)
{
    if (str_is_absent(text)) return text;
    char *at = *to;
    if (text.size > 0) memcpy(at, text.bytes, text.size);
    *to = at + text.size;
    return str_of(at, text.size);
}

static bool votes_copy(struct arena *arena, struct review_facts *f)
{
    check(f->approval_count <= REVIEW_VOTES_MAX);
    if (f->approval_count == 0) return true;
    struct review_vote *votes = arena_array(arena, struct review_vote, f->approval_count);
    if (votes == NULL) return false;
    for (size_t i = 0; i < f->approval_count; i++) {
        votes[i] = f->approvals[i];
        votes[i].principal = arena_copy(arena, votes[i].principal);
        votes[i].owner = arena_copy(arena, votes[i].owner);
        votes[i].by = arena_copy(arena, votes[i].by);
        votes[i].note = arena_copy(arena, votes[i].note);
        votes[i].claims = arena_copy(arena, votes[i].claims);
    }
    f->approvals = votes;
    return !arena->overflow;
}

enum err review_show(const struct review *r, uint64_t now_ms, struct arena *arena,
                     struct review_facts *ret)
{
    review_check(r);
    struct review_facts f = r->facts;
    struct str *texts[] = {&f.tenant,       &f.subject,        &f.principal, &f.owner,
                           &f.acting_for,   &f.action,         &f.trace_id,  &f.item,
                           &f.requirements, &f.votes_approved, &f.resolver,  &f.resolver_owner,
                           &f.resolved_by,  &f.note,           &f.redemption};
    size_t size = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) size += texts[i]->size;
    char *to = arena_bytes(arena, size);
    if (to == NULL) return ERR_FULL;
    const char *end = to + size;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) *texts[i] = text_copy(&to, *texts[i]);
    check(to == end);
    if (!votes_copy(arena, &f)) return ERR_FULL;
    if (review_is_overdue(r, now_ms)) {
        if (f.state == REVIEW_PENDING) f.resolved_ms = now_ms;
        f.state = REVIEW_EXPIRED;
    }
    *ret = f;
    return ERR_OK;
}

/* Sets the call's result to `err`, and to the review's present state. */
static void answer(struct review *r, struct call *c, enum err err, struct effects *e)
{
    enum err shown = review_show(r, c->now_ms, c->arena, &c->review.facts);
    c->err = shown == ERR_OK ? err : ERR_OVERLOADED;
    effects_reveal(e, r->block);
}

/* ---- moving ---- */

void review_answer_waiter(struct shard *s, struct review *r, struct call *c, uint64_t now_ms,
                          struct effects *e)
{
    check(c->kind == CALL_REVIEW_WAIT || c->kind == CALL_CLAIM);
    review_waiter_remove(&s->reviews, c);
    c->err = review_show(r, now_ms, c->arena, &c->review.facts) == ERR_OK ? ERR_OK : ERR_OVERLOADED;
    c->block = r->block;
    effects_wake(e, c);
}

enum err review_record_move(struct shard *s, struct review *r, const struct review_facts *after,
                            const struct review_happening *h, struct effects *e)
{
    check(after->state != r->facts.state);
    const size_t most = DELTA_MOST_BYTES + after->note.size;
    struct str event = review_event(s, e, r, h);
    struct buf out = effects_buf(e, most);
    delta_put_moved(&out, after);
    struct str delta = effects_take(e, &out, most);
    if (event.size == 0 || delta.size == 0 || delta.size > LIMIT_DELTA_BYTES) return ERR_FULL;
    enum err err = review_move(&s->reviews, r, after);
    if (err != ERR_OK) return err;
    effects_record(e, event, delta);
    shard_note_review(s, r);
    while (r->waiters != NULL) review_answer_waiter(s, r, r->waiters, h->at_ms, e);
    review_check(r);
    check(r->waiters == NULL); /* each has the answer */
    return ERR_OK;
}

/* The same review without the names and texts of its resolution: a record need not contain those
 * that a move does not change. */
static struct review_facts nameless(const struct review *r)
{
    struct review_facts f = r->facts;
    f.resolver = f.resolver_owner = f.resolved_by = f.note = (struct str){0};
    return f;
}

enum err review_expire(struct shard *s, struct review *r, uint64_t now_ms, struct id event,
                       struct effects *e)
{
    struct review_facts after = nameless(r);
    bool lapses = r->facts.state == REVIEW_APPROVED; /* nothing was done with the approval */
    struct review_happening h = {.kind = lapses ? STR("review.lapsed") : STR("review.expired"),
                                 .event = event,
                                 .at_ms = now_ms};
    check(review_is_overdue(r, now_ms));
    if (after.state == REVIEW_PENDING) after.resolved_ms = now_ms;
    after.state = REVIEW_EXPIRED;
    enum err err = review_record_move(s, r, &after, &h, e);
    if (err == ERR_OK && lapses) s->approvals_lapsed++;
    return err;
}

/* If it is past its deadline, records that before the call continues. */
static bool expired_first(struct shard *s, struct review *r, struct call *c, struct effects *e)
{
    check(!e->again);
    if (!review_is_overdue(r, c->now_ms) || planted("timer_trusted")) return false;
    if (review_expire(s, r, c->now_ms, call_event_id(c), e) == ERR_OK)
        e->again = true;
    else
        c->err = ERR_OVERLOADED;
    return true;
}

static enum err closed(enum err err) { return err == ERR_FULL ? ERR_OVERLOADED : err; }

/* Whether the origin's record may be recorded with a delta of this size. */
static bool record_fits(struct str event, size_t delta)
{
    check(event.size > 0);
    return event.size <= LIMIT_EVENT_BYTES && delta <= LIMIT_DELTA_BYTES;
}

static bool records_fit(const struct call *c, size_t first_delta, size_t second_delta)
{
    return record_fits(c->records[0], first_delta) && record_fits(c->records[1], second_delta);
}

/* ---- enqueue ---- */

static size_t pending_now(const struct review_subject *subject, uint64_t now_ms)
{
    if (subject == NULL) return 0;
    review_subject_check(subject);
    if (subject->count < LIMIT_PENDING_PER_ACTOR) return subject->count;
    size_t count = 0;
    for (const struct link *k = subject->pending.head.next; k != &subject->pending.head;
         k = k->next)
        count += !review_is_overdue(link_owner(k, struct review, of_subject), now_ms);
    return count;
}

/* The review that is pending for this same request, or NULL. */
static struct review *pending_same(const struct review_table *t, const struct call *c)
{
    const struct review_facts *f = &c->enqueue.facts;
    struct review *r = review_find_same(t, f->tenant, f->principal, f->owner, &f->request);
    if (r != NULL) return r;
    return review_find_same(t, f->tenant, f->principal, f->owner, &c->enqueue.request_plain);
}

/* An approved one that the origin has not looked at, or NULL. */
static struct review *approved_same(const struct review_table *t, const struct call *c)
{
    const struct review_facts *f = &c->enqueue.facts;
    const struct review_digest *digests[] = {&f->request, &c->enqueue.request_plain};
    struct review *r = NULL;
    for (size_t i = 0; i < 2 && r == NULL; i++)
        r = review_find_approved(t, f->tenant, f->principal, f->owner, digests[i],
                                 c->enqueue.approved_below, c->now_ms);
    return r;
}

static void enqueue_same(struct review *r, struct call *c, struct effects *e)
{
    check(!review_state_is_end(r->facts.state));
    enum err err = review_show(r, c->now_ms, c->arena, &c->enqueue.facts);
    c->err = closed(err);
    c->enqueue.same = err == ERR_OK;
    effects_reveal(e, r->block);
}

/* Whether the actor may have one more review now. */
static enum err enqueue_admit(struct shard *s, const struct review_facts *f, uint64_t now_ms,
                              struct quota *ret)
{
    if (pending_now(review_subject_find(&s->reviews, f->tenant, f->is_user, f->subject), now_ms) >=
        LIMIT_PENDING_PER_ACTOR)
        return ERR_PENDING_LIMIT;
    return closed(review_make_room(&s->reviews, f, now_ms, ret));
}

static void enqueue(struct shard *s, struct call *c, struct effects *e)
{
    struct review_facts f = c->enqueue.facts;
    c->enqueue.same = false;
    f.item = c->records[1];
    f.state = REVIEW_PENDING;
    if (!f.is_user && actor_is_suspended(&s->actors, f.tenant, f.subject)) {
        c->err = ERR_ACTOR_SUSPENDED;
        return;
    }
    struct review *same = pending_same(&s->reviews, c);
    if (same != NULL) {
        if (!expired_first(s, same, c, e)) enqueue_same(same, c, e);
        return;
    }
    same = approved_same(&s->reviews, c);
    if (same != NULL) {
        enqueue_same(same, c, e);
        return;
    }
    c->err = enqueue_admit(s, &f, c->now_ms, &c->quota);
    if (c->err != ERR_OK) return;

    struct review *r;
    size_t most = review_opened_most(&f);
    struct buf out = effects_buf(e, most);
    delta_put_opened(&out, &f);
    struct str delta = effects_take(e, &out, most);
    if (slot_of_id(f.id) != c->slot || delta.size == 0) {
        c->err = ERR_INTERNAL;
    } else if (!records_fit(c, c->spent.size, delta.size)) {
        c->err = ERR_OUT_OF_RANGE;
    } else {
        enum err err = review_open(&s->reviews, &f, &r);
        c->err = err == ERR_CORRUPT ? ERR_INTERNAL : closed(err);
        if (err != ERR_OK) return;
        check(r->facts.state == REVIEW_PENDING && r->tenant != NULL);
        effects_record(e, c->records[0], c->spent);
        effects_record(e, c->records[1], delta);
        shard_note_review(s, r);
    }
}

/* ---- share ---- */

/* Whether it is still what the origin got: a claimed one is about to be redeemed. */
static bool is_as_told(const struct review *r, enum review_state told)
{
    return r != NULL && r->facts.state == told && !r->claimed && !review_state_is_end(told);
}

/* Only the record of the request makes its trace id find the review. If the review has another state
 * than the origin was answered, the origin starts over. */
static void share(struct shard *s, struct call *c, struct effects *e)
{
    const struct review_facts *f = &c->enqueue.facts;
    struct review *r = review_find(&s->reviews, f->id);
    if (r != NULL && expired_first(s, r, c, e)) return;
    if (!is_as_told(r, f->state)) {
        c->err = ERR_NOT_FOUND;
        return;
    }
    const size_t most = c->spent.size + DELTA_MOST_BYTES;
    struct buf out = effects_buf(e, most);
    buf_put(&out, c->spent);
    delta_put_traced(&out, f->id, f->trace_id);
    struct str delta = effects_take(e, &out, most);
    if (delta.size == 0) {
        c->err = ERR_OVERLOADED;
    } else if (!record_fits(c->records[0], delta.size)) {
        c->err = ERR_OUT_OF_RANGE;
    } else {
        c->err = closed(review_trace_add(&s->reviews, r, f->trace_id));
        if (c->err != ERR_OK) return;
        review_check(r);
        effects_record(e, c->records[0], planted("trace_unrecorded") ? c->spent : delta);
        shard_note_review(s, r);
    }
}

/* ---- get, wait ---- */

static void wait(struct shard *s, struct review *r, struct call *c, struct effects *e)
{
    if (r->facts.state != REVIEW_PENDING || c->now_ms >= c->review.deadline_ms)
        answer(r, c, ERR_OK, e);
    else if (r->waiter_count == LIMIT_WAITERS_PER_REVIEW)
        c->err = ERR_OVERLOADED;
    else
        review_waiter_add(&s->reviews, r, c);
}

/* ---- approve, deny ---- */

static struct review_resolver resolver_of(const struct call *c)
{
    return (struct review_resolver){
        .principal = c->review.principal, .owner = c->review.owner, .by = c->review.by};
}

/* Whether a key of this owner has approved. A denial only restricts, so it is refused to the owner
 * itself, and not to a name that only looks like it. */
static bool owner_has_voted(const struct review *r, struct str owner)
{
    for (size_t i = 0; i < r->facts.approval_count; i++)
        if (spelling_same(r->votes[i].owner, owner)) return true;
    return false;
}

/* Whether the vote is this call's own: an answer as if it counted, so a name that only looks like
 * the voter's is another one here. */
static bool is_own(const struct review_vote *v, const struct call *c)
{
    return str_equal(v->principal, c->review.principal) &&
           spelling_same(v->owner, c->review.owner) && spelling_same(v->by, c->review.by);
}

static bool has_own(const struct review *r, const struct call *c)
{
    for (size_t i = 0; i < r->facts.approval_count; i++)
        if (is_own(&r->votes[i], c)) return true;
    return false;
}

/* Whether this outcome is what the same principal, of the same owner and for the same person,
 * caused before. */
static bool repeats(const struct review *r, const struct call *c)
{
    const struct review_facts *f = &r->facts;
    const struct review_vote denial = {
        .principal = f->resolver, .owner = f->resolver_owner, .by = f->resolved_by};
    if (c->kind == CALL_DENY) return f->state == REVIEW_DENIED && is_own(&denial, c);
    bool was_approved = f->state == REVIEW_APPROVED || f->state == REVIEW_REDEEMED ||
                        (f->state == REVIEW_EXPIRED && f->approval_expires_ms > 0);
    return (f->state == REVIEW_PENDING || was_approved) && has_own(r, c);
}

static bool names_fit(const struct call *c)
{
    return c->review.principal.size <= NAME_BYTES_MAX && c->review.owner.size <= NAME_BYTES_MAX &&
           c->review.by.size <= NAME_BYTES_MAX && c->review.note.size <= NOTE_BYTES_MAX &&
           c->review.claims.size <= CLAIMS_BYTES_MAX;
}

/* Whether this person may resolve it in its present state. */
static enum err resolve_admit(const struct review *r, const struct call *c)
{
    if (r->facts.state != REVIEW_PENDING) return ERR_ALREADY_RESOLVED;
    /* a denial only restricts, so it needs no proof */
    if (r->facts.asks_proof && c->kind == CALL_APPROVE && c->review.proof != REVIEW_PROOF_OIDC)
        return ERR_PROOF_REQUIRED;
    if (review_meets(r, c->review.meets) == 0) return ERR_WRONG_REVIEWER;
    const struct review_resolver who = resolver_of(c);
    enum err err = review_asked_by(&r->facts, &who);
    if (err == ERR_OK && c->kind == CALL_APPROVE) err = review_approved_by(&r->facts, &who);
    if (err != ERR_OK) return err;
    if (c->kind != CALL_APPROVE && owner_has_voted(r, who.owner)) return ERR_ALREADY_VOTED;
    if (c->review.principal.size == 0 || c->review.owner.size == 0) return ERR_INTERNAL;
    return names_fit(c) ? ERR_OK : ERR_OUT_OF_RANGE;
}

/* Its facts after this person has ended its waiting. */
static struct review_facts resolved(const struct review *r, const struct call *c,
                                    enum review_state state)
{
    check(!review_state_is_end(r->facts.state));
    struct review_facts after = nameless(r);
    after.state = state;
    after.resolved_ms = c->now_ms;
    if (state == REVIEW_APPROVED) { /* the vote has the names */
        after.approval_expires_ms = c->now_ms + r->facts.good_for_ms;
        return after;
    }
    after.resolver = c->review.principal;
    after.resolver_owner = c->review.owner;
    after.resolved_by = c->review.by;
    after.note = c->review.note;
    return after;
}

/* Keeps and records the vote and, if it is the last that is needed, the approval. */
static enum err vote(struct shard *s, struct review *r, struct call *c, struct effects *e)
{
    check(c->kind == CALL_APPROVE && r->facts.state == REVIEW_PENDING);
    const struct review_vote v = {.principal = c->review.principal,
                                  .owner = c->review.owner,
                                  .by = c->review.by,
                                  .note = c->review.note,
                                  .at_ms = c->now_ms,
                                  .meets = review_meets(r, c->review.meets),
                                  .key = c->review.key,
                                  .proof = c->review.proof,
                                  .claims = c->review.claims};
    const struct review_facts after = resolved(r, c, REVIEW_APPROVED);
    const bool completes = review_has_quorum(r, &v);
    const struct review_happening h = {.kind = STR("review.approved"),
                                       .event = call_event_id(c),
                                       .at_ms = c->now_ms,
                                       .key_id = c->requester.key_id,
                                       .resolved_by = v.by,
                                       .proof = v.proof,
                                       .note = v.note,
                                       .count = r->facts.approval_count + 1,
                                       .expires_ms = completes ? after.approval_expires_ms : 0};
    const size_t most = 2 * DELTA_MOST_BYTES + v.note.size + v.claims.size;
    struct str event = review_event(s, e, r, &h);
    struct buf out = effects_buf(e, most);
    delta_put_voted(&out, r->facts.id, &v);
    if (completes) delta_put_moved(&out, &after);
    struct str delta = effects_take(e, &out, most);
    if (event.size == 0 || delta.size == 0 || delta.size > LIMIT_DELTA_BYTES) return ERR_FULL;

    enum err err = review_vote(&s->reviews, r, &v);
    if (err != ERR_OK) return err;
    if (completes) err = review_move(&s->reviews, r, &after);
    if (err != ERR_OK) {
        r->facts.approval_count--; /* not recorded, so not cast */
        return err;
    }
    check((r->facts.state == REVIEW_APPROVED) == completes);
    effects_record(e, event, delta);
    shard_note_review(s, r);
    while (completes && r->waiters != NULL) review_answer_waiter(s, r, r->waiters, c->now_ms, e);
    return ERR_OK;
}

static void resolve(struct shard *s, struct review *r, struct call *c, struct effects *e)
{
    check(c->kind == CALL_APPROVE || c->kind == CALL_DENY);
    c->review.repeated = repeats(r, c);
    if (c->review.repeated) {
        answer(r, c, ERR_OK, e);
        return;
    }
    enum err err = resolve_admit(r, c);
    if (planted("two_winners") && err == ERR_ALREADY_RESOLVED) {
        answer(r, c, ERR_OK, e);
        return;
    }
    if (err == ERR_OK && c->kind == CALL_APPROVE) {
        err = vote(s, r, c, e);
    } else if (err == ERR_OK) {
        struct review_facts after = resolved(r, c, REVIEW_DENIED);
        struct review_happening h = {.kind = STR("review.denied"),
                                     .event = call_event_id(c),
                                     .at_ms = c->now_ms,
                                     .key_id = c->requester.key_id,
                                     .resolved_by = c->review.by,
                                     .proof = c->review.proof,
                                     .note = c->review.note};
        err = review_record_move(s, r, &after, &h, e);
    }
    answer(r, c, closed(err), e);
}

/* ---- cancel ---- */

static void cancel(struct shard *s, struct review *r, struct call *c, struct effects *e)
{
    c->review.repeated =
        r->facts.state == REVIEW_CANCELLED && r->facts.cancelled_by == REVIEW_BY_REQUESTER;
    if (r->facts.state != REVIEW_PENDING) {
        answer(r, c, c->review.repeated ? ERR_OK : ERR_ALREADY_RESOLVED, e);
        return;
    }
    c->review.principal = c->requester.principal;
    c->review.owner = c->review.by = c->requester.owner;
    c->review.note = (struct str){0};
    struct review_facts after = resolved(r, c, REVIEW_CANCELLED);
    after.cancelled_by = REVIEW_BY_REQUESTER;
    struct review_happening h = {.kind = STR("review.cancelled"),
                                 .event = call_event_id(c),
                                 .at_ms = c->now_ms,
                                 .key_id = c->requester.key_id,
                                 .resolved_by = c->requester.owner};
    answer(r, c, closed(review_record_move(s, r, &after, &h, e)), e);
}

/* ---- revoke ---- */

/* Whether this person may take the approval back. That only denies, so requesters may, too, if they
 * are among the reviewers. */
static enum err revoke_admit(const struct review *r, const struct call *c)
{
    if (r->facts.state == REVIEW_PENDING) return ERR_NOT_APPROVED;
    if (r->facts.state != REVIEW_APPROVED) return ERR_ALREADY_RESOLVED;
    if (review_meets(r, c->review.meets) == 0) return ERR_WRONG_REVIEWER;
    return names_fit(c) ? ERR_OK : ERR_OUT_OF_RANGE;
}

static void revoke(struct shard *s, struct review *r, struct call *c, struct effects *e)
{
    c->review.repeated =
        r->facts.state == REVIEW_CANCELLED && r->facts.cancelled_by == REVIEW_BY_REVOCATION;
    enum err err = c->review.repeated ? ERR_OK : revoke_admit(r, c);
    if (err == ERR_OK && !c->review.repeated) {
        struct review_facts after = resolved(r, c, REVIEW_CANCELLED);
        after.cancelled_by = REVIEW_BY_REVOCATION;
        struct review_happening h = {.kind = STR("review.cancelled"),
                                     .event = call_event_id(c),
                                     .at_ms = c->now_ms,
                                     .key_id = c->requester.key_id,
                                     .resolved_by = c->review.by,
                                     .proof = c->review.proof,
                                     .rule = STR("review:revoked"),
                                     .note = c->review.note};
        err = review_record_move(s, r, &after, &h, e);
    }
    answer(r, c, closed(err), e);
}

/* ---- claim ---- */

/* If several redemptions of one approval have limits to count, only the first may count: with its
 * count, the others would be over the limit. They wait here until the approval is spent, or not. A
 * claim is in memory only; the operation that holds it always spends it or gives it back. */
static void claim(struct shard *s, struct review *r, struct call *c, struct effects *e)
{
    c->review.claimed = r->facts.state == REVIEW_APPROVED && !r->claimed;
    if (r->facts.state != REVIEW_APPROVED || c->review.claimed) {
        r->claimed = r->facts.state == REVIEW_APPROVED;
        answer(r, c, ERR_OK, e);
        if (c->err != ERR_OK) r->claimed = c->review.claimed = false;
    } else if (r->waiter_count == LIMIT_WAITERS_PER_REVIEW) {
        c->err = ERR_OVERLOADED;
    } else {
        review_waiter_add(&s->reviews, r, c);
    }
    check(!c->review.claimed || r->claimed);
    review_check(r);
}

/* Passes the claim to the next waiter. */
static void unclaim(struct shard *s, struct review *r, struct call *c, struct effects *e)
{
    if (r->facts.state != REVIEW_APPROVED) return;
    r->claimed = false;
    while (r->waiters != NULL && !r->claimed) {
        struct call *next = r->waiters;
        review_answer_waiter(s, r, next, c->now_ms, e);
        r->claimed = next->err == ERR_OK && next->review.facts.state == REVIEW_APPROVED;
        next->review.claimed = r->claimed;
    }
    check(r->waiters == NULL || r->claimed); /* or they would wait for ever */
    review_check(r);
}

/* ---- redeem ---- */

/* The spend, the redemption and the decision are one record, so that none exists without the
 * others. */
static enum err spend(struct shard *s, struct review *r, struct call *c, struct effects *e)
{
    struct review_facts after = nameless(r);
    after.state = REVIEW_REDEEMED;
    after.redeemed_ms = c->now_ms;
    after.redemption = c->records[0];
    if (c->review.retry.given) {
        after.retry_key = c->review.retry.key;
        after.retry_body = c->review.retry.body;
    }
    const size_t most = c->spent.size + DELTA_MOST_BYTES;
    struct buf out = effects_buf(e, most);
    buf_put(&out, c->spent);
    delta_put_moved(&out, &after);
    struct str delta = effects_take(e, &out, most);
    if (delta.size == 0) return ERR_FULL;
    if (!records_fit(c, delta.size, 0)) return ERR_OUT_OF_RANGE;
    enum err err = review_move(&s->reviews, r, &after);
    if (err != ERR_OK) return err;
    effects_record(e, c->records[0], delta);
    effects_record(e, c->records[1], (struct str){0});
    shard_note_review(s, r);
    /* Those that waited to claim it get it as spent. */
    while (r->waiters != NULL) review_answer_waiter(s, r, r->waiters, c->now_ms, e);
    check(r->facts.state == REVIEW_REDEEMED && r->waiters == NULL);
    review_check(r);
    return ERR_OK;
}

static void redeem(struct shard *s, struct review *r, struct call *c, struct effects *e)
{
    const struct review_facts *f = &r->facts;
    const struct retry *retry = &c->review.retry;
    c->review.replayed = false;
    if (!f->is_user && actor_is_suspended(&s->actors, f->tenant, f->subject)) {
        /* the origin checked before the actor was suspended */
        answer(r, c, ERR_ACTOR_SUSPENDED, e);
    } else if (f->redemption.size > 0 && retry_has_key(retry, &f->retry_key)) {
        c->review.replayed = retry_has_body(retry, &f->retry_body);
        answer(r, c, c->review.replayed ? ERR_OK : ERR_IDEMPOTENCY_MISMATCH, e);
    } else if (f->state != REVIEW_APPROVED ||
               !review_digest_equal(&f->binding, &c->review.binding)) {
        answer(r, c, ERR_NOT_REDEEMABLE, e);
    } else {
        enum err err = closed(spend(s, r, c, e));
        answer(r, c, err, e);
        c->err = err; /* the record stays, even if there is no room to show it */
    }
}

/* ---- dispatch ---- */

void review_step(struct shard *s, struct call *c, struct effects *e)
{
    if (c->kind == CALL_ENQUEUE) {
        enqueue(s, c, e);
        return;
    }
    if (c->kind == CALL_SHARE) {
        share(s, c, e);
        return;
    }
    struct review *r = review_find(&s->reviews, c->review.id);
    check(r == NULL || slot_of_id(r->facts.id) == c->slot);
    bool is_theirs = c->kind == CALL_CANCEL || c->kind == CALL_REDEEM || c->kind == CALL_CLAIM ||
                     c->kind == CALL_UNCLAIM;
    if (r == NULL || !(is_theirs ? asked_for_it(r, c) : review_is_visible(r, c))) {
        c->err = ERR_NOT_FOUND;
        return;
    }
    if (c->kind == CALL_UNCLAIM) {
        unclaim(s, r, c, e);
        return;
    }
    if (expired_first(s, r, c, e)) return;
    switch (c->kind) {
    case CALL_REVIEW_GET: answer(r, c, ERR_OK, e); return;
    case CALL_REVIEW_WAIT: wait(s, r, c, e); return;
    case CALL_APPROVE:
    case CALL_DENY: resolve(s, r, c, e); return;
    case CALL_CANCEL: cancel(s, r, c, e); return;
    case CALL_TAKE_BACK: revoke(s, r, c, e); return;
    case CALL_CLAIM: claim(s, r, c, e); return;
    case CALL_REDEEM: redeem(s, r, c, e); return;
    default: check(false);
    }
}
