#include "engine/resources/item.h"

#include "base/arena.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/time.h"
#include "engine/resources/needs.h"
#include "event/event.h"
#include "json/json.h"

enum { SCRATCH_FIRST_BYTES = 16 << 10 };

static void name(struct buf *out, size_t start, const char *key)
{
    check(out->size >= start);
    if (out->size > start) buf_put_byte(out, ',');
    buf_put_byte(out, '"');
    buf_put(out, str_from(key));
    buf_put_literal(out, "\":");
}

struct members {
    struct buf *out;
    size_t start;
};

static void text(struct members *m, const char *key, struct str value)
{
    if (str_is_absent(value)) return;
    name(m->out, m->start, key);
    json_put_string(m->out, value);
}

static void raw(struct members *m, const char *key, struct str value)
{
    if (str_is_absent(value)) return;
    name(m->out, m->start, key);
    buf_put(m->out, value);
}

static void number(struct members *m, const char *key, uint64_t value)
{
    name(m->out, m->start, key);
    buf_put_u64(m->out, value);
}

static void at(struct members *m, const char *key, uint64_t ms)
{
    if (ms == 0) return;
    char to[TIME_TEXT];
    time_write(ms, to);
    text(m, key, str_of(to, TIME_TEXT));
}

static void put_approvals(struct members *m, const struct review_facts *r)
{
    check(r->approval_count <= REVIEW_VOTES_MAX);
    name(m->out, m->start, "approvals");
    buf_put_byte(m->out, '[');
    for (size_t i = 0; i < r->approval_count; i++) {
        const struct review_vote *v = &r->approvals[i];
        if (i > 0) buf_put_byte(m->out, ',');
        buf_put_byte(m->out, '{');
        struct members one = {.out = m->out, .start = m->out->size};
        text(&one, "resolved_by", v->by);
        text(&one, "owner", v->owner);
        at(&one, "at", v->at_ms);
        char key[ID_TEXT];
        id_write("key_", v->key, key);
        if (v->proof != REVIEW_PROOF_UNKNOWN) {
            if (v->proof != REVIEW_PROOF_OIDC) text(&one, "key_id", str_of(key, ID_TEXT));
            text(&one, "proof", str_from(review_proof_name(v->proof)));
        }
        if (v->note.size > 0) text(&one, "note", v->note);
        buf_put_byte(m->out, '}');
    }
    buf_put_byte(m->out, ']');
}

/* Who still has to vote is a question of a pending review only. */
static void put_needs(struct members *m, const struct review_facts *r, bool with_voted,
                      struct arena *arena)
{
    struct needs n;
    bool known = needs_of(r, arena, &n) == ERR_OK;
    number(m, "approvals_required", needs_approvals(&n));
    if (!known || r->state != REVIEW_PENDING) return;
    name(m->out, m->start, "needs");
    needs_put(m->out, &n, r, with_voted);
}

static void put_asked(struct members *m, const struct event *e, const struct review_facts *r)
{
    text(m, "id", e->review_id);
    text(m, "trace_id", e->trace_id);
    text(m, "request_id", e->request_id);
    text(m, "tenant_id", e->tenant_id);
    text(m, "kind", r->is_user ? STR("user") : STR("agent"));
    text(m, "key_id", e->key_id);
    text(m, "actor", e->actor);
    text(m, "user_id", e->user_id);
    text(m, "acting_for", e->acting_for);
    text(m, "action", e->action);
    raw(m, "resource", e->resource);
    raw(m, "resource_properties", e->resource_properties);
    raw(m, "args", e->args);
    raw(m, "context", e->context);
    if (e->has_confidence) {
        name(m->out, m->start, "confidence_score");
        json_put_number(m->out, e->confidence);
    }
}

static void put_decided(struct members *m, const struct event *e, const struct review_facts *r,
                        bool with_voted, struct arena *arena)
{
    text(m, "reason", e->reason);
    text(m, "rule", e->rule);
    text(m, "policy_name", e->policy_name);
    if (e->has_policy_version) number(m, "policy_version", e->policy_version);
    text(m, "policy_digest", e->policy_digest);
    text(m, "binding_hash", e->binding_hash);
    at(m, "enqueued_at", r->enqueued_ms);
    at(m, "expires_at", r->expires_ms);
    text(m, "status", str_from(review_state_name(r->state)));
    const char *cause = review_cause_name(r->cancelled_by);
    if (cause != NULL) text(m, "cancelled_by", str_from(cause));
    put_needs(m, r, with_voted, arena);
    put_approvals(m, r);
    at(m, "resolved_at", r->resolved_ms);
    if (r->resolved_by.size > 0) text(m, "resolved_by", r->resolved_by);
    if (r->note.size > 0) text(m, "resolution_note", r->note);
    at(m, "approval_expires_at", r->approval_expires_ms);
    at(m, "redeemed_at", r->redeemed_ms);
}

static enum err put_members(struct buf *out, const struct review_facts *r, bool with_voted,
                            struct arena *arena)
{
    struct event e;
    struct fault f;
    if (event_read(r->item, arena, &e, &f) != ERR_OK) return ERR_CORRUPT;
    struct members m = {.out = out, .start = out->size};
    put_asked(&m, &e, r);
    put_decided(&m, &e, r, with_voted, arena);
    return ERR_OK;
}

enum err item_put_members(struct buf *out, const struct review_facts *r, bool with_voted)
{
    check((unsigned)r->state < REVIEW_STATES);
    struct arena scratch;
    arena_init(&scratch, SCRATCH_FIRST_BYTES, LIMIT_REQUEST_ARENA_BYTES);
    enum err err = put_members(out, r, with_voted, &scratch);
    if (scratch.starved) err = ERR_OVERLOADED;
    arena_fini(&scratch);
    return err;
}
