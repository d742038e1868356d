/* bench_policy.c - nanoseconds per evaluation, by number and shape of rules.
 *
 *   bench_policy [--json]
 *
 * Each row is one shape of rules at growing numbers; what matters is the cost beside that of ten
 * rules, which must not grow with rules that cannot match. Requests vary, half of them match.
 * Twice: `cold` over 4,096 different requests, so that every one meets rules that the caches have
 * forgotten; `hot` over 64 of them, which leaves the work alone without the misses. */
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/world.h"
#include "policy/policy.h"

enum { REQUESTS = 4096, HOT = 64, RULES_PER_DOCUMENT = 7000, ROUNDS = 60 };

struct shape {
    const char *name;
    const char *rule;           /* %zu: the rule's number */
    const char *actor, *action; /* %zu: a number of a rule, or one beyond all */
};

static const struct shape shapes[] = {
    {"exact", "{id: r%zu, agents: [invoice_bot], actions: [tool_%05zu], decision: allow}",
     "invoice_bot", "tool_%05zu"},
    {"prefix", "{id: r%zu, agents: [invoice_bot], actions: [\"svc%05zu_*\"], decision: allow}",
     "invoice_bot", "svc%05zu_get"},
    {"suffix", "{id: r%zu, agents: [invoice_bot], actions: [\"*_of_%05zu\"], decision: allow}",
     "invoice_bot", "get_of_%05zu"},
    {"inner", "{id: r%zu, agents: [invoice_bot], actions: [\"*_x%05zuy_*\"], decision: deny}",
     "invoice_bot", "get_x%05zuy_all"},
    {"two ends", "{id: r%zu, agents: [invoice_bot], actions: [\"write_*_%05zu\"], decision: allow}",
     "invoice_bot", "write_a_%05zu"},
    {"subject", "{id: r%zu, agents: [bot_%05zu], actions: [read_file], decision: allow}",
     "bot_%05zu", "read_file"},
    {"limit",
     "{id: r%zu, agents: [invoice_bot], actions: [tool_%05zu], decision: allow, limit: {window: "
     "1h, count: 30, sum: args.amount, max: 5000}}",
     "invoice_bot", "tool_%05zu"},
};

/* `count` rules of a shape in documents of at most RULES_PER_DOCUMENT, with a deny and a gate. */
static struct policy_set *set_make(const struct shape *shape, size_t count)
{
    struct policy_set_entry entries[32] = {{0}};
    size_t documents = 0;
    for (size_t from = 0; from < count; from += RULES_PER_DOCUMENT, documents++) {
        struct buf text;
        buf_init(&text, 1 << 16, 4 << 20);
        buf_put_literal(&text, "confidence: {allow_at: 0.9, review_at: 0.5}\nrules:\n");
        for (size_t i = from; i < count && i < from + RULES_PER_DOCUMENT; i++) {
            char line[256];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            snprintf(line, sizeof line, shape->rule, i, i);
#pragma GCC diagnostic pop
            buf_printf(&text, "  - %s\n", line);
        }
        char name[16];
        snprintf(name, sizeof name, "d%03zu", documents);
        struct policy_problems problems;
        if (policy_load(str_from(name), buf_view(&text), &entries[documents].document, &problems) !=
            ERR_OK) {
            fprintf(stderr, "%s: %s\n", shape->name, problems.list[0].message);
            exit(1);
        }
        entries[documents].version = 1;
        buf_fini(&text);
    }
    struct policy_set *set = NULL;
    if (policy_set_create(entries, documents, &set, NULL) != ERR_OK) exit(1);
    for (size_t i = 0; i < documents; i++) policy_document_release(entries[i].document);
    return set;
}

static struct policy_request requests[REQUESTS];
static char names[REQUESTS][2][48];

static struct json amount = {.type = JSON_NUMBER, .number = 12.34, .key = STR("amount")};
static const struct json args = {.type = JSON_OBJECT, .count = 1, .child = &amount};

static void requests_make(const struct shape *shape, size_t count)
{
    uint64_t state = 7;
    for (size_t i = 0; i < REQUESTS; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        size_t number = (size_t)(state >> 33) % count;
        if (i % 2 == 1) number += 200000;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(names[i][0], sizeof names[i][0], shape->actor, number);
        snprintf(names[i][1], sizeof names[i][1], shape->action, number);
#pragma GCC diagnostic pop
        requests[i] = (struct policy_request){.kind = SUBJECT_AGENT,
                                              .tenant = STR("default"),
                                              .actor = str_from(names[i][0]),
                                              .action = str_from(names[i][1]),
                                              .args = &args,
                                              .has_confidence = true,
                                              .confidence = 0.95};
    }
}

/* The best round over the first `distinct` requests, a power of two, again and again. */
static double measure(const struct policy_set *set, size_t distinct, size_t *ret_matched)
{
    struct arena arena;
    arena_init(&arena, 16 << 10, 1 << 20);
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        size_t matched = 0, passes = 1;
        uint64_t start = world_monotonic_ns();
        for (size_t pass = 0; pass < passes; pass++) {
            for (size_t i = 0; i < REQUESTS; i++) {
                struct policy_outcome outcome;
                arena_reset(&arena);
                policy_evaluate(set, &requests[i & (distinct - 1)], &arena, NULL, &outcome);
                matched += !str_is_absent(outcome.policy_name);
            }
        }
        double each = (double)(world_monotonic_ns() - start) / (double)(passes * REQUESTS);
        if (each < best) best = each;
        *ret_matched = matched / passes;
    }
    arena_fini(&arena);
    return best;
}

int main(int argc, char **argv)
{
    static const size_t counts[] = {10, 1000, 10000, 100000};
    bool json = argc > 1 && strcmp(argv[1], "--json") == 0;
    printf(json ? "{\"rows\": [" : "%-9s %8s %8s %9s %8s %7s %8s %7s\n", "shape", "rules",
           "matched", "build ms", "cold ns", "to ten", "hot ns", "to ten");
    const char *separator = "";
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        double first = 0, first_hot = 0;
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            size_t matched = 0;
            uint64_t start = world_monotonic_ns();
            struct policy_set *set = set_make(&shapes[s], counts[c]);
            double build_ms = (double)(world_monotonic_ns() - start) / 1e6;
            requests_make(&shapes[s], counts[c]);
            double ns = measure(set, REQUESTS, &matched);
            double hot = measure(set, HOT, &(size_t){0});
            if (c == 0) first = ns, first_hot = hot;
            printf(
                json ? "%s{\"shape\": \"%s\", \"rules\": %zu, \"matched\": %zu, \"build_ms\": "
                       "%.1f, \"ns\": %.0f, \"ratio\": %.2f, \"hot_ns\": %.0f, \"hot_ratio\": %.2f}"
                     : "%s%-9s %8zu %8zu %9.1f %8.0f %7.2f %8.0f %7.2f\n",
                separator, shapes[s].name, counts[c], matched, build_ms, ns, ns / first, hot,
                hot / first_hot);
            if (json) separator = ", ";
            policy_set_destroy(set);
        }
    }
    if (json) printf("]}\n");
    return 0;
}
