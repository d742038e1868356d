/* actors.c - the kill switch: suspend an actor, resume it, list the suspended ones. */
#include "base/check.h"
#include "base/limits.h"
#include "engine/handlers.h"
#include "engine/runtime/reactor_view.h"
#include "engine/runtime/member.h"
#include "engine/resources/page.h"
#include "engine/decision/digest.h"
#include "engine/runtime/caller_operation.h"

enum { REASON_CHARACTERS_MAX = 1000, PAGE_BYTES_MAX = 8 << 20 };

struct stop {                   /* an operation on one actor, or on a page of them */
    struct operation operation; /* first */
    enum call_kind kind;        /* SUSPEND or RESUME */
    struct str actor, reason;
    uint64_t suspended_ms; /* 0: it was resumed */
    uint64_t limit;
};

static void stop_check(const struct stop *s)
{
    check(s->kind == CALL_SUSPEND || s->kind == CALL_RESUME);
    check(s->suspended_ms == 0 || s->kind == CALL_SUSPEND);
    check(!str_is_absent(s->actor));
}

static struct stop *of(struct operation *e) { return (struct stop *)(void *)e; }

static enum step_result refuse(struct stop *s, enum err err)
{
    check(err != ERR_OK);
    return caller_operation_refuse_with(
        &s->operation, err,
        err == ERR_NOT_FOUND ? "this actor is not suspended under this spelling of its name"
                             : NULL);
}

static enum step_result answer(struct stop *s)
{
    struct operation *e = &s->operation;
    stop_check(s);
    char bytes[16 << 10];
    struct buf b = buf_over(bytes, sizeof bytes);
    bool suspended = s->suspended_ms != 0;
    buf_put_literal(&b, "{\"success\":true,\"actor\":");
    json_put_string(&b, s->actor);
    buf_put_literal(&b, ",\"tenant_id\":");
    json_put_string(&b, e->call.tenant);
    buf_put(&b, suspended ? STR(",\"suspended\":true") : STR(",\"suspended\":false"));
    if (suspended) member_put_time(&b, STR(",\"suspended_at\":"), s->suspended_ms);
    member_put_text(&b, STR(",\"reason\":"), s->reason);
    buf_put_byte(&b, '}');
    if (b.overflow) return refuse(s, ERR_INTERNAL);
    return operation_reply(e, 200, buf_view(&b), (struct str){0});
}

/* ---- suspend and resume ---- */

static enum step_result change(struct operation *e)
{
    const struct stop *s = of(e);
    stop_check(s);
    return operation_call(e, s->kind,
                          slot_of_subject(engine_reactor_api(e->engine_reactor)->hasher,
                                          e->call.tenant, false, e->call.actor.actor));
}

static enum step_result changed(struct operation *e)
{
    struct stop *s = of(e);
    const struct call *c = &e->call;
    stop_check(s);
    check(c->kind == s->kind);
    if (c->err != ERR_OK) return refuse(s, c->err);
    s->reason = c->actor.reason;
    if (s->kind == CALL_RESUME) return answer(s);
    s->suspended_ms = c->actor.suspended_ms;
    check(s->suspended_ms != 0);
    return STEP_NEXT;
}

/* Every reactor knows of it now. Denies the reviews that the actor has pending under this spelling;
 * no new ones can follow under any other. */
static enum step_result deny_spellings(struct operation *e)
{
    struct call *c = &e->call;
    check(of(e)->kind == CALL_SUSPEND);
    memset(&c->list, 0, sizeof c->list);
    c->list.actor = of(e)->actor;
    return operation_gather(e, CALL_DENY_SPELLINGS);
}

static enum step_result denied(struct operation *e)
{
    stop_check(of(e));
    check(e->gathered_count > 0);
    for (unsigned i = 0; i < e->gathered_count; i++)
        if (e->gathered[i]->err != ERR_OK) return refuse(of(e), e->gathered[i]->err);
    return answer(of(e));
}

static const struct step change_steps[] = {{"suspend or resume", change, changed},
                                           {"deny its reviews", deny_spellings, denied}};
static const struct process change_process = PROCESS(change_steps);

static enum err read_actor(struct stop *s, const struct http_exchange *x, const struct json *body,
                           struct fault *f)
{
    struct call *c = &s->operation.call;
    size_t bad;
    struct str actor = s->actor = c->actor.actor = arena_copy(s->operation.arena, x->params[0]);
    if (s->operation.arena->overflow) return fault_plain(f, ERR_BODY_TOO_LARGE);
    if (!str_is_utf8(actor, &bad) || str_code_points(actor) > LIMIT_ID_CHARACTERS ||
        memchr(actor.bytes, 0, actor.size) != NULL)
        return fault_set(f, ERR_BAD_VALUE, "", "actor: must be at most %d characters of UTF-8",
                         LIMIT_ID_CHARACTERS);
    return member_text(body, "reason", REASON_CHARACTERS_MAX, &c->actor.reason, f);
}

static void handle(struct engine_reactor *w, struct http_exchange *x, enum call_kind kind)
{
    struct json *body;
    struct stop *s = caller_operation_begin(w, x, sizeof *s, 0, &body);
    struct fault f;
    if (s == NULL) return;
    s->kind = kind;
    if (read_actor(s, x, body, &f) == ERR_OK)
        operation_start(&s->operation, &change_process, 0);
    else
        caller_operation_refuse(&s->operation, &f);
}

void actor_suspend_handle(void *context, struct http_exchange *x)
{
    handle(context, x, CALL_SUSPEND);
}
void actor_resume_handle(void *context, struct http_exchange *x)
{
    handle(context, x, CALL_RESUME);
}

/* ---- the list of suspended actors ---- */

static uint64_t ordinal_of(const struct call *c, uint32_t i) { return c->list.actors[i].ordinal; }

static enum err put_actor(struct buf *b, struct operation *e, const struct call *c, uint32_t i)
{
    check(i < c->list.count);
    const struct actor_facts *a = &c->list.actors[i];
    (void)e;
    buf_put_literal(b, "{\"actor\":");
    json_put_string(b, a->actor);
    buf_put_literal(b, ",\"tenant_id\":");
    json_put_string(b, a->tenant);
    buf_put_literal(b, ",\"suspended\":true");
    member_put_time(b, STR(",\"suspended_at\":"), a->suspended_ms);
    member_put_text(b, STR(",\"suspended_by\":"), a->by);
    member_put_text(b, STR(",\"reason\":"), a->reason);
    buf_put_byte(b, '}');
    return ERR_OK;
}

static enum step_result list(struct operation *e) { return operation_gather(e, CALL_ACTOR_LIST); }

static enum step_result listed(struct operation *e)
{
    static const struct page_form form = {.begin = STR("{\"actors\":["),
                                          .has_total = true,
                                          .bytes_max = PAGE_BYTES_MAX,
                                          .is_growing = true,
                                          .ordinal = ordinal_of,
                                          .put = put_actor};
    enum err err = page_reply(e, &form, of(e)->limit);
    return err == ERR_OK ? STEP_DONE : refuse(of(e), err);
}

static const struct step list_steps[] = {{"list", list, listed}};
static const struct process list_process = PROCESS(list_steps);

void actor_list_handle(void *context, struct http_exchange *x)
{
    struct json *body;
    struct stop *s = caller_operation_begin(context, x, sizeof *s, 0, &body);
    struct fault f;
    if (s == NULL) return;
    struct call *c = &s->operation.call;
    if (api_page(x, &s->limit, &c->list.after, &f) != ERR_OK) {
        caller_operation_refuse(&s->operation, &f);
        return;
    }
    c->list.limit = (uint32_t)s->limit + 1;
    operation_start(&s->operation, &list_process, 0);
}
