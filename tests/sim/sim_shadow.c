/* sim_shadow.c - a shadow document never changes what is enforced, tried on random sets.
 *
 *   sim_shadow [--count N] [--seed S]
 *
 * Each round makes a random tenant, and the same tenant with one to three shadow documents more:
 * random ones, and such as use up memory or the budget of conditions. Both sets are asked the same
 * requests, with little memory and with much. Everything of the outcome but `would_have` and the
 * cost has to be equal, and so has the memory that is left for the record. If the request asks for
 * an explanation and there is memory for it, what is explained of enforced rules has to be equal
 * instead. A failure prints the seed that repeats it. */
#include "base/world.h"
#include "sim/gate_reference.h"

enum { REQUESTS = 6, ADDED = 3, TEXT_MOST = 4 << 20 };

static uint64_t round_seed;
static uint64_t told, ended, asked, explained, spent_memory, spent_budget, verdicts[4];
static char text[TEXT_MOST];
static bool is_hungry; /* this round's requests have long lists */

static _Noreturn void fail(const char *what, const char *without, const char *with)
{
    fprintf(stderr,
            "FAIL %s: without the shadow document %s, with it %s; repeat with --seed %llu "
            "--count 1\n",
            what, without, with, (unsigned long long)round_seed);
    exit(1);
}

/* ---- outcomes and explanations as text ---- */

static void put_json(struct buf *out, const char *key, const struct json *v)
{
    buf_printf(out, "\n%s: ", key);
    if (v == NULL)
        buf_put_literal(out, "none");
    else
        json_put_canonical(out, v);
}

static void put_str(struct buf *out, const char *key, struct str s)
{
    buf_printf(out, "\n%s: %.*s", key, STR_FORMAT(s));
}

static void put_outcome(struct buf *out, const struct policy_outcome *o)
{
    buf_printf(out, "%s by %s, version %llu, confidence used %d", verdict_name(o->verdict), o->rule,
               (unsigned long long)o->policy_version, o->confidence_used);
    put_str(out, "policy", o->policy_name);
    put_str(out, "reason", o->reason);
    put_str(out, "safe tool", o->safe_tool);
    put_json(out, "safe args", o->safe_args);
    put_json(out, "told args", o->told_args);
    const struct policy_review *r = &o->review;
    buf_printf(out, "\nreview: %u approvals in %llu, good for %llu", r->approvals,
               (unsigned long long)r->expires_in_ms, (unsigned long long)r->good_for_ms);
    put_str(out, "by", r->by);
    for (size_t i = 0; i < r->vote_count; i++) {
        buf_printf(out, "\nvote of kind %d", r->votes[i].kind);
        put_str(out, "rule", r->votes[i].rule_id);
    }
    buf_printf(out, "\nrequirements: %zu", r->requirement_count);
    for (size_t i = 0; i < o->limit_count; i++) {
        const struct policy_limit *l = &o->limits[i];
        put_str(out, "limit", l->rule_id);
        put_str(out, "counts for", l->value);
        buf_printf(out, ", %llu, over %d", (unsigned long long)l->amount, l->over);
    }
}

static void put_memory(struct buf *out, const struct arena *a)
{
    buf_printf(out, "\nmemory: %zu left, overflow %d",
               a->limit_bytes - a->taken_bytes + (size_t)(a->end - a->next), a->overflow);
}

static void on_considered(void *context, const struct policy_considered *c)
{
    struct buf *out = context;
    if (c->shadow) return;
    buf_printf(out, "\n%.*s %d: %.*s", STR_FORMAT(c->rule_id), c->applies, STR_FORMAT(c->why));
}

static void on_nearest(void *context, const struct policy_nearest *n)
{
    struct buf *out = context;
    put_str(out, "nearest", n->rule_id);
    for (size_t i = 0; i < n->lack_count; i++) put_str(out, "lacks", n->lacks[i]);
    for (size_t i = 0; i < n->against_count; i++) put_str(out, "against", n->against[i]);
}

/* ---- asking ---- */

struct asking {
    const struct ref_request *request;
    size_t memory, names;
    uint64_t steps;
    bool explain;
};

static struct json *request_args(struct arena *a, const struct asking *q)
{
    static char body[1 << 20];
    struct json *tree = NULL;
    struct fault f;
    struct json_options options = {0};
    struct buf b = buf_over(body, sizeof body);
    const char *amount = amounts[q->request->amount[0]].text;
    buf_printf(&b, "%.*s", (int)strlen(amount) - 1, amount);
    if (q->names > 0) {
        buf_put(&b, strlen(amount) > 2 ? STR(", \"names\": [") : STR("\"names\": ["));
        for (size_t i = 0; i < q->names; i++) buf_printf(&b, "%s%zu", i == 0 ? "" : ",", i % 7);
        buf_put_byte(&b, ']');
    }
    buf_put_byte(&b, '}');
    return json_read(arena_copy(a, buf_view(&b)), &options, a, &tree, &f) == ERR_OK ? tree : NULL;
}

struct answer { /* of the set, as text */
    struct buf outcome, explanation;
    bool overflow;
    struct policy_outcome o;
};

static void ask(const struct policy_set *set, struct policy_memory *memory, const struct asking *q,
                struct answer *to)
{
    struct policy_outcome *o = &to->o;
    struct arena a, request;
    struct str scope[GLOBS];
    const struct ref_request *r = q->request;
    arena_init(&request, 64 << 10, 64 << 20);
    arena_init(&a, 256, q->memory);
    for (size_t i = 0; i < r->scope.count; i++) scope[i] = str_from(r->scope.list[i]);
    struct policy_request p = {.kind = r->person ? SUBJECT_USER : SUBJECT_AGENT,
                               .tenant = STR("t"),
                               .action = str_from(r->action),
                               .has_confidence = r->has_confidence,
                               .confidence = r->confidence,
                               .has_scope = r->has_scope,
                               .scope = scope,
                               .scope_count = r->scope.count,
                               .approved = r->approved,
                               .approved_count = r->approved_count,
                               .steps = q->steps,
                               .dry_run = q->explain};
    *(r->person ? &p.user : &p.actor) = str_from(r->subject);
    if (r->has_resource) {
        struct json *object = policy_resource_of_text(str_from(r->resource), &request);
        if (object == NULL || !policy_name_resource(&p, object, &request)) exit(1);
    }
    p.args = request_args(&request, q);
    struct policy_explain explain = {
        .considered = on_considered, .nearest = on_nearest, .context = &to->explanation};
    if (q->explain)
        policy_evaluate(set, &p, &a, &explain, o);
    else
        policy_evaluate_remembering(set, memory, &p, &a, o);
    put_outcome(&to->outcome, o);
    if (!q->explain) put_memory(&to->outcome, &a); /* an explanation is not recorded */
    to->overflow = a.overflow;
    arena_fini(&a);
    arena_fini(&request);
}

/* Ends both, to be shown. */
static bool are_equal(struct buf *a, struct buf *b)
{
    buf_put_byte(a, '\0');
    buf_put_byte(b, '\0');
    return !a->overflow && !b->overflow && str_equal(buf_view(a), buf_view(b));
}

static void try_request(const struct policy_set *without, const struct policy_set *with,
                        struct policy_memory *memory)
{
    static const size_t memories[] = {4 << 10, 8 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20};
    static char texts[4][1 << 20];
    static struct ref_request q;
    make_request(&q);
    q.has_confidence = percent(60);
    q.confidence = (double)below(101) / 100.0;
    for (size_t i = 0; i < document_count && percent(30); i++)
        for (size_t k = 0; k < documents[i].rule_count && q.approved_count < VOTES; k++)
            q.approved[q.approved_count++] =
                (struct policy_vote){.kind = (enum policy_vote_kind)below(3),
                                     .policy_name = str_from(documents[i].name),
                                     .rule_id = str_from(documents[i].rules[k].id)};
    struct asking asking = {.request = &q,
                            .memory = memories[percent(40) ? 5 : below(6)],
                            .names = is_hungry ? 5000 + below(4000) : below(4),
                            .explain = percent(15)};
    if (percent(50)) asking.steps = percent(50) ? 1 + below(3000) : 1 + below(POLICY_STEPS_MAX);
    if (!is_hungry && percent(50)) { /* about where the enforced rules end it */
        asking.memory = (1 << 10) + below(7 << 10);
    }
    struct answer a = {.outcome = buf_over(texts[0], sizeof texts[0]),
                       .explanation = buf_over(texts[1], sizeof texts[1])};
    struct answer b = {.outcome = buf_over(texts[2], sizeof texts[2]),
                       .explanation = buf_over(texts[3], sizeof texts[3])};
    ask(without, memory, &asking, &a);
    ask(with, memory, &asking, &b);
    if (!are_equal(&a.outcome, &b.outcome)) fail("outcome", texts[0], texts[2]);
    /* It lists the rules of shadow documents, too, and ends where the memory ends. */
    if (!a.overflow && !b.overflow && !are_equal(&a.explanation, &b.explanation))
        fail("explanation", texts[1], texts[3]);
    asked++;
    verdicts[a.o.verdict]++;
    explained += asking.explain && !b.overflow;
    told += b.o.has_would_have;
    ended += b.o.has_would_have && strcmp(b.o.would_have_rule, "default:deny") == 0;
    spent_memory += strstr(texts[0], "There was not enough memory to decide") != NULL;
    spent_budget += strstr(texts[0], "together cost more than one decision may") != NULL;
}

/* ---- documents ---- */

static void put_hungry_rule(struct buf *b, size_t i, const char *decision, const char *when)
{
    buf_printf(
        b, "%s{id: h%zu, agents: ['*'], users: ['*'], actions: ['*'], decision: %s, when: '%s'}",
        i == 0 ? "" : ",\n", i, decision, when);
}

/* Uses up memory, or what conditions may cost, or does much for nothing. */
static void put_hungry(struct buf *b, bool shadow)
{
    static const char *const conditions[] = {
        "args.names.map(n, [n, n]).size() < 5",
        "args.names.map(n, string(n) + string(n)).size() < 0",
        "args.names.all(x, x >= 0)",
        "args.names.all(x, args.names.exists(y, y > 5))",
        "!(args.names.filter(n, n > 1).size() == 3)",
    };
    static const char *const decisions[] = {"deny", "allow", "human_review"};
    buf_put(b, shadow ? STR("mode: shadow\nrules: [") : STR("rules: ["));
    size_t count = is_hungry && shadow ? 60 : 1 + below(30);
    if (percent(40)) {
        buf_put_literal(b, "{id: c, agents: ['*'], actions: ['*'], decision: compute, compute: "
                           "{tool: safe_call, args: {x: \"${cel.bind(a, args.names, cel.bind(b, "
                           "[a, a, a, a], [b, b, b, b].map(c, c.map(d, d.map(e, [e])))))}\"}}}");
    } else {
        const char *decision = decisions[below(3)], *when = conditions[below(is_hungry ? 3 : 5)];
        for (size_t i = 0; i < count; i++) put_hungry_rule(b, i, decision, when);
    }
    buf_put_literal(b, "]\n");
}

static struct policy_document *load(const char *name, struct buf *b)
{
    struct policy_problems problems;
    struct policy_document *d;
    if (policy_load(str_from(name), buf_view(b), &d, &problems) == ERR_OK) return d;
    fprintf(stderr, "FAIL %s at %u:%u in\n%.*s\n--seed %llu\n", problems.list[0].message,
            problems.list[0].line, problems.list[0].column, STR_FORMAT(buf_view(b)),
            (unsigned long long)round_seed);
    exit(1);
}

static void try_set(struct policy_memory *memory)
{
    static const char *const added[ADDED] = {"AA", "b", "zzz"}; /* before, between and behind */
    static struct ref_document extra;
    struct policy_set_entry entries[DOCUMENTS + 1 + ADDED] = {{0}};
    struct policy_set *without, *with;
    size_t count = 0;
    is_hungry = percent(5);
    document_count = 1 + below(DOCUMENTS);
    for (size_t i = 0; i < document_count; i++) make_document(&documents[i], i);
    if (is_hungry || percent(50)) { /* what shadow documents could change the most */
        struct buf b = buf_over(text, sizeof text);
        buf_put_literal(&b, "rules: [{id: all, agents: ['*'], users: ['*'], actions: ['*'], "
                            "decision: allow}]");
        entries[count].version = 1;
        entries[count++].document = load(documents[0].name, &b);
    }
    for (size_t i = count; i < document_count && !is_hungry; i++) {
        struct buf b = buf_over(text, sizeof text);
        put_document(&b, &documents[i]);
        entries[count].version = i + 1;
        entries[count++].document = load(documents[i].name, &b);
    }
    if (percent(20)) {
        struct buf b = buf_over(text, sizeof text);
        put_hungry(&b, false);
        entries[count].version = 7;
        entries[count++].document = load("hungry", &b);
    }
    size_t enforced = count;
    for (size_t i = 0, first = below(ADDED); i <= first; i++) {
        struct buf b = buf_over(text, sizeof text);
        if (!is_hungry && percent(50)) {
            make_document(&extra, i);
            extra.shadow = true;
            put_document(&b, &extra);
        } else {
            put_hungry(&b, true);
        }
        entries[count].version = 1;
        entries[count++].document = load(added[(i + first) % ADDED], &b);
    }
    if (policy_set_create(entries, enforced, &without, NULL) != ERR_OK ||
        policy_set_create(entries, count, &with, NULL) != ERR_OK)
        exit(1);
    for (size_t i = 0; i < count; i++) policy_document_release(entries[i].document);
    for (size_t i = 0; i < (is_hungry ? 1 : REQUESTS); i++) try_request(without, with, memory);
    policy_set_destroy(without);
    policy_set_destroy(with);
}

int main(int argc, char **argv)
{
    uint64_t count = 400, seed = world_now_ms();
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--count") == 0) count = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--seed") == 0) seed = strtoull(argv[i + 1], NULL, 10);
    }
    printf("sim_shadow: seed %llu, %llu sets\n", (unsigned long long)seed,
           (unsigned long long)count);
    struct policy_memory *memory = policy_memory_create(64);
    for (uint64_t i = 0; i < count; i++) {
        round_seed = state = seed + i;
        try_set(memory);
    }
    policy_memory_destroy(memory);
    printf(
        "%llu requests, %llu explained; allow %llu, compute %llu, human_review %llu, deny %llu; "
        "shadow would change %llu, and ends for memory or cost %llu; enforced rules end for memory "
        "%llu, for cost %llu\n",
        (unsigned long long)asked, (unsigned long long)explained,
        (unsigned long long)verdicts[VERDICT_ALLOW], (unsigned long long)verdicts[VERDICT_COMPUTE],
        (unsigned long long)verdicts[VERDICT_HUMAN_REVIEW],
        (unsigned long long)verdicts[VERDICT_DENY], (unsigned long long)told,
        (unsigned long long)ended, (unsigned long long)spent_memory,
        (unsigned long long)spent_budget);
    bool all = explained && verdicts[0] && verdicts[1] && verdicts[2] && verdicts[3] && told &&
               ended && spent_memory && spent_budget;
    if (count >= 400 && !all) {
        printf("FAIL: something was never tried\n");
        return 1;
    }
    printf("%llu passed, 0 failed\n", (unsigned long long)count);
    return 0;
}
