/* bench_decide.c - what one decision costs inside the process, step by step, in nanoseconds.
 *
 * Requests vary (a seeded generator), so that no branch predictor learns one by heart. Prints a
 * JSON line per step; nothing is asserted. Usage:
 *
 *   bench_decide [--step NAME] [--rounds N] [policy.yaml …]
 *
 * One step and few rounds are for counting instructions: under callgrind, the count of one round
 * less that of none, by 4,096, is what one request takes. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "engine/decision/decide.h"
#include "json/json.h"

enum { REQUESTS = 4096, ROUNDS_USUALLY = 50, BODY_BYTES = 1024, POLICY_BYTES = 1 << 20 };

static struct str bodies[REQUESTS];

static const char *const default_policy =
    "confidence: {allow_at: 0.90, review_at: 0.70}\n"
    "rules:\n"
    "  - {id: reads, agents: ['*'], actions: ['get_*', 'list_*'], decision: allow}\n"
    "  - {id: refunds, agents: ['*'], actions: [issue_refund], decision: human_review}\n"
    "  - {id: never, actions: ['drop_*', 'delete_*'], decision: deny}\n"
    "  - {id: sandbox, agents: ['*'], actions: ['write_*_prod'], decision: compute, compute: {tool: write_file, args: {path: /s}}}\n";

static uint64_t seed = 88172645463325252u;

static uint64_t next(void) /* xorshift64 (Marsaglia 2003): the same requests in every run */
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static void bodies_make(void)
{
    static const char *const tools[] = {"get_user_details", "get_order",  "list_flights",
                                        "issue_refund",     "drop_table", "write_a_prod",
                                        "unknown_tool"};
    static char text[REQUESTS][BODY_BYTES];
    for (int i = 0; i < REQUESTS; i++) {
        int size = snprintf(
            text[i], BODY_BYTES,
            "{\"action\":\"%s\",\"actor\":\"agent-%llu\",\"confidence\":0.%llu,\"args\":{\"user_id\":\"raj_%llu\",\"amount\":%llu.%llu,"
            "\"note\":\"please look at %llu soon\"},\"context\":{\"session\":\"s-%llx\"}}",
            tools[next() % 7], (unsigned long long)(next() % 200),
            (unsigned long long)(70 + next() % 30), (unsigned long long)(next() % 100000),
            (unsigned long long)(next() % 5000), (unsigned long long)(next() % 90 + 10),
            (unsigned long long)(next() % 1000), (unsigned long long)next());
        bodies[i] = str_of(text[i], (size_t)size);
    }
}

static struct policy_set *set_make(int count, char **paths)
{
    struct policy_set_entry entries[64];
    struct policy_problems problems;
    struct fault f;
    static char text[POLICY_BYTES];
    size_t loaded = 0;
    for (int i = 0; i < (count == 0 ? 1 : count) && loaded < 64; i++) {
        struct str source = str_from(default_policy);
        if (count > 0) {
            FILE *file = fopen(paths[i], "r");
            source = str_of(text, file == NULL ? 0 : fread(text, 1, sizeof text, file));
            if (file != NULL) fclose(file);
        }
        char name[16];
        snprintf(name, sizeof name, "policy-%d", i);
        if (policy_load(str_from(name), source, &entries[loaded].document, &problems) != ERR_OK) {
            fprintf(stderr, "%s: %s\n", count > 0 ? paths[i] : "policy", problems.list[0].message);
            exit(1);
        }
        entries[loaded++].version = 1;
    }
    struct policy_set *set;
    if (policy_set_create(entries, loaded, &set, &f) != ERR_OK) exit(1);
    return set;
}

/* This thread's own time, so that a busy machine tells the same. */
static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct scene {
    struct arena arena;
    struct caller caller;
    struct chance chance;
    struct digest_keys keys;
    struct decide_tools tools;
};

/* How far along the way a decision is taken. */
enum step { STEP_PARSE, STEP_CANONICAL, STEP_ASK, STEP_EVALUATE, STEP_DECIDE, STEP_COUNT };

static volatile size_t sink; /* so that nothing measured is left out as unused */

static void take(struct scene *s, enum step step, struct str text)
{
    static const struct json_options options = {0};
    static char canonical[8 * BODY_BYTES];
    struct json *body;
    struct fault f;
    struct auth_request ask;
    struct decision d;
    struct caller caller = s->caller;
    arena_reset(&s->arena);
    if (json_read(text, &options, &s->arena, &body, &f) != ERR_OK) exit(1);
    if (step == STEP_PARSE) return;
    if (step == STEP_CANONICAL) {
        struct buf b = buf_over(canonical, sizeof canonical);
        json_put_canonical(&b, body);
        sink = b.size;
        return;
    }
    struct auth_request_source source = {
        .form = ASK_AGENT, .chance = &s->chance, .arena = &s->arena};
    if (auth_request_read(&source, &caller, body, &ask, &f) != ERR_OK) exit(1);
    if (step == STEP_ASK) return;
    if (step == STEP_EVALUATE) {
        policy_evaluate(s->tools.policies, &ask.policy, &s->arena, NULL, &d.outcome);
        sink = d.outcome.verdict;
        return;
    }
    s->tools.now_ms = world_now_ms();
    s->tools.started_ns = world_monotonic_ns();
    memset(&d, 0, sizeof d);
    decide_begin(&d, &s->tools, &caller, &ask, &s->arena);
    decide_evaluate(&d);
    decide_describe(&d);
    if (decide_settle(&d, &f) != ERR_OK) exit(1);
    sink = d.record.size + d.answer.size;
}

static const char *const step_names[STEP_COUNT] = {"parse", "parse_canonical", "parse_ask",
                                                   "parse_ask_evaluate", "decide"};

static void measure(struct scene *s, enum step step, uint64_t rounds)
{
    for (int i = 0; i < REQUESTS; i++) take(s, step, bodies[i]); /* warm */
    uint64_t begin = cpu_ns();
    for (uint64_t round = 0; round < rounds; round++)
        for (int i = 0; i < REQUESTS; i++) take(s, step, bodies[i]);
    uint64_t ns = rounds == 0 ? 0 : (cpu_ns() - begin) / (REQUESTS * rounds);
    printf("{\"step\":\"%s\",\"ns\":%llu}\n", step_names[step], (unsigned long long)ns);
}

int main(int argc, char **argv)
{
    static struct str anyone[] = {STR("*")};
    static struct key key = {.name = STR("bench"),
                             .owner = STR("bench"),
                             .tenant = STR("default"),
                             .actors = {anyone, 1},
                             .users = {anyone, 1}};
    struct scene s = {.caller = {.key = &key, .tenant = STR("default")}};
    const char *only = NULL;
    uint64_t rounds = ROUNDS_USUALLY;
    int first = 1;
    for (; first + 1 < argc && str_starts(str_from(argv[first]), STR("--")); first += 2) {
        if (strcmp(argv[first], "--step") == 0)
            only = argv[first + 1];
        else if (strcmp(argv[first], "--rounds") != 0 ||
                 !str_to_u64(str_from(argv[first + 1]), &rounds))
            return 2;
    }
    arena_init(&s.arena, 256 << 10, 16 << 20);
    s.tools.hasher = hasher_create();
    s.chance.refill = crypto_random;
    s.tools.chance = &s.chance;
    s.tools.keys = &s.keys;
    s.tools.policies = set_make(argc - first, argv + first);
    bodies_make();
    for (enum step step = STEP_PARSE; step < STEP_COUNT; step++)
        if (only == NULL || strcmp(only, step_names[step]) == 0) measure(&s, step, rounds);
    return 0;
}
