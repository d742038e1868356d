#include "engine/decision/auth_request.h"

#include "base/check.h"
#include "base/limits.h"
#include "engine/runtime/member.h"
#include "pipeline/spans/trace_context.h"

void auth_request_check(const struct auth_request *a)
{
    const struct policy_request *p = &a->policy;
    check(a->body != NULL && !str_is_absent(a->trace_id));
    check(!str_is_absent(p->tenant) && p->action.size > 0);
    check(str_is_absent(p->kind == SUBJECT_USER ? p->actor : p->user));
    check(!str_is_absent(p->kind == SUBJECT_USER ? p->user : p->actor));
    check(p->scope_count <= ASK_SCOPES_MAX && p->token_scope_count <= TOKEN_SCOPES_MAX);
    check(p->has_scope || p->scope_count == 0);
    check(p->has_token_scope || p->token_scope_count == 0);
    check(!p->has_confidence || (p->confidence >= 0.0 && p->confidence <= 1.0));
    check((a->resource == NULL) == (a->resource_sent == NULL));
    check(a->properties == NULL || a->resource != NULL);
}

/* ---- members ---- */

/* Each with its name on the /v1 routes, and on /api/v1. */
#define ASK_MEMBERS(EACH, size)                                                                    \
    EACH(size, ACTION, "action", "tool")                                                           \
    EACH(size, USER, "user_id", "userId")                                                          \
    EACH(size, ACTOR, "actor", "actor")                                                            \
    EACH(size, RESOURCE, "resource", "resource")                                                   \
    EACH(size, ARGS, "args", "args")                                                               \
    EACH(size, CONTEXT, "context", "context")                                                      \
    EACH(size, CONFIDENCE, "confidence", "confidence")                                             \
    EACH(size, ACTING_FOR, "acting_for", "actingFor")                                              \
    EACH(size, SCOPE, "scope", "scope")                                                            \
    EACH(size, TENANT, "tenant_id", "tenantId")                                                    \
    EACH(size, TRACE, "trace_id", "traceId")                                                       \
    EACH(size, TOOL_CALL, "tool_call_id", "toolCallId")                                            \
    EACH(size, CONVERSATION, "conversation_id", "conversationId")

enum auth_request_member {
#define NAME(size, name, snake, camel) MEMBER_##name,
    ASK_MEMBERS(NAME, )
#undef NAME
        MEMBER_COUNT
};

struct spelling {
    struct str snake, camel;
};

static const struct spelling spellings[MEMBER_COUNT] = {
#define SPELLING(size, name, snake, camel) [MEMBER_##name] = {STR(snake), STR(camel)},
    ASK_MEMBERS(SPELLING, )
#undef SPELLING
};

#define BIT(member) (1u << MEMBER_##member)

/* By length, the members that a name may be: most lengths have none, or one. */
#define IF_SIZE(size, name, snake, camel)                                                          \
    | (sizeof snake - 1 == (size) || sizeof camel - 1 == (size) ? BIT(name) : 0u)
#define OF_SIZE(size) [size] = 0u ASK_MEMBERS(IF_SIZE, size)
static const unsigned of_size[] = {OF_SIZE(4), OF_SIZE(5),  OF_SIZE(6),  OF_SIZE(7),  OF_SIZE(8),
                                   OF_SIZE(9), OF_SIZE(10), OF_SIZE(12), OF_SIZE(14), OF_SIZE(15)};
#define SIZE_MAX_KNOWN (sizeof of_size / sizeof *of_size - 1)
#define IS_IN_TABLE(size, name, snake, camel)                                                      \
    _Static_assert(sizeof snake - 1 >= 4 && sizeof snake - 1 <= SIZE_MAX_KNOWN &&                  \
                       sizeof camel - 1 >= 4 && sizeof camel - 1 <= SIZE_MAX_KNOWN,                \
                   "of_size has a place for it");
ASK_MEMBERS(IS_IN_TABLE, )

#define IDS_OF_CALL (BIT(TOOL_CALL) | BIT(CONVERSATION))

/* The members that each form reads at the top and inside `context`. */
static const struct {
    unsigned top, in_context;
} known[] = {
    [ASK_AGENT] = {BIT(ACTION) | BIT(ACTOR) | BIT(RESOURCE) | BIT(ARGS) | BIT(CONTEXT) |
                       BIT(CONFIDENCE) | BIT(ACTING_FOR) | BIT(SCOPE) | BIT(TENANT) | BIT(TRACE) |
                       IDS_OF_CALL,
                   BIT(CONFIDENCE) | BIT(ACTING_FOR) | BIT(SCOPE) | BIT(TRACE)},
    [ASK_TOOL] = {BIT(ACTION) | BIT(ACTOR) | BIT(RESOURCE) | BIT(ARGS) | BIT(CONTEXT) |
                      BIT(CONFIDENCE) | BIT(ACTING_FOR) | BIT(SCOPE) | BIT(TENANT) | BIT(TRACE) |
                      IDS_OF_CALL,
                  BIT(CONFIDENCE) | BIT(ACTING_FOR) | BIT(SCOPE) | BIT(TRACE)},
    [ASK_USER] = {BIT(ACTION) | BIT(USER) | BIT(RESOURCE) | BIT(ARGS) | BIT(CONTEXT) | BIT(TENANT) |
                      BIT(TRACE) | IDS_OF_CALL,
                  0},
};

struct auth_request_members {
    struct json *at[MEMBER_COUNT]; /* NULL: absent or null */
};

static struct str spelling_of(enum auth_request_form form, enum auth_request_member m)
{
    return form == ASK_TOOL ? spellings[m].camel : spellings[m].snake;
}

/* Sorts an object's members into *ret. `where` is "" or "/context". */
static enum err members_read(enum auth_request_form form, unsigned wanted, struct json *object,
                             const char *where, struct auth_request_members *ret, struct fault *f)
{
    enum err err = ERR_OK;
    check(object->type == JSON_OBJECT);
    for (struct json *v = object->child; v != NULL; v = v->next) {
        if (v->key.size > SIZE_MAX_KNOWN) continue;
        for (unsigned left = wanted & of_size[v->key.size]; left != 0; left &= left - 1) {
            unsigned m = (unsigned)__builtin_ctz(left);
            struct str right = spelling_of(form, (enum auth_request_member)m);
            if (str_equal(v->key, right)) {
                ret->at[m] = v->type == JSON_NULL ? NULL : v;
                break;
            }
            struct str wrong = form == ASK_TOOL ? spellings[m].snake : spellings[m].camel;
            if (m != MEMBER_ACTION && err == ERR_OK && str_equal(v->key, wrong)) {
                char field[64];
                struct buf b = buf_over(field, sizeof field - 1);
                buf_put(&b, str_from(where));
                buf_put_byte(&b, '/');
                buf_put(&b, wrong);
                field[b.size] = '\0';
                err = fault_set(f, ERR_WRONG_CASE, field, "%.*s: this route spells it %.*s",
                                STR_FORMAT(wrong), STR_FORMAT(right));
            }
        }
    }
    return err;
}

/* ---- single values ---- */

struct reader {
    const struct auth_request_source *from;
    struct auth_request_members top, inner;
    struct fault *fault;
};

static const char *pointer_of(const struct reader *r, enum auth_request_member m, bool inner,
                              char to[64])
{
    struct buf b = buf_over(to, 63);
    if (inner) buf_put_literal(&b, "/context");
    buf_put_byte(&b, '/');
    buf_put(&b, spelling_of(r->from->form, m));
    check(!b.overflow);
    to[b.size] = '\0';
    return to;
}

static enum err refuse(const struct reader *r, enum err err, enum auth_request_member m, bool inner,
                       const char *what)
{
    check(err != ERR_OK && m < MEMBER_COUNT);
    char field[64];
    return fault_set(r->fault, err, pointer_of(r, m, inner, field), "%.*s: %s",
                     STR_FORMAT(spelling_of(r->from->form, m)), what);
}

/* The JSON reader accepts U+0000 anywhere inside `context`. A value that is compared and recorded
 * as a name may not contain it: the store would refuse the event. */
static enum err refuse_nul(const struct reader *r, enum auth_request_member m, bool inner)
{
    return refuse(r, ERR_BAD_VALUE, m, inner, "must not hold U+0000");
}

/* A string of at most `most` characters; absent if the member is absent, or is "" and may be. */
static enum err text_of(const struct reader *r, enum auth_request_member m, bool inner, size_t most,
                        bool empty_is_absent, struct str *ret)
{
    const struct json *v = inner ? r->inner.at[m] : r->top.at[m];
    *ret = (struct str){0};
    if (v == NULL) return ERR_OK;
    if (v->type != JSON_STRING) return refuse(r, ERR_WRONG_TYPE, m, inner, "must be a string");
    if (v->has_nul) return refuse_nul(r, m, inner);
    if (v->string.size == 0 && empty_is_absent) return ERR_OK;
    if (v->string.size == 0) return refuse(r, ERR_OUT_OF_RANGE, m, inner, "must not be empty");
    if (v->string.size > most && str_code_points(v->string) > most) {
        char what[MEMBER_TOO_LONG_TEXT];
        member_too_long(most, what);
        return refuse(r, ERR_OUT_OF_RANGE, m, inner, what);
    }
    *ret = v->string;
    return ERR_OK;
}

static enum err conflicting(const struct reader *r, enum auth_request_member m)
{
    return refuse(r, ERR_CONFLICTING_MEMBER, m, false,
                  "is given twice, here and in context, with different values");
}

/* Where a text that may be in both places was found: the top comes first, "" counts as none. */
static bool stands_inside(const struct reader *r, enum auth_request_member m)
{
    return r->top.at[m] == NULL || r->top.at[m]->string.size == 0;
}

/* The same, from the top or from `context`. */
static enum err text_of_either(const struct reader *r, enum auth_request_member m, size_t most,
                               struct str *ret)
{
    struct str inner;
    enum err err = text_of(r, m, false, most, true, ret);
    if (err == ERR_OK) err = text_of(r, m, true, most, true, &inner);
    if (err != ERR_OK || str_is_absent(inner)) return err;
    if (!str_is_absent(*ret) && !str_equal(*ret, inner)) return conflicting(r, m);
    *ret = inner;
    return ERR_OK;
}

static enum err confidence_of(const struct reader *r, bool inner, bool *ret_has, double *ret)
{
    const struct json *v = inner ? r->inner.at[MEMBER_CONFIDENCE] : r->top.at[MEMBER_CONFIDENCE];
    *ret_has = v != NULL;
    if (v == NULL) return ERR_OK;
    if (v->type != JSON_NUMBER)
        return refuse(r, ERR_WRONG_TYPE, MEMBER_CONFIDENCE, inner, "must be a number in [0, 1]");
    if (!(v->number >= 0.0 && v->number <= 1.0)) {
        char field[64];
        struct str raw = v->raw.size > 40 ? str_of(v->raw.bytes, 40) : v->raw;
        return fault_set(r->fault, ERR_OUT_OF_RANGE, pointer_of(r, MEMBER_CONFIDENCE, inner, field),
                         "confidence: %.*s is out of range [0, 1]", STR_FORMAT(raw));
    }
    *ret = v->number;
    return ERR_OK;
}

static enum err read_confidence(const struct reader *r, struct policy_request *p)
{
    bool has_inner;
    double inner = 0;
    enum err err = confidence_of(r, false, &p->has_confidence, &p->confidence);
    if (err == ERR_OK) err = confidence_of(r, true, &has_inner, &inner);
    if (err != ERR_OK || !has_inner) return err;
    if (p->has_confidence && p->confidence < inner) return conflicting(r, MEMBER_CONFIDENCE);
    if (p->has_confidence && p->confidence > inner) return conflicting(r, MEMBER_CONFIDENCE);
    p->has_confidence = true;
    p->confidence = inner;
    return ERR_OK;
}

/* ---- scope: globs of actions, in a string or an array ---- */

struct scopes {
    struct str *list;
    size_t count;
    bool given;
};

static enum err scope_add(const struct reader *r, bool inner, struct scopes *s, struct str glob)
{
    check(s->given && s->count <= ASK_SCOPES_MAX);
    if (s->count == ASK_SCOPES_MAX)
        return refuse(r, ERR_OUT_OF_RANGE, MEMBER_SCOPE, inner, "has more than 64 entries");
    if (str_code_points(glob) > LIMIT_ID_CHARACTERS)
        return refuse(r, ERR_OUT_OF_RANGE, MEMBER_SCOPE, inner,
                      "has an entry longer than 256 characters");
    s->list[s->count++] = glob;
    return ERR_OK;
}

static enum err scope_of(const struct reader *r, bool inner, struct scopes *ret)
{
    const struct json *v = inner ? r->inner.at[MEMBER_SCOPE] : r->top.at[MEMBER_SCOPE];
    *ret = (struct scopes){0};
    if (v == NULL || (v->type == JSON_STRING && v->string.size == 0)) return ERR_OK;
    if (v->has_nul) return refuse_nul(r, MEMBER_SCOPE, inner);
    ret->given = true;
    ret->list = arena_array(r->from->arena, struct str, ASK_SCOPES_MAX);
    if (ret->list == NULL) return fault_plain(r->fault, ERR_BODY_TOO_LARGE);
    enum err err = ERR_OK;
    if (v->type == JSON_STRING) {
        struct str rest = v->string, part;
        while (err == ERR_OK && str_split(&rest, ' ', &part))
            if (part.size > 0) err = scope_add(r, inner, ret, part);
        return err;
    }
    if (v->type != JSON_ARRAY)
        return refuse(r, ERR_WRONG_TYPE, MEMBER_SCOPE, inner,
                      "must be a string of action globs, or an array of them");
    for (const struct json *e = v->child; e != NULL && err == ERR_OK; e = e->next) {
        if (e->type != JSON_STRING)
            return refuse(r, ERR_WRONG_TYPE, MEMBER_SCOPE, inner, "must hold strings only");
        if (e->has_nul) return refuse_nul(r, MEMBER_SCOPE, inner);
        err = scope_add(r, inner, ret, e->string);
    }
    return err;
}

static enum err read_scope(const struct reader *r, struct policy_request *p)
{
    struct scopes outer, inner;
    enum err err = scope_of(r, false, &outer);
    if (err == ERR_OK) err = scope_of(r, true, &inner);
    if (err != ERR_OK) return err;
    if (outer.given && inner.given) {
        bool same = outer.count == inner.count;
        for (size_t i = 0; same && i < outer.count; i++)
            same = str_equal(outer.list[i], inner.list[i]);
        if (!same) return conflicting(r, MEMBER_SCOPE);
    }
    struct scopes s = outer.given ? outer : inner;
    check(s.given || s.count == 0);
    p->has_scope = s.given;
    p->scope = s.list;
    p->scope_count = s.count;
    return ERR_OK;
}

/* ---- trace id ---- */

static bool is_alphanumeric(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_trace_id(struct str id)
{
    if (id.size == 0 || id.size > LIMIT_TRACE_ID_BYTES || !is_alphanumeric(id.bytes[0]))
        return false;
    for (size_t i = 1; i < id.size; i++) {
        char c = id.bytes[i];
        if (!is_alphanumeric(c) && c != '.' && c != '_' && c != ':' && c != '-') return false;
    }
    return !id_has_prefix(id);
}

/* The given trace id; absent if there is none. Read before anything else can fail, so that the
 * error has it. */
static enum err read_trace_id(const struct reader *r, struct str *ret)
{
    struct str given;
    struct trace_context context;
    enum err err = text_of_either(r, MEMBER_TRACE, LIMIT_TRACE_ID_BYTES, &given);
    if (err != ERR_OK) return err;
    if (!str_is_absent(given) && !is_trace_id(given))
        return refuse(
            r, ERR_BAD_VALUE, MEMBER_TRACE, stands_inside(r, MEMBER_TRACE),
            "must be 1 to 128 of [A-Za-z0-9._:-], start with a letter or digit, and not look like an id of the engine");
    if (!str_is_absent(given))
        *ret = given;
    else if (trace_context_read(r->from->traceparent, &context))
        *ret = context.trace_text;
    else
        *ret = r->from->trace_id;
    return ERR_OK;
}

/* For the error of a request that failed before its trace id was read. */
static void find_trace_id(const struct reader *r, struct str *ret)
{
    struct fault ignored;
    struct reader quiet = *r;
    quiet.fault = &ignored;
    (void)read_trace_id(&quiet, ret);
}

static enum err make_trace_id(const struct reader *r, struct str *ret)
{
    if (!str_is_absent(*ret)) return ERR_OK;
    char *text = arena_bytes(r->from->arena, TRACE_TEXT);
    if (text == NULL) return fault_plain(r->fault, ERR_BODY_TOO_LARGE);
    trace_write(r->from->chance, text);
    *ret = str_of(text, TRACE_TEXT);
    return ERR_OK;
}

/* ---- trees without some members ---- */

/* A copy of `object` without the members that `leave_out` selects, and without nulls if
 * requested. */
static struct json *object_without(struct arena *arena, const struct json *object,
                                   bool (*leave_out)(const struct json *member,
                                                     enum auth_request_form form),
                                   enum auth_request_form form)
{
    struct json *copy = arena_new(arena, struct json);
    if (copy == NULL) return NULL;
    *copy = *object;
    copy->child = copy->next = NULL;
    copy->count = 0;
    struct json **tail = &copy->child;
    for (const struct json *v = object->child; v != NULL; v = v->next) {
        if (leave_out(v, form)) continue;
        struct json *member = arena_new(arena, struct json);
        if (member == NULL) return NULL;
        *member = *v;
        member->next = NULL;
        *tail = member;
        tail = &member->next;
        copy->count++;
    }
    check(copy->count <= object->count);
    return copy;
}

static bool is_told_apart(const struct json *member, enum auth_request_form form)
{
    return str_equal(member->key, STR("confidence")) ||
           str_equal(member->key, spelling_of(form, MEMBER_TRACE)) ||
           str_equal(member->key, STR("scope")) ||
           str_equal(member->key, spelling_of(form, MEMBER_ACTING_FOR));
}

static bool is_not_string(const struct json *member, enum auth_request_form form)
{
    (void)form;
    return member->type != JSON_STRING;
}

/* ---- resource ---- */

/* "type:id", or "id". */
static enum err resource_from_text(const struct reader *r, struct json *v, struct auth_request *ret)
{
    check(v->type == JSON_STRING);
    if (v->string.size == 0)
        return refuse(r, ERR_OUT_OF_RANGE, MEMBER_RESOURCE, false, "must not be empty");
    struct json *object = policy_resource_of_text(v->string, r->from->arena);
    if (object == NULL) return fault_plain(r->fault, ERR_BODY_TOO_LARGE);
    object->raw = v->raw;
    ret->resource = object;
    return ERR_OK;
}

static enum err refuse_resource(const struct reader *r, struct str key)
{
    char field[sizeof r->fault->field];
    struct buf b = buf_over(field, sizeof field - 1);
    buf_put_literal(&b, "/resource/");
    for (size_t i = 0; i < key.size && !b.overflow; i++) { /* RFC 6901: ~ and / are escaped */
        if (key.bytes[i] == '~')
            buf_put_literal(&b, "~0");
        else if (key.bytes[i] == '/')
            buf_put_literal(&b, "~1");
        else
            buf_put_byte(&b, key.bytes[i]);
    }
    field[b.overflow ? 0 : b.size] = '\0';
    return fault_set(r->fault, ERR_WRONG_TYPE, field,
                     "resource.%.*s: must be a string (`properties` takes anything else)",
                     STR_FORMAT(key));
}

static enum err resource_from_object(const struct reader *r, struct json *v,
                                     struct auth_request *ret)
{
    unsigned strings = 0;
    check(v->type == JSON_OBJECT && ret->resource == NULL);
    for (struct json *m = v->child; m != NULL; m = m->next) {
        if (m->type == JSON_NULL) continue;
        if (str_equal(m->key, STR("properties"))) {
            if (m->type != JSON_OBJECT)
                return fault_set(r->fault, ERR_WRONG_TYPE, "/resource/properties",
                                 "resource.properties: must be an object");
            ret->properties = m;
            continue;
        }
        if (m->type != JSON_STRING) return refuse_resource(r, m->key);
        if (m->has_nul)
            return refuse(r, ERR_BAD_VALUE, MEMBER_RESOURCE, false,
                          "must not hold U+0000 outside `properties`");
        if (++strings > ASK_RESOURCE_STRINGS_MAX)
            return refuse(r, ERR_OUT_OF_RANGE, MEMBER_RESOURCE, false, "has more than 32 strings");
    }
    ret->resource = object_without(r->from->arena, v, is_not_string, r->from->form);
    return ret->resource == NULL ? fault_plain(r->fault, ERR_BODY_TOO_LARGE) : ERR_OK;
}

static enum err check_resource_strings(const struct reader *r, const struct json *object)
{
    for (const struct json *m = object->child; m != NULL; m = m->next)
        if ((m->string.size > LIMIT_ID_CHARACTERS &&
             str_code_points(m->string) > LIMIT_ID_CHARACTERS) ||
            (m->key.size > LIMIT_ID_CHARACTERS && str_code_points(m->key) > LIMIT_ID_CHARACTERS))
            return refuse(r, ERR_OUT_OF_RANGE, MEMBER_RESOURCE, false,
                          "has a string longer than 256 characters");
    return ERR_OK;
}

static enum err read_resource(const struct reader *r, struct auth_request *ret)
{
    struct json *v = ret->resource_sent = r->top.at[MEMBER_RESOURCE];
    if (v == NULL) return ERR_OK;
    enum err err;
    if (v->type == JSON_STRING)
        err = resource_from_text(r, v, ret);
    else if (v->type == JSON_OBJECT)
        err = resource_from_object(r, v, ret);
    else
        return refuse(r, ERR_WRONG_TYPE, MEMBER_RESOURCE, false,
                      "must be a string \"type:id\", or an object");
    if (err != ERR_OK) return err;
    err = check_resource_strings(r, ret->resource);
    if (err != ERR_OK) return err;

    check(ret->resource != NULL);
    const struct json *object = v->type == JSON_STRING ? ret->resource : v;
    if (policy_name_resource(&ret->policy, object, r->from->arena)) return ERR_OK;
    return fault_plain(r->fault, ERR_BODY_TOO_LARGE);
}

/* ---- names ---- */

/* A name that the token fixes: the body may leave it out or repeat it. */
static enum err settle_with_token(const struct reader *r, enum err wrong,
                                  enum auth_request_member m, struct str of_token, struct str *name)
{
    if (!str_is_absent(*name) && !str_equal(*name, of_token))
        return refuse(r, wrong, m, stands_inside(r, m),
                      "does not match the token, which was minted for another one or for none");
    *name = of_token;
    return ERR_OK;
}

static enum err read_person(const struct reader *r, const struct caller *caller,
                            struct policy_request *p)
{
    enum err err = text_of(r, MEMBER_USER, false, LIMIT_ID_CHARACTERS, false, &p->user);
    if (err != ERR_OK) return err;
    if (str_is_absent(p->user))
        return refuse(r, ERR_MISSING_MEMBER, MEMBER_USER, false, "is required");
    check(p->kind == SUBJECT_USER && str_is_absent(p->actor));
    if (caller->token != NULL)
        return refuse(r, ERR_WRONG_USER, MEMBER_USER, false,
                      "a token can act for its actor only; use an API key for a user");
    if (!r->from->dry_run && !globs_match(&caller->key->users, p->user))
        return refuse(r, ERR_WRONG_USER, MEMBER_USER, false, "this key may not act for this user");
    return ERR_OK;
}

static enum err read_agent(const struct reader *r, const struct caller *caller,
                           struct policy_request *p)
{
    bool bound = !r->from->dry_run;
    check(p->kind == SUBJECT_AGENT && str_is_absent(p->user));
    enum err err = text_of(r, MEMBER_ACTOR, false, LIMIT_ID_CHARACTERS, true, &p->actor);
    if (err == ERR_OK && str_is_dots(p->actor))
        err = refuse(r, ERR_BAD_VALUE, MEMBER_ACTOR, false, STR_NO_DOTS);
    if (err == ERR_OK)
        err = text_of_either(r, MEMBER_ACTING_FOR, LIMIT_ID_CHARACTERS, &p->acting_for);
    if (err != ERR_OK) return err;
    if (caller->token != NULL) {
        err = settle_with_token(r, ERR_WRONG_ACTOR, MEMBER_ACTOR, caller->token->actor, &p->actor);
        if (err != ERR_OK) return err;
        return settle_with_token(r, ERR_WRONG_USER, MEMBER_ACTING_FOR, caller->token->acting_for,
                                 &p->acting_for);
    }
    if (str_is_absent(p->actor)) p->actor = caller->key->name;
    if (bound && !globs_match(&caller->key->actors, p->actor))
        return refuse(r, ERR_WRONG_ACTOR, MEMBER_ACTOR, false,
                      "this key may not act for this actor");
    if (bound && !str_is_absent(p->acting_for) && !globs_match(&caller->key->users, p->acting_for))
        return refuse(r, ERR_WRONG_USER, MEMBER_ACTING_FOR, stands_inside(r, MEMBER_ACTING_FOR),
                      "this key may not act for this user");
    return ERR_OK;
}

/* The token's globs in addition to the request's own: both have to cover the action. */
static enum err read_token_scope(const struct reader *r, const struct caller *caller,
                                 struct policy_request *p)
{
    check(caller->token != NULL && p->token_scope_count == 0);
    struct str *list = arena_array(r->from->arena, struct str, TOKEN_SCOPES_MAX),
               rest = caller->token->scope, part;
    if (list == NULL) return fault_plain(r->fault, ERR_BODY_TOO_LARGE);
    p->has_token_scope = true;
    p->token_scope = list;
    while (p->token_scope_count < TOKEN_SCOPES_MAX && str_split(&rest, ' ', &part))
        if (part.size > 0) list[p->token_scope_count++] = part;
    return ERR_OK;
}

static enum err read_subject(const struct reader *r, const struct caller *caller,
                             struct policy_request *p)
{
    enum err err = p->kind == SUBJECT_USER ? read_person(r, caller, p) : read_agent(r, caller, p);
    return err == ERR_OK && caller->token != NULL ? read_token_scope(r, caller, p) : err;
}

static enum err read_action(const struct reader *r, struct policy_request *p)
{
    size_t most = r->from->form == ASK_TOOL ? LIMIT_TOOL_CHARACTERS : LIMIT_ID_CHARACTERS;
    enum err err = text_of(r, MEMBER_ACTION, false, most, false, &p->action);
    if (err != ERR_OK) return err;
    return str_is_absent(p->action)
               ? refuse(r, ERR_MISSING_MEMBER, MEMBER_ACTION, false, "is required")
               : ERR_OK;
}

static enum err read_payload(struct reader *r, struct auth_request *a)
{
    enum auth_request_form form = r->from->form;
    struct json *args = r->top.at[MEMBER_ARGS], *context = r->top.at[MEMBER_CONTEXT];
    if (args != NULL && args->type != JSON_OBJECT)
        return refuse(r, ERR_WRONG_TYPE, MEMBER_ARGS, false, "must be an object");
    if (context != NULL && context->type != JSON_OBJECT && context->type != JSON_STRING)
        return refuse(r, ERR_WRONG_TYPE, MEMBER_CONTEXT, false, "must be an object or a string");
    a->policy.args = args;
    a->policy.context = a->context = context;
    if (context == NULL || context->type == JSON_STRING || known[form].in_context == 0)
        return ERR_OK;

    enum err err =
        members_read(form, known[form].in_context, context, "/context", &r->inner, r->fault);
    if (err != ERR_OK) return err;
    for (const struct json *m = context->child; m != NULL; m = m->next) {
        if (!is_told_apart(m, form)) continue;
        a->policy.context = object_without(r->from->arena, context, is_told_apart, form);
        return a->policy.context == NULL ? fault_plain(r->fault, ERR_BODY_TOO_LARGE) : ERR_OK;
    }
    return ERR_OK;
}

enum err auth_request_settle_tenant(enum auth_request_form form, struct caller *caller,
                                    struct str asked, struct fault *f)
{
    enum err err = api_settle_tenant(caller, asked, f);
    if (err == ERR_OK || err == ERR_QUOTA_TENANT || form != ASK_TOOL) return err;
    check(f->err == err);
    const struct fault plain = *f; /* "tenant_id: …", at /tenant_id */
    const char *what = strchr(plain.text, ':');
    return fault_set(f, err, "/tenantId", "tenantId%s", what == NULL ? "" : what);
}

enum err auth_request_read(const struct auth_request_source *from, struct caller *caller,
                           struct json *body, struct auth_request *ret, struct fault *f)
{
    struct reader r = {.from = from, .fault = f};
    struct str tenant;
    *ret = (struct auth_request){.form = from->form, .body = body};
    struct policy_request *p = &ret->policy;
    p->kind = from->form == ASK_USER ? SUBJECT_USER : SUBJECT_AGENT;

    enum err err = members_read(from->form, known[from->form].top, body, "", &r.top, f);
    if (err == ERR_OK) err = read_payload(&r, ret);
    if (err == ERR_OK)
        err = read_trace_id(&r, &ret->trace_id);
    else
        find_trace_id(&r, &ret->trace_id);
    if (err == ERR_OK)
        err = text_of(&r, MEMBER_TOOL_CALL, false, LIMIT_ID_CHARACTERS, true, &ret->tool_call_id);
    if (err == ERR_OK)
        err = text_of(&r, MEMBER_CONVERSATION, false, LIMIT_ID_CHARACTERS, true,
                      &ret->conversation_id);
    if (err == ERR_OK) err = read_action(&r, p);
    if (err == ERR_OK) err = text_of(&r, MEMBER_TENANT, false, LIMIT_ID_CHARACTERS, true, &tenant);
    if (err == ERR_OK) err = auth_request_settle_tenant(from->form, caller, tenant, f);
    if (err == ERR_OK && p->kind == SUBJECT_AGENT) err = read_confidence(&r, p);
    if (err == ERR_OK && p->kind == SUBJECT_AGENT) err = read_scope(&r, p);
    if (err == ERR_OK) err = read_resource(&r, ret);
    if (err == ERR_OK) err = read_subject(&r, caller, p);
    if (err == ERR_OK) err = make_trace_id(&r, &ret->trace_id);
    if (err != ERR_OK) return err;
    p->tenant = caller->tenant;
    auth_request_check(ret);
    return ERR_OK;
}

/* ---- binding ---- */

static void put_member_name(struct buf *out, struct str name)
{
    check(out->size > 0);
    if (out->bytes[out->size - 1] != '{') buf_put_byte(out, ',');
    buf_put_byte(out, '"');
    buf_put(out, name);
    buf_put_literal(out, "\":");
}

static void put_text(struct buf *out, struct str name, struct str text)
{
    if (str_is_absent(text)) return;
    put_member_name(out, name);
    json_put_string(out, text);
}

static void put_tree_member(struct buf *out, struct str name, const struct json *v)
{
    if (v == NULL) return;
    put_member_name(out, name);
    json_put_canonical(out, v);
}

/* The resource as one object again, in whichever form it was sent: strings and properties. */
static void put_resource(struct buf *out, const struct auth_request *a)
{
    if (a->resource == NULL) return;
    check(a->resource->type == JSON_OBJECT);
    struct json whole = *a->resource, properties;
    struct json *members = whole.child;
    if (a->properties != NULL) {
        properties = *a->properties;
        properties.next = members;
        whole.child = &properties;
        whole.count++;
    }
    put_tree_member(out, STR("resource"), &whole);
}

void auth_request_put_binding(struct buf *out, const struct auth_request *a)
{
    const struct policy_request *p = &a->policy;
    auth_request_check(a);
    if (!buf_room(out, 1)) return; /* so that there is a last byte to read */
    buf_put_byte(out, '{');
    put_text(out, STR("acting_for"), p->acting_for);
    put_text(out, STR("action"), p->action);
    put_text(out, STR("actor"), p->actor);
    put_tree_member(out, STR("args"), p->args);
    put_tree_member(out, STR("context"), p->context);
    put_text(out, STR("kind"), p->kind == SUBJECT_USER ? STR("user") : STR("agent"));
    put_resource(out, a);
    if (p->has_scope) {
        put_member_name(out, STR("scope"));
        buf_put_byte(out, '[');
        for (size_t i = 0; i < p->scope_count; i++) {
            if (i > 0) buf_put_byte(out, ',');
            json_put_string(out, p->scope[i]);
        }
        buf_put_byte(out, ']');
    }
    put_text(out, STR("tenant_id"), p->tenant);
    put_text(out, STR("user_id"), p->user);
    buf_put_byte(out, '}');
}

/* ---- the form of a body on a route for all forms ---- */

static bool is_given(const struct json *body, struct str name)
{
    const struct json *v = json_get(body, name);
    return v != NULL && v->type != JSON_NULL;
}

enum auth_request_form auth_request_form_of(const struct json *body)
{
    if (is_given(body, STR("tool"))) return ASK_TOOL;
    return is_given(body, STR("user_id")) ? ASK_USER : ASK_AGENT;
}
