/* sim_gate.c - what a decision may never be, tried on random policies and requests.
 *
 *   sim_gate [--count N] [--seed S]
 *
 * Each round makes a tenant of a few random documents, loads them through the public door, and
 * asks it random requests, each with two confidences c1 < c2 and with none. It checks that
 *
 *   - a lower confidence is never looser, and a missing one, where a gate looks, at best a review;
 *   - nothing is allowed without an allow vote;
 *   - an approval turns human_review votes and nothing else: none of them changes nothing, a deny
 *     stays the deny it was, more of them are never stricter, and all of them leave no review;
 *   - what is counted, and what over a limit means, is what the rules that apply say;
 *   - outcome and explanation equal those of gate_reference.h: a plain walk over all rules that
 *     shares no code with the evaluator (own glob matcher, own order, own joining).
 *
 * Names and patterns come from a small vocabulary, so that they meet often; some rules pile up
 * under one action, or one action and subject with resources that differ, some selectors are long,
 * some names have odd characters or are long, some resources no type, some rules conditions that
 * hold, do not, or fail. A failure prints the seed that repeats it. */
#include "base/limits.h"
#include "base/world.h"
#include "sim/gate_reference.h"

/* ---- comparing ---- */

static uint64_t round_seed;
static struct policy_set *set;
static struct policy_memory *memory;
static struct arena arena;
static uint64_t outcomes[4], strictened, gate_decided, shadow_told, scope_denied, unsafe_denied,
    reviews_joined, limits_seen, limits_lifted, limits_over, approvals_tried, approvals_turned,
    long_names, limits_met_by_shadow;

static void tell_tenant(void)
{
    static char text[1 << 20];
    for (size_t i = 0; i < document_count; i++) {
        struct buf b = buf_over(text, sizeof text);
        put_document(&b, &documents[i]);
        fprintf(stderr, "--- %s\n%.*s\n", documents[i].name, STR_FORMAT(buf_view(&b)));
    }
}

static void fail(const struct ref_request *q, const char *what, const char *expected,
                 const char *got)
{
    tell_tenant();
    fprintf(stderr, "%s \"%s\" does \"%s\" on \"%s\", confidence %s%g\n",
            q->person ? "user" : "agent", q->subject, q->action, q->resource,
            q->has_confidence ? "" : "none ", q->confidence);
    fprintf(stderr, "FAIL %s: expected %s, got %s; repeat with --seed %llu --count 1\n", what,
            expected, got, (unsigned long long)round_seed);
    exit(1);
}

static void same_text(const struct ref_request *q, const char *what, const char *expected,
                      struct str got)
{
    if (str_equal(str_from(expected), got)) return;
    char text[512];
    snprintf(text, sizeof text, "\"%.*s\"", STR_FORMAT(got));
    fail(q, what, expected, text);
}

static void same_number(const struct ref_request *q, const char *what, uint64_t expected,
                        uint64_t got)
{
    char a[32], b[32];
    snprintf(a, sizeof a, "%llu", (unsigned long long)expected);
    snprintf(b, sizeof b, "%llu", (unsigned long long)got);
    if (expected != got) fail(q, what, a, b);
}

struct explanation {
    const struct ref_request *request;
    size_t document, rule;
    bool allow_vote;
};

static void on_considered(void *context, const struct policy_considered *c)
{
    struct explanation *e = context;
    while (e->document < document_count && e->rule == documents[e->document].rule_count)
        e->document++, e->rule = 0;
    if (e->document == document_count) fail(e->request, "explanation", "its end", "one more rule");
    const struct ref_document *d = &documents[e->document];
    const struct ref_rule *r = &d->rules[e->rule++];
    same_text(e->request, "explained policy", d->name, c->policy_name);
    same_text(e->request, "explained rule", r->id, c->rule_id);
    same_number(e->request, "explained shadow", d->shadow, c->shadow);
    same_number(e->request, "explained applies", applies(r, e->request, e->request->action),
                c->applies);
    if (str_is_empty(c->why)) fail(e->request, "explanation", "a reason", "none");
    e->allow_vote |= c->applies && !c->shadow && c->verdict == VERDICT_ALLOW;
}

static struct json *amount_tree(size_t which, const char *under)
{
    char text[100];
    struct json *tree = NULL;
    struct fault f;
    struct json_options options = {0};
    if (under == NULL)
        snprintf(text, sizeof text, "%s", amounts[which].text);
    else
        snprintf(text, sizeof text, "{\"%s\": %s}", under, amounts[which].text);
    struct str kept = arena_copy(&arena, str_from(text));
    if (json_read(kept, &options, &arena, &tree, &f) != ERR_OK) exit(1);
    return tree;
}

static void evaluate(const struct ref_request *q, struct policy_outcome *o, struct explanation *e)
{
    struct str scope[GLOBS], token_scope[GLOBS];
    for (size_t i = 0; i < q->scope.count; i++) scope[i] = str_from(q->scope.list[i]);
    for (size_t i = 0; i < q->token_scope.count; i++)
        token_scope[i] = str_from(q->token_scope.list[i]);
    struct policy_request p = {.kind = q->person ? SUBJECT_USER : SUBJECT_AGENT,
                               .tenant = STR("t"),
                               .action = str_from(q->action),
                               .has_confidence = q->has_confidence,
                               .confidence = q->confidence,
                               .has_scope = q->has_scope,
                               .scope = scope,
                               .scope_count = q->scope.count,
                               .has_token_scope = q->has_token_scope,
                               .token_scope = token_scope,
                               .token_scope_count = q->token_scope.count,
                               .approved = q->approved_count == 0 ? NULL : q->approved,
                               .approved_count = q->approved_count};
    if (q->acting_for[0] != '\0') p.acting_for = str_from(q->acting_for);
    *(q->person ? &p.user : &p.actor) = str_from(q->subject);
    struct policy_explain explain = {.considered = on_considered, .context = e};
    arena_reset(&arena);
    if (q->has_resource) {
        struct json *object = policy_resource_of_text(str_from(q->resource), &arena);
        if (object == NULL || !policy_name_resource(&p, object, &arena)) exit(1);
    }
    p.args = amount_tree(q->amount[0], NULL);
    p.context = amount_tree(q->amount[1], NULL);
    p.resource_object = amount_tree(q->amount[2], "properties");
    if (e != NULL)
        policy_evaluate(set, &p, &arena, &explain, o);
    else /* with few places, so that actions displace each other */
        policy_evaluate_remembering(set, memory, &p, &arena, o);
}

static struct str or_empty(struct str s) { return str_is_absent(s) ? STR("") : s; }

static void compare_review(const struct ref_request *q, const struct ref_outcome *r,
                           const struct policy_review *v)
{
    same_number(q, "requirements", r->asking_count, v->requirement_count);
    for (size_t i = 0; i < r->asking_count; i++) {
        same_number(q, "required approvals", r->asking[i]->approvals, v->requirements[i].approvals);
        same_number(q, "required roles", r->asking[i]->by_count, v->requirements[i].by_count);
        for (size_t k = 0; k < r->asking[i]->by_count; k++)
            same_text(q, "required role", r->asking[i]->by[k], v->requirements[i].by[k]);
    }
    same_number(q, "votes", r->vote_count, v->vote_count);
    for (size_t i = 0; i < r->vote_count; i++) {
        const struct ref_rule *by = r->votes[i].rule;
        same_number(q, "vote's kind", r->votes[i].kind, v->votes[i].kind);
        same_text(q, "vote's rule", by->id, v->votes[i].rule_id);
        same_text(q, "vote's policy", documents[by->document].name, v->votes[i].policy_name);
    }
}

static void compare_limits(const struct ref_request *q, const struct ref_outcome *r,
                           const struct policy_outcome *o)
{
    bool counts = r->verdict == VERDICT_ALLOW || r->verdict == VERDICT_COMPUTE;
    same_number(q, "limits", counts ? r->limited_count : 0, o->limit_count);
    for (size_t i = 0; i < o->limit_count; i++) {
        const struct ref_limit *l = &r->limited[i]->limit;
        const struct policy_limit *got = &o->limits[i];
        const char *values[] = {q->person ? "" : q->subject, q->person ? q->subject : "",
                                q->acting_for, "t", q->has_resource ? q->resource : ""};
        enum verdict over = l->asks ? VERDICT_HUMAN_REVIEW : VERDICT_DENY;
        if (l->asks && approved(q, VOTE_LIMIT, r->limited[i])) over = VERDICT_ALLOW;
        same_text(q, "limit's rule", r->limited[i]->id, got->rule_id);
        same_text(q, "limit's policy", documents[r->limited[i]->document].name, got->policy_name);
        same_number(q, "limit's per", l->per, got->per);
        char counted[2 * TEXT + 1];
        same_text(q, "limit's value", counted_as(values[l->per], l->per == PER_RESOURCE, counted),
                  or_empty(got->value));
        same_number(q, "limit's window", l->window_s * 1000ull, got->window_ms);
        same_number(q, "limit's count", l->has_count ? l->count : 0, got->count_max);
        same_number(q, "limit has a max", l->has_max, got->has_max);
        if (l->has_max) {
            same_number(q, "limit's max", l->max_hundredths * 10000ull, (uint64_t)got->amount_max);
            same_number(q, "limit's amount", (uint64_t)amounts[q->amount[l->root]].millionths,
                        (uint64_t)got->amount);
        }
        same_text(q, "limit's over", verdict_name(over), str_from(verdict_name(got->over)));
        limits_seen++;
        limits_lifted += over == VERDICT_ALLOW;
    }
}

/* Each limit of an outcome, as if it alone were over. */
static void try_over(const struct ref_request *q, const struct policy_outcome *was)
{
    for (size_t i = 0; i < was->limit_count; i++) {
        const struct policy_limit *l = &was->limits[i];
        struct policy_outcome o = *was;
        char rule[POLICY_RULE_TEXT];
        policy_over_limit(l, &arena, &o);
        if (l->over == VERDICT_ALLOW) {
            same_text(q, "lifted limit", was->rule, str_from(o.rule));
            continue;
        }
        snprintf(rule, sizeof rule, "limit:%.*s", STR_FORMAT(l->rule_id));
        same_text(q, "over a limit", rule, str_from(o.rule));
        same_number(q, "over", l->over, o.verdict);
        same_number(q, "limits when over", 0, o.limit_count);
        if (str_is_empty(o.reason)) fail(q, "reason when over", "a sentence", "none");
        bool asks = l->over == VERDICT_HUMAN_REVIEW;
        same_number(q, "votes when over", asks ? was->review.vote_count + 1 : 0,
                    o.review.vote_count);
        if (asks)
            same_number(q, "kind of the last vote", VOTE_LIMIT,
                        o.review.votes[o.review.vote_count - 1].kind);
        limits_over++;
    }
}

static bool permits(enum verdict v) { return v == VERDICT_ALLOW || v == VERDICT_COMPUTE; }

/* What shadow documents would permit meets their limits; where nothing is permitted now, also those
 * in force: as far as is known without counting. */
static void meet_limits(const struct ref_request *q, bool is_permitted, struct ref_outcome *o)
{
    for (size_t i = 0; i < o->limited_count; i++) {
        const struct ref_rule *r = o->limited[i];
        const struct ref_limit *l = &r->limit;
        int64_t amount = amounts[q->amount[l->root]].millionths;
        if (is_permitted && !documents[r->document].shadow) continue;
        if (!l->has_max || (amount >= 0 && (uint64_t)amount <= l->max_hundredths * 10000ull))
            continue;
        if (l->asks && approved(q, VOTE_LIMIT, r)) continue;
        o->verdict = l->asks ? VERDICT_HUMAN_REVIEW : VERDICT_DENY;
        snprintf(o->rule, sizeof o->rule, "limit:%s", r->id);
        put(o->policy, documents[r->document].name);
        limits_met_by_shadow++;
        return;
    }
}

static void compare(const struct ref_request *q, const struct policy_outcome *o,
                    enum verdict *ret_joint)
{
    static struct ref_outcome r, both; /* large */
    r = reference(q, false);
    both = reference(q, true);
    *ret_joint = both.verdict;
    if (permits(both.verdict)) meet_limits(q, permits(r.verdict), &both);
    same_text(q, "decision", verdict_name(r.verdict), str_from(verdict_name(o->verdict)));
    same_text(q, "rule", r.rule, str_from(o->rule));
    same_text(q, "policy", r.policy, str_is_absent(o->policy_name) ? STR("") : o->policy_name);
    same_text(q, "safe tool", r.safe_tool, str_is_absent(o->safe_tool) ? STR("") : o->safe_tool);
    same_number(q, "confidence_used", r.used, o->confidence_used);
    if (str_is_empty(o->reason)) fail(q, "reason", "a sentence", "none");
    compare_limits(q, &r, o);
    try_over(q, o);
    if (r.verdict == VERDICT_HUMAN_REVIEW) {
        compare_review(q, &r, &o->review);
        same_number(q, "approvals", r.approvals, o->review.approvals);
        same_number(q, "expires_in", r.expires_s * 1000ull, o->review.expires_in_ms);
        same_number(q, "good_for", r.good_s * 1000ull, o->review.good_for_ms);
        same_text(q, "by", r.by, str_is_absent(o->review.by) ? STR("") : o->review.by);
        reviews_joined += strstr(r.by, ";") != NULL;
    }
    bool differs = r.verdict != both.verdict ||
                   (r.verdict == VERDICT_COMPUTE &&
                    (strcmp(r.rule, both.rule) != 0 || strcmp(r.policy, both.policy) != 0));
    same_number(q, "would_have", differs, o->has_would_have);
    if (differs)
        same_text(q, "would_have decision", verdict_name(both.verdict),
                  str_from(verdict_name(o->would_have)));
    if (differs) same_text(q, "would_have rule", both.rule, str_from(o->would_have_rule));
    outcomes[o->verdict]++;
    shadow_told += differs;
    gate_decided += strncmp(o->rule, "gate:", 5) == 0;
    scope_denied += strcmp(o->rule, "token:scope") == 0;
    unsafe_denied += o->verdict == VERDICT_DENY && strncmp(o->rule, "compute:", 8) == 0;
    if (r.verdict == VERDICT_ALLOW && !r.allow_vote) fail(q, "allow", "an allow vote", "none");
    if (!q->has_confidence && r.gated && q->approved_count == 0 &&
        o->verdict > VERDICT_HUMAN_REVIEW)
        fail(q, "missing confidence", "human_review at best", verdict_name(o->verdict));
}

/* The same request after people have approved some of its votes, then all of them. */
static void try_approved(const struct ref_request *asked, const struct policy_outcome *was)
{
    static struct ref_request q;
    struct policy_outcome some, all;
    enum verdict joint;
    char rule[POLICY_RULE_TEXT];
    enum verdict verdict = was->verdict;
    snprintf(rule, sizeof rule, "%s", was->rule);
    q = *asked;
    for (size_t i = 0; i < document_count; i++) {
        for (size_t k = 0; k < documents[i].rule_count; k++) {
            if (percent(50)) continue;
            q.approved[q.approved_count++] =
                (struct policy_vote){.kind = (enum policy_vote_kind)below(3),
                                     .policy_name = str_from(documents[i].name),
                                     .rule_id = str_from(documents[i].rules[k].id)};
        }
    }
    evaluate(&q, &some, NULL);
    compare(&q, &some, &joint);
    enum verdict some_verdict = some.verdict;
    if (verdict != VERDICT_HUMAN_REVIEW || some_verdict == VERDICT_DENY)
        same_text(&q, "rule beside an approval", rule, str_from(some.rule));
    if (some_verdict < verdict) fail(&q, "approval", "never stricter", verdict_name(some_verdict));
    approvals_tried++;
    approvals_turned += some_verdict != verdict;
    if (verdict != VERDICT_HUMAN_REVIEW) return;
    q.approved_count = 0;
    evaluate(&q, &all, NULL);
    same_text(&q, "rule without approvals", rule, str_from(all.rule));
    if (all.review.vote_count > VOTES) fail(&q, "votes", "fewer", "too many");
    q.approved_count = all.review.vote_count;
    memcpy(q.approved, all.review.votes, all.review.vote_count * sizeof *q.approved);
    evaluate(&q, &all, NULL);
    compare(&q, &all, &joint);
    if (all.verdict == VERDICT_HUMAN_REVIEW || all.verdict == VERDICT_DENY)
        fail(&q, "approval of all", "allow or compute", verdict_name(all.verdict));
    same_number(&q, "votes kept for a limit's review", q.approved_count, all.review.vote_count);
}

static double confidence(void)
{
    return percent(60) ? (double)below(101) / 100.0 : (double)(roll() >> 11) * 0x1p-53;
}

static void try_pair(void)
{
    static struct ref_request q;
    struct policy_outcome low, high, none;
    enum verdict joint_low, joint_high, joint_none;
    make_request(&q);
    long_names += strlen(q.action) > 120;
    double c1 = confidence(), c2 = confidence();
    while (c1 == c2) c2 = confidence();
    q.has_confidence = true;
    q.confidence = c1 < c2 ? c1 : c2;
    struct explanation e = {.request = &q};
    evaluate(&q, &low, &e);
    compare(&q, &low, &joint_low);
    if (low.verdict == VERDICT_ALLOW && !e.allow_vote)
        fail(&q, "allow", "an explained allow vote", "none");
    q.confidence = c1 < c2 ? c2 : c1;
    evaluate(&q, &high, NULL);
    compare(&q, &high, &joint_high);
    if (low.verdict > high.verdict)
        fail(&q, "gate", "never looser at lower confidence", verdict_name(low.verdict));
    if (joint_low > joint_high)
        fail(&q, "gate with shadow", "never looser at lower confidence", verdict_name(joint_low));
    strictened += low.verdict < high.verdict;
    q.has_confidence = false;
    evaluate(&q, &none, NULL);
    compare(&q, &none, &joint_none);
    if (percent(50)) {
        try_approved(&q, &none);
        return;
    }
    q.has_confidence = true;
    evaluate(&q, &high, NULL);
    try_approved(&q, &high);
}

static int name_compare(const void *a, const void *b)
{
    return strcmp(((const struct ref_document *)a)->name, ((const struct ref_document *)b)->name);
}

static void tenant_make(void)
{
    static char text[1 << 20];
    struct policy_set_entry entries[DOCUMENTS] = {{0}};
    document_count = 1 + below(DOCUMENTS);
    for (size_t i = 0; i < document_count; i++) make_document(&documents[i], i);
    for (size_t i = 0; i < document_count; i++) { /* given to the set in this order, unsorted */
        struct policy_problems problems;
        struct buf b = buf_over(text, sizeof text);
        put_document(&b, &documents[i]);
        if (policy_load(str_from(documents[i].name), buf_view(&b), &entries[i].document,
                        &problems) == ERR_OK)
            continue;
        fprintf(stderr, "FAIL %s at %u:%u in\n%.*s\n--seed %llu\n", problems.list[0].message,
                problems.list[0].line, problems.list[0].column, STR_FORMAT(buf_view(&b)),
                (unsigned long long)round_seed);
        exit(1);
    }
    for (size_t i = 0; i < document_count; i++) entries[i].version = i + 1;
    if (policy_set_create(entries, document_count, &set, NULL) != ERR_OK) exit(1);
    for (size_t i = 0; i < document_count; i++) policy_document_release(entries[i].document);
    qsort(documents, document_count, sizeof *documents, name_compare);
    for (size_t i = 0; i < document_count; i++)
        for (size_t k = 0; k < documents[i].rule_count; k++) documents[i].rules[k].document = i;
}

int main(int argc, char **argv)
{
    enum { PAIRS_PER_TENANT = 100 };
    uint64_t count = 20000, seed = world_now_ms();
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--count") == 0) count = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--seed") == 0) seed = strtoull(argv[i + 1], NULL, 10);
    }
    printf("sim_gate: seed %llu, %llu pairs\n", (unsigned long long)seed,
           (unsigned long long)count);
    arena_init(&arena, 64 << 10, 1 << 20);
    memory = policy_memory_create(8);
    uint64_t tenants = 0;
    for (uint64_t done = 0; done < count; tenants++) {
        round_seed = state = seed + tenants;
        tenant_make();
        uint64_t pairs = count == 1                        ? PAIRS_PER_TENANT
                         : PAIRS_PER_TENANT < count - done ? PAIRS_PER_TENANT
                                                           : count - done;
        for (uint64_t i = 0; i < pairs; i++) try_pair();
        done += pairs;
        policy_set_destroy(set);
    }
    arena_fini(&arena);
    policy_memory_destroy(memory);
    printf(
        "%llu tenants; allow %llu, compute %llu, human_review %llu, deny %llu; stricter at "
        "lower confidence %llu; decided by "
        "a gate %llu, by scope %llu, by an unsafe call %llu; shadow would change %llu; reviews "
        "joined %llu; limits %llu, let through by a person %llu, over %llu; approvals %llu, that "
        "turned the outcome %llu; conditions true %llu, false %llu, failed %llu; long names %llu\n",
        (unsigned long long)tenants, (unsigned long long)outcomes[VERDICT_ALLOW],
        (unsigned long long)outcomes[VERDICT_COMPUTE],
        (unsigned long long)outcomes[VERDICT_HUMAN_REVIEW],
        (unsigned long long)outcomes[VERDICT_DENY], (unsigned long long)strictened,
        (unsigned long long)gate_decided, (unsigned long long)scope_denied,
        (unsigned long long)unsafe_denied, (unsigned long long)shadow_told,
        (unsigned long long)reviews_joined, (unsigned long long)limits_seen,
        (unsigned long long)limits_lifted, (unsigned long long)limits_over,
        (unsigned long long)approvals_tried, (unsigned long long)approvals_turned,
        (unsigned long long)truths[IS_TRUE], (unsigned long long)truths[IS_FALSE],
        (unsigned long long)truths[FAILS], (unsigned long long)long_names);
    bool all = outcomes[0] && outcomes[1] && outcomes[2] && outcomes[3] && strictened &&
               gate_decided && scope_denied && unsafe_denied && shadow_told && reviews_joined &&
               limits_seen && limits_lifted && limits_over && approvals_tried && approvals_turned &&
               truths[IS_TRUE] && truths[IS_FALSE] && truths[FAILS] && long_names;
    if (count >= 20000 && !all) {
        printf("FAIL: something was never tried\n");
        return 1;
    }
    printf("%llu passed, 0 failed\n", (unsigned long long)count);
    return 0;
}
