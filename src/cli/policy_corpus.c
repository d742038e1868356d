/* policy_corpus.c - reads recorded requests, one JSON object a line, for another evaluation.
 *
 * A line is an event of the audit trail (`writ audit query --json`; also a whole page of them), or
 * a request as it is sent on any of the three routes, or a request of a document's tests
 * ({"request": …}). Events that are no decisions and dry runs are skipped, and so are members that
 * are not part of the request or of what became of it.
 *
 * Some values are not in the record: a token's own scope, approvals, and values that were masked or
 * left out because of their size. The report counts the requests with such values. */
#include "base/time.h"
#include "base/world.h"
#include "cli/policy.h"

enum { SCOPES_MAX = 64 };

struct reading {
    struct arena *arena;
    const struct json *line;
    const struct json *context; /* an object, or NULL */
    struct fault *fault;
};

/* The member in either casing; null counts as absent. */
static const struct json *member_of(const struct json *object, const char *snake, const char *camel)
{
    const struct json *v = json_get(object, str_from(snake));
    if (v == NULL && camel != NULL) v = json_get(object, str_from(camel));
    return v == NULL || v->type == JSON_NULL ? NULL : v;
}

/* The same, or a member of the context. */
static const struct json *member_of_either(const struct reading *r, const char *snake,
                                           const char *camel)
{
    const struct json *v = member_of(r->line, snake, camel);
    return v == NULL && r->context != NULL ? member_of(r->context, snake, camel) : v;
}

static bool read_text(const struct reading *r, const struct json *v, const char *name,
                      struct str *ret)
{
    *ret = (struct str){0};
    if (v == NULL || (json_is_string(v) && v->string.size == 0)) return true;
    if (json_is_string(v)) {
        *ret = v->string;
        return true;
    }
    (void)fault_set(r->fault, ERR_WRONG_TYPE, name, "%s: has to be a string", name);
    return false;
}

static bool read_map(const struct reading *r, const char *name, const struct json **ret)
{
    const struct json *v = member_of(r->line, name, NULL);
    *ret = v;
    if (v == NULL || v->type == JSON_OBJECT) return true;
    (void)fault_set(r->fault, ERR_WRONG_TYPE, name, "%s: has to be an object", name);
    return false;
}

static bool no_memory(const struct reading *r)
{
    (void)fault_set(r->fault, ERR_FULL, "", "there is not enough memory");
    return false;
}

/* ---- context ---- */

static bool is_told_apart(struct str key)
{
    static const char *const names[] = {"confidence", "scope",    "acting_for",
                                        "actingFor",  "trace_id", "traceId"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (str_equal(key, str_from(names[i]))) return true;
    return false;
}

static struct json *copy_of(struct arena *arena, const struct json *v)
{
    struct json *copy = arena_new(arena, struct json);
    if (copy == NULL) return NULL;
    *copy = *v;
    copy->next = NULL;
    return copy;
}

/* The context as conditions see it: without the members that are read from it. */
static bool read_context(struct reading *r, struct policy_request *q)
{
    const struct json *v = member_of(r->line, "context", NULL);
    if (v != NULL && v->type != JSON_OBJECT && v->type != JSON_STRING) {
        (void)fault_set(r->fault, ERR_WRONG_TYPE, "context",
                        "context: has to be an object or a string");
        return false;
    }
    q->context = v;
    if (!json_is_object(v)) return true;
    r->context = v;
    struct json *whole = copy_of(r->arena, v);
    if (whole == NULL) return no_memory(r);
    struct json **tail = &whole->child;
    whole->child = NULL;
    whole->count = 0;
    for (const struct json *m = v->child; m != NULL; m = m->next) {
        if (q->kind == SUBJECT_AGENT && is_told_apart(m->key)) continue;
        if ((*tail = copy_of(r->arena, m)) == NULL) return no_memory(r);
        tail = &(*tail)->next;
        whole->count++;
    }
    q->context = whole;
    return true;
}

/* ---- members of agents ---- */

/* A queried event (one with the time when it was stored) has confidence 0 if the request had none,
 * too. confidence_used distinguishes the two. */
static bool is_blank(const struct reading *r, const struct json *confidence)
{
    return json_is_number(confidence) && confidence->number == 0 &&
           json_get(r->line, STR("created_at")) != NULL &&
           json_get(r->line, STR("confidence_used")) == NULL;
}

static bool read_confidence(const struct reading *r, struct policy_request *q)
{
    const struct json *v = member_of_either(r, "confidence", NULL);
    if (v == NULL || is_blank(r, v)) return true;
    if (json_is_number(v) && v->number >= 0 && v->number <= 1) {
        q->has_confidence = true;
        q->confidence = v->number;
        return true;
    }
    (void)fault_set(r->fault, ERR_OUT_OF_RANGE, "confidence",
                    "confidence: has to be a number from 0 to 1");
    return false;
}

static bool add_scope(const struct reading *r, struct str *list, struct policy_request *q,
                      struct str glob)
{
    if (glob.size == 0) return true;
    if (q->scope_count == SCOPES_MAX) {
        (void)fault_set(r->fault, ERR_OUT_OF_RANGE, "scope", "scope: has more than %d entries",
                        SCOPES_MAX);
        return false;
    }
    list[q->scope_count++] = glob;
    return true;
}

/* Globs with spaces between, or a list of them. */
static bool read_scope(const struct reading *r, struct policy_request *q)
{
    const struct json *v = member_of_either(r, "scope", NULL);
    if (v == NULL || (json_is_string(v) && v->string.size == 0)) return true;
    struct str *list = arena_array(r->arena, struct str, SCOPES_MAX);
    if (list == NULL) return no_memory(r);
    q->has_scope = true;
    q->scope = list;
    bool good = json_is_string(v) || json_is_array(v);
    if (json_is_string(v)) {
        struct str rest = v->string, part;
        while (str_split(&rest, ' ', &part))
            if (!add_scope(r, list, q, part)) return false;
    } else if (good) {
        for (const struct json *e = v->child; e != NULL && good; e = e->next) {
            good = json_is_string(e);
            if (good && !add_scope(r, list, q, e->string)) return false;
        }
    }
    if (!good)
        (void)fault_set(r->fault, ERR_WRONG_TYPE, "scope",
                        "scope: has to be a string or a list of strings");
    return good;
}

/* ---- resource ---- */

/* An event has the properties in a member of their own. */
static const struct json *with_properties(struct arena *arena, const struct json *object,
                                          const struct json *properties)
{
    if (properties == NULL || json_get(object, STR("properties")) != NULL) return object;
    struct json *whole = copy_of(arena, object), *member = copy_of(arena, properties);
    if (whole == NULL || member == NULL) return NULL;
    member->key = STR("properties");
    member->next = whole->child;
    whole->child = member;
    whole->count++;
    return whole;
}

static bool read_resource(const struct reading *r, struct policy_request *q)
{
    const struct json *v = member_of(r->line, "resource", NULL),
                      *properties = member_of(r->line, "resource_properties", NULL);
    if (v == NULL && !json_is_object(properties)) return true;
    static const struct json empty = {.type = JSON_OBJECT};
    if (v == NULL) v = &empty;
    if (!json_is_object(v) && (!json_is_string(v) || v->string.size == 0)) {
        (void)fault_set(r->fault, ERR_WRONG_TYPE, "resource",
                        "resource: has to be \"type:id\" or an object");
        return false;
    }
    const struct json *object =
        json_is_string(v) ? policy_resource_of_text(v->string, r->arena) : v;
    if (object != NULL && json_is_object(properties))
        object = with_properties(r->arena, object, properties);
    return (object != NULL && policy_name_resource(q, object, r->arena)) || no_memory(r);
}

/* ---- the whole ---- */

static bool read_subject(const struct reading *r, struct policy_request *q)
{
    if (!read_text(r, member_of(r->line, "actor", NULL), "actor", &q->actor) ||
        !read_text(r, member_of(r->line, "user_id", "userId"), "user_id", &q->user))
        return false;
    if (str_is_absent(q->actor) == str_is_absent(q->user)) {
        (void)fault_set(r->fault, ERR_MISSING_MEMBER, "actor", "names %s",
                        str_is_absent(q->actor) ? "neither actor nor user_id"
                                                : "both actor and user_id");
        return false;
    }
    q->kind = str_is_absent(q->actor) ? SUBJECT_USER : SUBJECT_AGENT;
    return true;
}

static bool read_action(const struct reading *r, struct policy_request *q)
{
    if (!read_text(r, member_of(r->line, "action", "tool"), "action", &q->action)) return false;
    if (!str_is_absent(q->action)) return true;
    (void)fault_set(r->fault, ERR_MISSING_MEMBER, "action", "names no action");
    return false;
}

static bool read_when(const struct reading *r, struct policy_request *q)
{
    struct str text;
    q->now_ms = world_now_ms();
    if (!read_text(r, member_of(r->line, "timestamp", NULL), "timestamp", &text)) return false;
    if (str_is_absent(text) || time_read(text, &q->now_ms)) return true;
    (void)fault_set(r->fault, ERR_BAD_VALUE, "timestamp",
                    "timestamp: has to be a time such as 2026-11-20T09:30:00Z");
    return false;
}

static bool is_other_event(const struct json *line)
{
    struct str kind = json_text(line, STR("kind"));
    if (str_equal(json_text(line, STR("mode")), STR("dry_run"))) return true;
    return !str_is_absent(kind) && !str_equal(kind, STR("decision")) &&
           !str_equal(kind, STR("agent")) && !str_equal(kind, STR("user"));
}

/* An event that another system posted may have no subject or action. It is then no request. */
static bool is_event_without_question(const struct json *line)
{
    bool has_actor = json_text(line, STR("actor")).size > 0,
         has_user = json_text(line, STR("user_id")).size > 0,
         has_action = json_text(line, STR("action")).size > 0;
    return json_get(line, STR("event_id")) != NULL && (has_actor == has_user || !has_action);
}

/* What became of it. */
static void read_outcome(const struct json *line, struct policy_recorded *ret)
{
    struct str decision = json_text(line, STR("decision")), rule = json_text(line, STR("rule"));
    bool is_denied = str_equal(decision, STR("deny"));
    ret->was_let_through = str_equal(decision, STR("allow")) || str_equal(decision, STR("compute"));
    ret->is_redemption = json_text(line, STR("redemption_id")).size > 0;
    ret->is_counted =
        !is_denied || !(str_starts(rule, STR("token:")) || str_starts(rule, STR("actor:")) ||
                        str_starts(rule, STR("review:")));
    ret->retry = json_text(line, STR("idempotency_key"));
    ret->key_id = json_text(line, STR("key_id"));
    const struct json *id = json_get(line, STR("id"));
    if (json_is_number(id) && id->number > 0 && id->number < 9e15)
        ret->order = (uint64_t)id->number;
}

enum recorded policy_recorded_read(const struct json *line, struct arena *arena,
                                   struct policy_recorded *ret, struct fault *f)
{
    *ret = (struct policy_recorded){0};
    if (!json_is_object(line)) {
        (void)fault_set(f, ERR_WRONG_TYPE, "", "is no JSON object");
        return RECORDED_WRONG;
    }
    const struct json *inner = json_get(line, STR("request"));
    if (is_other_event(line) || is_event_without_question(line)) return RECORDED_OTHER;
    struct reading r = {.arena = arena, .line = json_is_object(inner) ? inner : line, .fault = f};
    struct policy_request *q = &ret->request;
    struct str tenant;
    bool good = read_subject(&r, q) && read_action(&r, q) && read_map(&r, "args", &q->args) &&
                read_context(&r, q) && read_resource(&r, q) && read_when(&r, q) &&
                read_text(&r, member_of(r.line, "tenant_id", "tenantId"), "tenant_id", &tenant);
    if (good && q->kind == SUBJECT_AGENT)
        good = read_confidence(&r, q) && read_scope(&r, q) &&
               read_text(&r, member_of_either(&r, "acting_for", "actingFor"), "acting_for",
                         &q->acting_for);
    if (!good) return RECORDED_WRONG;
    q->tenant = str_is_absent(tenant) ? STR("default") : tenant;
    read_outcome(line, ret);
    ret->is_cut =
        policy_is_cut(q->args) || policy_is_cut(q->context) || policy_is_cut(q->resource_object);
    return RECORDED_REQUEST;
}
