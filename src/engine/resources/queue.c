/* queue.c - the review queue's routes: list, read, wait, approve, deny, cancel, revoke.
 *
 * A review is named by its `rev_` id or, for reading, by the trace id of any decision that was
 * given it. A requester sees its own; a reviewer sees the tenant's. Redemption is a decision and
 * has a file of its own (redeem.c). */
#include "access/claims.h"
#include "base/check.h"
#include "base/limits.h"
#include "engine/control/bundle.h"
#include "engine/handlers.h"
#include "engine/runtime/reactor_view.h"
#include "engine/resources/item.h"
#include "engine/runtime/member.h"
#include "engine/resources/needs.h"
#include "engine/resources/page.h"
#include "engine/resources/queue.h"
#include "engine/runtime/sight.h"
#include "engine/runtime/caller_operation.h"
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
    SHORT_PAGE_BYTES = 64 << 10, /* of its reviews: written by the reactor, in some 0.2 ms */
};

struct look {                   /* an operation on one review, or on a page of them */
    struct operation operation; /* first */
    struct id review;
    struct str name;           /* of the review, from the path; only if a token may request it */
    enum call_kind resolution; /* APPROVE, DENY or TAKE_BACK */
    struct str note, by;
    struct str roles;        /* that the review asks for, as text */
    enum policy_proof proof; /* that it asks for */
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
    struct { /* of a long page, written on another thread */
        enum err err;
        struct str text;
        struct fault refusal;
    } written;
};

/* What holds for one while its process runs. */
static void look_check(const struct look *l)
{
    check(l->timeout_ms <= WAIT_MOST_MS && l->limit <= LIMIT_PAGE);
    check(l->resolution == 0 || l->resolution == CALL_APPROVE || l->resolution == CALL_DENY ||
          l->resolution == CALL_TAKE_BACK);
    check(!l->page.mine || l->operation.call.requester.sees_all);
    check(!l->page.any_state || (!l->page.mine && !l->page.by_deadline));
    check((unsigned)l->page.state < REVIEW_STATES);
}

static struct look *of(struct operation *e) { return (struct look *)(void *)e; }

/* `sees_all`: the roles that may see every review of the tenant. */
static struct look *look_begin_as(struct engine_reactor *w, struct http_exchange *x,
                                  uint32_t sees_all, struct json **ret_body)
{
    struct look *l = caller_operation_begin(w, x, sizeof *l, sees_all, ret_body);
    if (l != NULL) l->mark = api_credential_mark(&l->operation.caller);
    return l;
}

static struct look *look_begin(struct engine_reactor *w, struct http_exchange *x,
                               struct json **ret_body)
{
    return look_begin_as(w, x, ROLE_REVIEWER, ret_body);
}

/* ---- answers ---- */

/* 409 with the earlier resolution. */
static enum step_result refuse_resolved(struct look *l)
{
    const struct review_facts *r = &l->operation.call.review.facts;
    check(l->operation.call.err == ERR_ALREADY_RESOLVED && (unsigned)r->state < REVIEW_STATES);
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
    if (b.overflow) return caller_operation_refuse(&l->operation, &f);
    return operation_reply(&l->operation, 409, buf_view(&b), (struct str){0});
}

static enum step_result answer_item(struct operation *e, const struct review_facts *r,
                                    struct str before)
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
    return STEP_DONE;
}

static enum step_result answer_review(struct operation *e)
{
    struct fault f;
    check(e->call.answered);
    if (e->call.err == ERR_OK) return answer_item(e, &e->call.review.facts, (struct str){0});
    if (e->call.err == ERR_NOT_FOUND)
        (void)fault_set(&f, ERR_NOT_FOUND, "", "there is no such review here");
    else
        (void)fault_plain(&f, e->call.err);
    return operation_refuse(e, &f, (struct str){0});
}

/* ---- which review ---- */

static enum err no_such_review(struct fault *f)
{
    return fault_set(f, ERR_NOT_FOUND, "", "there is no such review here");
}

enum step_result queue_find(struct operation *e, struct str name, struct id *ret)
{
    struct fault f;
    if (id_read("rev_", name, ret)) return STEP_NEXT;
    if (id_has_prefix(name) || name.size > LIMIT_TRACE_ID_BYTES) {
        (void)no_such_review(&f);
        return operation_fail(e, &f);
    }
    check(!str_is_absent(e->call.tenant));
    struct call *c = &e->call;
    c->list.trace_id = arena_copy(e->arena, name);
    c->list.limit = CALL_TRACES_MAX;
    c->list.any_state = true;
    return operation_gather(e, CALL_REVIEW_FIND);
}

/* Every shard was asked for a trace id: one review in all, or a refusal. */
static enum err read_found(const struct operation *e, struct id *ret, struct fault *f)
{
    check(e->gathered_count > 0);
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

enum step_result queue_found(struct operation *e, struct id *ret)
{
    struct fault f;
    return read_found(e, ret, &f) == ERR_OK ? STEP_NEXT : operation_fail(e, &f);
}

static enum step_result find(struct operation *e)
{
    return queue_find(e, of(e)->name, &of(e)->review);
}

static enum step_result found(struct operation *e) { return queue_found(e, &of(e)->review); }

/* ---- read and wait ---- */

static enum step_result refuse_ended(struct look *l, const struct fault *f)
{
    check(f->err != ERR_OK);
    const struct operation *e = &l->operation;
    const struct requester *who = &e->call.requester;
    const struct token_claims token = {.id = l->mark.token,
                                       .key = l->mark.key,
                                       .tenant = e->call.tenant,
                                       .actor = who->token_actor,
                                       .acting_for = who->token_acting_for,
                                       .signer = who->token_signer};
    auth_failed_note_ended(e->engine_reactor, l->mark.key, l->mark.is_token ? &token : NULL,
                           &e->client, f->err);
    return caller_operation_refuse(&l->operation, f);
}

static enum err still_holds(const struct look *l, struct fault *f)
{
    const struct operation *e = &l->operation;
    return api_credential_holds(engine_reactor_api(e->engine_reactor), &l->mark, e->call.tenant,
                                e->call.requester.token_actor, world_now_ms(), f);
}

/* The requester may have been revoked while it waited or was away. */
static enum step_result show(struct operation *e)
{
    struct look *l = of(e);
    look_check(l);
    struct fault f;
    return still_holds(l, &f) == ERR_OK ? answer_review(e) : refuse_ended(l, &f);
}

static enum step_result get(struct operation *e)
{
    look_check(of(e));
    e->call.review.id = of(e)->review;
    return operation_call(e, CALL_REVIEW_GET, slot_of_id(of(e)->review));
}

static const struct step get_steps[] = {
    SIGHT_STEP, {"find the review", find, found}, {"get", get, show}};
static const struct process get_process = PROCESS(get_steps);

void queue_get_handle(void *context, struct http_exchange *x)
{
    struct json *body;
    struct look *l = look_begin(context, x, &body);
    if (l == NULL) return;
    l->name = arena_copy(l->operation.arena, x->params[0]);
    operation_start(&l->operation, &get_process, 0);
}

static enum step_result wait(struct operation *e)
{
    struct call *c = &e->call;
    look_check(of(e));
    c->review.id = of(e)->review;
    c->review.deadline_ms = world_now_ms() + of(e)->timeout_ms;
    return operation_wait(e, sizeof(struct look), slot_of_id(of(e)->review));
}

static const struct step wait_steps[] = {
    SIGHT_STEP, {"find the review", find, found}, {"wait", wait, show}};
static const struct process wait_process = PROCESS(wait_steps);

void queue_wait_handle(void *context, struct http_exchange *x)
{
    struct json *body;
    struct look *l = look_begin(context, x, &body);
    struct fault f;
    struct str text;
    if (l == NULL) return;
    l->name = arena_copy(l->operation.arena, x->params[0]);
    l->timeout_ms = WAIT_DEFAULT_MS;
    enum err err = http_parameter(x, STR("timeout_ms"), &text, &f);
    if (err == ERR_OK && !str_is_absent(text) &&
        (!str_to_u64(text, &l->timeout_ms) || l->timeout_ms > WAIT_MOST_MS))
        err = fault_set(&f, ERR_BAD_PARAMETER, "",
                        "timeout_ms: %.*s is not a whole number from 0 to %d", STR_FORMAT(text),
                        WAIT_MOST_MS);
    if (err != ERR_OK)
        caller_operation_refuse(&l->operation, &f);
    else
        operation_start(&l->operation, &wait_process, 0);
}

/* ---- approve, deny, cancel ---- */

/* Whether an identity provider has verified the caller. */
static bool is_verified(const struct look *l)
{
    const struct assertion *as = l->operation.caller.assertion;
    return as != NULL && as->proof == PROOF_OIDC;
}

/* Claims are those of a verified token only: a person whom a key or a body names has none. */
static struct policy_person person_of(const struct look *l, struct str name)
{
    struct policy_person p = {.name = name};
    if (!is_verified(l)) return p;
    p.claims = l->operation.caller.assertion->claims;
    p.claim_count = l->operation.caller.assertion->claim_count;
    return p;
}

/* JSON of the claims with these bits; absent: there are none, or the arena is full. */
static struct str claims_text(const struct policy_person *p, uint64_t bits, struct arena *arena)
{
    struct claim kept[LIMIT_CLAIMS];
    size_t count = 0, most = 2 * LIMIT_CLAIMS_BYTES + 8 * LIMIT_CLAIMS;
    check(p->claim_count <= LIMIT_CLAIMS);
    for (size_t i = 0; i < p->claim_count; i++)
        if ((bits >> i & 1) != 0) kept[count++] = p->claims[i];
    char *bytes = count > 0 ? arena_bytes(arena, most) : NULL;
    if (bytes == NULL) return (struct str){0};
    struct buf out = buf_over(bytes, most);
    claims_put(&out, kept, count);
    arena_trim(arena, bytes, most, out.size);
    return buf_view(&out);
}

/* The requirements of the review that this person's vote counts toward, bit i for requirement i, and
 * the claims by which it does. */
static uint32_t meets(struct look *l, const struct review_facts *r, struct str *ret_claims)
{
    struct arena *arena = l->operation.arena;
    const struct policy_set *policies =
        bundle_policies(l->operation.bundle, l->operation.caller.tenant);
    const struct policy_person person = person_of(l, l->by);
    struct needs n;
    check(policies != NULL);
    *ret_claims = (struct str){0};
    if (needs_of(r, arena, &n) != ERR_OK) return 0;
    l->roles = needs_roles(&n, ROLES_SHOWN_MAX, arena);
    l->proof = needs_proof(&n);
    *ret_claims = claims_text(&person, needs_claims(&n, policies, &person), arena);
    return needs_met_by(&n, policies, &person, arena);
}

/* For a review that exists and is visible. */
static enum step_result refuse_resolving(struct operation *e, const char *text)
{
    check(e->call.err != ERR_OK);
    struct fault f;
    if (text == NULL)
        (void)fault_plain(&f, e->call.err);
    else
        (void)fault_set(&f, e->call.err, "", "%s", text);
    return operation_refuse(e, &f, e->call.review.facts.trace_id);
}

static enum step_result refuse_reviewer(struct look *l)
{
    struct operation *e = &l->operation;
    check(e->call.err == ERR_WRONG_REVIEWER);
    struct str by = str_cut(l->by, ROLES_SHOWN_MAX);
    struct fault f;
    (void)fault_set(&f, ERR_WRONG_REVIEWER, "",
                    "resolved_by: \"%.*s\" has none of the roles that this review asks for: %.*s",
                    STR_FORMAT(by), STR_FORMAT(l->roles));
    return operation_refuse(e, &f, e->call.review.facts.trace_id);
}

static enum step_result refuse_unproven(struct look *l)
{
    struct operation *e = &l->operation;
    check(e->call.err == ERR_PROOF_REQUIRED);
    struct fault f;
    (void)fault_set(
        &f, ERR_PROOF_REQUIRED, "",
        "the review asks for people whom an identity provider has verified (proof: %s): "
        "sign in there at the console of the platform, and approve it in that session",
        policy_proof_name(l->proof));
    return operation_refuse(e, &f, e->call.review.facts.trace_id);
}

static enum step_result resolved(struct operation *e)
{
    struct look *l = of(e);
    look_check(l);
    check(e->call.kind == l->resolution || e->call.kind == CALL_CANCEL || e->call.err != ERR_OK);
    switch (e->call.err) {
    case ERR_OK: return answer_item(e, &e->call.review.facts, STR("\"success\":true,"));
    case ERR_ALREADY_RESOLVED: return refuse_resolved(l);
    case ERR_NOT_FOUND:
        return caller_operation_refuse_with(e, ERR_NOT_FOUND, "there is no such review here");
    case ERR_SELF_REVIEW:
        return refuse_resolving(
            e, "the requester, and the person it acts for, may not resolve the review");
    case ERR_WRONG_REVIEWER: return refuse_reviewer(l);
    case ERR_PROOF_REQUIRED: return refuse_unproven(l);
    case ERR_NOT_APPROVED:
    case ERR_ALREADY_VOTED: return refuse_resolving(e, NULL);
    default: return caller_operation_refuse_with(e, e->call.err, NULL);
    }
}

static enum review_proof proof_of(const struct look *l)
{
    static const enum review_proof of_sessions[PROOFS] = {
        [PROOF_KEY] = REVIEW_PROOF_KEY, [PROOF_OIDC] = REVIEW_PROOF_OIDC};
    const struct caller *c = &l->operation.caller;
    check(c->assertion == NULL || c->assertion->proof < PROOFS);
    if (c->assertion != NULL) return of_sessions[c->assertion->proof];
    return str_equal(l->by, c->key->owner) ? REVIEW_PROOF_OWNER : REVIEW_PROOF_NAMED;
}

static enum step_result looked_at(struct operation *e)
{
    check(e->call.kind == CALL_REVIEW_GET);
    return e->call.err == ERR_OK ? STEP_NEXT : resolved(e);
}

static enum step_result resolve(struct operation *e)
{
    struct look *l = of(e);
    const struct key *key = e->caller.key;
    look_check(l);
    check(e->call.err == ERR_OK && l->resolution != 0);
    bool is_admin = l->resolution == CALL_TAKE_BACK && (key->roles & ROLE_ADMIN) != 0;
    struct str claims;
    uint32_t bits = meets(l, &e->call.review.facts, &claims);
    e->call.review.id = l->review;
    e->call.review.meets = is_admin ? UINT32_MAX : bits;
    e->call.review.claims = claims;
    e->call.review.key = key->id;
    e->call.review.proof = proof_of(l);
    e->call.review.note = l->note;
    e->call.review.by = l->by;
    e->call.review.owner = key->owner;
    e->call.review.principal = key->name;
    return operation_call(e, l->resolution, slot_of_id(l->review));
}

static const struct step resolve_steps[] = {{"look at the review", get, looked_at},
                                            {"resolve", resolve, resolved}};
static const struct process resolve_process = PROCESS(resolve_steps);

static enum err read_resolution(struct look *l, const struct json *body, struct fault *f)
{
    enum err err = member_text(body, "note", NOTE_CHARACTERS_MAX, &l->note, f);
    if (err == ERR_OK) err = member_text(body, "resolved_by", LIMIT_ID_CHARACTERS, &l->by, f);
    if (err != ERR_OK) return err;
    const struct caller *c = &l->operation.caller;
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

static void handle_resolution(struct engine_reactor *w, struct http_exchange *x,
                              enum call_kind resolution)
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
        caller_operation_refuse(&l->operation, &f);
        return;
    }
    operation_start(&l->operation, &resolve_process, 0);
}

void queue_approve_handle(void *context, struct http_exchange *x)
{
    handle_resolution(context, x, CALL_APPROVE);
}
void queue_deny_handle(void *context, struct http_exchange *x)
{
    handle_resolution(context, x, CALL_DENY);
}
void queue_revoke_handle(void *context, struct http_exchange *x)
{
    handle_resolution(context, x, CALL_TAKE_BACK);
}

static enum step_result cancel(struct operation *e)
{
    e->call.review.id = of(e)->review;
    return operation_call(e, CALL_CANCEL, slot_of_id(of(e)->review));
}

static const struct step cancel_steps[] = {{"cancel", cancel, resolved}};
static const struct process cancel_process = PROCESS(cancel_steps);

void queue_cancel_handle(void *context, struct http_exchange *x)
{
    struct json *body;
    struct look *l = look_begin(context, x, &body);
    if (l == NULL) return;
    if (!id_read("rev_", x->params[0], &l->review)) {
        caller_operation_refuse_with(&l->operation, ERR_NOT_FOUND,
                                     "there is no such review here; cancel takes rev_ ids only");
        return;
    }
    operation_start(&l->operation, &cancel_process, 0);
}

/* ---- pages ---- */

static uint64_t position_of(const struct call *c, uint32_t i)
{
    check(i < c->list.count);
    const struct review_facts *r = &c->list.reviews[i];
    return c->list.by_deadline ? review_deadline_position(r) : r->ordinal;
}

/* Whether an approval of this person by this key would count toward something that is still needed. */
static bool may_help(const struct look *l, const struct review_facts *r, const struct needs *n,
                     struct str person, struct arena *arena)
{
    const struct policy_set *policies =
        bundle_policies(l->operation.bundle, l->operation.caller.tenant);
    const struct key *key = l->operation.caller.key;
    const struct review_resolver who = {.principal = key->name, .owner = key->owner, .by = person};
    const struct policy_person voter = person_of(l, person);
    uint32_t met = needs_met_by(n, policies, &voter, arena) & needs_open(n);
    return met != 0 && review_asked_by(r, &who) == ERR_OK && review_approved_by(r, &who) == ERR_OK;
}

/* A pattern with `*` stands for people who are not known here: then the key alone decides, as if it
 * could name somebody of each role. */
static bool key_may_help(const struct look *l, const struct review_facts *r, const struct needs *n,
                         struct arena *arena)
{
    const struct key *key = l->operation.caller.key;
    const struct review_resolver unnamed = {
        .principal = key->name, .owner = key->owner, .by = key->owner};
    bool has_pattern = false;
    if (needs_proof(n) != POLICY_PROOF_ANY && !is_verified(l)) return false;
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
    check(i < c->list.count);
    buf_put_byte(b, '{');
    enum err err = item_put_members(b, &c->list.reviews[i], e->call.requester.sees_all);
    buf_put_byte(b, '}');
    return err;
}

static struct page_form form_of(struct operation *e)
{
    return (struct page_form){.begin = STR("{\"items\":["),
                              .has_total = true,
                              .bytes_max = PAGE_BYTES_MAX,
                              .is_growing = !of(e)->page.by_deadline,
                              .ordinal = position_of,
                              .is_wanted = of(e)->page.mine ? is_mine : NULL,
                              .looked_at_max = of(e)->page.mine ? MINE_LOOKED_AT_MAX : 0,
                              .put = put_item};
}

static enum step_result refuse_page(struct operation *e, enum err err)
{
    return caller_operation_refuse_with(e, err == ERR_CORRUPT ? ERR_INTERNAL : err, NULL);
}

static enum step_result listed(struct operation *e)
{
    look_check(of(e));
    struct fault f;
    return still_holds(of(e), &f) == ERR_OK ? STEP_NEXT : refuse_ended(of(e), &f);
}

/* Each review of `mine` is compared with the roles of the key's people. */
static bool is_short(const struct operation *e)
{
    size_t bytes = 0;
    for (unsigned k = 0; k < e->gathered_count; k++) bytes += e->gathered[k]->list.bytes;
    return bytes <= SHORT_PAGE_BYTES && !of((struct operation *)(uintptr_t)e)->page.mine;
}

static void write_page(struct operation *e)
{
    const struct page_form form = form_of(e);
    of(e)->written.err = page_write(e, &form, of(e)->limit, &of(e)->written.text);
}

static enum step_result show_page(struct operation *e)
{
    if (!is_short(e)) return operation_offload(e, write_page, &of(e)->written.refusal);
    const struct page_form form = form_of(e);
    enum err err = page_reply(e, &form, of(e)->limit);
    return err == ERR_OK ? STEP_DONE : refuse_page(e, err);
}

static enum step_result page_written(struct operation *e)
{
    struct look *l = of(e);
    struct fault f;
    if (e->call.err != ERR_OK) return caller_operation_refuse(e, &l->written.refusal);
    if (still_holds(l, &f) != ERR_OK) return refuse_ended(l, &f);
    if (l->written.err != ERR_OK) return refuse_page(e, l->written.err);
    return operation_reply(e, 200, l->written.text, (struct str){0});
}

static enum err read_mine(struct look *l, const struct http_exchange *x, struct fault *f)
{
    struct str mine;
    enum err err = http_parameter(x, STR("mine"), &mine, f);
    if (err != ERR_OK || str_is_empty(mine)) return err;
    l->page.mine = str_equal(mine, STR("true"));
    if (!l->page.mine && !str_equal(mine, STR("false")))
        return fault_set(f, ERR_BAD_PARAMETER, "", "mine: must be true or false");
    if (l->page.mine && !l->operation.call.requester.sees_all)
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
    check((unsigned)l->page.state < REVIEW_STATES);
    if (of_pending && l->page.state != REVIEW_PENDING)
        return fault_set(
            f, ERR_BAD_PARAMETER, "", "status: %s must be pending, or be left out, with %s",
            review_state_name(l->page.state), l->page.mine ? "mine=true" : "order=deadline");
    return ERR_OK;
}

static enum step_result list(struct operation *e)
{
    const struct look *l = of(e);
    struct call *c = &e->call;
    look_check(l);
    check(l->limit > 0);
    memset(&c->list, 0, sizeof c->list);
    c->list.actor = l->page.actor;
    c->list.action = l->page.action;
    c->list.any_state = l->page.any_state;
    c->list.state = l->page.state;
    c->list.by_deadline = l->page.by_deadline;
    c->list.after = l->page.after;
    c->list.limit = (l->page.mine ? MINE_LOOKED_AT_MAX : (uint32_t)l->limit) +
                    1; /* one more shows whether there is a next page */
    return operation_gather(e, CALL_REVIEW_LIST);
}

static const struct step list_steps[] = {
    SIGHT_STEP, {"list", list, listed}, {"show the page", show_page, page_written}};
static const struct process list_process = PROCESS(list_steps);

static void handle_list(struct engine_reactor *w, struct http_exchange *x, bool pending)
{
    struct json *body;
    struct look *l = look_begin(w, x, &body);
    struct fault f;
    if (l == NULL) return;
    if (read_filters(l, x, pending, &f) != ERR_OK)
        caller_operation_refuse(&l->operation, &f);
    else
        operation_start(&l->operation, &list_process, 0);
}

void queue_pending_handle(void *context, struct http_exchange *x) { handle_list(context, x, true); }
void queue_list_handle(void *context, struct http_exchange *x) { handle_list(context, x, false); }
