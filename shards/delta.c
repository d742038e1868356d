/* delta.c - deltas as bytes: little-endian numbers, texts behind their size.
 *
 *   entry  := kind(1) slot(2) size(4) body
 *   text   := size(4) bytes          0xFFFFFFFF: absent
 *   id, digest, key := their bytes
 *
 * A body that is longer or shorter than its kind is damaged. What the readers refuse is never
 * written: such a journal could not be replayed. */
#include "shards/delta.h"

#include "base/check.h"

#define ABSENT UINT32_MAX

enum { TENANT_BYTES_MAX = 4 * LIMIT_ID_CHARACTERS };

/* ---- write ---- */

static void put_number(struct buf *out, uint64_t value, size_t bytes)
{
    check(bytes <= 8 && (bytes == 8 || value >> (8 * bytes) == 0));
    char b[8];
    for (size_t i = 0; i < bytes; i++) b[i] = (char)(value >> (8 * i));
    buf_put(out, str_of(b, bytes));
}

static void put_u64(struct buf *out, uint64_t value) { put_number(out, value, 8); }
static void put_u32(struct buf *out, uint32_t value) { put_number(out, value, 4); }

static void put_text(struct buf *out, struct str text)
{
    check(text.size < ABSENT);
    put_u32(out, str_is_absent(text) ? ABSENT : (uint32_t)text.size);
    buf_put(out, text);
}

static void put_bytes(struct buf *out, const void *bytes, size_t size)
{
    buf_put(out, str_of(bytes, size));
}
static void put_id(struct buf *out, struct id id) { put_bytes(out, id.bytes, sizeof id.bytes); }
static void put_digest(struct buf *out, const struct review_digest *d)
{
    put_bytes(out, d->bytes, sizeof d->bytes);
}

static size_t begin(struct buf *out, enum delta_kind kind, unsigned slot)
{
    check(slot < LIMIT_SLOTS);
    put_number(out, kind, 1);
    put_number(out, slot, 2);
    put_u32(out, 0);
    return out->size;
}

static void end(struct buf *out, size_t body)
{
    if (out->overflow) return;
    check(out->size >= body && out->size - body <= UINT32_MAX);
    uint32_t size = (uint32_t)(out->size - body);
    for (size_t i = 0; i < 4; i++) out->bytes[body - 4 + i] = (char)(size >> (8 * i));
}

void delta_put_minted(struct buf *out, const struct token_facts *t, const struct retry *retry)
{
    size_t body = begin(out, DELTA_TOKEN_MINTED, slot_of_id(t->id));
    put_id(out, t->id);
    put_id(out, t->key);
    put_text(out, t->tenant);
    put_text(out, t->actor);
    put_text(out, t->acting_for);
    put_text(out, t->scope);
    put_text(out, t->audience);
    put_u32(out, t->signer);
    put_u64(out, t->ordinal);
    put_u64(out, t->issued_ms);
    put_u64(out, t->expires_ms);
    put_u64(out, t->revoked_ms);
    put_u32(out, t->uses_max);
    put_u32(out, t->uses);
    put_number(out, retry->given, 1);
    if (retry->given) {
        put_digest(out, &retry->key);
        put_digest(out, &retry->body);
    }
    end(out, body);
}

void delta_put_spent(struct buf *out, struct id token, uint32_t uses)
{
    size_t body = begin(out, DELTA_TOKEN_SPENT, slot_of_id(token));
    put_id(out, token);
    put_u32(out, uses);
    end(out, body);
}

void delta_put_revoked(struct buf *out, struct id token, uint64_t at_ms)
{
    size_t body = begin(out, DELTA_TOKEN_REVOKED, slot_of_id(token));
    put_id(out, token);
    put_u64(out, at_ms);
    end(out, body);
}

void delta_put_counted(struct buf *out, const struct limit_request *ask,
                       const struct limit_told *told)
{
    check(told->counted);
    check(ask->window_ms > 0 && ask->window_ms <= limit_time_most_ms);
    check(told->stamp_ms <= limit_time_most_ms);
    const enum delta_kind kind = ask->is_old         ? DELTA_COUNTED
                                 : told->takes_place ? DELTA_LIMIT_PLACED
                                                     : DELTA_LIMIT_COUNTED;
    size_t body = begin(out, kind, slot_of_key(ask->key));
    put_bytes(out, ask->key.bytes, sizeof ask->key.bytes);
    put_u64(out, ask->window_ms);
    put_u64(out, told->stamp_ms);
    put_u64(out, (uint64_t)ask->amount);
    if (kind == DELTA_LIMIT_PLACED) {
        put_id(out, ask->asker);
        put_text(out, ask->tenant);
    }
    end(out, body);
}

void delta_put_opened(struct buf *out, const struct review_facts *r)
{
    size_t body = begin(out, r->asks_proof ? DELTA_REVIEW_OPENED_PROVEN : DELTA_REVIEW_OPENED,
                        slot_of_id(r->id));
    put_id(out, r->id);
    put_u64(out, r->ordinal);
    put_number(out, r->is_user, 1);
    put_text(out, r->tenant);
    put_text(out, r->subject);
    put_text(out, r->principal);
    put_text(out, r->owner);
    put_text(out, r->acting_for);
    put_text(out, r->action);
    put_text(out, r->trace_id);
    put_digest(out, &r->binding);
    put_u64(out, r->enqueued_ms);
    put_u64(out, r->expires_ms);
    put_u64(out, r->good_for_ms);
    put_text(out, r->requirements);
    put_text(out, r->votes_approved);
    put_digest(out, &r->request);
    end(out, body);
}

void delta_put_traced(struct buf *out, struct id review, struct str trace_id)
{
    check(!str_is_absent(trace_id));
    size_t body = begin(out, DELTA_REVIEW_TRACED, slot_of_id(review));
    put_id(out, review);
    put_text(out, trace_id);
    end(out, body);
}

void delta_put_voted(struct buf *out, struct id review, const struct review_vote *v)
{
    check(v->proof < REVIEW_PROOFS);
    bool is_person = v->proof == REVIEW_PROOF_OIDC;
    size_t body =
        begin(out, is_person ? DELTA_REVIEW_VOTED_PERSON : DELTA_REVIEW_VOTED, slot_of_id(review));
    put_id(out, review);
    put_text(out, v->principal);
    put_text(out, v->owner);
    put_text(out, v->by);
    put_text(out, v->note);
    put_u64(out, v->at_ms);
    put_u32(out, v->meets);
    put_id(out, v->key);
    put_number(out, v->proof, 1);
    if (is_person) put_text(out, v->claims);
    end(out, body);
}

void delta_put_moved(struct buf *out, const struct review_facts *r)
{
    check((unsigned)r->state < REVIEW_STATES && r->cancelled_by < REVIEW_CAUSES);
    check((r->state == REVIEW_CANCELLED) == (r->cancelled_by != REVIEW_NOT_CANCELLED));
    size_t body = begin(out, DELTA_REVIEW_MOVED, slot_of_id(r->id));
    put_id(out, r->id);
    put_number(out, r->state, 1);
    put_u64(out, r->resolved_ms);
    put_text(out, r->resolver);
    put_text(out, r->resolver_owner);
    put_text(out, r->resolved_by);
    put_text(out, r->note);
    put_u64(out, r->approval_expires_ms);
    put_u64(out, r->redeemed_ms);
    put_digest(out, &r->retry_key);
    put_digest(out, &r->retry_body);
    put_number(out, r->cancelled_by, 1);
    end(out, body);
}

void delta_put_suspended(struct buf *out, unsigned slot, const struct actor_facts *a)
{
    check(!str_is_absent(a->tenant) && !str_is_absent(a->actor));
    size_t body = begin(out, DELTA_ACTOR_SUSPENDED, slot);
    put_text(out, a->tenant);
    put_text(out, a->actor);
    put_text(out, a->reason);
    put_text(out, a->by);
    put_u64(out, a->ordinal);
    put_u64(out, a->suspended_ms);
    end(out, body);
}

void delta_put_resumed(struct buf *out, unsigned slot, struct str tenant, struct str actor,
                       uint64_t at_ms)
{
    check(!str_is_absent(tenant) && !str_is_absent(actor));
    size_t body = begin(out, DELTA_ACTOR_RESUMED, slot);
    put_text(out, tenant);
    put_text(out, actor);
    put_u64(out, at_ms);
    end(out, body);
}

void delta_put_rotated(struct buf *out, const struct signer_rotation *r)
{
    check(r->number > 0);
    size_t body = begin(out, DELTA_SIGNER_ROTATED, SIGNER_SLOT);
    put_u32(out, r->number);
    put_u64(out, r->active_ms);
    put_number(out, r->ends_older, 1);
    put_bytes(out, r->salt, sizeof r->salt);
    end(out, body);
}

void delta_put_kept(struct buf *out, const struct retry_outcome *o)
{
    check(o->verdict < RETRY_VERDICTS && o->at_ms <= limit_time_most_ms);
    size_t body = begin(out, DELTA_RETRY_KEPT, slot_of_key(o->key));
    put_bytes(out, o->key.bytes, sizeof o->key.bytes);
    put_bytes(out, o->tenant.bytes, sizeof o->tenant.bytes);
    put_bytes(out, o->asker.bytes, sizeof o->asker.bytes);
    put_digest(out, &o->body);
    put_u64(out, o->at_ms);
    put_number(out, o->verdict, 1);
    put_number(out, o->has_record, 1);
    end(out, body);
}

/* ---- read: after the first failure every read fails ---- */

struct reader {
    struct str rest;
    bool failed;
};

static struct str take(struct reader *r, size_t size)
{
    if (r->failed || r->rest.size < size) {
        r->failed = true;
        return (struct str){0};
    }
    struct str taken = str_of(r->rest.bytes, size);
    r->rest = str_skip(r->rest, size);
    return taken;
}

static uint64_t take_number(struct reader *r, size_t bytes)
{
    check(bytes <= 8);
    struct str b = take(r, bytes);
    uint64_t value = 0;
    for (size_t i = 0; i < b.size; i++) value |= (uint64_t)(uint8_t)b.bytes[i] << (8 * i);
    return value;
}

static uint64_t take_u64(struct reader *r) { return take_number(r, 8); }
static uint32_t take_u32(struct reader *r) { return (uint32_t)take_number(r, 4); }

static bool take_bool(struct reader *r)
{
    uint64_t value = take_number(r, 1);
    if (value > 1) r->failed = true;
    return value == 1;
}

static struct str take_text(struct reader *r)
{
    uint32_t size = take_u32(r);
    if (r->failed || size == ABSENT) return (struct str){0};
    return take(r, size);
}

static void take_bytes(struct reader *r, void *to, size_t size)
{
    struct str b = take(r, size);
    if (b.size == size) memcpy(to, b.bytes, size);
}

static struct id take_id(struct reader *r)
{
    struct id id = {0};
    take_bytes(r, id.bytes, sizeof id.bytes);
    return id;
}

static bool done(const struct reader *r) { return !r->failed && r->rest.size == 0; }

bool delta_next(struct str *rest, struct delta_entry *ret, enum err *ret_err)
{
    *ret_err = ERR_OK;
    if (rest->size == 0) return false;
    struct reader r = {.rest = *rest};
    uint64_t kind = take_number(&r, 1), slot = take_number(&r, 2);
    struct str body = take(&r, take_u32(&r));
    bool known = false;
#define DELTA(name, number, text) known |= kind == number;
#include "shards/delta.def"
#undef DELTA
    if (r.failed || !known || slot >= LIMIT_SLOTS) {
        *ret_err = r.failed || known || kind == 0 ? ERR_CORRUPT : ERR_BAD_VALUE;
        return false;
    }
    *ret =
        (struct delta_entry){.kind = (enum delta_kind)kind, .slot = (unsigned)slot, .body = body};
    *rest = r.rest;
    return true;
}

bool delta_read_minted(struct str body, struct token_facts *ret, struct retry *ret_retry)
{
    struct reader r = {.rest = body};
    struct token_facts t = {0};
    struct retry retry = {0};
    t.id = take_id(&r);
    t.key = take_id(&r);
    t.tenant = take_text(&r);
    t.actor = take_text(&r);
    t.acting_for = take_text(&r);
    t.scope = take_text(&r);
    t.audience = take_text(&r);
    t.signer = take_u32(&r);
    t.ordinal = take_u64(&r);
    t.issued_ms = take_u64(&r);
    t.expires_ms = take_u64(&r);
    t.revoked_ms = take_u64(&r);
    t.uses_max = take_u32(&r);
    t.uses = take_u32(&r);
    retry.given = take_bool(&r);
    if (retry.given) {
        take_bytes(&r, retry.key.bytes, sizeof retry.key.bytes);
        take_bytes(&r, retry.body.bytes, sizeof retry.body.bytes);
    }
    if (!done(&r)) return false;
    *ret = t;
    *ret_retry = retry;
    return true;
}

bool delta_read_spent(struct str body, struct id *ret_token, uint32_t *ret_uses)
{
    struct reader r = {.rest = body};
    struct id token = take_id(&r);
    uint32_t uses = take_u32(&r);
    if (!done(&r)) return false;
    *ret_token = token;
    *ret_uses = uses;
    return true;
}

bool delta_read_revoked(struct str body, struct id *ret_token, uint64_t *ret_at_ms)
{
    struct reader r = {.rest = body};
    struct id token = take_id(&r);
    uint64_t at_ms = take_u64(&r);
    if (!done(&r)) return false;
    *ret_token = token;
    *ret_at_ms = at_ms;
    return true;
}

bool delta_read_counted(const struct delta_entry *e, struct limit_request *ret_ask,
                        struct limit_told *ret_told)
{
    struct reader r = {.rest = e->body};
    struct limit_request ask = {.is_old = e->kind == DELTA_COUNTED};
    struct limit_told told = {.counted = true, .takes_place = e->kind == DELTA_LIMIT_PLACED};
    take_bytes(&r, ask.key.bytes, sizeof ask.key.bytes);
    ask.window_ms = take_u64(&r);
    told.stamp_ms = take_u64(&r);
    ask.amount = (int64_t)take_u64(&r);
    if (told.takes_place) {
        ask.asker = take_id(&r);
        ask.tenant = take_text(&r);
        if (str_is_empty(ask.tenant) || ask.tenant.size > TENANT_BYTES_MAX) return false;
    }
    if (!done(&r) || !delta_counts(e->kind) || ask.window_ms == 0 ||
        ask.window_ms > limit_time_most_ms || told.stamp_ms > limit_time_most_ms)
        return false;
    *ret_ask = ask;
    *ret_told = told;
    return true;
}

bool delta_read_opened(const struct delta_entry *e, struct review_facts *ret)
{
    struct reader r = {.rest = e->body};
    struct review_facts f = {.state = REVIEW_PENDING,
                             .asks_proof = e->kind == DELTA_REVIEW_OPENED_PROVEN};
    f.id = take_id(&r);
    f.ordinal = take_u64(&r);
    f.is_user = take_bool(&r);
    f.tenant = take_text(&r);
    f.subject = take_text(&r);
    f.principal = take_text(&r);
    f.owner = take_text(&r);
    f.acting_for = take_text(&r);
    f.action = take_text(&r);
    f.trace_id = take_text(&r);
    take_bytes(&r, f.binding.bytes, sizeof f.binding.bytes);
    f.enqueued_ms = take_u64(&r);
    f.expires_ms = take_u64(&r);
    f.good_for_ms = take_u64(&r);
    f.requirements = take_text(&r);
    f.votes_approved = take_text(&r);
    f.request = f.binding;
    if (e->kind != DELTA_REVIEW_OPENED_PLAIN)
        take_bytes(&r, f.request.bytes, sizeof f.request.bytes);
    if (!done(&r) || !delta_opens_review(e->kind)) return false;
    *ret = f;
    return true;
}

bool delta_read_traced(struct str body, struct id *ret_review, struct str *ret_trace_id)
{
    struct reader r = {.rest = body};
    struct id review = take_id(&r);
    struct str trace_id = take_text(&r);
    if (!done(&r) || str_is_absent(trace_id)) return false;
    *ret_review = review;
    *ret_trace_id = trace_id;
    return true;
}

bool delta_read_voted(const struct delta_entry *e, struct id *ret_review, struct review_vote *ret)
{
    struct reader r = {.rest = e->body};
    uint64_t proof = REVIEW_PROOF_UNKNOWN;
    struct review_vote v = {0};
    struct id review = take_id(&r);
    v.principal = take_text(&r);
    v.owner = take_text(&r);
    v.by = take_text(&r);
    v.note = take_text(&r);
    v.at_ms = take_u64(&r);
    v.meets = take_u32(&r);
    if (e->kind != DELTA_REVIEW_VOTED_PLAIN) {
        v.key = take_id(&r);
        proof = take_number(&r, 1);
    }
    bool is_person = e->kind == DELTA_REVIEW_VOTED_PERSON;
    if (is_person) v.claims = take_text(&r);
    if (is_person != (proof == REVIEW_PROOF_OIDC)) return false;
    if (!done(&r) || proof >= REVIEW_PROOFS || !delta_votes(e->kind)) return false;
    v.proof = (enum review_proof)proof;
    *ret_review = review;
    *ret = v;
    return true;
}

bool delta_read_moved(const struct delta_entry *e, struct review_facts *ret)
{
    struct reader r = {.rest = e->body};
    struct review_facts f = {0};
    f.id = take_id(&r);
    uint64_t state = take_number(&r, 1);
    f.resolved_ms = take_u64(&r);
    f.resolver = take_text(&r);
    f.resolver_owner = take_text(&r);
    f.resolved_by = take_text(&r);
    f.note = take_text(&r);
    f.approval_expires_ms = take_u64(&r);
    f.redeemed_ms = take_u64(&r);
    take_bytes(&r, f.retry_key.bytes, sizeof f.retry_key.bytes);
    take_bytes(&r, f.retry_body.bytes, sizeof f.retry_body.bytes);
    /* in earlier versions only the requester could cancel a review */
    uint64_t cause = state == REVIEW_CANCELLED ? REVIEW_BY_REQUESTER : REVIEW_NOT_CANCELLED;
    if (e->kind != DELTA_REVIEW_MOVED_PLAIN) cause = take_number(&r, 1);
    if (!done(&r) || state > REVIEW_APPROVED || !delta_moves_review(e->kind)) return false;
    if (cause >= REVIEW_CAUSES || (state == REVIEW_CANCELLED) != (cause != REVIEW_NOT_CANCELLED))
        return false;
    f.state = (enum review_state)state;
    f.cancelled_by = (enum review_cause)cause;
    *ret = f;
    return true;
}

bool delta_read_suspended(struct str body, struct actor_facts *ret)
{
    struct reader r = {.rest = body};
    struct actor_facts a = {0};
    a.tenant = take_text(&r);
    a.actor = take_text(&r);
    a.reason = take_text(&r);
    a.by = take_text(&r);
    a.ordinal = take_u64(&r);
    a.suspended_ms = take_u64(&r);
    if (!done(&r) || str_is_absent(a.tenant) || str_is_absent(a.actor)) return false;
    *ret = a;
    return true;
}

bool delta_read_rotated(struct str body, struct signer_rotation *ret)
{
    struct reader r = {.rest = body};
    struct signer_rotation s = {.number = take_u32(&r)};
    s.active_ms = take_u64(&r);
    s.ends_older = take_bool(&r);
    take_bytes(&r, s.salt, sizeof s.salt);
    if (!done(&r) || s.number == 0) return false;
    *ret = s;
    return true;
}

bool delta_read_resumed(struct str body, struct str *ret_tenant, struct str *ret_actor,
                        uint64_t *ret_at_ms)
{
    struct reader r = {.rest = body};
    struct str tenant = take_text(&r), actor = take_text(&r);
    uint64_t at_ms = take_u64(&r);
    if (!done(&r) || str_is_absent(tenant) || str_is_absent(actor)) return false;
    *ret_tenant = tenant;
    *ret_actor = actor;
    *ret_at_ms = at_ms;
    return true;
}

bool delta_read_kept(struct str body, struct retry_outcome *ret)
{
    struct reader r = {.rest = body};
    struct retry_outcome o = {0};
    take_bytes(&r, o.key.bytes, sizeof o.key.bytes);
    take_bytes(&r, o.tenant.bytes, sizeof o.tenant.bytes);
    take_bytes(&r, o.asker.bytes, sizeof o.asker.bytes);
    take_bytes(&r, o.body.bytes, sizeof o.body.bytes);
    o.at_ms = take_u64(&r);
    o.verdict = (uint32_t)take_number(&r, 1);
    o.has_record = take_bool(&r);
    if (!done(&r) || o.verdict >= RETRY_VERDICTS || o.at_ms > limit_time_most_ms) return false;
    *ret = o;
    return true;
}
