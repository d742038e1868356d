/* queue.c - the review queue's routes: list, read, wait, approve, deny, cancel, revoke.
 *
 * A review is named by its `rev_` id or, for reading, by the trace id of any decision that was
 * given it. A requester sees its own; a reviewer sees the tenant's. Redemption is a decision and
 * has a file of its own (redeem.c). */
#include "base/limits.h"
#include "engine/engine.h"
#include "engine/item.h"
#include "engine/member.h"
#include "engine/needs.h"
#include "engine/page.h"
#include "engine/queue.h"
#include "engine/sight.h"
#include "engine/caller_operation.h"
#include "shards/review_people.h"

enum {
    NOTE_CHARACTERS_MAX = LIMIT_NOTE_CHARACTERS,
    ROLES_SHOWN_MAX = 100,    /* bytes; an error text has 320 */
    MINE_LOOKED_AT_MAX = 100, /* reviews, for one page of those that a key may resolve */
    MINE_BYTES_MAX = 1 << 20, /* for one review's terms and the search for roles */
    WAIT_DEFAULT_MS = 30000,
    WAIT_MOST_MS = LIMIT_WAIT_SECONDS * 1000,
    /* an event, and REVIEW_VOTES_MAX votes with every character of names and notes escaped */
    ITEM_BYTES_MAX = 2 << 20,
    /* the maximum for the platform and `writ`; a page ends at half of it */
    PAGE_BYTES_MAX = LIMIT_REPLY_BYTES,
};

struct look {                                 /* an operation on one review, or on a page of them */
    struct caller_operation caller_operation; /* first */
    struct id review;
    struct str name;           /* of the review, from the path; only if a token may request it */
    enum call_kind resolution; /* APPROVE, DENY or TAKE_BACK */
    struct str note, by;
    struct str roles; /* that the review asks for, as text */
    uint64_t timeout_ms;
    struct credential_mark mark; /* of the requester */
    uint64_t limit;
    struct { /* of a page; kept here, because the call is used before to confirm a token */
        struct str actor, action;
        bool any_state;
        enum review_state state;
        bool by_deadline;
        bool mine; /* only what the caller's key may resolve */
        uint64_t after;
    } page;
};

static struct look *of(struct operation *e) { return (struct look *)(void *)e; }

/* `sees_all`: the roles that may see every review of the tenant. */
static struct look *look_begin_as(struct engine_reactor *w, struct http_exchange *x,
                                  uint32_t sees_all, struct json **ret_body)
{
    struct look *l = (void *)caller_operation_begin(w, x, sizeof *l, sees_all, ret_body);
    if (l != NULL) l->mark = api_credential_mark(&l->caller_operation.caller);
    return l;
}

static struct look *look_begin(struct engine_reactor *w, struct http_exchange *x,
                               struct json **ret_body)
{
    return look_begin_as(w, x, ROLE_REVIEWER, ret_body);
}

/* ---- answers ---- */

/* 409 with the earlier resolution. */
static void refuse_resolved(struct look *l)
{
    const struct review_facts *r = &l->caller_operation.operation.call.review.facts;
    char bytes[4096];
    struct buf b = buf_over(bytes, sizeof bytes);
    struct fault f;
    if (r->resolved_by.size > 0 && (r->state == REVIEW_EXPIRED || r->state == REVIEW_REDEEMED))
        (void)fault_set(&f, ERR_ALREADY_RESOLVED, "",
                        "the review was approved by %.*s, and is %s now",
                        STR_FORMAT(r->resolved_by), review_state_name(r->state));
    else if (r->resolved_by.size > 0)
        (void)fault_set(&f, ERR_ALREADY_RESOLVED, "", "the review is %s already, by %.*s",
                        review_state_name(r->state), STR_FORMAT(r->resolved_by));
    else
        (void)fault_set(&f, ERR_ALREADY_RESOLVED, "", "the review is %s already",
                        review_state_name(r->state));
    buf_put_byte(&b, '{');
    api_put_fault(&b, &f, r->trace_id);
    member_put_text(&b, STR(",\"resolved_by\":"), r->resolved_by);
    buf_put_literal(&b, ",\"status\":");
    json_put_plain(&b, str_from(review_state_name(r->state)));
    buf_put_byte(&b, '}');
    if (b.overflow)
        caller_operation_refuse(&l->caller_operation, &f);
    else
        operation_reply(&l->caller_operation.operation, 409, buf_view(&b), (struct str){0});
}

static void answer_item(struct operation *e, const struct review_facts *r, struct str before)
{
    struct buf b;
    struct fault f;
    buf_init(&b, 4096, ITEM_BYTES_MAX);
    buf_put_byte(&b, '{');
    buf_put(&b, before);
    enum err err = item_put_members(&b, r, e->call.requester.sees_all);
    buf_put_byte(&b, '}');
    if (err == ERR_OK && !b.overflow) {
        operation_reply(e, 200, buf_view(&b), (struct str){0});
    } else {
        (void)fault_plain(&f, ERR_INTERNAL);
        if (b.starved || err == ERR_OVERLOADED) api_no_memory(&f);
        operation_refuse(e, &f, (struct str){0});
    }
    buf_fini(&b);
}

static void answer_review(struct operation *e)
{
    struct fault f;
    if (e->call.err == ERR_OK) {
        answer_item(e, &e->call.review.facts, (struct str){0});
        return;
    }
    if (e->call.err == ERR_NOT_FOUND)
        (void)fault_set(&f, ERR_NOT_FOUND, "", "there is no such review here");
    else
        (void)fault_plain(&f, e->call.err);
    operation_refuse(e, &f, (struct str){0});
}

/* ---- which review ---- */

static enum err no_such_review(struct fault *f)
{
    return fault_set(f, ERR_NOT_FOUND, "", "there is no such review here");
}

bool queue_named(struct operation *e, struct str name, struct id *ret,
                 void (*then)(struct operation *e), struct fault *f)
{
    f->err = ERR_OK;
    if (id_read("rev_", name, ret)) return true;
    if (id_has_prefix(name) || name.size > LIMIT_TRACE_ID_BYTES) {
        (void)no_such_review(f);
        return false;
    }
    struct call *c = &e->call;
    c->list.trace_id = arena_copy(e->arena, name);
    c->list.limit = CALL_TRACES_MAX;
    c->list.any_state = true;
    operation_gather(e, CALL_REVIEW_FIND, then);
    return false;
}

/* Every shard was asked for a trace id: one review in all, or a refusal. */
enum err queue_found(struct operation *e, struct id *ret, struct fault *f)
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

/* The same, and sends the refusal: true if l->review is set. */
static bool named(struct look *l, struct str name, void (*then)(struct operation *e))
{
    struct fault f;
    bool is_settled = queue_named(&l->caller_operation.operation, name, &l->review, then, &f);
    if (f.err != ERR_OK) caller_operation_refuse(&l->caller_operation, &f);
    return is_settled;
}

static bool found(struct look *l)
{
    struct fault f;
    if (queue_found(&l->caller_operation.operation, &l->review, &f) == ERR_OK) return true;
    caller_operation_refuse(&l->caller_operation, &f);
    return false;
}

/* ---- read and wait ---- */

static void refuse_ended(struct look *l, const struct fault *f)
{
    const struct operation *e = &l->caller_operation.operation;
    const struct requester *who = &e->call.requester;
    const struct token_claims token = {.id = l->mark.token,
                                       .key = l->mark.key,
                                       .tenant = e->call.tenant,
                                       .actor = who->token_actor,
                                       .acting_for = who->token_acting_for,
                                       .signer = who->token_signer};
    auth_failed_note_ended(e->engine_reactor, l->mark.key, l->mark.is_token ? &token : NULL,
                           &e->client, f->err);
    caller_operation_refuse(&l->caller_operation, f);
}

static enum err still_holds(const struct look *l, struct fault *f)
{
    const struct operation *e = &l->caller_operation.operation;
    return api_credential_holds(&e->engine_reactor->api, &l->mark, e->call.tenant,
                                e->call.requester.token_actor, world_now_ms(), f);
}

/* The requester may have been revoked while it waited or was away. */
static void show(struct operation *e)
{
    struct look *l = of(e);
    struct fault f;
    if (still_holds(l, &f) == ERR_OK)
        answer_review(e);
    else
        refuse_ended(l, &f);
}

static void get(struct look *l)
{
    l->caller_operation.operation.call.review.id = l->review;
    operation_call(&l->caller_operation.operation, CALL_REVIEW_GET, slot_of_id(l->review), show);
}

static void get_found(struct operation *e)
{
    if (found(of(e))) get(of(e));
}

static void get_known(struct operation *e)
{
    if (named(of(e), of(e)->name, get_found)) get(of(e));
}

static void refuse_sighted(struct operation *e, const struct fault *f)
{
    caller_operation_refuse((struct caller_operation *)(void *)e, f);
}

void queue_get_handle(void *context, struct http_exchange *x)
{
    struct json *body;
    struct look *l = look_begin(context, x, &body);
    if (l == NULL) return;
    l->name = arena_copy(l->caller_operation.operation.arena, x->params[0]);
    sight(&l->caller_operation.operation, &l->caller_operation.caller, get_known, refuse_sighted);
}

static void wait(struct look *l)
{
    struct call *c = &l->caller_operation.operation.call;
    c->review.id = l->review;
    c->review.deadline_ms = world_now_ms() + l->timeout_ms;
    operation_wait(&l->caller_operation.operation, sizeof *l, slot_of_id(l->review), show);
}

static void wait_found(struct operation *e)
{
    if (found(of(e))) wait(of(e));
}

static void wait_known(struct operation *e)
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
    l->name = arena_copy(l->caller_operation.operation.arena, x->params[0]);
    l->timeout_ms = WAIT_DEFAULT_MS;
    enum err err = http_parameter(x, STR("timeout_ms"), &text, &f);
    if (err == ERR_OK && !str_is_absent(text) &&
        (!str_to_u64(text, &l->timeout_ms) || l->timeout_ms > WAIT_MOST_MS))
        err = fault_set(&f, ERR_BAD_PARAMETER, "",
                        "timeout_ms: %.*s is not a whole number from 0 to %d", STR_FORMAT(text),
                        WAIT_MOST_MS);
    if (err != ERR_OK)
        caller_operation_refuse(&l->caller_operation, &f);
    else
        sight(&l->caller_operation.operation, &l->caller_operation.caller, wait_known,
              refuse_sighted);
}

/* ---- approve, deny, cancel ---- */

/* The requirements of the review that this person's vote counts toward: bit i for requirement i. */
static uint32_t meets(struct look *l, const struct review_facts *r)
{
    struct arena *arena = l->caller_operation.operation.arena;
    const struct policy_set *policies =
        bundle_policies(l->caller_operation.operation.bundle, l->caller_operation.caller.tenant);
    struct needs n;
    if (needs_of(r, arena, &n) != ERR_OK) return 0;
    l->roles = needs_roles(&n, ROLES_SHOWN_MAX, arena);
    return needs_met_by(&n, policies, l->by, arena);
}

/* For a review that exists and is visible. */
static void refuse_resolving(struct operation *e, const char *text)
{
    struct fault f;
    if (text == NULL)
        (void)fault_plain(&f, e->call.err);
    else
        (void)fault_set(&f, e->call.err, "", "%s", text);
    operation_refuse(e, &f, e->call.review.facts.trace_id);
}

static void refuse_reviewer(struct look *l)
{
    struct operation *e = &l->caller_operation.operation;
    struct str by = str_cut(l->by, ROLES_SHOWN_MAX);
    struct fault f;
    (void)fault_set(&f, ERR_WRONG_REVIEWER, "",
                    "resolved_by: \"%.*s\" has none of the roles that this review asks for: %.*s",
                    STR_FORMAT(by), STR_FORMAT(l->roles));
    operation_refuse(e, &f, e->call.review.facts.trace_id);
}

static void resolved(struct operation *e)
{
    struct look *l = of(e);
    switch (e->call.err) {
    case ERR_OK: answer_item(e, &e->call.review.facts, STR("\"success\":true,")); return;
    case ERR_ALREADY_RESOLVED: refuse_resolved(l); return;
    case ERR_NOT_FOUND:
        caller_operation_refuse_with(&l->caller_operation, ERR_NOT_FOUND,
                                     "there is no such review here");
        return;
    case ERR_SELF_REVIEW:
        refuse_resolving(e,
                         "the requester, and the person it acts for, may not resolve the review");
        return;
    case ERR_WRONG_REVIEWER: refuse_reviewer(l); return;
    case ERR_NOT_APPROVED:
    case ERR_ALREADY_VOTED: refuse_resolving(e, NULL); return;
    default: caller_operation_refuse_with(&l->caller_operation, e->call.err, NULL);
    }
}

static enum review_proof proof_of(const struct look *l)
{
    static const enum review_proof of_sessions[PROOFS] = {
        [PROOF_KEY] = REVIEW_PROOF_KEY, [PROOF_OIDC] = REVIEW_PROOF_OIDC};
    const struct caller *c = &l->caller_operation.caller;
    if (c->assertion != NULL) return of_sessions[c->assertion->proof];
    return str_equal(l->by, c->key->owner) ? REVIEW_PROOF_OWNER : REVIEW_PROOF_NAMED;
}

static void looked_at(struct operation *e)
{
    struct look *l = of(e);
    if (e->call.err != ERR_OK) {
        resolved(e);
        return;
    }
    e->call.review.id = l->review;
    const struct key *key = l->caller_operation.caller.key;
    bool is_admin = l->resolution == CALL_TAKE_BACK && (key->roles & ROLE_ADMIN) != 0;
    e->call.review.meets = is_admin ? UINT32_MAX : meets(l, &e->call.review.facts);
    e->call.review.key = key->id;
    e->call.review.proof = proof_of(l);
    e->call.review.note = l->note;
    e->call.review.by = l->by;
    e->call.review.owner = key->owner;
    e->call.review.principal = key->name;
    operation_call(e, l->resolution, slot_of_id(l->review), resolved);
}

static enum err read_resolution(struct look *l, const struct json *body, struct fault *f)
{
    enum err err = member_text(body, "note", NOTE_CHARACTERS_MAX, &l->note, f);
    if (err == ERR_OK) err = member_text(body, "resolved_by", LIMIT_ID_CHARACTERS, &l->by, f);
    if (err != ERR_OK) return err;
    const struct caller *c = &l->caller_operation.caller;
    if (str_is_absent(l->by)) l->by = c->assertion != NULL ? c->assertion->person : c->key->owner;
    if (c->assertion != NULL && !str_equal(l->by, c->assertion->person))
        return fault_set(f, ERR_WRONG_REVIEWER, "/resolved_by",
                         "resolved_by: this session is that of %.*s only",
                         STR_FORMAT(c->assertion->person));
    if (!globs_match(&c->key->reviewers, l->by))
        return fault_set(f, ERR_WRONG_REVIEWER, "/resolved_by",
                         "resolved_by: this key may not resolve reviews as %.*s",
                         STR_FORMAT(l->by));
    return ERR_OK;
}

static void resolve(struct engine_reactor *w, struct http_exchange *x, enum call_kind resolution)
{
    struct json *body;
    struct fault f;
    uint32_t sees_all = ROLE_REVIEWER | (resolution == CALL_TAKE_BACK ? ROLE_ADMIN : 0u);
    struct look *l = look_begin_as(w, x, sees_all, &body);
    if (l == NULL) return;
    l->resolution = resolution;
    enum err err = read_resolution(l, body, &f);
    if (err == ERR_OK && !id_read("rev_", x->params[0], &l->review))
        err =
            fault_set(&f, ERR_NOT_FOUND, "",
                      "there is no such review here; approve, deny and revoke take rev_ ids only");
    if (err != ERR_OK) {
        caller_operation_refuse(&l->caller_operation, &f);
        return;
    }
    l->caller_operation.operation.call.review.id = l->review;
    operation_call(&l->caller_operation.operation, CALL_REVIEW_GET, slot_of_id(l->review),
                   looked_at);
}

void queue_approve_handle(void *context, struct http_exchange *x)
{
    resolve(context, x, CALL_APPROVE);
}
void queue_deny_handle(void *context, struct http_exchange *x) { resolve(context, x, CALL_DENY); }
void queue_revoke_handle(void *context, struct http_exchange *x)
{
    resolve(context, x, CALL_TAKE_BACK);
}

void queue_cancel_handle(void *context, struct http_exchange *x)
{
    struct json *body;
    struct look *l = look_begin(context, x, &body);
    if (l == NULL) return;
    if (!id_read("rev_", x->params[0], &l->review)) {
        caller_operation_refuse_with(&l->caller_operation, ERR_NOT_FOUND,
                                     "there is no such review here; cancel takes rev_ ids only");
        return;
    }
    l->caller_operation.operation.call.review.id = l->review;
    operation_call(&l->caller_operation.operation, CALL_CANCEL, slot_of_id(l->review), resolved);
}

/* ---- pages ---- */

static uint64_t position_of(const struct call *c, uint32_t i)
{
    const struct review_facts *r = &c->list.reviews[i];
    return c->list.by_deadline ? review_deadline_position(r) : r->ordinal;
}

/* Whether a vote of this person by this key would count toward something that is still needed. */
static bool may_help(const struct look *l, const struct review_facts *r, const struct needs *n,
                     struct str person, struct arena *arena)
{
    const struct policy_set *policies =
        bundle_policies(l->caller_operation.operation.bundle, l->caller_operation.caller.tenant);
    const struct key *key = l->caller_operation.caller.key;
    const struct review_resolver who = {.principal = key->name, .owner = key->owner, .by = person};
    uint32_t met = needs_met_by(n, policies, person, arena) & needs_open(n);
    return met != 0 && review_asked_by(r, &who) == ERR_OK && review_approved_by(r, &who) == ERR_OK;
}

/* A pattern with `*` stands for people who are not known here: then the key alone decides, as if it
 * could name somebody of each role. */
static bool key_may_help(const struct look *l, const struct review_facts *r, const struct needs *n,
                         struct arena *arena)
{
    const struct key *key = l->caller_operation.caller.key;
    const struct review_resolver unnamed = {
        .principal = key->name, .owner = key->owner, .by = key->owner};
    bool has_pattern = false;
    for (size_t i = 0; i < key->reviewers.count; i++) {
        struct str name = key->reviewers.list[i];
        bool is_pattern = str_find(name, '*') < name.size;
        if (!is_pattern && may_help(l, r, n, name, arena)) return true;
        has_pattern = has_pattern || is_pattern;
    }
    return has_pattern && needs_open(n) != 0 && review_asked_by(r, &unnamed) == ERR_OK &&
           review_approved_by(r, &unnamed) == ERR_OK;
}

static bool is_mine(struct operation *e, const struct call *c, uint32_t i)
{
    const struct review_facts *r = &c->list.reviews[i];
    struct needs n;
    if (r->state != REVIEW_PENDING) return false;
    struct arena before = arena_begin_aside(e->arena, MINE_BYTES_MAX);
    /* what cannot be read is shown: a person finds out why */
    bool mine = needs_of(r, e->arena, &n) != ERR_OK || key_may_help(of(e), r, &n, e->arena);
    arena_end_aside(e->arena, &before);
    return mine;
}

static enum err put_item(struct buf *b, struct operation *e, const struct call *c, uint32_t i)
{
    buf_put_byte(b, '{');
    enum err err = item_put_members(b, &c->list.reviews[i], e->call.requester.sees_all);
    buf_put_byte(b, '}');
    return err;
}

static void listed(struct operation *e)
{
    const struct page_form form = {.begin = STR("{\"items\":["),
                                   .has_total = true,
                                   .bytes_max = PAGE_BYTES_MAX,
                                   .is_growing = !of(e)->page.by_deadline,
                                   .ordinal = position_of,
                                   .is_wanted = of(e)->page.mine ? is_mine : NULL,
                                   .looked_at_max = of(e)->page.mine ? MINE_LOOKED_AT_MAX : 0,
                                   .put = put_item};
    struct fault f;
    enum err err = still_holds(of(e), &f);
    if (err != ERR_OK) {
        refuse_ended(of(e), &f);
        return;
    }
    err = page_reply(e, &form, of(e)->limit);
    if (err != ERR_OK)
        caller_operation_refuse_with(&of(e)->caller_operation,
                                     err == ERR_CORRUPT ? ERR_INTERNAL : err, NULL);
}

static enum err read_mine(struct look *l, const struct http_exchange *x, struct fault *f)
{
    struct str mine;
    enum err err = http_parameter(x, STR("mine"), &mine, f);
    if (err != ERR_OK || str_is_empty(mine)) return err;
    l->page.mine = str_equal(mine, STR("true"));
    if (!l->page.mine && !str_equal(mine, STR("false")))
        return fault_set(f, ERR_BAD_PARAMETER, "", "mine: must be true or false");
    if (l->page.mine && !l->caller_operation.operation.call.requester.sees_all)
        return fault_set(f, ERR_MISSING_ROLE, "",
                         "mine: only a key with the role reviewer may resolve reviews");
    return ERR_OK;
}

static enum err read_order(struct look *l, const struct http_exchange *x, struct fault *f)
{
    struct str order;
    enum err err = http_parameter(x, STR("order"), &order, f);
    if (err != ERR_OK || str_is_empty(order)) return err;
    l->page.by_deadline = str_equal(order, STR("deadline"));
    return l->page.by_deadline || str_equal(order, STR("age"))
               ? ERR_OK
               : fault_set(f, ERR_BAD_PARAMETER, "", "order: must be age or deadline");
}

static enum err read_filters(struct look *l, struct http_exchange *x, bool pending, struct fault *f)
{
    struct str status = {0};
    enum err err = api_page(x, &l->limit, &l->page.after, f);
    if (err == ERR_OK) err = caller_operation_filter(x, "actor", &l->page.actor, f);
    if (err == ERR_OK) err = caller_operation_filter(x, "action", &l->page.action, f);
    if (err == ERR_OK) err = read_mine(l, x, f);
    if (err == ERR_OK) err = read_order(l, x, f);
    if (err == ERR_OK && !pending) err = http_parameter(x, STR("status"), &status, f);
    if (err != ERR_OK) return err;
    /* only a pending review has this deadline, and can be resolved */
    bool of_pending = pending || l->page.mine || l->page.by_deadline;
    l->page.state = REVIEW_PENDING;
    l->page.any_state = !of_pending && str_is_empty(status);
    if (!str_is_empty(status) && !review_state_read(status, &l->page.state))
        return fault_set(
            f, ERR_BAD_PARAMETER, "",
            "status: must be one of pending, approved, denied, expired, cancelled, redeemed");
    if (of_pending && l->page.state != REVIEW_PENDING)
        return fault_set(
            f, ERR_BAD_PARAMETER, "", "status: %s must be pending, or be left out, with %s",
            review_state_name(l->page.state), l->page.mine ? "mine=true" : "order=deadline");
    return ERR_OK;
}

static void list_known(struct operation *e)
{
    const struct look *l = of(e);
    struct call *c = &e->call;
    memset(&c->list, 0, sizeof c->list);
    c->list.actor = l->page.actor;
    c->list.action = l->page.action;
    c->list.any_state = l->page.any_state;
    c->list.state = l->page.state;
    c->list.by_deadline = l->page.by_deadline;
    c->list.after = l->page.after;
    c->list.limit = (l->page.mine ? MINE_LOOKED_AT_MAX : (uint32_t)l->limit) +
                    1; /* one more shows whether there is a next page */
    operation_gather(e, CALL_REVIEW_LIST, listed);
}

static void list(struct engine_reactor *w, struct http_exchange *x, bool pending)
{
    struct json *body;
    struct look *l = look_begin(w, x, &body);
    struct fault f;
    if (l == NULL) return;
    if (read_filters(l, x, pending, &f) != ERR_OK)
        caller_operation_refuse(&l->caller_operation, &f);
    else
        sight(&l->caller_operation.operation, &l->caller_operation.caller, list_known,
              refuse_sighted);
}

void queue_pending_handle(void *context, struct http_exchange *x) { list(context, x, true); }
void queue_list_handle(void *context, struct http_exchange *x) { list(context, x, false); }
