/* Tests of the index over many rules: whatever tells them apart, the answer is a plain walk's. */
#include "support.h"

#include <stdlib.h>
#include <time.h>

#include "policy/index.h"
#include "policy/set.h"
#include "tests/bench/policy_shapes.h"

static uint64_t dice = 20261121;

static size_t below(size_t n) /* splitmix64 (Steele, Lea, Flood 2014): the same in every run */
{
    uint64_t z = dice += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (size_t)((z ^ z >> 31) % n);
}

/* ---- the index alone ---- */

enum { PATTERNS = 400, NAMES = 150, TEXT_MAX = 24 };

/* Tries everything, as the definition says. */
static bool like(const char *pattern, const char *text)
{
    if (*pattern == '\0') return *text == '\0';
    if (*pattern == '*')
        return like(pattern + 1, text) || (*text != '\0' && like(pattern, text + 1));
    return *pattern == *text && like(pattern + 1, text + 1);
}

/* Few letters, so that pieces are shared; no two stars side by side, as compiled patterns have it.
 */
static void random_text(char *to, size_t size_max, bool stars)
{
    size_t size = below(size_max), written = 0;
    for (size_t i = 0; i < size; i++) {
        bool star = stars && below(5) == 0 && (written == 0 || to[written - 1] != '*');
        to[written++] = star ? '*' : "abc_"[below(4)];
    }
    to[written] = '\0';
}

struct seen {
    unsigned proposed[PATTERNS]; /* how often */
};

static void on_proposed(void *context, const uint32_t *values, size_t count)
{
    struct seen *s = context;
    for (size_t i = 0; i < count; i++) s->proposed[values[i]]++;
}

static void index_of_random_patterns(size_t pattern_max)
{
    static char patterns[PATTERNS][TEXT_MAX];
    static struct seen seen;
    struct index_entry entries[PATTERNS];
    struct arena arena;
    arena_init(&arena, 4096, 64 << 20);
    for (uint32_t i = 0; i < PATTERNS; i++) {
        random_text(patterns[i], pattern_max, true);
        entries[i] = (struct index_entry){.pattern = str_from(patterns[i]), .value = i};
    }
    struct index *x = index_build(&arena, entries, PATTERNS);
    assert_non_null(x);
    for (size_t i = 0; i < NAMES; i++) {
        char text[TEXT_MAX];
        struct name n;
        random_text(text, TEXT_MAX, false);
        assert_true(name_prepare(&n, str_from(text), &arena));
        memset(&seen, 0, sizeof seen);
        index_lookup(x, &n, on_proposed, &seen);
        for (size_t k = 0; k < PATTERNS; k++) {
            unsigned times = seen.proposed[k];
            if ((times == 0 && like(patterns[k], text)) || times > 1)
                fail_msg("%s was proposed %u times for %s", patterns[k], times, text);
        }
    }
    arena_fini(&arena);
}

static void every_pattern_that_matches_is_proposed_and_none_twice(void **state)
{
    (void)state;
    for (size_t round = 0; round < 60; round++)
        index_of_random_patterns(2 + round % (TEXT_MAX - 2));
}

/* ---- tenants ---- */

static struct policy_set *tenant_of(const struct shape *shape, size_t rules)
{
    struct policy_set_entry entries[16] = {{0}};
    struct policy_set *set = NULL;
    size_t count = 0, each = shape_document_rules(shape);
    for (size_t from = 0; from < rules; from += each, count++) {
        struct buf text;
        char name[16];
        buf_init(&text, 1 << 16, 4 << 20);
        shape_put_document(shape, from, from + each < rules ? from + each : rules, &text);
        buf_put_byte(&text, '\0');
        snprintf(name, sizeof name, "d%03zu", count);
        entries[count].document = load_named(name, text.bytes);
        entries[count].version = 1;
        buf_fini(&text);
    }
    assert_int_equal(policy_set_create(entries, count, &set, NULL), ERR_OK);
    for (size_t i = 0; i < count; i++) policy_document_release(entries[i].document);
    return set;
}

/* Rule n, and no other, matches request n. */
static void assert_answers(const struct policy_set *set, const struct shape *shape, size_t number,
                           size_t rules, struct arena *arena)
{
    const struct shape *s = shape_at(shape, number);
    char actor[SHAPE_NAME_BYTES], action[SHAPE_NAME_BYTES], id[SHAPE_NAME_BYTES];
    char resource[SHAPE_NAME_BYTES + 8], expected[SHAPE_NAME_BYTES];
    struct json amount = {.type = JSON_NUMBER, .number = 12.5, .key = STR("amount")};
    struct json args = {.type = JSON_OBJECT, .count = 1, .child = &amount};
    shape_name(s->actor, number, actor);
    shape_name(s->action, number, action);
    shape_name(s->resource, number, id);
    snprintf(resource, sizeof resource, "doc:%s", id);
    struct policy_request q = agent_request(actor, action);
    q.args = &args;
    q.has_confidence = true;
    q.confidence = 0.95;
    if (s->resource != NULL) q.resource = str_from(resource);
    struct policy_outcome o;
    arena_reset(arena);
    policy_evaluate(set, &q, arena, NULL, &o);
    bool denies = strstr(s->rule, "decision: deny") != NULL;
    snprintf(expected, sizeof expected, "%s:r%zu", denies ? "deny" : "allow", number);
    assert_string_equal(o.rule, number < rules ? expected : "default:deny");
}

static void the_one_rule_that_matches_is_found_among_thousands_of_its_shape(void **state)
{
    (void)state;
    enum { RULES = 3000 };
    struct arena arena;
    arena_init(&arena, 16 << 10, 1 << 20);
    for (size_t s = 0; s < SHAPES; s++) {
        struct policy_set *set = tenant_of(&shapes[s], RULES);
        for (size_t n = 0; n < RULES + 200; n += 1 + below(3))
            assert_answers(set, &shapes[s], n, RULES, &arena);
        policy_set_destroy(set);
    }
    arena_fini(&arena);
}

/* ---- one action, one subject, many resources ---- */

static const char *const crowd =
    "rules:\n"
    "  - {id: a0, agents: [bot], actions: [edit], resources: ['doc:0'], decision: allow}\n"
    "  - {id: a1, agents: [bot], actions: [edit], resources: ['doc:1'], decision: allow}\n"
    "  - {id: a2, agents: [bot], actions: [edit], resources: ['doc:2*'], decision: allow}\n"
    "  - {id: a3, agents: [bot], actions: [edit], resources: ['*:3'], decision: allow}\n"
    "  - {id: a4, agents: [bot], actions: [edit], resources: ['doc:4', 'doc:five'], decision: "
    "allow}\n"
    "  - {id: a5, agents: [bot], actions: [edit], resources: ['*-five-*'], decision: allow}\n"
    "  - {id: a6, agents: [bot], actions: [edit], resources: ['doc:6'], decision: allow}\n"
    "  - {id: a7, agents: [bot], actions: [edit], resources: ['doc:7'], decision: allow}\n"
    "  - {id: a8, agents: [bot], actions: [edit], resources: ['doc:8'], decision: allow}\n"
    "  - {id: anywhere, agents: [bot2], actions: [edit], decision: allow}\n"
    "  - {id: both, agents: [bot, bot2], actions: [edit], resources: ['wiki:*'], decision: allow}\n"
    "  - {id: never, agents: [bot], actions: [edit], resources: ['DB:Prod-*'], decision: deny}\n"
    "  - {id: other, agents: [bot9], actions: [edit], resources: ['doc:*'], decision: deny}\n"
    "  - {id: rest, agents: [bot], actions: [edit], decision: allow}\n";

static const char *ask_on(struct tenant *t, const char *actor, const char *resource, bool partial)
{
    struct policy_request q = agent_request(actor, "edit");
    if (resource != NULL) q.resource = str_from(resource);
    q.resource_partial = partial;
    ask(t, &q);
    return t->outcome.rule;
}

static void rules_of_one_action_and_subject_are_told_apart_by_resource(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, crowd);
    assert_string_equal(ask_on(&t, "bot", "doc:0", false), "allow:a0");
    assert_string_equal(ask_on(&t, "bot", "doc:2x", false), "allow:a2");
    assert_string_equal(ask_on(&t, "bot", "any:3", false), "allow:a3");
    assert_string_equal(ask_on(&t, "bot", "doc:five", false), "allow:a4");
    assert_string_equal(ask_on(&t, "bot", "x-five-y", false), "allow:a5");
    assert_string_equal(ask_on(&t, "bot", "DOC:8", false), "allow:rest"); /* allows are exact */
    assert_string_equal(ask_on(&t, "bot", "wiki:x", false), "allow:both");
    assert_string_equal(ask_on(&t, "bot2", "wiki:x", false), "allow:anywhere");
    assert_string_equal(ask_on(&t, "bot2", NULL, false), "allow:anywhere");
    assert_string_equal(ask_on(&t, "bot", "db:PROD-1", false), "deny:never");
    assert_string_equal(ask_on(&t, "bot9", "doc:0", false), "deny:other");
    tenant_fini(&t);
}

static void what_restricts_a_resource_is_not_escaped_by_leaving_it_out(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, crowd);
    assert_string_equal(ask_on(&t, "bot", NULL, false), "deny:never");
    assert_string_equal(ask_on(&t, "bot9", NULL, false), "deny:other");
    tenant_fini(&t);
}

static void nor_by_leaving_out_its_type_or_its_id(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, crowd);
    assert_string_equal(ask_on(&t, "bot", "prod-1", true), "deny:never");
    assert_string_equal(ask_on(&t, "bot", "db:", true), "deny:never");
    assert_string_equal(ask_on(&t, "bot", "x-five-y", true), "deny:never");
    assert_string_equal(ask_on(&t, "bot2", "wiki:", true), "allow:anywhere");
    tenant_fini(&t);
    tenant_init_one(&t, "rules:\n" /* few rules, looked at one by one */
                        "  - {id: all, agents: ['*'], actions: [edit], decision: allow}\n"
                        "  - {id: d, actions: [edit], resources: ['db:prod-*'], decision: deny}\n");
    assert_string_equal(ask_on(&t, "bot", "prod-1", true), "deny:d");
    assert_string_equal(ask_on(&t, "bot", "prod-1", false), "allow:all");
    assert_string_equal(ask_on(&t, "bot", "db:test", false), "allow:all");
    tenant_fini(&t);
}

/* ---- sizes ---- */

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* How long each of a few hundred requests takes, the best of three rounds. */
static double evaluation_ns(const struct shape *shape, size_t rules, struct arena *arena)
{
    enum { ASKED = 300 };
    struct policy_set *set = tenant_of(shape, rules);
    double best = 1e18;
    for (size_t round = 0; round < 3; round++) {
        uint64_t start = cpu_ns();
        for (size_t i = 0; i < ASKED; i++)
            assert_answers(set, shape, (i * 7919) % (2 * rules), rules, arena);
        double each = (double)(cpu_ns() - start) / ASKED;
        if (each < best) best = each;
    }
    policy_set_destroy(set);
    return best;
}

/* A walk over 4,000 rules takes hundreds of times as long as one over 10: tenfold is far from it,
 * and far from what a busy machine can do to a thread's own time. */
static void no_shape_is_walked_rule_by_rule(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, 16 << 10, 1 << 20);
    for (size_t s = 0; s < SHAPES; s++) {
        double few = evaluation_ns(&shapes[s], 10, &arena);
        double many = evaluation_ns(&shapes[s], 4000, &arena);
        if (many > 10 * few) print_error("%s: %.0f ns, %.0f ns\n", shapes[s].name, few, many);
        assert_true(many <= 10 * few);
    }
    arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pattern_that_matches_is_proposed_and_none_twice),
        cmocka_unit_test(the_one_rule_that_matches_is_found_among_thousands_of_its_shape),
        cmocka_unit_test(rules_of_one_action_and_subject_are_told_apart_by_resource),
        cmocka_unit_test(what_restricts_a_resource_is_not_escaped_by_leaving_it_out),
        cmocka_unit_test(nor_by_leaving_out_its_type_or_its_id),
        cmocka_unit_test(no_shape_is_walked_rule_by_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
