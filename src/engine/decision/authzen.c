/* authzen.c - OpenID AuthZEN Authorization API 1.0: evaluation, evaluations, metadata.
 *
 * An evaluation is changed into the body of the user route (subject.type is `user`) or of the agent
 * route (`agent`), and decided as that:
 *
 *   subject.id          user_id, or actor        action.name         action
 *   subject.properties  context.subject          action.properties   args
 *   resource            resource                 context             context, without `enqueue`
 *   context.tool_call_id, context.conversation_id                    the members of these names
 *
 * `decision` is true for a live allow alone; `context` is the decision as the other routes have it.
 * A human_review opens no review unless context.enqueue is true. Then the repeat of a request whose
 * review is approved redeems it: the item is read again and becomes a redemption. */
#include "base/check.h"
#include "base/limits.h"
#include "engine/handlers.h"
#include "engine/decision/batch.h"
#include "engine/runtime/member.h"

static const char *const semantics[] = {"execute_all", "deny_on_first_deny",
                                        "permit_on_first_permit"};
enum semantic { EXECUTE_ALL, DENY_ON_FIRST_DENY, PERMIT_ON_FIRST_PERMIT, SEMANTICS };

_Static_assert(sizeof semantics / sizeof *semantics == SEMANTICS, "each semantic has a name");

struct evaluations {
    struct batch b; /* first */
    enum semantic semantic;
    bool has_list; /* the route takes `evaluations`; elsewhere that is an unknown member */
};

/* ---- building the body ---- */

static struct json *named(struct arena *arena, const char *name, const struct json *value)
{
    struct json *v = arena_new(arena, struct json);
    if (v == NULL) return NULL;
    if (value != NULL) *v = *value;
    v->key = str_from(name);
    v->plain_key = true;
    v->next = NULL;
    return v;
}

static void add(struct json *object, struct json *member)
{
    if (member == NULL) return;
    check(object->type == JSON_OBJECT && member->next == NULL);
    struct json **at = &object->child;
    while (*at != NULL) at = &(*at)->next;
    *at = member;
    object->count++;
}

static void add_copy(struct arena *arena, struct json *object, const char *name,
                     const struct json *value)
{
    if (value != NULL) add(object, named(arena, name, value));
}

/* Its source is the whole request, which bounds its canonical form (json_canonical_most). */
static struct json *new_object(const struct batch *b, const char *name)
{
    struct json *v = named(b->r.a.operation.arena, name, NULL);
    if (v == NULL) return NULL;
    v->type = JSON_OBJECT;
    v->raw = b->text;
    return v;
}

/* ---- shapes ---- */

static enum err refuse_at(struct fault *f, enum err err, const char *object, const char *member,
                          const char *what)
{
    check(err != ERR_OK);
    char field[64];
    struct buf b = buf_over(field, sizeof field - 1);
    buf_printf(&b, "/%s%s%s", object, member[0] != 0 ? "/" : "", member);
    check(!b.overflow);
    field[b.size] = 0;
    return fault_set(f, err, field, "%s%s%s: %s", object, member[0] != 0 ? "." : "", member, what);
}

static enum err want_text(const struct json *object, const char *name, const char *member,
                          struct fault *f)
{
    const struct json *v = json_get(object, str_from(member));
    if (v == NULL) return refuse_at(f, ERR_MISSING_MEMBER, name, member, "is required");
    if (v->type != JSON_STRING)
        return refuse_at(f, ERR_WRONG_TYPE, name, member, "must be a string");
    if (v->string.size == 0)
        return refuse_at(f, ERR_OUT_OF_RANGE, name, member, "must not be empty");
    return ERR_OK;
}

/* An object with these texts, and perhaps `properties`. */
static enum err want_entity(const struct json *v, const char *name, const char *first,
                            const char *second, struct fault *f)
{
    if (v == NULL) return refuse_at(f, ERR_MISSING_MEMBER, name, "", "is required");
    if (v->type != JSON_OBJECT) return refuse_at(f, ERR_WRONG_TYPE, name, "", "must be an object");
    enum err err = want_text(v, name, first, f);
    if (err == ERR_OK && second != NULL) err = want_text(v, name, second, f);
    const struct json *p = json_get(v, STR("properties"));
    if (err == ERR_OK && p != NULL && p->type != JSON_OBJECT)
        err = refuse_at(f, ERR_WRONG_TYPE, name, "properties", "must be an object");
    return err;
}

static enum err read_enqueue(const struct json *context, bool *ret, struct fault *f)
{
    const struct json *v = json_get(context, STR("enqueue"));
    *ret = v != NULL && v->type == JSON_TRUE;
    if (v == NULL || json_is_bool(v)) return ERR_OK;
    return refuse_at(f, ERR_WRONG_TYPE, "context", "enqueue", "must be true or false");
}

static enum err put_context(const struct batch *b, struct json *body, const struct json *context,
                            const struct json *properties, struct fault *f)
{
    struct arena *arena = b->r.a.operation.arena;
    struct json *object = new_object(b, "context");
    if (object == NULL) return fault_plain(f, ERR_BODY_TOO_LARGE);
    const struct json *v = context == NULL ? NULL : context->child;
    for (; v != NULL; v = v->next) {
        if (str_equal(v->key, STR("enqueue"))) continue;
        bool is_top =
            str_equal(v->key, STR("tool_call_id")) || str_equal(v->key, STR("conversation_id"));
        if (properties != NULL && str_equal(v->key, STR("subject")))
            return refuse_at(f, ERR_CONFLICTING_MEMBER, "context", "subject",
                             "subject.properties has this place; use another name");
        if (is_top && v->type != JSON_STRING && v->type != JSON_NULL)
            return refuse_at(f, ERR_WRONG_TYPE, "context",
                             v->key.size == sizeof "tool_call_id" - 1 ? "tool_call_id"
                                                                      : "conversation_id",
                             "must be a string");
        struct json *copy = arena_new(arena, struct json);
        if (copy == NULL) return fault_plain(f, ERR_BODY_TOO_LARGE);
        *copy = *v;
        copy->next = NULL;
        add(is_top ? body : object, copy);
    }
    add_copy(arena, object, "subject", properties);
    if (object->count > 0) add(body, object);
    return ERR_OK;
}

/* The member of this item, or the one of the whole request that it does not have. */
static struct json *member_of(const struct batch *b, const struct json *item, const char *name)
{
    struct json *v = item == NULL ? NULL : json_get(item, str_from(name));
    return v != NULL ? v : json_get(b->body, str_from(name));
}

static enum err read_parts(const struct batch *b, const struct json *item, struct json **subject,
                           struct json **action, struct json **resource, struct json **context,
                           struct fault *f)
{
    *subject = member_of(b, item, "subject");
    *action = member_of(b, item, "action");
    *resource = member_of(b, item, "resource");
    *context = member_of(b, item, "context");
    enum err err = want_entity(*subject, "subject", "type", "id", f);
    if (err == ERR_OK) err = want_entity(*action, "action", "name", NULL, f);
    if (err == ERR_OK) err = want_entity(*resource, "resource", "type", "id", f);
    if (err == ERR_OK && *context != NULL && (*context)->type != JSON_OBJECT)
        err = refuse_at(f, ERR_WRONG_TYPE, "context", "", "must be an object");
    return err;
}

static enum err translate(struct batch *b, const struct json *item, struct fault *f)
{
    struct authorization *a = &b->r.a;
    struct arena *arena = a->operation.arena;
    struct json *subject, *action, *resource, *context;
    bool enqueues = false;
    enum err err = read_parts(b, item, &subject, &action, &resource, &context, f);
    if (err == ERR_OK) err = read_enqueue(context, &enqueues, f);
    if (err != ERR_OK) return err;
    struct str type = json_text(subject, STR("type"));
    bool is_user = str_equal(type, STR("user"));
    if (!is_user && !str_equal(type, STR("agent")))
        return refuse_at(f, ERR_BAD_VALUE, "subject", "type", "must be user or agent");
    struct json *body = new_object(b, "");
    if (body == NULL) return fault_plain(f, ERR_BODY_TOO_LARGE);
    add_copy(arena, body, is_user ? "user_id" : "actor", json_get(subject, STR("id")));
    add_copy(arena, body, "action", json_get(action, STR("name")));
    add_copy(arena, body, "args", json_get(action, STR("properties")));
    add_copy(arena, body, "resource", resource);
    err = put_context(b, body, context, json_get(subject, STR("properties")), f);
    if (err != ERR_OK) return err;
    if (arena->overflow) return fault_plain(f, ERR_BODY_TOO_LARGE);
    a->form = is_user ? ASK_USER : ASK_AGENT;
    a->body = body;
    a->tools.asks_nobody = !enqueues;
    return ERR_OK;
}

static const struct json *item_of(const struct batch *b, struct fault *f)
{
    const struct evaluations *all = (const struct evaluations *)(const void *)b;
    const struct json *list = all->has_list ? json_get(b->body, STR("evaluations")) : NULL;
    if (list == NULL || list->count == 0) return NULL;
    const struct json *item = batch_item(list, b->at);
    if (item->type == JSON_OBJECT) return item;
    (void)fault_set(f, ERR_WRONG_TYPE, "/evaluations", "an evaluation must be an object");
    return item;
}

static enum err prepare(struct batch *b, struct fault *f)
{
    const struct json *item = item_of(b, f);
    if (item != NULL && item->type != JSON_OBJECT) return ERR_WRONG_TYPE;
    return translate(b, item, f);
}

/* ---- answers ---- */

static struct str put_decision(struct batch *b, bool permits)
{
    check(!str_is_absent(b->r.a.d.answer));
    struct str answer = arena_printf(b->r.a.operation.arena, "{\"decision\":%s,\"context\":%.*s}",
                                     permits ? "true" : "false", STR_FORMAT(b->r.a.d.answer));
    return str_is_absent(answer) ? STR("") : answer; /* batch.c refuses: the arena is full */
}

static struct str put_error(struct batch *b, const struct fault *f)
{
    check(f->err != ERR_OK);
    size_t most = 16 * sizeof *f;
    char *bytes = arena_bytes(b->r.a.operation.arena, most);
    if (bytes == NULL) return STR("");
    struct buf out = buf_over(bytes, most);
    buf_printf(&out, "{\"decision\":false,\"context\":{\"error\":{\"status\":%d,\"message\":",
               err_status(f->err));
    api_put_sentence(&out, str_from(f->text));
    buf_printf(&out, ",\"code\":\"%s\"}}}", err_code(f->err));
    check(!out.overflow);
    return buf_view(&out);
}

/* The present item once more, as a redemption of its approved review. The first reading was
 * masked. */
static enum err read_again(struct batch *b, struct fault *f)
{
    static const struct json_options options = {0};
    struct id review = b->r.a.d.review;
    authorization_renew(&b->r.a);
    b->r.a.operation.caller = b->caller;
    b->r.review = review;
    enum err err = json_read(b->text, &options, b->r.a.operation.arena, &b->body, f);
    return err == ERR_OK ? prepare(b, f) : err;
}

static bool becomes_redemption(const struct authorization *a)
{
    return a->kind != AUTHORIZATION_REDEMPTION && a->d.outcome.verdict == VERDICT_HUMAN_REVIEW &&
           a->d.review_is_approved && !a->tools.asks_nobody;
}

static enum step_result answered(struct batch *b, const struct fault *f, struct str *ret,
                                 bool *ret_ends)
{
    struct authorization *a = &b->r.a;
    const enum semantic s = ((struct evaluations *)(void *)b)->semantic;
    struct fault again;
    check(s < SEMANTICS);
    if (f == NULL && becomes_redemption(a)) {
        struct str tenant = a->ask.policy.tenant;
        if (read_again(b, &again) == ERR_OK) {
            a->operation.caller.tenant = tenant;
            return redeem_enter(&b->r);
        }
        f = &again;
    }
    bool permits = f == NULL && a->d.outcome.verdict == VERDICT_ALLOW;
    *ret_ends = (s == DENY_ON_FIRST_DENY && !permits) || (s == PERMIT_ON_FIRST_PERMIT && permits);
    *ret = f == NULL ? put_decision(b, permits) : put_error(b, f);
    return STEP_NEXT;
}

/* One evaluation: a request that cannot be judged is an error of its own. */
static enum step_result answered_one(struct batch *b, const struct fault *f, struct str *ret,
                                     bool *ret_ends)
{
    return f == NULL ? answered(b, f, ret, ret_ends) : batch_refuse(b, f);
}

/* ---- routes ---- */

static struct batch *begin(struct engine_reactor *w, struct http_exchange *x)
{
    struct batch *b = batch_begin(w, x, sizeof(struct evaluations));
    if (b == NULL) return NULL;
    b->prepare = prepare;
    b->answered = answered_one;
    b->count = 1;
    return b;
}

void authzen_evaluation_handle(void *context, struct http_exchange *x)
{
    struct batch *b = begin(context, x);
    if (b != NULL) batch_start(b);
}

static enum err read_semantic(const struct json *body, enum semantic *ret, struct fault *f)
{
    const struct json *options = json_get(body, STR("options"));
    *ret = EXECUTE_ALL;
    if (options == NULL) return ERR_OK;
    if (options->type != JSON_OBJECT)
        return refuse_at(f, ERR_WRONG_TYPE, "options", "", "must be an object");
    const struct json *v = json_get(options, STR("evaluations_semantic"));
    if (v == NULL) return ERR_OK;
    for (unsigned i = 0; v->type == JSON_STRING && i < SEMANTICS; i++) {
        *ret = (enum semantic)i;
        if (str_equal(v->string, str_from(semantics[i]))) return ERR_OK;
    }
    return refuse_at(f, ERR_BAD_VALUE, "options", "evaluations_semantic",
                     "must be execute_all, deny_on_first_deny or permit_on_first_permit");
}

void authzen_evaluations_handle(void *context, struct http_exchange *x)
{
    struct batch *b = begin(context, x);
    if (b == NULL) return;
    ((struct evaluations *)(void *)b)->has_list = true;
    struct fault f;
    size_t count = 0;
    const struct json *list = json_get(b->body, STR("evaluations"));
    enum err err = list == NULL ? ERR_OK : batch_count(list, "evaluations", &count, &f);
    if (err == ERR_OK)
        err = read_semantic(b->body, &((struct evaluations *)(void *)b)->semantic, &f);
    if (err != ERR_OK) {
        batch_refuse(b, &f);
        return;
    }
    if (count > 0) {
        b->count = count;
        b->answered = answered;
        b->before = STR("{\"evaluations\":[");
        b->behind = STR("]}");
    }
    batch_start(b);
}

static void put_endpoint(struct buf *b, const char *name, struct str base, const char *path)
{
    char bytes[1024];
    struct buf url = buf_over(bytes, sizeof bytes);
    buf_put(&url, base);
    buf_put(&url, str_from(path));
    buf_printf(b, "%s\"%s\":", b->size > 1 ? "," : "", name);
    json_put_string(b, url.overflow ? STR("") : buf_view(&url));
}

void authzen_configuration_handle(void *context, struct http_exchange *x)
{
    struct engine_reactor *w = context;
    char bytes[8 << 10], own[512];
    struct buf b = buf_over(bytes, sizeof bytes), base = buf_over(own, sizeof own);
    struct str url = str_from(w->engine->config.public_url);
    if (str_is_empty(url)) {
        buf_put(&base, http_is_over_tls(x) ? STR("https://") : STR("http://"));
        buf_put(&base, http_header_get(x, STR("host")));
        url = base.overflow ? STR("") : buf_view(&base);
    }
    buf_put_byte(&b, '{');
    put_endpoint(&b, "policy_decision_point", url, "");
    put_endpoint(&b, "access_evaluation_endpoint", url, "/access/v1/evaluation");
    put_endpoint(&b, "access_evaluations_endpoint", url, "/access/v1/evaluations");
    buf_put_byte(&b, '}');
    check(!b.overflow);
    api_reply(&w->api, x, 200, buf_view(&b), (struct str){0});
}
