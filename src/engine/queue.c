/* queue.c - the review queue's routes: list, read, wait, approve, deny, cancel.
 *
 * A review is named by its `rev_` id or, where it is only looked at, by the trace id of any
 * decision that was given it. Whoever asked sees their own; a reviewer sees the tenant's.
 * Redemption is a decision and has a file of its own (redeem.c). */
#include "base/limits.h"
#include "engine/engine.h"
#include "engine/item.h"
#include "engine/member.h"
#include "engine/page.h"
#include "engine/queue.h"
#include "engine/sight.h"
#include "engine/terms.h"
#include "engine/trip.h"

enum {
    NOTE_CHARACTERS_MAX = 2000,
    WAIT_DEFAULT_MS = 30000,
    WAIT_MOST_MS = 60000,
    /* an event, and REVIEW_VOTES_MAX votes with every character of names and notes escaped */
    ITEM_BYTES_MAX = 2 << 20,
    /* which the platform and `writ` take; a page ends at half of it */
    PAGE_BYTES_MAX = LIMIT_REPLY_BYTES,
};

struct look {         /* an errand on one review, or on a page of them */
    struct trip trip; /* first */
    struct id review;
    struct str name; /* of the review, as the path has it; where a token may ask */
    bool approve;
    struct str note, by;
    uint64_t timeout_ms;
    struct credential_mark mark; /* of who asks */
    uint64_t limit;
};

static struct look *of(struct errand *e) { return (struct look *)(void *)e; }

static struct look *look_begin(struct worker *w, struct http_exchange *x, struct json **ret_body)
{
    struct look *l = (void *)trip_begin(w, x, sizeof *l, ROLE_REVIEWER, ret_body);
    if (l != NULL) l->mark = api_credential_mark(&l->trip.caller);
    return l;
}

/* ---- answers ---- */

/* 409 with the winner. */
static void refuse_resolved(struct look *l)
{
    const struct review_facts *r = &l->trip.errand.call.review.facts;
    char bytes[4096];
    struct buf b = buf_over(bytes, sizeof bytes);
    struct fault f;
    if (r->resolved_by.size > 0 && (r->state == REVIEW_EXPIRED || r->state == REVIEW_REDEEMED))
        fault_set(&f, ERR_ALREADY_RESOLVED, "", "the review was approved by %.*s, and is %s now",
                  STR_FORMAT(r->resolved_by), review_state_name(r->state));
    else if (r->resolved_by.size > 0)
        fault_set(&f, ERR_ALREADY_RESOLVED, "", "the review is %s already, by %.*s",
                  review_state_name(r->state), STR_FORMAT(r->resolved_by));
    else
        fault_set(&f, ERR_ALREADY_RESOLVED, "", "the review is %s already",
                  review_state_name(r->state));
    buf_put_byte(&b, '{');
    api_put_fault(&b, &f, r->trace_id);
    member_put_text(&b, STR(",\"resolved_by\":"), r->resolved_by);
    buf_put_literal(&b, ",\"status\":");
    json_put_plain(&b, str_from(review_state_name(r->state)));
    buf_put_byte(&b, '}');
    if (b.overflow)
        trip_refuse(&l->trip, &f);
    else
        errand_reply(&l->trip.errand, 409, buf_view(&b), (struct str){0});
}

static void answer_item(struct errand *e, const struct review_facts *r, struct str before)
{
    struct buf b;
    struct fault f;
    buf_init(&b, 4096, ITEM_BYTES_MAX);
    buf_put_byte(&b, '{');
    buf_put(&b, before);
    enum err err = item_put_members(&b, r);
    buf_put_byte(&b, '}');
    if (err == ERR_OK && !b.overflow) {
        errand_reply(e, 200, buf_view(&b), (struct str){0});
    } else {
        fault_plain(&f, ERR_INTERNAL);
        errand_refuse(e, &f, (struct str){0});
    }
    buf_fini(&b);
}

static void answer_review(struct errand *e)
{
    struct fault f;
    if (e->call.err == ERR_OK) {
        answer_item(e, &e->call.review.facts, (struct str){0});
        return;
    }
    if (e->call.err == ERR_NOT_FOUND)
        fault_set(&f, ERR_NOT_FOUND, "", "there is no such review here");
    else
        fault_plain(&f, e->call.err);
    errand_refuse(e, &f, (struct str){0});
}

/* ---- which review ---- */

static enum err no_such_review(struct fault *f)
{
    return fault_set(f, ERR_NOT_FOUND, "", "there is no such review here");
}

bool queue_named(struct errand *e, struct str name, struct id *ret, void (*then)(struct errand *e),
                 struct fault *f)
{
    f->err = ERR_OK;
    if (id_read("rev_", name, ret)) return true;
    if (id_has_prefix(name) || name.size > LIMIT_TRACE_ID_BYTES) {
        no_such_review(f);
        return false;
    }
    struct call *c = &e->call;
    c->list.trace_id = arena_copy(e->arena, name);
    c->list.limit = CALL_TRACES_MAX;
    c->list.any_state = true;
    errand_gather(e, CALL_REVIEW_FIND, then);
    return false;
}

/* A trace id was asked of every shard: one review in all, or a refusal. */
enum err queue_found(struct errand *e, struct id *ret, struct fault *f)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < e->gathered_count; i++) {
        const struct call *c = e->gathered[i];
        if (c->err != ERR_OK) return fault_plain(f, c->err);
        total += c->list.count;
        if (c->list.count > 0) *ret = c->list.reviews[0].id;
    }
    if (total > 1) return fault_plain(f, ERR_AMBIGUOUS_TRACE);
    return total == 1 ? ERR_OK : no_such_review(f);
}

/* The same with the refusal given: true where l->review is settled. */
static bool named(struct look *l, struct str name, void (*then)(struct errand *e))
{
    struct fault f;
    bool is_settled = queue_named(&l->trip.errand, name, &l->review, then, &f);
    if (f.err != ERR_OK) trip_refuse(&l->trip, &f);
    return is_settled;
}

static bool found(struct look *l)
{
    struct fault f;
    if (queue_found(&l->trip.errand, &l->review, &f) == ERR_OK) return true;
    trip_refuse(&l->trip, &f);
    return false;
}

/* ---- read and wait ---- */

static void refuse_ended(struct look *l, const struct fault *f)
{
    const struct errand *e = &l->trip.errand;
    const struct asker *who = &e->call.asker;
    const struct token_claims token = {.id = l->mark.token,
                                       .key = l->mark.key,
                                       .tenant = e->call.tenant,
                                       .actor = who->token_actor,
                                       .acting_for = who->token_acting_for,
                                       .signer = who->token_signer};
    auth_failed_note_ended(e->worker, l->mark.key, l->mark.is_token ? &token : NULL, &e->client,
                           f->err);
    trip_refuse(&l->trip, f);
}

/* Whoever waited, or was away, may have been revoked meanwhile. */
static void show(struct errand *e)
{
    struct look *l = of(e);
    const struct call *c = &e->call;
    struct fault f;
    enum err err = api_credential_holds(&e->worker->api, &l->mark, c->tenant, c->asker.token_actor,
                                        world_now_ms(), &f);
    if (err == ERR_OK)
        answer_review(e);
    else
        refuse_ended(l, &f);
}

static void get(struct look *l)
{
    l->trip.errand.call.review.id = l->review;
    errand_visit(&l->trip.errand, CALL_REVIEW_GET, slot_of_id(l->review), show);
}

static void get_found(struct errand *e)
{
    if (found(of(e))) get(of(e));
}

static void get_known(struct errand *e)
{
    if (named(of(e), of(e)->name, get_found)) get(of(e));
}

static void refuse_sighted(struct errand *e, const struct fault *f)
{
    trip_refuse((struct trip *)(void *)e, f);
}

void queue_get_handle(void *context, struct http_exchange *x)
{
    struct json *body;
    struct look *l = look_begin(context, x, &body);
    if (l == NULL) return;
    l->name = arena_copy(l->trip.errand.arena, x->params[0]);
    sight(&l->trip.errand, &l->trip.caller, get_known, refuse_sighted);
}

static void wait(struct look *l)
{
    struct call *c = &l->trip.errand.call;
    c->review.id = l->review;
    c->review.deadline_ms = world_now_ms() + l->timeout_ms;
    errand_wait(&l->trip.errand, sizeof *l, slot_of_id(l->review), show);
}

static void wait_found(struct errand *e)
{
    if (found(of(e))) wait(of(e));
}

static void wait_known(struct errand *e)
{
    if (named(of(e), of(e)->name, wait_found)) wait(of(e));
}

void queue_wait_handle(void *context, struct http_exchange *x)
{
    struct json *body;
    struct look *l = look_begin(context, x, &body);
    struct fault f;
    struct str text;
    if (l == NULL) return;
    l->name = arena_copy(l->trip.errand.arena, x->params[0]);
    l->timeout_ms = WAIT_DEFAULT_MS;
    enum err err = http_parameter(x, STR("timeout_ms"), &text, &f);
    if (err == ERR_OK && !str_is_absent(text) &&
        (!str_to_u64(text, &l->timeout_ms) || l->timeout_ms > WAIT_MOST_MS))
        err = fault_set(&f, ERR_BAD_PARAMETER, "",
                        "timeout_ms: %.*s is not a whole number from 0 to %d", STR_FORMAT(text),
                        WAIT_MOST_MS);
    if (err != ERR_OK)
        trip_refuse(&l->trip, &f);
    else
        sight(&l->trip.errand, &l->trip.caller, wait_known, refuse_sighted);
}

/* ---- approve, deny, cancel ---- */

/* Toward which of the review's requirements this person counts: bit i for requirement i. */
static uint32_t meets(struct look *l, struct str requirements)
{
    struct arena *arena = l->trip.errand.arena;
    const struct policy_set *policies =
        bundle_policies(l->trip.errand.bundle, l->trip.caller.tenant);
    const struct policy_requirement *list;
    size_t count;
    uint32_t bits = 0;
    if (terms_read_requirements(requirements, arena, &list, &count) != ERR_OK) return 0;
    for (size_t i = 0; i < count && i < REVIEW_REQUIREMENTS_MAX; i++)
        if (list[i].by_count == 0 ||
            policy_has_role(policies, l->by, list[i].by, list[i].by_count, arena))
            bits |= UINT32_C(1) << i;
    return bits;
}

/* Of a review that is there, and may be seen. */
static void refuse_resolving(struct errand *e, const char *text)
{
    struct fault f;
    if (text == NULL)
        fault_plain(&f, e->call.err);
    else
        fault_set(&f, e->call.err, "", "%s", text);
    errand_refuse(e, &f, e->call.review.facts.trace_id);
}

static void resolved(struct errand *e)
{
    struct look *l = of(e);
    switch (e->call.err) {
    case ERR_OK: answer_item(e, &e->call.review.facts, STR("\"success\":true,")); return;
    case ERR_ALREADY_RESOLVED: refuse_resolved(l); return;
    case ERR_NOT_FOUND:
        trip_refuse_with(&l->trip, ERR_NOT_FOUND, "there is no such review here");
        return;
    case ERR_SELF_REVIEW:
        refuse_resolving(e,
                         "whoever asked, and whoever it was asked for, may not resolve the review");
        return;
    case ERR_WRONG_REVIEWER:
        refuse_resolving(e, "resolved_by: has none of the roles that this review asks for");
        return;
    case ERR_ALREADY_VOTED: refuse_resolving(e, NULL); return;
    default: trip_refuse_with(&l->trip, e->call.err, NULL);
    }
}

static void looked_at(struct errand *e)
{
    struct look *l = of(e);
    if (e->call.err != ERR_OK) {
        resolved(e);
        return;
    }
    e->call.review.id = l->review;
    e->call.review.meets = meets(l, e->call.review.facts.requirements);
    e->call.review.note = l->note;
    e->call.review.by = l->by;
    e->call.review.owner = l->trip.caller.key->owner;
    e->call.review.principal = l->trip.caller.key->name;
    errand_visit(e, l->approve ? CALL_APPROVE : CALL_DENY, slot_of_id(l->review), resolved);
}

static enum err read_resolution(struct look *l, const struct json *body, struct fault *f)
{
    static const struct member_spelling spelling = {"resolvedBy", "resolved_by"};
    enum err err = member_spelling(body, &spelling, 1, f);
    if (err == ERR_OK) err = member_text(body, "note", NOTE_CHARACTERS_MAX, &l->note, f);
    if (err == ERR_OK) err = member_text(body, "resolved_by", LIMIT_ID_CHARACTERS, &l->by, f);
    if (err != ERR_OK) return err;
    if (str_is_absent(l->by)) l->by = l->trip.caller.key->owner;
    if (!globs_match(&l->trip.caller.key->reviewers, l->by))
        return fault_set(f, ERR_WRONG_REVIEWER, "/resolved_by",
                         "resolved_by: this key may not resolve reviews as %.*s",
                         STR_FORMAT(l->by));
    return ERR_OK;
}

static void resolve(struct worker *w, struct http_exchange *x, bool approve)
{
    struct json *body;
    struct fault f;
    struct look *l = look_begin(w, x, &body);
    if (l == NULL) return;
    l->approve = approve;
    enum err err = read_resolution(l, body, &f);
    if (err == ERR_OK && !id_read("rev_", x->params[0], &l->review))
        err = fault_set(&f, ERR_NOT_FOUND, "",
                        "there is no such review here; approve and deny take rev_ ids only");
    if (err != ERR_OK) {
        trip_refuse(&l->trip, &f);
        return;
    }
    l->trip.errand.call.review.id = l->review;
    errand_visit(&l->trip.errand, CALL_REVIEW_GET, slot_of_id(l->review), looked_at);
}

void queue_approve_handle(void *context, struct http_exchange *x) { resolve(context, x, true); }
void queue_deny_handle(void *context, struct http_exchange *x) { resolve(context, x, false); }

void queue_cancel_handle(void *context, struct http_exchange *x)
{
    struct json *body;
    struct look *l = look_begin(context, x, &body);
    if (l == NULL) return;
    if (!id_read("rev_", x->params[0], &l->review)) {
        trip_refuse_with(&l->trip, ERR_NOT_FOUND,
                         "there is no such review here; cancel takes rev_ ids only");
        return;
    }
    l->trip.errand.call.review.id = l->review;
    errand_visit(&l->trip.errand, CALL_CANCEL, slot_of_id(l->review), resolved);
}

/* ---- pages ---- */

static uint64_t ordinal_of(const struct call *c, uint32_t i) { return c->list.reviews[i].ordinal; }

static enum err put_item(struct buf *b, struct errand *e, const struct call *c, uint32_t i)
{
    (void)e;
    buf_put_byte(b, '{');
    enum err err = item_put_members(b, &c->list.reviews[i]);
    buf_put_byte(b, '}');
    return err;
}

static void listed(struct errand *e)
{
    static const struct page_form form = {.begin = STR("{\"items\":["),
                                          .has_total = true,
                                          .bytes_max = PAGE_BYTES_MAX,
                                          .ordinal = ordinal_of,
                                          .put = put_item};
    enum err err = page_reply(e, &form, of(e)->limit);
    if (err != ERR_OK)
        trip_refuse_with(&of(e)->trip, err == ERR_CORRUPT ? ERR_INTERNAL : err, NULL);
}

static enum err read_filters(struct look *l, struct http_exchange *x, bool pending, struct fault *f)
{
    struct call *c = &l->trip.errand.call;
    struct str status = {0};
    enum err err = api_page(x, &l->limit, &c->list.after, f);
    if (err == ERR_OK) err = trip_filter(x, "actor", &c->list.actor, f);
    if (err == ERR_OK) err = trip_filter(x, "action", &c->list.action, f);
    if (err == ERR_OK && !pending) err = http_parameter(x, STR("status"), &status, f);
    if (err != ERR_OK) return err;
    c->list.limit = (uint32_t)l->limit + 1; /* one more tells whether there is a next page */
    c->list.state = REVIEW_PENDING;
    c->list.any_state = !pending && str_is_empty(status);
    if (str_is_empty(status) || review_state_read(status, &c->list.state)) return ERR_OK;
    return fault_set(
        f, ERR_BAD_PARAMETER, "",
        "status: must be one of pending, approved, denied, expired, cancelled, redeemed");
}

static void list(struct worker *w, struct http_exchange *x, bool pending)
{
    struct json *body;
    struct look *l = look_begin(w, x, &body);
    struct fault f;
    if (l == NULL) return;
    if (read_filters(l, x, pending, &f) != ERR_OK)
        trip_refuse(&l->trip, &f);
    else
        errand_gather(&l->trip.errand, CALL_REVIEW_LIST, listed);
}

void queue_pending_handle(void *context, struct http_exchange *x) { list(context, x, true); }
void queue_list_handle(void *context, struct http_exchange *x) { list(context, x, false); }
