/* redeem.c - uses an approval: the same request is sent again and decided again, now.
 *
 *   [check its token] → which review → is it approved, and for this same request? → decide with its votes as allow
 *                → [claim it, count limits] → the owner spends it and records the decision, or reports it as spent
 *
 * The human_review votes that the approval covered count as allow, unless their rules now require
 * more people, or others, than those who approved; every other vote stays. A review that cannot be
 * redeemed is a deny `review:<state>`, which reveals nothing of the approved request. */
#include "base/limits.h"
#include "engine/authorization.h"
#include "engine/member.h"
#include "engine/digest.h"
#include "engine/queue.h"
#include "engine/redeem.h"
#include "engine/sight.h"
#include "engine/caller_operation.h"
#include "event/event.h"

static struct redemption *of(struct operation *e) { return (struct redemption *)(void *)e; }

static void refuse(struct redemption *r, enum err err, const char *text)
{
    struct fault f;
    if (text == NULL)
        (void)fault_plain(&f, err);
    else
        (void)fault_set(&f, err, "", "%s", text);
    authorization_refuse(&r->a, &f);
}

/* The asker to whom an Idempotency-Key belongs: the key's row of rotations, the actor and the person
 * that it acts for. A token that has ended may be followed by another one. */
static struct str line_of(const struct authorization *a)
{
    char line[ID_TEXT];
    const struct review_facts *r = &a->review;
    id_write("key_", a->caller.key->line, line);
    return arena_printf(a->operation.arena, "%.*s %zu %.*s %.*s", ID_TEXT, line, r->subject.size,
                        STR_FORMAT(r->subject), STR_FORMAT(r->acting_for));
}

static enum err read_retry(struct redemption *r, struct fault *f)
{
    struct authorization *a = &r->a;
    if (str_is_absent(r->retry_header)) return ERR_OK;
    struct arena *arena = a->operation.arena;
    struct retried request = {.tenant = a->caller.tenant,
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
    request.credential = key_shown_id(a->caller.key);
    if (a->caller.token != NULL) {
        id_write("tok_", a->caller.token->id, token);
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
    enum err err = authorization_approval(a, &a->review, &approval);
    if (err != ERR_OK) return fault_plain(f, ERR_INTERNAL);
    p->approved = approval.votes;
    p->approved_count = approval.vote_count;
    p->met = approval.met;
    p->met_count = approval.met_count;
    return ERR_OK;
}

/* Whether the review was requested with this same token, whose use was spent then. */
static bool asked_with_it(struct authorization *a)
{
    struct event e;
    struct fault f;
    char id[ID_TEXT];
    if (a->caller.token == NULL || event_read(a->review.item, a->operation.arena, &e, &f) != ERR_OK)
        return false;
    id_write("tok_", a->caller.token->id, id);
    return str_equal(e.token_id, str_of(id, ID_TEXT));
}

/* The review exists, and its requester may see it. */
static void looked_at(struct operation *e)
{
    struct redemption *r = of(e);
    struct authorization *a = &r->a;
    struct fault f;
    if (e->call.err != ERR_OK) {
        refuse(r, e->call.err,
               e->call.err == ERR_NOT_FOUND ? "there is no such review here" : NULL);
        return;
    }
    a->review = e->call.review.facts;
    enum err err = authorization_read(a, a->review.trace_id, &f);
    if (err == ERR_OK) err = read_retry(r, &f);
    if (err == ERR_OK) err = read_terms(a, &f);
    if (err != ERR_OK) {
        authorization_refuse(a, &f);
        return;
    }
    a->redeeming = true;
    a->use_was_spent = asked_with_it(a);
    a->d.redeems = str_of(r->review_text, ID_TEXT);
    a->d.asked_trace = a->review.trace_id;
    a->is_same = decide_bind_to(&a->d, &a->review);
    if (a->review.state != REVIEW_APPROVED || !a->is_same) {
        authorization_conclude(a);
    } else {
        id_write("evt_", id_make(a->tools.now_ms, a->tools.chance), r->redemption_text);
        a->d.redemption_id = str_of(r->redemption_text, ID_TEXT);
        authorization_start(a);
    }
}

static void look(struct redemption *r)
{
    struct call *c = &r->a.operation.call;
    id_write("rev_", r->review, r->review_text);
    c->review.id = r->review;
    operation_call(&r->a.operation, CALL_REVIEW_GET, slot_of_id(r->review), looked_at);
}

static void found(struct operation *e)
{
    struct redemption *r = of(e);
    struct fault f;
    if (queue_found(e, &r->review, &f) == ERR_OK)
        look(r);
    else
        authorization_refuse(&r->a, &f);
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
    enum err err = api_admit(&w->api, x, x->route->roles, a->tools.now_ms, &a->caller, f);
    if (err == ERR_OK) err = api_body(x, &r->a.body, f);
    if (err != ERR_OK) return err;
    a->form = auth_request_form_of(a->body);
    err = authorization_may(a, f);
    if (err != ERR_OK) return err;
    struct str tenant = {0};
    err = tenant_of(r->a.form, r->a.body, &tenant, f);
    return err == ERR_OK ? auth_request_settle_tenant(r->a.form, &a->caller, tenant, f) : err;
}

static void refuse_sighted(struct operation *e, const struct fault *f)
{
    authorization_refuse(&of(e)->a, f);
}

/* Only the requester may redeem. */
static void set_requester(struct redemption *r)
{
    struct call *c = &r->a.operation.call;
    c->tenant = r->a.caller.tenant;
    c->requester = caller_operation_requester(&r->a.caller);
}

void redeem_start(struct redemption *r)
{
    set_requester(r);
    look(r);
}

static void known(struct operation *e)
{
    struct redemption *r = of(e);
    struct fault f;
    set_requester(r);
    if (queue_named(e, r->name, &r->review, found, &f))
        look(r);
    else if (f.err != ERR_OK)
        authorization_refuse(&r->a, &f);
}

void queue_redeem_handle(void *context, struct http_exchange *x)
{
    struct engine_reactor *w = context;
    struct redemption *r = (struct redemption *)(void *)authorization_begin_sized(w, x, sizeof *r);
    struct fault f;
    if (r == NULL) return;
    if (admit(r, w, x, &f) != ERR_OK) {
        authorization_refuse(&r->a, &f);
        return;
    }
    struct operation *e = &r->a.operation;
    r->name = arena_copy(e->arena, x->params[0]);
    r->retry_header = arena_copy(e->arena, http_header_get(x, STR("idempotency-key")));
    sight(e, &r->a.caller, known, refuse_sighted);
}
