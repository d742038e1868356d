/* batch.c - the items of a batch, one after the other; and POST /v1/authorize/batch.
 *
 * An item that needs no other reactor ends inside its own start. So a loop starts the items, and
 * only an item that was away continues the loop: the stack does not grow with the number of items. */
#include "engine/batch.h"

#include "base/check.h"
#include "base/limits.h"
#include "engine/member.h"
#include "engine/sight.h"

static struct batch *of(struct operation *e) { return (struct batch *)(void *)e; }

void batch_refuse(struct batch *b, const struct fault *f)
{
    b->r.a.finished = NULL;
    authorization_refuse(&b->r.a, f);
}

static void finish(struct batch *b)
{
    struct arena *arena = b->r.a.operation.arena;
    size_t most = b->before.size + b->behind.size + b->at;
    for (size_t i = 0; i < b->at; i++) most += b->answers[i].size;
    char *bytes = arena_bytes(arena, most);
    struct fault f;
    if (bytes == NULL || arena->overflow || arena->starved) {
        (void)fault_set(&f, ERR_BODY_TOO_LARGE, "",
                        "the batch needs more memory than one request may use; send fewer items");
        batch_refuse(b, &f);
        return;
    }
    struct buf out = buf_over(bytes, most);
    buf_put(&out, b->before);
    for (size_t i = 0; i < b->at; i++) {
        if (i > 0) buf_put_byte(&out, ',');
        buf_put(&out, b->answers[i]);
    }
    buf_put(&out, b->behind);
    check(!out.overflow);
    operation_reply(&b->r.a.operation, 200, buf_view(&out), (struct str){0});
}

static void start_item(struct batch *b)
{
    struct authorization *a = &b->r.a;
    struct fault f;
    authorization_renew(a);
    a->caller = b->caller;
    if (!str_is_absent(b->retry_header))
        a->retry_header =
            arena_printf(a->operation.arena, "%.*s/%zu", STR_FORMAT(b->retry_header), b->at);
    enum err err = b->prepare(b, &f);
    if (err == ERR_OK) err = authorization_may(a, &f);
    if (err == ERR_OK) err = authorization_read(a, (struct str){0}, &f);
    if (err == ERR_OK)
        authorization_start(a);
    else
        authorization_refuse(a, &f);
}

static void loop(struct batch *b)
{
    b->is_looping = true;
    while (b->at < b->count) {
        b->is_done = false;
        start_item(b);
        if (b->is_done) continue;
        b->is_looping = false; /* it is away, and continues the loop */
        return;
    }
    b->is_looping = false;
    finish(b);
}

static void finished(struct authorization *a, const struct fault *f)
{
    struct batch *b = of(&a->operation);
    bool ends = false;
    struct str answer = b->answered(b, f, &ends);
    if (str_is_absent(answer)) return; /* it became a redemption, which goes on */
    b->answers[b->at++] = answer;
    if (ends) b->count = b->at;
    b->is_done = true;
    if (!b->is_looping) loop(b);
}

static void known(struct operation *e)
{
    struct batch *b = of(e);
    b->caller = b->r.a.caller;
    b->r.a.finished = finished;
    loop(b);
}

static void refuse(struct operation *e, const struct fault *f) { batch_refuse(of(e), f); }

struct batch *batch_begin(struct engine_reactor *w, struct http_exchange *x, size_t size)
{
    struct authorization *a = authorization_begin_sized(w, x, size);
    if (a == NULL) return NULL;
    struct batch *b = of(&a->operation);
    struct fault f;
    enum err err = api_admit(&w->api, x, x->route->roles, a->tools.now_ms, &a->caller, &f);
    if (err == ERR_OK) err = api_body(x, &b->body, &f);
    if (err != ERR_OK) {
        batch_refuse(b, &f);
        return NULL;
    }
    b->text = x->body;
    struct str retry = http_header_get(x, STR("idempotency-key"));
    if (!str_is_absent(retry)) b->retry_header = arena_copy(a->operation.arena, retry);
    return b;
}

void batch_start(struct batch *b)
{
    struct authorization *a = &b->r.a;
    struct fault f;
    b->answers = arena_array(a->operation.arena, struct str, b->count + 1);
    if (b->answers == NULL) {
        (void)fault_plain(&f, ERR_BODY_TOO_LARGE);
        batch_refuse(b, &f);
        return;
    }
    sight(&a->operation, &a->caller, known, refuse);
}

enum err batch_count(const struct json *list, const char *name, size_t *ret, struct fault *f)
{
    if (list->type != JSON_ARRAY) return member_refuse(f, ERR_WRONG_TYPE, name, "must be an array");
    if (list->count > LIMIT_BATCH)
        return member_refuse(f, ERR_OUT_OF_RANGE, name, "has more than 100 items");
    *ret = list->count;
    return ERR_OK;
}

struct json *batch_item(const struct json *list, size_t at)
{
    struct json *v = list->child;
    while (at-- > 0) v = v->next;
    return v;
}

/* ---- POST /v1/authorize/batch ---- */

static enum err prepare(struct batch *b, struct fault *f)
{
    struct authorization *a = &b->r.a;
    struct json *item = batch_item(json_get(b->body, STR("requests")), b->at);
    if (item->type != JSON_OBJECT)
        return fault_set(f, ERR_WRONG_TYPE, "", "a request must be an object");
    item->key = (struct str){0};
    a->body = item;
    a->form = auth_request_form_of(item);
    return ERR_OK;
}

static struct str answered(struct batch *b, const struct fault *f, bool *ret_ends)
{
    struct authorization *a = &b->r.a;
    (void)ret_ends;
    if (f == NULL) return a->d.answer;
    size_t most = 16 * sizeof *f;
    char *bytes = arena_bytes(a->operation.arena, most);
    if (bytes == NULL) return STR("");
    struct buf out = buf_over(bytes, most);
    buf_printf(&out, "{\"status\":%d,", err_status(f->err));
    api_put_fault(&out, f, a->ask.trace_id);
    buf_put_byte(&out, '}');
    check(!out.overflow);
    return buf_view(&out);
}

void authorize_batch_handle(void *context, struct http_exchange *x)
{
    struct batch *b = batch_begin(context, x, sizeof(struct batch));
    if (b == NULL) return;
    struct fault f;
    const struct json *list = json_get(b->body, STR("requests"));
    enum err err = list == NULL ? member_refuse(&f, ERR_MISSING_MEMBER, "requests", "is required")
                                : batch_count(list, "requests", &b->count, &f);
    if (err == ERR_OK && b->count == 0)
        err = member_refuse(&f, ERR_OUT_OF_RANGE, "requests", "must not be empty");
    if (err != ERR_OK) {
        batch_refuse(b, &f);
        return;
    }
    b->prepare = prepare;
    b->answered = answered;
    b->before = STR("{\"decisions\":[");
    b->behind = STR("]}");
    batch_start(b);
}
