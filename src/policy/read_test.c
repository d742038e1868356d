/* read_test.c - the tests that a document carries: a request, and what has to come of it. */
#include "base/check.h"
#include "policy/reader.h"

static const char *const request_keys[] = {"actor", "user_id",   "acting_for", "action",
                                           "tool",  "resource",  "args",       "context",
                                           "scope", "confidence"};

static void optional_text(struct reader *r, const struct value *map, const char *key, size_t most,
                          struct str *ret)
{
    struct value v = member(map, key);
    if (v.node != NULL) want_text(r, &v, most, ret);
}

/* "type:id", or an object of strings with type and id first among them; as live requests are read. */
static void read_resource(struct reader *r, const struct value *v, struct policy_request *q)
{
    struct arena *arena = &r->document->arena;
    const struct json *object;
    struct str text;
    if (v->node->json.type == JSON_OBJECT) {
        optional_text(r, v, "type", LIMIT_ID_CHARACTERS, &text);
        optional_text(r, v, "id", LIMIT_ID_CHARACTERS, &text);
        object = read_json(r, v, NULL);
        if (object == NULL) return;
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

static void read_request(struct reader *r, const struct value *map, struct policy_request *q)
{
    if (!want_map(r, map)) return;
    check_keys(r, map, request_keys, COUNT_OF(request_keys));
    struct value actor = member(map, "actor"), user = member(map, "user_id"), v;
    q->tenant = STR("default");
    if ((actor.node != NULL) == (user.node != NULL))
        complain(r, map, "names %s",
                 actor.node == NULL ? "neither actor nor user_id; one of them is required"
                                    : "both actor and user_id; one of them is the subject");
    q->kind = user.node != NULL ? SUBJECT_USER : SUBJECT_AGENT;
    optional_text(r, map, "actor", LIMIT_ID_CHARACTERS, &q->actor);
    optional_text(r, map, "user_id", LIMIT_ID_CHARACTERS, &q->user);
    optional_text(r, map, "acting_for", LIMIT_ID_CHARACTERS, &q->acting_for);
    struct value action = member(map, "action"), tool = member(map, "tool");
    if (action.node == NULL && tool.node != NULL) action = tool;
    if (require(r, map, &action)) want_text(r, &action, LIMIT_TOOL_CHARACTERS, &q->action);
    if ((v = member(map, "resource")).node != NULL) read_resource(r, &v, q);
    if ((v = member(map, "args")).node != NULL && want_map(r, &v))
        q->args = read_json(r, &v, NULL);
    if ((v = member(map, "context")).node != NULL) q->context = read_json(r, &v, NULL);
    if ((v = member(map, "scope")).node != NULL) read_scope(r, &v, q);
    if ((v = member(map, "confidence")).node != NULL)
        q->has_confidence = want_number(r, &v, 0, 1, &q->confidence);
}

static void read_test(struct reader *r, const struct value *v, struct policy_test *test)
{
    static const char *const keys[] = {"request", "expect", "rule"};
    test->line = v->node->line;
    test->column = v->node->column;
    if (!want_map(r, v)) return;
    check_keys(r, v, keys, COUNT_OF(keys));
    struct value request = member(v, "request"), expect = member(v, "expect");
    size_t word;
    if (require(r, v, &request)) read_request(r, &request, &test->request);
    if (require(r, v, &expect) &&
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
        struct value item = element(v, n, index++);
        read_test(r, &item, &d->tests[d->test_count++]);
    }
}
