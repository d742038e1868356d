/* read_test.c - reads the tests of a document: a request and the expected result. */
#include "base/check.h"
#include "base/time.h"
#include "policy/reader.h"

static const char *const request_keys[] = {"actor", "user_id",    "acting_for", "action",
                                           "tool",  "resource",   "args",       "context",
                                           "scope", "confidence", "tenant_id",  "now"};
static const char *const given_keys[] = {
    "actor",   "user_id", "acting_for", "action",    "tool", "resource", "args",
    "context", "scope",   "confidence", "tenant_id", "now",  "times"};

/* An optional member; null counts as absent, as in a live request. */
static struct value optional_member(const struct value *map, const char *key)
{
    struct value v = value_member(map, key);
    if (v.node != NULL && v.node->json.type == JSON_NULL) v.node = NULL;
    return v;
}

static void optional_text(struct reader *r, const struct value *map, const char *key, size_t most,
                          struct str *ret)
{
    struct value v = value_member(map, key);
    if (v.node != NULL) want_text(r, &v, most, ret);
}

/* Strings, with type and id first among them, and the map `properties`. */
static bool want_resource(struct reader *r, const struct value *v)
{
    static const char *const names[] = {"type", "id"};
    bool good = true;
    struct str text;
    for (const struct node *n = node_first(v->node); n != NULL; n = node_next(n)) {
        struct value m = {.node = n, .place = {.parent = &v->place, .key = n->json.key}};
        if (n->json.type == JSON_NULL) continue;
        if (str_equal(n->json.key, STR("properties")))
            good &= want_map(r, &m);
        else if (!json_is_string(&n->json) || is_among(n->json.key, names, COUNT_OF(names)))
            good &= want_text(r, &m, LIMIT_ID_CHARACTERS, &text);
    }
    return good;
}

/* "type:id", or an object; as live requests are read. */
static void read_resource(struct reader *r, const struct value *v, struct policy_request *q)
{
    struct arena *arena = &r->document->arena;
    const struct json *object;
    struct str text;
    if (v->node->json.type == JSON_OBJECT) {
        if (!want_resource(r, v) || (object = read_json(r, v, NULL)) == NULL) return;
    } else {
        if (!want_text(r, v, 2 * LIMIT_ID_CHARACTERS + 1, &text)) return;
        object = policy_resource_of_text(text, arena);
    }
    if (object == NULL || !policy_name_resource(q, object, arena)) r->full = true;
}

/* Globs with spaces between, or a list of globs. */
static void read_scope(struct reader *r, const struct value *v, struct policy_request *q)
{
    struct str text, part;
    struct selector list = {0};
    struct str *scope = NULL;
    size_t count = 0;
    if (v->node->json.type == JSON_ARRAY) {
        if (!read_globs(r, v, false, &list)) return;
        scope = reader_take(r, list.count * sizeof *scope);
        for (; scope != NULL && count < list.count; count++)
            scope[count] = list.globs[count].written;
    } else if (want_text(r, v, 4096, &text)) {
        scope = reader_take(r, (text.size / 2 + 1) * sizeof *scope);
        while (scope != NULL && str_split(&text, ' ', &part))
            if (part.size > 0) scope[count++] = part;
    }
    q->has_scope = true;
    q->scope = scope;
    q->scope_count = count;
}

/* A member that an agent's request has at its top or in its context, like a live one. A person's
 * request does not have it; under this key its context has ordinary context. */
static struct value of_agent(struct reader *r, const struct value *map, const struct value *context,
                             const char *key, bool is_agents)
{
    struct value beside = optional_member(map, key), within = optional_member(context, key);
    if (!is_agents) {
        if (beside.node != NULL)
            reader_complain_at_key(r, &beside, "is an agent's; a person's request has none");
        return (struct value){0};
    }
    if (within.node == NULL) return beside;
    if (beside.node != NULL)
        reader_complain_at_key(r, &within, "is given beside the context already");
    return within;
}

/* The context as conditions see it: an agent's is without the members that are read from it. */
static const struct json *read_context(struct reader *r, const struct value *v, bool is_agents)
{
    static const char *const told_apart[] = {"confidence", "scope", "acting_for", "trace_id"};
    enum json_type type = v->node->json.type;
    if (!v->node->bad && type != JSON_OBJECT && type != JSON_STRING)
        reader_complain(r, v, "has to be a map or a string");
    struct json *context = read_json(r, v, NULL);
    if (context == NULL || type != JSON_OBJECT || !is_agents) return context;
    for (struct json **m = &context->child; *m != NULL;) {
        if (is_among((*m)->key, told_apart, COUNT_OF(told_apart))) {
            *m = (*m)->next;
            context->count--;
        } else
            m = &(*m)->next;
    }
    return context;
}

/* The time of the request. It does not depend on the time of loading, so a test does not begin to
 * fail later. */
static void read_now(struct reader *r, const struct value *map, struct policy_request *q)
{
    struct value v = optional_member(map, "now");
    struct str text;
    if (v.node == NULL || !want_text(r, &v, LIMIT_ID_CHARACTERS, &text)) return;
    if (!time_read(text, &q->now_ms))
        reader_complain(r, &v, "has to be a time like 2026-11-20T09:30:00Z");
}

static void read_request(struct reader *r, const struct value *map, const char *const *keys,
                         size_t key_count, struct policy_request *q)
{
    if (!want_map(r, map)) return;
    reader_check_keys(r, map, keys, key_count);
    struct value actor = value_member(map, "actor"), user = value_member(map, "user_id"), v;
    struct value context = optional_member(map, "context");
    bool is_agents = user.node == NULL;
    q->tenant = STR("default");
    q->steps = POLICY_STEPS_MAX; /* a stored document loads, whatever a decision may cost now */
    if ((v = optional_member(map, "tenant_id")).node != NULL)
        want_text(r, &v, LIMIT_ID_CHARACTERS, &q->tenant);
    read_now(r, map, q);
    if ((actor.node != NULL) == (user.node != NULL))
        reader_complain(r, map, "names %s",
                        actor.node == NULL ? "neither actor nor user_id; one of them is required"
                                           : "both actor and user_id; one of them is the subject");
    q->kind = is_agents ? SUBJECT_AGENT : SUBJECT_USER;
    optional_text(r, map, "actor", LIMIT_ID_CHARACTERS, &q->actor);
    optional_text(r, map, "user_id", LIMIT_ID_CHARACTERS, &q->user);
    if ((v = of_agent(r, map, &context, "acting_for", is_agents)).node != NULL)
        want_text(r, &v, LIMIT_ID_CHARACTERS, &q->acting_for);
    struct value action = value_member(map, "action"), tool = value_member(map, "tool");
    if (action.node != NULL && tool.node != NULL)
        reader_complain_at_key(r, &tool, "is the same as action; one of them is enough");
    if (tool.node != NULL)
        want_text(r, &tool, LIMIT_TOOL_CHARACTERS, &q->action);
    else if (reader_require(r, map, &action))
        want_text(r, &action, LIMIT_ID_CHARACTERS, &q->action);
    if ((v = optional_member(map, "resource")).node != NULL) read_resource(r, &v, q);
    if ((v = optional_member(map, "args")).node != NULL && want_map(r, &v))
        q->args = read_json(r, &v, NULL);
    if (context.node != NULL) q->context = read_context(r, &context, is_agents);
    if ((v = of_agent(r, map, &context, "scope", is_agents)).node != NULL) read_scope(r, &v, q);
    if ((v = of_agent(r, map, &context, "confidence", is_agents)).node != NULL)
        q->has_confidence = want_number(r, &v, 0, 1, &q->confidence);
    check(!q->has_confidence || (q->confidence >= 0 && q->confidence <= 1));
}

/* A request that comes before the tested one, at `now_ms` if it has no time of its own. */
static void read_given(struct reader *r, const struct value *v, uint64_t now_ms,
                       struct policy_given *given)
{
    given->times = 1;
    given->request.now_ms = now_ms;
    read_request(r, v, given_keys, COUNT_OF(given_keys), &given->request);
    if (v->node->json.type != JSON_OBJECT) return;
    struct value times = value_member(v, "times"), now = optional_member(v, "now");
    if (times.node != NULL) want_count(r, &times, 1, GIVEN_TIMES_MAX, &given->times);
    check(given->times > 0 && given->times <= GIVEN_TIMES_MAX);
    if (given->request.now_ms > now_ms)
        reader_complain(r, &now, "is later than the tested request");
}

static void read_givens(struct reader *r, const struct value *v, struct policy_test *test)
{
    if (!want_list(r, v, GIVEN_MAX)) return;
    test->counts = true;
    test->given = reader_take(r, v->node->json.count * sizeof *test->given + 1);
    size_t index = 0;
    uint64_t before_ms = 0;
    for (const struct node *n = node_first(v->node); n != NULL && test->given != NULL && !r->full;
         n = node_next(n)) {
        struct value item = value_element(v, n, index++);
        check(test->given_count < v->node->json.count);
        struct policy_given *given = &test->given[test->given_count++];
        *given = (struct policy_given){0};
        read_given(r, &item, test->request.now_ms, given);
        if (given->request.now_ms < before_ms)
            reader_complain(r, &item, "is earlier than the request before it");
        before_ms = given->request.now_ms;
    }
}

static void read_test(struct reader *r, const struct value *v, struct policy_test *test)
{
    static const char *const keys[] = {"given", "request", "expect", "rule"};
    test->line = v->node->line;
    test->column = v->node->column;
    if (!want_map(r, v)) return;
    reader_check_keys(r, v, keys, COUNT_OF(keys));
    struct value request = value_member(v, "request"), expect = value_member(v, "expect"),
                 given = value_member(v, "given");
    size_t word;
    if (reader_require(r, v, &request))
        read_request(r, &request, request_keys, COUNT_OF(request_keys), &test->request);
    if (given.node != NULL) read_givens(r, &given, test);
    if (reader_require(r, v, &expect) &&
        want_word(r, &expect, verdict_words, COUNT_OF(verdict_words), &word))
        check(verdict_read(str_from(verdict_words[word]), &test->expect));
    optional_text(r, v, "rule", POLICY_RULE_TEXT - 1, &test->rule);
}

void read_tests(struct reader *r, const struct value *v)
{
    if (!want_list(r, v, TESTS_MAX)) return;
    struct policy_document *d = r->document;
    d->tests = reader_take(r, v->node->json.count * sizeof(struct policy_test));
    size_t index = 0;
    for (const struct node *n = node_first(v->node); n != NULL && d->tests != NULL && !r->full;
         n = node_next(n)) {
        struct value item = value_element(v, n, index++);
        check(d->test_count < v->node->json.count);
        read_test(r, &item, &d->tests[d->test_count++]);
    }
}
