/* actors.c - the kill switch: suspend an actor, let it go on, see who is suspended. */
#include "base/limits.h"
#include "base/time.h"
#include "engine/engine.h"
#include "engine/errand.h"
#include "engine/place.h"
#include "engine/queue.h"

enum { REASON_CHARACTERS_MAX = 1000, PAGE_BYTES_MAX = 8 << 20 };

struct stop { /* an errand on one actor, or on a page of them */
    struct errand errand;        /* first */
    struct caller caller;
    uint64_t limit;
};

static struct stop *of(struct errand *e) { return (struct stop *)(void *)e; }

static void refuse(struct stop *s, enum err err)
{
    struct fault f;
    if (err == ERR_NOT_FOUND) fault_set(&f, err, "", "this actor is not suspended");
    else fault_plain(&f, err);
    errand_refuse(&s->errand, &f, (struct str){0});
}

static struct stop *stop_begin(struct worker *w, struct http_exchange *x)
{
    struct stop *s = (struct stop *)(void *)errand_begin(w, x, sizeof *s);
    struct fault f;
    if (s == NULL) {
        fault_set(&f, ERR_BODY_TOO_LARGE, "", "the request needs more memory than one request may use");
        api_refuse(&w->api, x, &f, (struct str){0});
        return NULL;
    }
    struct json *body = NULL;
    enum err err = api_admit(&w->api, x, x->route->roles, world_now_ms(), &s->caller, &f);
    if (err == ERR_OK && x->body.size > 0 && x->route->method == HTTP_POST) err = api_body(x, &body, &f);
    if (err == ERR_OK) err = api_settle_tenant(&s->caller, json_text(body, STR("tenant_id")), &f);
    const struct json *reason = body == NULL ? NULL : json_get(body, STR("reason"));
    if (err == ERR_OK && reason != NULL && reason->type != JSON_NULL) {
        if (reason->type != JSON_STRING) err = fault_set(&f, ERR_WRONG_TYPE, "/reason", "reason: must be a string");
        else if (reason->has_nul) err = fault_set(&f, ERR_BAD_VALUE, "/reason", "reason: must not hold U+0000");
        else if (str_code_points(reason->string) > REASON_CHARACTERS_MAX)
            err = fault_set(&f, ERR_OUT_OF_RANGE, "/reason", "reason: is longer than %d characters", REASON_CHARACTERS_MAX);
        else s->errand.call.actor.reason = reason->string;
    }
    if (err != ERR_OK) {
        errand_refuse(&s->errand, &f, (struct str){0});
        return NULL;
    }
    s->errand.call.tenant = s->caller.tenant;
    s->errand.call.asker = queue_asker(&s->caller);
    return s;
}

static void put_text(struct buf *b, struct str before, struct str text)
{
    if (text.size == 0) return;
    buf_put(b, before);
    json_put_string(b, text);
}

static void put_time(struct buf *b, struct str before, uint64_t ms)
{
    char text[TIME_TEXT];
    time_write(ms, text);
    buf_put(b, before);
    json_put_plain(b, str_of(text, TIME_TEXT));
}

static void changed(struct errand *e)
{
    const struct call *c = &e->call;
    char bytes[16 << 10];
    struct buf b = buf_over(bytes, sizeof bytes);
    bool suspended = c->kind == CALL_SUSPEND;
    if (c->err != ERR_OK) {
        refuse(of(e), c->err);
        return;
    }
    buf_put_literal(&b, "{\"success\":true,\"actor\":");
    json_put_string(&b, c->actor.actor);
    buf_put_literal(&b, ",\"tenant_id\":");
    json_put_string(&b, c->tenant);
    buf_put(&b, suspended ? STR(",\"suspended\":true") : STR(",\"suspended\":false"));
    if (suspended) put_time(&b, STR(",\"suspended_at\":"), c->actor.suspended_ms);
    put_text(&b, STR(",\"reason\":"), c->actor.reason);
    buf_put_byte(&b, '}');
    if (b.overflow) refuse(of(e), ERR_INTERNAL);
    else errand_reply(e, 200, buf_view(&b), (struct str){0});
}

static void change(struct worker *w, struct http_exchange *x, enum call_kind kind)
{
    struct stop *s = stop_begin(w, x);
    if (s == NULL) return;
    struct str actor = arena_copy(s->errand.arena, x->params[0]);
    size_t bad;
    if (!str_is_utf8(actor, &bad) || str_code_points(actor) > LIMIT_ID_CHARACTERS || memchr(actor.bytes, 0, actor.size) != NULL) {
        struct fault f;
        fault_set(&f, ERR_BAD_VALUE, "", "actor: must be at most %d characters of UTF-8", LIMIT_ID_CHARACTERS);
        errand_refuse(&s->errand, &f, (struct str){0});
        return;
    }
    s->errand.call.actor.actor = actor;
    if (kind == CALL_SUSPEND) s->errand.call.actor.ordinal = worker_ordinal(w);
    errand_visit(&s->errand, kind, place_subject(w->api.hasher, s->caller.tenant, false, actor), changed);
}

void actor_suspend_handle(void *context, struct http_exchange *x) { change(context, x, CALL_SUSPEND); }
void actor_resume_handle(void *context, struct http_exchange *x) { change(context, x, CALL_RESUME); }

/* ---- who is suspended ---- */

static void put_actor(struct buf *b, const struct actor_facts *a)
{
    buf_put_literal(b, "{\"actor\":");
    json_put_string(b, a->actor);
    buf_put_literal(b, ",\"tenant_id\":");
    json_put_string(b, a->tenant);
    buf_put_literal(b, ",\"suspended\":true");
    put_time(b, STR(",\"suspended_at\":"), a->suspended_ms);
    put_text(b, STR(",\"suspended_by\":"), a->by);
    put_text(b, STR(",\"reason\":"), a->reason);
    buf_put_byte(b, '}');
}

static const struct actor_facts *next_of(struct errand *e, uint32_t *taken)
{
    const struct actor_facts *first = NULL;
    unsigned from = 0;
    for (unsigned i = 0; i < e->gathered_count; i++) {
        const struct call *c = e->gathered[i];
        if (taken[i] == c->list.count) continue;
        const struct actor_facts *a = &c->list.actors[taken[i]];
        if (first != NULL && first->ordinal <= a->ordinal) continue;
        first = a;
        from = i;
    }
    if (first != NULL) taken[from]++;
    return first;
}

static enum err put_page(struct buf *b, struct errand *e, uint64_t limit)
{
    uint32_t *taken = arena_array(e->arena, uint32_t, e->gathered_count + 1);
    if (taken == NULL) return ERR_BODY_TOO_LARGE;
    uint64_t total = 0, count = 0, last = 0;
    for (unsigned i = 0; i < e->gathered_count; i++) {
        if (e->gathered[i]->err != ERR_OK) return e->gathered[i]->err;
        total += e->gathered[i]->list.total;
    }
    buf_put_literal(b, "{\"actors\":[");
    const struct actor_facts *a = NULL;
    for (; count < limit && (a = next_of(e, taken)) != NULL; count++) {
        if (count > 0) buf_put_byte(b, ',');
        put_actor(b, a);
        last = a->ordinal;
    }
    bool more = count == limit && next_of(e, taken) != NULL;
    buf_put_literal(b, "],\"count\":");
    buf_put_u64(b, count);
    buf_put_literal(b, ",\"limit\":");
    buf_put_u64(b, limit);
    buf_put_literal(b, ",\"total\":");
    buf_put_u64(b, total);
    buf_put_literal(b, ",\"next_cursor\":");
    buf_put_u64(b, more ? last : 0);
    buf_put_byte(b, '}');
    return b->overflow ? ERR_INTERNAL : ERR_OK;
}

static void answer_page(struct errand *e)
{
    struct buf b;
    buf_init(&b, 4096, PAGE_BYTES_MAX);
    enum err err = put_page(&b, e, of(e)->limit);
    if (err == ERR_OK) errand_reply(e, 200, buf_view(&b), (struct str){0});
    else refuse(of(e), err);
    buf_fini(&b);
}

void actor_list_handle(void *context, struct http_exchange *x)
{
    struct stop *s = stop_begin(context, x);
    struct fault f;
    if (s == NULL) return;
    struct call *c = &s->errand.call;
    enum err err = api_page(x, &s->limit, &c->list.after, &f);
    if (err != ERR_OK) {
        errand_refuse(&s->errand, &f, (struct str){0});
        return;
    }
    c->list.limit = (uint32_t)s->limit + 1;
    errand_gather(&s->errand, CALL_ACTOR_LIST, answer_page);
}
