/* Tests of masks: what a path covers, one reading of names, and what a walk may cost. */
#include "support.h"

#include "policy/mask.h"

static struct json *tree(struct tenant *t, const char *text)
{
    struct json *root = NULL;
    struct fault f;
    assert_int_equal(json_read(arena_copy(&t->arena, str_from(text)), &(struct json_options){0},
                               &t->arena, &root, &f),
                     ERR_OK);
    return root;
}

static void assert_tree(const struct json *root, const char *wanted)
{
    char text[4096];
    struct buf out = buf_over(text, sizeof text - 1);
    json_put_canonical(&out, root);
    text[out.size] = '\0';
    assert_string_equal(text, wanted);
}

struct row {
    const char *mask, *root, *value, *masked; /* canonical */
};

static void assert_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct tenant t;
        char text[200];
        snprintf(text, sizeof text, "mask: [\"%s\"]\n", rows[i].mask);
        tenant_init_one(&t, text);
        struct json *root = tree(&t, rows[i].value);
        bool changes = strcmp(rows[i].value, rows[i].masked) != 0;
        assert_int_equal(policy_masks_in(t.set, str_from(rows[i].root), root), changes);
        assert_tree(root, rows[i].value); /* looking alone changes nothing */
        policy_mask(t.set, str_from(rows[i].root), root);
        assert_tree(root, rows[i].masked);
        tenant_fini(&t);
    }
}

static void names_are_masked_in_all_their_spellings(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"args.secret", "args", "{\"Secret\":1}", "{\"Secret\":\"[masked]\"}"},
        {"args.SECRET", "args", "{\"a\":{},\"secret\":1}", "{\"a\":{},\"secret\":\"[masked]\"}"},
        {"args.a.Pin", "args", "{\"A\":{\"pIN\":1}}", "{\"A\":{\"pIN\":\"[masked]\"}}"},
        {"args.*.Pin", "args", "{\"A\":{\"pIN\":1}}", "{\"A\":{\"pIN\":\"[masked]\"}}"},
        {"args.secret", "args", "{\"ｓｅｃｒｅｔ\":1}", "{\"ｓｅｃｒｅｔ\":\"[masked]\"}"},
        {"args.ｓｅｃｒｅｔ", "args", "{\"secret\":1}", "{\"secret\":\"[masked]\"}"},
        {"args.secret", "args", "{\"sec\xE2\x80\x8Bret\":1}",
         "{\"sec\xE2\x80\x8Bret\":\"[masked]\"}"},
        {"args.straße", "args", "{\"STRASSE\":1}", "{\"STRASSE\":\"[masked]\"}"},
        {"args.secret", "args", "{\" secret\":1}", "{\" secret\":\"[masked]\"}"},
        {"context.Text", "context", "\"free\"", "\"[masked]\""},
        {"context.token", "context", "{\"TOKEN\":1}", "{\"TOKEN\":\"[masked]\"}"},
        {"resource.Properties.pin", "resource", "{\"properties\":{\"PIN\":1}}",
         "{\"properties\":{\"PIN\":\"[masked]\"}}"},
        {"args.secret", "args", "{\"secre\":1,\"secrets\":2,\"setret\":3}",
         "{\"secre\":1,\"secrets\":2,\"setret\":3}"},
        {"args.secret", "context", "{\"secret\":1}", "{\"secret\":1}"},
    };
    assert_rows(rows, sizeof rows / sizeof *rows);
}

static void a_position_is_a_number_however_it_is_written(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"args.list.0", "args", "{\"list\":[1,2]}", "{\"list\":[\"[masked]\",2]}"},
        {"args.list.00", "args", "{\"list\":[1,2]}", "{\"list\":[\"[masked]\",2]}"},
        {"args.list.01", "args", "{\"list\":[1,2]}", "{\"list\":[1,\"[masked]\"]}"},
        {"args.list.1", "args", "{\"list\":{\"001\":1}}", "{\"list\":{\"001\":\"[masked]\"}}"},
        {"args.01", "args", "{\"1\":1}", "{\"1\":\"[masked]\"}"},
        {"args.list.0x", "args", "{\"list\":[1,2]}", "{\"list\":[1,2]}"},
        {"args.list.10", "args", "{\"list\":[0,1,2,3,4,5,6,7,8,9,10]}",
         "{\"list\":[0,1,2,3,4,5,6,7,8,9,\"[masked]\"]}"},
    };
    assert_rows(rows, sizeof rows / sizeof *rows);
}

static void two_stars_are_any_names_between(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"args.**.secret", "args", "{\"secret\":1}", "{\"secret\":\"[masked]\"}"},
        {"args.**.secret", "args", "{\"a\":{\"b\":[{\"Secret\":{\"x\":1}},2]}}",
         "{\"a\":{\"b\":[{\"Secret\":\"[masked]\"},2]}}"},
        {"args.a.**.b.c", "args",
         "{\"a\":{\"b\":{\"b\":{\"c\":1,\"d\":2}},\"c\":3},\"b\":{\"c\":4}}",
         "{\"a\":{\"b\":{\"b\":{\"c\":\"[masked]\",\"d\":2}},\"c\":3},\"b\":{\"c\":4}}"},
        {"args.**.a.**.b", "args", "{\"a\":{\"a\":{\"a\":{\"b\":1}}},\"b\":2}",
         "{\"a\":{\"a\":{\"a\":{\"b\":\"[masked]\"}}},\"b\":2}"},
        {"args.**.*", "args", "{\"a\":[1],\"b\":2}", "{\"a\":\"[masked]\",\"b\":\"[masked]\"}"},
        {"args.**.1", "args", "{\"a\":[1,[2,3]]}", "{\"a\":[1,\"[masked]\"]}"},
        {"context.**.text", "context", "\"free\"", "\"[masked]\""},
        {"resource.**.pin", "resource", "{\"pin\":\"1\",\"properties\":{\"a\":{\"pin\":2}}}",
         "{\"pin\":\"[masked]\",\"properties\":{\"a\":{\"pin\":\"[masked]\"}}}"},
    };
    assert_rows(rows, sizeof rows / sizeof *rows);
}

/* ---- one reading: values, conditions and a plain comparison agree ---- */

static uint64_t chance;

static size_t below(size_t bound) /* splitmix64 (Steele, Lea, Flood 2014) */
{
    uint64_t z = chance += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (size_t)((z ^ z >> 31) % bound);
}

/* Spellings of six names: those with one letter are one name. */
static const struct {
    const char *text;
    char name;
} spelled[] = {{"a", 'a'}, {"A", 'a'},  {"ab", 'b'}, {"aB", 'b'}, {"0", '0'}, {"00", '0'},
               {"1", '1'}, {"01", '1'}, {"ß", 's'},  {"SS", 's'}, {"é", 'e'}, {"E\xCC\x81", 'e'}};
enum { SPELLED = sizeof spelled / sizeof *spelled, STEPS = 5 };

/* Whether the mask, of names, `*` and `**` ('d'), leads to the path or beyond it (`short_path`), or
 * to something on it. */
static bool meets(const char *mask, const char *path, bool covers)
{
    if (*mask == '\0') return true;
    if (*mask == 'd' && meets(mask + 1, path, covers)) return true;
    if (*path == '\0') return !covers;
    if (*mask == 'd') return meets(mask, path + 1, covers);
    return (*mask == '*' || *mask == *path) && meets(mask + 1, path + 1, covers);
}

struct path {
    char names[STEPS + 1]; /* as `spelled` has them */
    struct str segments[STEPS + 1];
    size_t count; /* of segments: one more, the root */
};

static struct path path_make(void)
{
    struct path p = {.segments = {STR("args")}, .count = 1};
    for (size_t i = below(STEPS) + 1; i > 0; i--) {
        size_t w = below(SPELLED);
        p.names[p.count - 1] = spelled[w].name;
        p.segments[p.count++] = str_from(spelled[w].text);
    }
    return p;
}

/* {"a":{"B":[…]}}: one value at the end of the path, objects and, where the next step is 0, lists. */
static struct json *value_at(struct tenant *t, const struct path *p, struct json **ret_end)
{
    struct json *root = tree(t, "{}"), *at = root;
    for (size_t i = 1; i < p->count; i++) {
        struct json *child = tree(t, "{}");
        if (p->names[i - 1] == '0' && below(2) == 0)
            at->type = JSON_ARRAY;
        else
            child->key = p->segments[i];
        at->child = child;
        at->count = 1;
        at = child;
    }
    *ret_end = at;
    return root;
}

static void values_and_conditions_have_one_reading_of_a_path(void **state)
{
    (void)state;
    uint64_t seed = 31;
    for (size_t round = 0; round < 3000; round++) {
        char text[2000], masks[4][STEPS + 1] = {{0}};
        struct buf out = buf_over(text, sizeof text - 1);
        struct tenant t;
        chance = seed + round;
        size_t count = 1 + below(4);
        buf_put_literal(&out, "mask: [");
        for (size_t i = 0; i < count; i++) {
            size_t steps = below(STEPS) + 1;
            buf_put(&out, i == 0 ? STR("\"args") : STR(", \"args"));
            for (size_t k = 0; k < steps; k++) {
                bool was_deep = k > 0 && masks[i][k - 1] == 'd', last = k + 1 == steps;
                size_t kind = below(6), w = below(SPELLED);
                bool deep = kind == 0 && !was_deep && !last;
                masks[i][k] = deep ? 'd' : kind == 1 ? '*' : spelled[w].name;
                const char *step = deep ? "**" : kind == 1 ? "*" : spelled[w].text;
                buf_printf(&out, ".%s", step);
            }
            buf_put_byte(&out, '"');
        }
        buf_put_literal(&out, "]\n");
        text[out.size] = '\0';
        tenant_init_one(&t, text);
        for (size_t i = 0; i < 20; i++) {
            struct path p = path_make();
            bool hides = false, covers = false;
            for (size_t k = 0; k < count; k++) {
                hides |= meets(masks[k], p.names, false);
                covers |= meets(masks[k], p.names, true);
            }
            struct json *end, *root = value_at(&t, &p, &end);
            bool hidden = mask_hides(t.set, p.segments, p.count);
            bool found = policy_masks_in(t.set, STR("args"), root);
            if (hidden != hides || found != covers)
                print_error("seed %llu: %s", (unsigned long long)(seed + round), text);
            assert_int_equal(hidden, hides);
            assert_int_equal(found, covers);
            struct str through[STEPS + 2] = {STR("request")};
            memcpy(through + 1, p.segments, p.count * sizeof *through);
            assert_int_equal(mask_hides(t.set, through, p.count + 1), hides);
            /* a key that only the request knows may be any: hidden more, never less */
            p.segments[1 + below(p.count - 1)] = (struct str){0};
            assert_true(!hides || mask_hides(t.set, p.segments, p.count));
        }
        tenant_fini(&t);
    }
}

/* Where no mask is below a root, it may be shown; `request` holds them all. */
static void what_holds_nothing_masked_is_not_hidden(void **state)
{
    (void)state;
    static const struct {
        const char *path[3];
        bool hides;
    } rows[] = {
        {{"args"}, true},
        {{"args", "Card"}, true},
        {{"args", "card", "x"}, true},
        {{"args", "cards"}, false},
        {{"args", ""}, true}, /* any key */
        {{"context"}, false},
        {{"resource"}, false},
        {{"resource", "type"}, false},
        {{"request"}, true},
        {{"request", ""}, true},
        {{"request", "context"}, false},
        {{"request", "args"}, true},
        {{"request", "args", "other"}, false},
        {{"request", "action"}, false},
        {{"action"}, false},
    };
    struct tenant t;
    tenant_init_one(&t, "mask: [args.card]\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct str segments[3] = {{0}};
        size_t count = 0;
        for (; count < 3 && rows[i].path[count] != NULL; count++)
            if (rows[i].path[count][0] != '\0') segments[count] = str_from(rows[i].path[count]);
        assert_int_equal(mask_hides(t.set, segments, count), rows[i].hides);
    }
    tenant_fini(&t);
}

/* What is told of a condition, and why one fails, follows the same reading. */
static void conditions_hide_what_is_masked_in_every_spelling(void **state)
{
    (void)state;
    static const struct {
        const char *mask, *expression;
    } rows[] = {
        {"args.card", "int(args.Card) > 5"},
        {"args.CARD", "int(args.Card) > 5"},
        {"args.list.00", "int(args.list[0]) > 5"},
        {"args.list.00", "int(args.list[0u]) > 5"},
        {"args.list.0", "int(args.list[0.0]) > 5"},
        {"args.list.*", "int(args.list[0]) > 5"},
        {"args.**.pin", "int(args.deep.down.Pin) > 5"},
        {"args.**.pin", "int(args.deep[args.key].Pin) > 5"},
        {"args.**.pin", "args.deep.down.exists(k, int(args.deep.down[k]) > 5)"},
        {"args.card", "has(args.limits[args.Card].max)"},
        {"args.card", "has(args.limits[args.Card + 'x'].max)"},
        {"args.card", "has(args.limits[[args.Card][0]].max)"},
        {"args.card", "has(args.limits[args.which == 'x' ? 'y' : args.Card].max)"},
        {"args.card", "has(request.args.limits[request.args.Card].max)"},
        {"args.card", "!has(args.limits[args.Card].max)"},
        {"args.card", "has(args.limits[args.Card].max) && args.which == 'x'"},
        {"args.card", "cel.bind(c, args.Card, has(args.limits[c].max))"},
        {"args.card", "[args.Card].exists(c, has(args.limits[c].max))"},
        {"args.card", "has({'x': {'y': 1}}[args.Card].y)"},
        {"args.card", "has(args.limits[string(has(args.limits[args.Card].max))].max)"},
        {"context.text", "int(context.text) > 5"},
        {"context.TEXT", "has(args.limits[context.text].max)"},
        {"resource.id", "has(args.limits[resource.id].max)"},
        {"resource.**.pin", "has(args.limits[resource.properties.PIN].max)"},
    };
    static const char *const decisions[] = {"deny", "human_review", "compute"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t k = 0; k < 4; k++) {
            struct tenant t;
            char text[1000];
            if (k == 3) /* an expression of a safe call */
                snprintf(
                    text, sizeof text,
                    "mask: [\"%s\"]\nrules: [{id: a, agents: [bot], actions: [x], decision: compute, "
                    "compute: {tool: s, args: {a: \"${%s}\"}}}]\n",
                    rows[i].mask, rows[i].expression);
            else
                snprintf(
                    text, sizeof text,
                    "mask: [\"%s\"]\nrules: [{id: a, agents: [bot], actions: [x], decision: %s, "
                    "when: \"%s\"%s}]\n",
                    rows[i].mask, decisions[k], rows[i].expression,
                    k == 2 ? ", compute: {tool: s}" : "");
            tenant_init_one(&t, text);
            struct policy_request q = agent_request("bot", "x");
            const struct json *whole = tree(
                &t,
                "{\"args\":{\"Card\":\"4111\",\"list\":[\"4111\"],\"which\":\"card\",\"key\":\"down\","
                "\"deep\":{\"down\":{\"Pin\":\"4111-\"}},\"limits\":{\"x\":{}}},"
                "\"resource\":{\"type\":\"t\",\"id\":\"4111\",\"properties\":{\"PIN\":\"4111\"}}}");
            q.args = json_get(whole, STR("args"));
            q.context = tree(&t, "\"4111\"");
            assert_true(policy_name_resource(&q, json_get(whole, STR("resource")), &t.arena));
            policy_evaluate(t.set, &q, &t.arena, NULL, &t.outcome);
            bool named = memmem(t.outcome.reason.bytes, t.outcome.reason.size, "4111", 4) != NULL;
            if (named) print_error("%s\n%.*s\n", text, STR_FORMAT(t.outcome.reason));
            assert_false(named);
            tenant_fini(&t);
        }
    }
}

/* ---- what it costs ---- */

static struct json *wide(struct tenant *t, size_t elements)
{
    static char text[400 << 10];
    struct buf out = buf_over(text, sizeof text - 1);
    buf_put_literal(&out, "{\"x\":{\"y\":[1"); /* then objects, so that names are looked for */
    for (size_t i = 1; i < elements; i++) buf_put_literal(&out, ",{\"zz\":1}");
    buf_put_literal(&out, "]}}");
    text[out.size] = '\0';
    return tree(t, text);
}

/* The steps of one walk are bounded by values, not by masks. */
static void a_walk_takes_as_many_steps_with_many_masks_as_with_one(void **state)
{
    (void)state;
    enum { ELEMENTS = 31000, VALUES = 2 * ELEMENTS + 2, DOCUMENTS = 5 };
    static char texts[DOCUMENTS][16 << 10];
    const char *list[DOCUMENTS], *const names[DOCUMENTS] = {"a", "b", "c", "d", "e"};
    uint64_t steps[2] = {0};
    for (size_t many = 0; many < 2; many++) {
        struct tenant t;
        for (size_t d = 0; d < DOCUMENTS; d++) {
            struct buf out = buf_over(texts[d], sizeof texts[d] - 1);
            size_t masks = many == 0 ? 1 : 200;
            buf_put_literal(&out, "mask: [");
            for (size_t i = 0; i < masks; i++)
                buf_printf(&out, "%s\"args.*.*.*.q%zu\"", i == 0 ? "" : ", ", d * 200 + i);
            buf_put_literal(&out, "]\n");
            texts[d][out.size] = '\0';
            list[d] = texts[d];
        }
        tenant_init(&t, DOCUMENTS, names, list);
        assert_false(masks_walk(t.set, STR("args"), wide(&t, ELEMENTS), true, &steps[many]));
        assert_in_range(steps[many], VALUES, 3 * VALUES);
        tenant_fini(&t);
    }
    assert_int_equal(steps[0], steps[1]);
}

/* Masks of all names that `*` and `a` can make lead to twice as many nodes at each step: from some on
 * the value is masked whole, and no walk takes more than the bound. */
static void a_value_with_more_nodes_than_are_followed_is_masked_whole(void **state)
{
    (void)state;
    static char text[64 << 10];
    struct tenant t;
    struct buf out = buf_over(text, sizeof text - 1);
    buf_put_literal(&out, "mask: [");
    for (unsigned i = 0; i < 128; i++) {
        buf_put(&out, i == 0 ? STR("\"args") : STR(", \"args"));
        for (unsigned bit = 0; bit < 7; bit++) buf_put(&out, i >> bit & 1 ? STR(".*") : STR(".a"));
        buf_put_literal(&out, ".end\"");
    }
    buf_put_literal(&out, "]\n");
    text[out.size] = '\0';
    tenant_init_one(&t, text);
    uint64_t steps;
    struct json *root = tree(
        &t, "{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"b\":1}},\"b\":{\"a\":{\"c\":1}}}}}}}");
    assert_true(masks_walk(t.set, STR("args"), root, false, &steps));
    assert_tree(
        root,
        "{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":\"[masked]\"},\"b\":{\"a\":{\"c\":1}}}}}}}");
    assert_in_range(steps, 1, 13 * 3 * MASK_ACTIVE_MAX);
    tenant_fini(&t);
}

static void looking_stops_where_something_is_found(void **state)
{
    (void)state;
    struct tenant t;
    uint64_t steps;
    tenant_init_one(&t, "mask: [\"args.**.0\"]\n");
    assert_true(masks_walk(t.set, STR("args"), wide(&t, 31000), true, &steps));
    assert_in_range(steps, 1, 20);
    tenant_fini(&t);
}

/* ---- new documents ---- */

static void a_mask_that_covers_nothing_is_refused_of_new_documents_only(void **state)
{
    (void)state;
    struct policy_document *d = load_named(
        "d",
        "mask: [args.pin, resource.pin, resource.type, resource.id.x, \"resource.*.pin\",\n"
        "       resource.properties.pin, \"resource.**.pin\", resource, resource.Properties, resource.TYPE.x]\n");
    struct policy_problems problems;
    policy_refusals(d, &problems);
    assert_int_equal(problems.count, 3);
    assert_string_equal(problems.list[0].path, "mask[1]");
    assert_int_equal(problems.list[0].line, 1);
    assert_int_equal(problems.list[0].column, 18);
    assert_non_null(strstr(problems.list[0].message, "write resource.properties.pin"));
    assert_string_equal(problems.list[1].path, "mask[3]");
    assert_string_equal(problems.list[2].path, "mask[9]");
    assert_int_equal(problems.list[2].line, 2);
    policy_document_release(d);
    assert_int_equal(policy_load_new(STR("d"), STR("mask: [resource.pin]\n"), &d, &problems),
                     ERR_INVALID_POLICY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_masked_in_all_their_spellings),
        cmocka_unit_test(a_position_is_a_number_however_it_is_written),
        cmocka_unit_test(two_stars_are_any_names_between),
        cmocka_unit_test(values_and_conditions_have_one_reading_of_a_path),
        cmocka_unit_test(what_holds_nothing_masked_is_not_hidden),
        cmocka_unit_test(conditions_hide_what_is_masked_in_every_spelling),
        cmocka_unit_test(a_walk_takes_as_many_steps_with_many_masks_as_with_one),
        cmocka_unit_test(a_value_with_more_nodes_than_are_followed_is_masked_whole),
        cmocka_unit_test(looking_stops_where_something_is_found),
        cmocka_unit_test(a_mask_that_covers_nothing_is_refused_of_new_documents_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
