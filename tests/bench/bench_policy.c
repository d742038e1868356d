/* bench_policy.c - what a decision costs at 10 to 100,000 rules, and what it costs to get there.
 *
 *   bench_policy [--json] [--shape NAME] [--rules N]
 *
 * Each row is one shape of rules (policy_shapes.h) at growing numbers; what matters is the cost
 * beside that of ten rules, which must not grow with rules that cannot match. Requests vary, half
 * of them match a rule. All times are this thread's own CPU time, so that a busy machine tells
 * nearly the same; the best of several rounds, since others share its caches.
 *
 *   decide  body in, record and answer out, over 4,096 different requests: what a client's decision
 *           takes in the engine, its transport and journal aside
 *   cold    the policy's part alone over the same requests: each meets rules that the caches have
 *           forgotten by then
 *   hot     the same over 64 requests, which leaves the work without the misses
 *   load    documents' text to compiled documents, in thousands of rules a second
 *   join    documents to a set with its index; done again for any change of the tenant
 *   MB      documents and set together, resident
 *
 * The last line is of masks: what looking takes at a request without a masked name, and over a body
 * of 31,000 values beside 1,000 masks.
 *
 * One shape and one number of rules are for a profiler; its ratios then say nothing. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/world.h"
#include "tests/bench/policy_shapes.h"
#include "engine/decision/decide.h"

enum {
    REQUESTS = 4096, /* a power of two */
    HOT = 64,
    ROUNDS = 60,
    DECIDE_ROUNDS = 12,
    BODY_BYTES = 512,
    DOCUMENTS_MAX = 128,
    NOBODYS = 200000, /* a number of no rule, where added to one */
};

/* ---- tenants ---- */

struct built {
    struct policy_set *set;
    size_t documents;
    double load_ns, join_ns, bytes;
};

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double resident_bytes(void)
{
    unsigned long pages = 0;
    malloc_trim(0);
    FILE *statm = fopen("/proc/self/statm", "r");
    if (statm == NULL || fscanf(statm, "%*u %lu", &pages) != 1) exit(1);
    fclose(statm);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static struct policy_document *document_make(const struct shape *shape, size_t number, size_t from,
                                             size_t to, double *load_ns)
{
    struct buf text;
    buf_init(&text, 1 << 16, 4 << 20);
    shape_put_document(shape, from, to, &text);
    char name[16];
    snprintf(name, sizeof name, "d%03zu", number);
    struct policy_problems problems;
    struct policy_document *document = NULL;
    uint64_t start = cpu_ns();
    enum err err = policy_load(str_from(name), buf_view(&text), &document, &problems);
    *load_ns += (double)(cpu_ns() - start);
    buf_fini(&text);
    if (err == ERR_OK) return document;
    fprintf(stderr, "%s: %s\n", shape->name, problems.list[0].message);
    exit(1);
}

static struct built tenant_make(const struct shape *shape, size_t rules)
{
    struct policy_set_entry entries[DOCUMENTS_MAX] = {{0}};
    struct built b = {.bytes = -resident_bytes()};
    size_t each = shape_document_rules(shape);
    for (size_t from = 0; from < rules; from += each, b.documents++) {
        size_t to = from + each < rules ? from + each : rules;
        struct policy_document *d = document_make(shape, b.documents, from, to, &b.load_ns);
        entries[b.documents] = (struct policy_set_entry){.document = d, .version = 1};
    }
    uint64_t start = cpu_ns();
    if (policy_set_create(entries, b.documents, &b.set, NULL) != ERR_OK) exit(1);
    b.join_ns = (double)(cpu_ns() - start);
    for (size_t i = 0; i < b.documents; i++) policy_document_release(entries[i].document);
    b.bytes += resident_bytes();
    return b;
}

/* ---- requests ---- */

struct request {
    char actor[SHAPE_NAME_BYTES], action[SHAPE_NAME_BYTES], id[SHAPE_NAME_BYTES], resource[64];
    struct policy_request policy;
    char body[BODY_BYTES];
    struct str text;
};

static struct request requests[REQUESTS];

static struct json amount = {.type = JSON_NUMBER, .number = 12.34, .key = STR("amount")};
static const struct json args = {.type = JSON_OBJECT, .count = 1, .child = &amount};

static void request_make(const struct shape *shape, size_t number, size_t beyond, struct request *q)
{
    const struct shape *s = shape_at(shape, number);
    shape_name(s->actor, number + beyond, q->actor);
    shape_name(s->action, number + beyond, q->action);
    shape_name(s->resource, number + beyond, q->id);
    snprintf(q->resource, sizeof q->resource, "doc:%s", q->id);
    q->policy = (struct policy_request){.kind = SUBJECT_AGENT,
                                        .tenant = STR("default"),
                                        .actor = str_from(q->actor),
                                        .action = str_from(q->action),
                                        .args = &args,
                                        .has_confidence = true,
                                        .confidence = 0.95};
    if (s->resource != NULL) q->policy.resource = str_from(q->resource);
    struct buf body = buf_over(q->body, sizeof q->body);
    buf_printf(&body, "{\"action\":\"%s\",\"actor\":\"%s\",\"confidence\":0.95,", q->action,
               q->actor);
    if (s->resource != NULL)
        buf_printf(&body, "\"resource\":{\"type\":\"doc\",\"id\":\"%s\"},", q->id);
    buf_printf(&body, "\"args\":{\"amount\":12.34,\"note\":\"please look at %zu soon\"}}", number);
    q->text = buf_view(&body);
}

static void requests_make(const struct shape *shape, size_t rules)
{
    uint64_t state = 7;
    for (size_t i = 0; i < REQUESTS; i++) {
        state =
            state * 6364136223846793005u + 1442695040888963407u; /* Knuth's, the same each time */
        request_make(shape, (size_t)(state >> 33) % rules, i % 2 == 1 ? NOBODYS : 0, &requests[i]);
    }
}

/* ---- measuring ---- */

static double evaluate_ns(const struct policy_set *set, size_t distinct, size_t *ret_matched)
{
    struct arena arena;
    arena_init(&arena, 16 << 10, 1 << 20);
    double best = 1e18;
    for (int round = 0; round < ROUNDS; round++) {
        size_t matched = 0;
        uint64_t start = cpu_ns();
        for (size_t i = 0; i < REQUESTS; i++) {
            struct policy_outcome outcome;
            arena_reset(&arena);
            policy_evaluate(set, &requests[i & (distinct - 1)].policy, &arena, NULL, &outcome);
            matched += !str_is_absent(outcome.policy_name);
        }
        double each = (double)(cpu_ns() - start) / REQUESTS;
        if (each < best) best = each;
        *ret_matched = matched;
    }
    arena_fini(&arena);
    return best;
}

static volatile size_t sink; /* so that nothing measured is left out as unused */

static void decide_one(struct decide_tools *tools, const struct caller *by, struct arena *arena,
                       struct str text)
{
    static const struct json_options options = {0};
    struct caller caller = *by;
    struct json *body;
    struct fault f;
    struct auth_request ask;
    struct decision d;
    arena_reset(arena);
    if (json_read(text, &options, arena, &body, &f) != ERR_OK) exit(1);
    struct auth_request_source source = {
        .form = ASK_AGENT, .chance = tools->chance, .arena = arena};
    if (auth_request_read(&source, &caller, body, &ask, &f) != ERR_OK) exit(1);
    tools->now_ms = world_now_ms();
    tools->started_ns = world_monotonic_ns();
    memset(&d, 0, sizeof d);
    decide_begin(&d, tools, &caller, &ask, arena);
    decide_evaluate(&d);
    decide_describe(&d);
    if (decide_settle(&d, &f) != ERR_OK) exit(1);
    sink = d.record.size + d.answer.size;
}

static double decide_ns(const struct policy_set *set)
{
    static struct str anyone[] = {STR("*")};
    static struct key key = {.name = STR("bench"),
                             .owner = STR("bench"),
                             .tenant = STR("default"),
                             .actors = {anyone, 1},
                             .users = {anyone, 1}};
    struct caller caller = {.key = &key, .tenant = STR("default")};
    struct chance chance = {.refill = crypto_random};
    struct digest_keys keys = {0};
    struct decide_tools tools = {
        .hasher = hasher_create(), .chance = &chance, .keys = &keys, .policies = set};
    struct arena arena;
    arena_init(&arena, 256 << 10, 16 << 20);
    double best = 1e18;
    for (int round = 0; round < DECIDE_ROUNDS; round++) {
        uint64_t start = cpu_ns();
        for (size_t i = 0; i < REQUESTS; i++) decide_one(&tools, &caller, &arena, requests[i].text);
        double each = (double)(cpu_ns() - start) / REQUESTS;
        if (each < best) best = each;
    }
    arena_fini(&arena);
    hasher_destroy(tools.hasher);
    return best;
}

/* ---- rows ---- */

struct row {
    struct built built;
    size_t rules, matched;
    double decide, cold, hot;
};

static void row_measure(const struct shape *shape, size_t rules, struct row *r)
{
    *r = (struct row){.rules = rules, .built = tenant_make(shape, rules)};
    requests_make(shape, rules);
    r->decide = decide_ns(r->built.set);
    r->cold = evaluate_ns(r->built.set, REQUESTS, &r->matched);
    r->hot = evaluate_ns(r->built.set, HOT, &(size_t){0});
    policy_set_destroy(r->built.set);
}

static void row_print(const struct shape *shape, const struct row *r, const struct row *ten,
                      const char *separator, bool json)
{
    double krules = (double)r->rules / (r->built.load_ns / 1e6);
    const char *format =
        json ? "%s{\"shape\": \"%s\", \"rules\": %zu, \"documents\": %zu, \"matched\": %zu, "
               "\"decide_ns\": %.0f, \"decide_ratio\": %.2f, \"ns\": %.0f, \"ratio\": %.2f, "
               "\"hot_ns\": %.0f, \"hot_ratio\": %.2f, \"load_krules_s\": %.0f, \"join_ms\": %.1f, "
               "\"megabytes\": %.1f}"
             : "%s%-9s %7zu %5zu %8zu %10.0f %6.2f %8.0f %6.2f %8.0f %6.2f %9.0f %8.1f %7.1f\n";
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    printf(format, separator, shape->name, r->rules, r->built.documents, r->matched, r->decide,
           r->decide / ten->decide, r->cold, r->cold / ten->cold, r->hot, r->hot / ten->hot, krules,
           r->built.join_ns / 1e6, r->built.bytes / 1e6);
#pragma GCC diagnostic pop
    fflush(stdout);
}

static bool read_arguments(int argc, char **argv, bool *json, const char **shape, uint64_t *rules)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            *json = true;
        else if (strcmp(argv[i], "--shape") == 0 && i + 1 < argc)
            *shape = argv[++i];
        else if (strcmp(argv[i], "--rules") != 0 || i + 1 == argc ||
                 !str_to_u64(str_from(argv[++i]), rules) || *rules == 0)
            return false;
    }
    return true;
}

/* ---- masks ---- */

struct mask_cost {
    double request_ns, body_us;
};

static double look_ns(const struct policy_set *set, const struct json *value, size_t times)
{
    uint64_t best = UINT64_MAX;
    for (size_t round = 0; round < 10; round++) {
        uint64_t start = cpu_ns();
        for (size_t i = 0; i < times; i++)
            if (policy_masks_in(set, STR("args"), value)) exit(1);
        uint64_t took = cpu_ns() - start;
        if (took < best) best = took;
    }
    return (double)best / (double)times;
}

static void masks_measure(struct mask_cost *ret)
{
    enum { DOCUMENTS = 5, MASKS = 200, VALUES = 31000 };
    struct policy_set_entry entries[DOCUMENTS] = {{0}};
    struct policy_set *set;
    struct policy_problems problems;
    struct arena arena;
    struct json *small, *large;
    struct buf text;
    buf_init(&text, 1 << 16, 4 << 20);
    for (size_t d = 0; d < DOCUMENTS; d++) {
        buf_clear(&text);
        buf_put_literal(&text, "mask: [args.card");
        for (size_t i = 1; i < MASKS; i++) buf_printf(&text, ", args.a.*.*.q%zu", d * MASKS + i);
        buf_put_literal(&text, "]\n");
        char name[2] = {(char)('a' + d), '\0'};
        if (policy_load(str_from(name), buf_view(&text), &entries[d].document, &problems) != ERR_OK)
            exit(1);
        entries[d].version = 1;
    }
    if (policy_set_create(entries, DOCUMENTS, &set, NULL) != ERR_OK) exit(1);
    for (size_t d = 0; d < DOCUMENTS; d++) policy_document_release(entries[d].document);
    buf_clear(&text);
    buf_put_literal(&text, "{\"a\":{\"y\":[1");
    for (size_t i = 1; i < VALUES; i++) buf_put_literal(&text, ",1");
    buf_put_literal(&text, "]}}");
    arena_init(&arena, 1 << 20, 64 << 20);
    const struct json_options options = {0};
    struct str plain = STR("{\"invoice_id\":\"inv-4711\",\"amount\":120.5,\"currency\":\"EUR\"}");
    if (json_read(plain, &options, &arena, &small, NULL) != ERR_OK) exit(1);
    if (json_read(buf_view(&text), &options, &arena, &large, NULL) != ERR_OK) exit(1);
    ret->request_ns = look_ns(set, small, 10000);
    ret->body_us = look_ns(set, large, 10) / 1000;
    policy_set_destroy(set);
    arena_fini(&arena);
    buf_fini(&text);
}

int main(int argc, char **argv)
{
    static const size_t counts[] = {10, 1000, 10000, 100000};
    bool json = false;
    const char *only = NULL, *separator = "";
    uint64_t only_rules = 0;
    if (!read_arguments(argc, argv, &json, &only, &only_rules)) return 2;
    if (json)
        printf("{\"rows\": [");
    else
        printf("%-9s %7s %5s %8s %10s %6s %8s %6s %8s %6s %9s %8s %7s\n", "shape", "rules", "docs",
               "matched", "decide ns", "to ten", "cold ns", "to ten", "hot ns", "to ten",
               "k rules/s", "join ms", "MB");
    for (size_t s = 0; s < SHAPES; s++) {
        if (only != NULL && strcmp(only, shapes[s].name) != 0) continue;
        struct row ten = {0};
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            if (only_rules != 0 && counts[c] != only_rules) continue;
            struct row r;
            row_measure(&shapes[s], counts[c], &r);
            if (ten.rules == 0) ten = r;
            row_print(&shapes[s], &r, &ten, separator, json);
            if (json) separator = ", ";
        }
    }
    struct mask_cost masks;
    masks_measure(&masks);
    if (json)
        printf("], \"masks\": {\"request_ns\": %.0f, \"body_us\": %.0f}}\n", masks.request_ns,
               masks.body_us);
    else
        printf(
            "masks     %.0f ns for a request without one, %.0f us over 31,000 values beside 1,000\n",
            masks.request_ns, masks.body_us);
    return 0;
}
