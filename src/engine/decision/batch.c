/* batch.c - the items of a batch, one after the other; and POST /v1/authorize/batch.
 *
 * An item is an authorization, entered from a step and left for the next one: the operation has one
 * loop for both, and the stack does not grow with the number of items. */
#include "engine/decision/batch.h"
#include "engine/handlers.h"

#include "base/check.h"
#include "base/limits.h"
#include "engine/runtime/member.h"
#include "engine/runtime/sight.h"

static struct batch *of(struct operation *e) { return (struct batch *)(void *)e; }

enum { BATCH_TURN_NS = 1000000 }; /* then others are served before its next item */

/* What holds from batch_start() on. */
static void batch_check(const struct batch *b)
{
    check(b->count <= LIMIT_BATCH && b->at <= b->count && b->answers != NULL);
    check(b->prepare != NULL && b->answered != NULL);
    check(!str_is_absent(b->before) || b->count == 1); /* one answer needs no frame */
}

/* The places in the table. */
enum { ITEM_BYTES_MAX = 4 << 20 }; /* to look at one, at a replica */
enum { BATCH_CONFIRM_TOKEN, BATCH_BEGIN, BATCH_FOLLOW, BATCH_ITEM, BATCH_ANSWERED, BATCH_FINISH };

enum step_result batch_refuse(struct batch *b, const struct fault *f)
{
    check(f->err != ERR_OK);
    b->r.a.parent = NULL;
    return authorization_refuse(&b->r.a.operation, f);
}

static enum step_result refuse(struct operation *e, const struct fault *f)
{
    return batch_refuse(of(e), f);
}

static enum step_result finish(struct operation *e)
{
    struct batch *b = of(e);
    batch_check(b);
    check(b->at == b->count);
    struct arena *arena = b->r.a.operation.arena;
    size_t most = b->before.size + b->behind.size + b->at;
    for (size_t i = 0; i < b->at; i++) most += b->answers[i].size;
    char *bytes = arena_bytes(arena, most);
    struct fault f;
    if (bytes == NULL || arena->overflow || arena->starved) {
        (void)fault_set(&f, ERR_BODY_TOO_LARGE, "",
                        "the batch needs more memory than one request may use; send fewer items");
        return batch_refuse(b, &f);
    }
    struct buf out = buf_over(bytes, most);
    buf_put(&out, b->before);
    for (size_t i = 0; i < b->at; i++) {
        if (i > 0) buf_put_byte(&out, ',');
        buf_put(&out, b->answers[i]);
    }
    buf_put(&out, b->behind);
    check(!out.overflow);
    return operation_reply(e, 200, buf_view(&out), (struct str){0});
}

/* The item at hand, as a request of its own. */
static enum err read_item(struct batch *b, struct fault *f)
{
    batch_check(b);
    struct authorization *a = &b->r.a;
    struct operation *e = &a->operation;
    authorization_renew(a);
    e->caller = b->caller;
    if (!str_is_absent(b->retry_header))
        a->retry_header = arena_printf(e->arena, "%.*s/%zu", STR_FORMAT(b->retry_header), b->at);
    enum err err = b->prepare(b, f);
    if (err == ERR_OK) err = authorization_may(a, f);
    if (err == ERR_OK) err = authorization_read(a, (struct str){0}, f);
    return err;
}

static enum step_result item(struct operation *e)
{
    struct batch *b = of(e);
    struct fault f;
    if (b->at == b->count) return operation_go(e, BATCH_FINISH);
    if (world_monotonic_ns() - b->turn_ns > BATCH_TURN_NS) return operation_yield(e);
    if (read_item(b, &f) != ERR_OK) return authorization_refuse(e, &f);
    return operation_enter(e, &authorization_process, AUTH_FOLLOW);
}

/* Its memory is given back: the item is read again when it is decided. */
static bool item_touches_state(struct batch *b)
{
    struct arena *arena = b->r.a.operation.arena;
    struct fault f;
    const struct arena before = arena_begin_aside(arena, ITEM_BYTES_MAX);
    struct api *owes = b->caller.owes; /* the item counts when it is decided */
    b->caller.owes = NULL;
    const bool touches = read_item(b, &f) == ERR_OK && authorization_touches_state(&b->r.a);
    const bool is_unknown = arena->overflow;
    arena_end_aside(arena, &before);
    b->caller.owes = owes;
    return touches || is_unknown;
}

/* At a replica, the next item, before any is decided: else one could be decided twice. */
static enum step_result follow(struct operation *e)
{
    struct batch *b = of(e);
    const bool follows = e->engine_reactor->relaying.follows;
    if (!follows || b->at == b->count) {
        b->at = 0;
        return operation_go(e, BATCH_ITEM);
    }
    if (world_monotonic_ns() - b->turn_ns > BATCH_TURN_NS) {
        if (e->x != NULL) e->request = forward_request_copy(e->x, e->arena);
        return operation_yield(e);
    }
    if (item_touches_state(b)) return operation_relay(e);
    b->at++;
    return operation_go(e, BATCH_FOLLOW);
}

static enum step_result followed(struct operation *e)
{
    of(e)->turn_ns = world_monotonic_ns();
    return operation_go(e, BATCH_FOLLOW);
}

/* Behind a yield. */
static enum step_result continued(struct operation *e)
{
    of(e)->turn_ns = world_monotonic_ns();
    return operation_go(e, BATCH_ITEM);
}

static enum step_result answered(struct operation *e)
{
    struct batch *b = of(e);
    batch_check(b);
    check(b->at < b->count);
    const struct fault f = b->r.a.fault;
    struct str answer = {0};
    bool ends = false;
    enum step_result r = b->answered(b, f.err == ERR_OK ? NULL : &f, &answer, &ends);
    if (r != STEP_NEXT || str_is_absent(answer)) return r;
    b->answers[b->at++] = answer;
    if (ends) b->count = b->at;
    return operation_go(e, BATCH_ITEM);
}

static enum step_result begin(struct operation *e)
{
    struct batch *b = of(e);
    batch_check(b);
    check(b->at == 0 && b->r.a.parent == NULL);
    b->caller = e->caller;
    b->turn_ns = world_monotonic_ns();
    b->r.a.parent = e->process;
    b->r.a.parent_step = BATCH_ANSWERED;
    /* Its one reply waits for one durability. So all items of a leader's batch go to the log. */
    const struct engine *engine = e->engine_reactor->engine;
    if (engine->member != NULL && engine_owns_state(engine))
        operation_barrier(e, (struct http_barrier){.lane = LANE_LOG});
    return STEP_NEXT;
}

static const struct step steps[] = {[BATCH_CONFIRM_TOKEN] = SIGHT_STEP,
                                    [BATCH_BEGIN] = {"begin", begin, NULL},
                                    [BATCH_FOLLOW] = {"relay what touches state", follow, followed},
                                    [BATCH_ITEM] = {"decide an item", item, continued},
                                    [BATCH_ANSWERED] = {"keep its answer", answered, NULL},
                                    [BATCH_FINISH] = {"finish", finish, NULL}};
static const struct process batch_process = PROCESS(steps, .refuse = refuse);

struct batch *batch_begin(struct engine_reactor *w, struct http_exchange *x, size_t size)
{
    struct batch *b = authorization_begin(w, x, size);
    if (b == NULL) return NULL;
    struct authorization *a = &b->r.a;
    struct fault f;
    enum err err =
        api_admit(&w->api, x, x->route->roles, a->tools.now_ms, &a->operation.caller, &f);
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
    check(b->answers == NULL && b->count <= LIMIT_BATCH);
    b->answers = arena_array(a->operation.arena, struct str, b->count + 1);
    if (b->answers == NULL) {
        (void)fault_plain(&f, ERR_BODY_TOO_LARGE);
        batch_refuse(b, &f);
        return;
    }
    /* the first item was counted at admission */
    if (b->count > 1) api_spend(&a->operation.caller.metered, RATE_REQUESTS, b->count - 1);
    operation_start(&a->operation, &batch_process, BATCH_CONFIRM_TOKEN);
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
    check(at < list->count);
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

static enum step_result item_answered(struct batch *b, const struct fault *f, struct str *ret,
                                      bool *ret_ends)
{
    struct authorization *a = &b->r.a;
    (void)ret_ends;
    *ret = a->d.answer;
    if (f == NULL) return STEP_NEXT;
    size_t most = 16 * sizeof *f;
    char *bytes = arena_bytes(a->operation.arena, most);
    *ret = STR(""); /* finish() refuses: the arena is full */
    if (bytes == NULL) return STEP_NEXT;
    struct buf out = buf_over(bytes, most);
    buf_printf(&out, "{\"status\":%d,", err_status(f->err));
    api_put_fault(&out, f, a->ask.trace_id);
    buf_put_byte(&out, '}');
    check(!out.overflow);
    *ret = buf_view(&out);
    return STEP_NEXT;
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
    b->answered = item_answered;
    b->before = STR("{\"decisions\":[");
    b->behind = STR("]}");
    batch_start(b);
}
