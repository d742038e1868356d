/* redeem.c - uses an approval: the same request is sent again and decided again, now.
 *
 *   [confirm the token] → [find the review] → look at it: is it approved, and for this same request?
 *     → the steps of authorization.h: decide with its votes as allow, [claim, count], redeem; or conclude
 *
 * The human_review votes that the approval covered count as allow, unless their rules now require
 * more people, or others, than those who approved; every other vote stays. A review that cannot be
 * redeemed is a deny `review:<state>`, which reveals nothing of the approved request. */
#include "base/check.h"
#include "base/limits.h"
#include "engine/handlers.h"
#include "engine/decision/authorization.h"
#include "engine/runtime/member.h"
#include "engine/decision/digest.h"
#include "engine/resources/queue.h"
#include "engine/decision/redeem.h"
#include "engine/runtime/sight.h"
#include "engine/runtime/caller_operation.h"
#include "event/event.h"

static struct redemption *of(struct operation *e) { return (struct redemption *)(void *)e; }

/* The asker to whom an Idempotency-Key belongs: the key's row of rotations, the actor and the person
 * that it acts for. A token that has ended may be followed by another one. */
static struct str line_of(const struct authorization *a)
{
    char line[ID_TEXT];
    const struct review_facts *r = &a->review;
    check(a->operation.caller.key != NULL && !str_is_absent(r->subject));
    id_write("key_", a->operation.caller.key->line, line);
    return arena_printf(a->operation.arena, "%.*s %zu %.*s %.*s", ID_TEXT, line, r->subject.size,
                        STR_FORMAT(r->subject), STR_FORMAT(r->acting_for));
}

static enum err read_retry(struct redemption *r, struct fault *f)
{
    struct authorization *a = &r->a;
    check(!a->retry.given);
    if (str_is_absent(r->retry_header)) return ERR_OK;
    struct arena *arena = a->operation.arena;
    struct retried request = {.tenant = a->operation.caller.tenant,
                              .credential = line_of(a),
                              .route = arena_printf(arena, "redeem %.*s", ID_TEXT, r->review_text),
                              .body = r->a.body};
    if (arena->overflow) return fault_plain(f, ERR_BODY_TOO_LARGE);
    enum err err = retry_digest(a->tools.hasher, a->tools.keys, r->retry_header, &request, arena,
                                &a->retry, f);
    if (err != ERR_OK) return err;
    /* earlier versions stored the credential itself: a token's own id, or the key's */
    struct retry plain;
    char token[ID_TEXT];
    request.credential = key_shown_id(a->operation.caller.key);
    if (a->operation.caller.token != NULL) {
        id_write("tok_", a->operation.caller.token->id, token);
        request.credential = str_of(token, ID_TEXT);
    }
    err = retry_digest(a->tools.hasher, a->tools.keys, r->retry_header, &request, arena, &plain, f);
    a->retry.has_key_plain = err == ERR_OK;
    a->retry.key_plain = plain.key;
    return err;
}

/* The requirements that the approvers have met, and the votes that this changes to allow. */
static enum err read_terms(struct authorization *a, struct fault *f)
{
    struct policy_request *p = &a->ask.policy;
    struct policy_approval approval;
    check(p->approved == NULL && p->met == NULL);
    enum err err = authorization_approval(a, &a->review, &approval);
    if (err != ERR_OK) return fault_plain(f, ERR_INTERNAL);
    p->approved = approval.votes;
    p->approved_count = approval.vote_count;
    p->met = approval.met;
    p->met_count = approval.met_count;
    check(p->met != NULL); /* NULL would mean that the requirements are not known */
    return ERR_OK;
}

/* Whether the review was requested with this same token, whose use was spent then. */
static bool asked_with_it(struct authorization *a)
{
    struct event e;
    struct fault f;
    char id[ID_TEXT];
    if (a->operation.caller.token == NULL ||
        event_read(a->review.item, a->operation.arena, &e, &f) != ERR_OK)
        return false;
    id_write("tok_", a->operation.caller.token->id, id);
    return str_equal(e.token_id, str_of(id, ID_TEXT));
}

/* Only the requester may redeem. */
static void set_requester(struct operation *e)
{
    check(!str_is_absent(e->caller.tenant));
    e->call.tenant = e->caller.tenant;
    e->call.requester = caller_operation_requester(&e->caller);
}

static enum step_result find(struct operation *e)
{
    set_requester(e);
    return queue_find(e, of(e)->name, &of(e)->review);
}

static enum step_result found(struct operation *e) { return queue_found(e, &of(e)->review); }

static enum step_result look(struct operation *e)
{
    struct redemption *r = of(e);
    set_requester(e);
    id_write("rev_", r->review, r->review_text);
    e->call.review.id = r->review;
    return operation_call(e, CALL_REVIEW_GET, slot_of_id(r->review));
}

static enum step_result refuse_look(struct operation *e)
{
    check(e->call.err != ERR_OK);
    struct fault f;
    if (e->call.err == ERR_NOT_FOUND)
        (void)fault_set(&f, ERR_NOT_FOUND, "", "there is no such review here");
    else
        (void)fault_plain(&f, e->call.err);
    return authorization_refuse(e, &f);
}

/* The review exists, and its requester may see it. */
static enum step_result looked_at(struct operation *e)
{
    struct redemption *r = of(e);
    struct authorization *a = &r->a;
    check(e->call.kind == CALL_REVIEW_GET && a->kind == AUTHORIZATION_FIRST);
    struct fault f;
    if (e->call.err != ERR_OK) return refuse_look(e);
    a->review = e->call.review.facts;
    enum err err = authorization_read(a, a->review.trace_id, &f);
    if (err == ERR_OK) err = read_retry(r, &f);
    if (err == ERR_OK) err = read_terms(a, &f);
    if (err != ERR_OK) return authorization_refuse(e, &f);
    a->kind = AUTHORIZATION_REDEMPTION;
    a->use_was_spent = asked_with_it(a);
    a->d.redeems = str_of(r->review_text, ID_TEXT);
    a->d.asked_trace = a->review.trace_id;
    a->is_same = decide_bind_to(&a->d, &a->review);
    if (a->review.state != REVIEW_APPROVED || !a->is_same)
        return operation_enter(e, &authorization_process, AUTH_CONCLUDE);
    check(e->call.err == ERR_OK && str_is_absent(a->d.redemption_id));
    id_write("evt_", id_make(a->tools.now_ms, a->tools.chance), r->redemption_text);
    a->d.redemption_id = str_of(r->redemption_text, ID_TEXT);
    return operation_enter(e, &authorization_process, AUTH_CHECK_ACTOR);
}

enum { REDEEM_LOOK = 2 }; /* its place in the table */
static const struct step steps[] = {
    SIGHT_STEP, {"find the review", find, found}, [REDEEM_LOOK] = {"look at it", look, looked_at}};
static const struct process redeem_process = PROCESS(steps, .refuse = authorization_refuse);

enum step_result redeem_enter(struct redemption *r)
{
    check(r->a.kind == AUTHORIZATION_FIRST && r->a.body != NULL);
    return operation_enter(&r->a.operation, &redeem_process, REDEEM_LOOK);
}

/* The tenant's member, as the form's own route names it. */
static enum err tenant_of(enum auth_request_form form, const struct json *body, struct str *ret,
                          struct fault *f)
{
    static const struct member_spelling of_tool = {"tenant_id", "tenantId"},
                                        of_others = {"tenantId", "tenant_id"};
    const struct member_spelling *its = form == ASK_TOOL ? &of_tool : &of_others;
    enum err err = member_spelling(body, its, 1, f);
    return err == ERR_OK ? member_text(body, its->right, LIMIT_ID_CHARACTERS, ret, f) : err;
}

/* A redemption's credential is checked like the decision's: an agent's request needs an agent. */
static enum err admit(struct redemption *r, struct engine_reactor *w, struct http_exchange *x,
                      struct fault *f)
{
    struct authorization *a = &r->a;
    enum err err = api_admit(&w->api, x, x->route->roles, a->tools.now_ms, &a->operation.caller, f);
    if (err == ERR_OK) err = api_body(x, &r->a.body, f);
    if (err != ERR_OK) return err;
    a->form = auth_request_form_of(a->body);
    err = authorization_may(a, f);
    if (err != ERR_OK) return err;
    struct str tenant = {0};
    err = tenant_of(r->a.form, r->a.body, &tenant, f);
    return err == ERR_OK ? auth_request_settle_tenant(r->a.form, &a->operation.caller, tenant, f)
                         : err;
}

void queue_redeem_handle(void *context, struct http_exchange *x)
{
    struct engine_reactor *w = context;
    struct redemption *r = authorization_begin(w, x, sizeof *r);
    struct fault f;
    if (r == NULL) return;
    if (admit(r, w, x, &f) != ERR_OK) {
        authorization_refuse(&r->a.operation, &f);
        return;
    }
    struct operation *e = &r->a.operation;
    r->name = arena_copy(e->arena, x->params[0]);
    r->retry_header = arena_copy(e->arena, http_header_get(x, STR("idempotency-key")));
    operation_start(e, &redeem_process, 0);
}
