/* redeem.c - an approval is used: the same request comes again and is decided again, now.
 *
 *   [is its token known] → which review → is it approved, and for this very request? → decide with its votes as allow
 *                → [claim it, count limits] → the owner spends it and records the decision, or says it is spent
 *
 * The human_review votes that the approval covered count as allow, unless their rules ask for more
 * people or for others now than for those who approved; every other vote stands. A review that
 * cannot be redeemed is a deny `review:<state>` that tells nothing of what was approved. */
#include "base/limits.h"
#include "engine/authorization.h"
#include "engine/member.h"
#include "engine/place.h"
#include "engine/queue.h"
#include "engine/sight.h"
#include "engine/terms.h"
#include "engine/trip.h"
#include "event/event.h"

struct redemption {
    struct authorization a; /* first */
    struct str name;        /* of the review, as the path has it */
    struct str retry_header;
    struct id review;
    char redemption_text[ID_TEXT], review_text[ID_TEXT];
};

static struct redemption *of(struct errand *e) { return (struct redemption *)(void *)e; }

static bool is_given(const struct json *body, struct str name)
{
    const struct json *v = json_get(body, name);
    return v != NULL && v->type != JSON_NULL;
}

static enum ask_form form_of(const struct json *body)
{
    if (is_given(body, STR("tool"))) return ASK_TOOL;
    return is_given(body, STR("user_id")) ? ASK_USER : ASK_AGENT;
}

static void refuse(struct redemption *r, enum err err, const char *text)
{
    struct fault f;
    if (text == NULL)
        fault_plain(&f, err);
    else
        fault_set(&f, err, "", "%s", text);
    authorization_refuse(&r->a, &f);
}

static enum err read_retry(struct redemption *r, struct fault *f)
{
    struct authorization *a = &r->a;
    if (str_is_absent(r->retry_header)) return ERR_OK;
    struct arena *arena = a->errand.arena;
    struct retried request = {.tenant = a->caller.tenant,
                              .credential = str_of(a->caller.key->id_text, ID_TEXT),
                              .route = arena_printf(arena, "redeem %.*s", ID_TEXT, r->review_text),
                              .body = r->a.body};
    /* A token's own: with another credential the same body may mean another request, or
     * one that it may not ask. */
    char token[ID_TEXT];
    if (a->caller.token != NULL) {
        id_write("tok_", a->caller.token->id, token);
        request.credential = str_of(token, ID_TEXT);
    }
    return place_retry(a->tools.hasher, a->tools.keys, r->retry_header, &request, arena, &a->retry,
                       f);
}

/* What whoever approved has met, and which votes that turns. */
static enum err read_terms(struct authorization *a, struct fault *f)
{
    struct policy_request *p = &a->ask.policy;
    enum err err = terms_read_votes(a->review.votes_approved, a->errand.arena, &p->approved,
                                    &p->approved_count);
    if (err == ERR_OK)
        err = terms_read_requirements(a->review.requirements, a->errand.arena, &p->met,
                                      &p->met_count);
    return err == ERR_OK ? ERR_OK : fault_plain(f, ERR_INTERNAL);
}

/* Whether the review was asked with this very token, whose use was spent then. */
static bool asked_with_it(struct authorization *a)
{
    struct event e;
    struct fault f;
    char id[ID_TEXT];
    if (a->caller.token == NULL || event_read(a->review.item, a->errand.arena, &e, &f) != ERR_OK)
        return false;
    id_write("tok_", a->caller.token->id, id);
    return str_equal(e.token_id, str_of(id, ID_TEXT));
}

/* The review is here as its asker may see it. */
static void looked_at(struct errand *e)
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
    bool is_same = decide_bind_to(&a->d, &a->review);
    if (a->review.state != REVIEW_APPROVED || !is_same) {
        authorization_conclude(a);
    } else {
        id_write("evt_", id_make(a->tools.now_ms, a->tools.chance), r->redemption_text);
        a->d.redemption_id = str_of(r->redemption_text, ID_TEXT);
        authorization_start(a);
    }
}

static void look(struct redemption *r)
{
    struct call *c = &r->a.errand.call;
    id_write("rev_", r->review, r->review_text);
    c->review.id = r->review;
    errand_visit(&r->a.errand, CALL_REVIEW_GET, slot_of_id(r->review), looked_at);
}

static void found(struct errand *e)
{
    struct redemption *r = of(e);
    struct fault f;
    if (queue_found(e, &r->review, &f) == ERR_OK)
        look(r);
    else
        authorization_refuse(&r->a, &f);
}

/* As the form's own route names it. */
static enum err tenant_of(enum ask_form form, const struct json *body, struct str *ret,
                          struct fault *f)
{
    static const struct member_spelling of_tool = {"tenant_id", "tenantId"},
                                        of_others = {"tenantId", "tenant_id"};
    const struct member_spelling *its = form == ASK_TOOL ? &of_tool : &of_others;
    enum err err = member_spelling(body, its, 1, f);
    return err == ERR_OK ? member_text(body, its->right, LIMIT_ID_CHARACTERS, ret, f) : err;
}

/* A redemption's credential is checked like the decision's: an agent's request takes an agent. */
static enum err admit(struct redemption *r, struct worker *w, struct http_exchange *x,
                      struct fault *f)
{
    struct authorization *a = &r->a;
    enum err err = api_admit(&w->api, x, x->route->roles, a->tools.now_ms, &a->caller, f);
    if (err == ERR_OK) err = api_body(x, &r->a.body, f);
    if (err != ERR_OK) return err;
    r->a.form = form_of(r->a.body);
    uint32_t needed = r->a.form == ASK_USER ? ROLE_APP : ROLE_AGENT;
    bool may =
        a->caller.token != NULL ? r->a.form != ASK_USER : (a->caller.key->roles & needed) != 0;
    if (!may)
        return fault_set(f, ERR_MISSING_ROLE, "", "this needs a key with the role %s",
                         role_name((enum role)needed));
    struct str tenant = {0};
    err = tenant_of(r->a.form, r->a.body, &tenant, f);
    return err == ERR_OK ? ask_settle_tenant(r->a.form, &a->caller, tenant, f) : err;
}

static void refuse_sighted(struct errand *e, const struct fault *f)
{
    authorization_refuse(&of(e)->a, f);
}

static void known(struct errand *e)
{
    struct redemption *r = of(e);
    struct fault f;
    e->call.tenant = r->a.caller.tenant;
    e->call.asker = trip_asker(&r->a.caller); /* only who asked may redeem */
    if (queue_named(e, r->name, &r->review, found, &f))
        look(r);
    else if (f.err != ERR_OK)
        authorization_refuse(&r->a, &f);
}

void queue_redeem_handle(void *context, struct http_exchange *x)
{
    struct worker *w = context;
    struct redemption *r = (struct redemption *)(void *)authorization_begin_sized(w, x, sizeof *r);
    struct fault f;
    if (r == NULL) return;
    if (admit(r, w, x, &f) != ERR_OK) {
        authorization_refuse(&r->a, &f);
        return;
    }
    struct errand *e = &r->a.errand;
    r->name = arena_copy(e->arena, x->params[0]);
    r->retry_header = arena_copy(e->arena, http_header_get(x, STR("idempotency-key")));
    sight(e, &r->a.caller, known, refuse_sighted);
}
