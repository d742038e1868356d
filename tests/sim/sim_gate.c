/* sim_gate.c - what a decision may never be, tried on random policies and requests.
 *
 *   sim_gate [--count N] [--seed S]
 *
 * Each round makes a tenant of a few random documents, loads them through the public door, and
 * asks it random requests, each with two confidences c1 < c2 and with none. It checks that
 *
 *   - a lower confidence is never looser, and a missing one, where a gate looks, at best a review;
 *   - nothing is allowed without an allow vote;
 *   - outcome and explanation equal those of the reference below: a plain walk over all rules
 *     that shares no code with the evaluator (own glob matcher, own order, own joining).
 *
 * Names and patterns come from a small vocabulary, so that they meet often; some rules pile up
 * under one action, some selectors are long, some names have odd characters. A failure prints
 * the seed that repeats it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/world.h"
#include "policy/policy.h"

/* ---- chance ---- */

static uint64_t state;

static uint64_t roll(void) /* splitmix64 (Steele, Lea, Flood 2014) */
{
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static size_t below(size_t n) { return (size_t)(roll() % n); }
static bool percent(unsigned p) { return below(100) < p; }

/* ---- the reference's own picture of a tenant ---- */

enum { TEXT = 48, GLOBS = 24, ROLE_GLOBS = 3, RULES = 40, DOCUMENTS = 4 };

struct globs {
    char list[GLOBS][TEXT];
    size_t count;
};

struct ref_gate {
    bool there;
    unsigned allow_at, review_at; /* hundredths */
    bool missing_denies;
};

struct ref_rule {
    char id[TEXT];
    enum verdict decision;
    struct globs agents, users, roles, actions, resources;
    struct ref_gate gate;
    bool has_review;
    unsigned approvals, expires_s, good_s;
    char by[2][TEXT];
    size_t by_count;
    char safe_tool[TEXT];
    size_t document;
};

struct ref_document {
    char name[TEXT];
    bool shadow, as_json;
    struct ref_gate gate;
    struct {
        char name[TEXT];
        struct globs members;
    } roles[2];
    size_t role_count;
    struct ref_rule rules[RULES];
    size_t rule_count;
};

static struct ref_document documents[DOCUMENTS];
static size_t document_count;

struct ref_request {
    bool person, has_resource, has_confidence, has_scope;
    char subject[TEXT], action[TEXT], resource[TEXT];
    double confidence;
    struct globs scope;
};

static void put(char *to, const char *from) { snprintf(to, TEXT, "%s", from); }
static void add(struct globs *g, const char *glob) { put(g->list[g->count++], glob); }

/* ---- making names and patterns ---- */

static const char *const words[] = {"get",  "put", "drop",  "user", "db",
                                    "prod", "x",   "table", "All",  "a"};
static const char *const people[] = {"ann", "bob@x", "Eve", "carl", "dora@y", "fay"};
static const char *const bots[] = {"bot", "coder", "Walker", "bot2", "b", "robot-7"};

static void make_name(char to[TEXT])
{
    char text[TEXT] = "";
    size_t parts = 1 + below(3);
    for (size_t i = 0; i < parts; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s", i == 0 ? "" : "_",
                 words[below(sizeof words / sizeof *words)]);
    }
    put(to, text);
}

static void strange(char text[TEXT]) /* case and characters that folding and plainness are about */
{
    if (percent(12)) {
        size_t at = below(strlen(text));
        if (text[at] >= 'a' && text[at] <= 'z') text[at] = (char)(text[at] - 32);
    }
    if (percent(4)) text[below(strlen(text))] = ' ';
    if (percent(2)) text[below(strlen(text))] = '*';
    if (percent(2) && strlen(text) < 20) memcpy(text + strlen(text), "\xC3\xA9", 3);
}

/* A pattern from a name: whole, or with stars for some of its parts. */
static void make_pattern(char text[TEXT])
{
    size_t size = strlen(text), from = below(size), to = from + below(size - from + 1);
    char out[TEXT];
    switch (below(7)) {
    case 0: put(out, "*"); break;
    case 1: snprintf(out, sizeof out, "%.*s*", (int)to, text); break;
    case 2: snprintf(out, sizeof out, "*%s", text + from); break;
    case 3: snprintf(out, sizeof out, "%.*s*%s", (int)from, text, text + to); break;
    case 4: snprintf(out, sizeof out, "*%.*s*", (int)(to - from), text + from); break;
    case 5:
        snprintf(out, sizeof out, "%.*s*%.*s*", (int)(from / 2), text, (int)(to - from),
                 text + from);
        break;
    default: put(out, text); break;
    }
    put(text, out);
    if (percent(12)) {
        size_t at = below(strlen(text));
        if (text[at] >= 'a' && text[at] <= 'z') text[at] = (char)(text[at] - 32);
    }
}

static void make_subject(char to[TEXT], bool person)
{
    if (person)
        put(to, people[below(6)]);
    else
        put(to, bots[below(6)]);
    if (percent(10)) snprintf(to + strlen(to), TEXT - strlen(to), "%zu", below(30));
}

static void make_resource(char to[TEXT])
{
    char name[TEXT];
    make_name(name);
    snprintf(to, TEXT, "%s:%.30s", percent(70) ? "db" : "file", name);
}

static void make_gate(struct ref_gate *g)
{
    g->there = true;
    g->allow_at = (unsigned)below(101);
    g->review_at = (unsigned)below(g->allow_at + 1);
    g->missing_denies = percent(30);
}

static void make_patterns(struct globs *g, size_t count, void (*name)(char to[TEXT]))
{
    for (size_t i = 0; i < count; i++) {
        char text[TEXT];
        name(text);
        make_pattern(text);
        add(g, text);
    }
}

static void name_bot(char to[TEXT]) { make_subject(to, false); }
static void name_person(char to[TEXT]) { make_subject(to, true); }

static size_t pattern_count(void) { return percent(5) ? 17 + below(GLOBS - 17) : 1 + below(3); }

static void make_rule(struct ref_rule *r, size_t document, size_t number, const char *crowded)
{
    static const enum verdict decisions[] = {VERDICT_ALLOW,   VERDICT_ALLOW,        VERDICT_ALLOW,
                                             VERDICT_COMPUTE, VERDICT_HUMAN_REVIEW, VERDICT_DENY};
    memset(r, 0, sizeof *r);
    snprintf(r->id, TEXT, "r%zu", number);
    r->document = document;
    r->decision = decisions[below(6)];
    if (crowded != NULL)
        add(&r->actions, crowded);
    else
        make_patterns(&r->actions, pattern_count(), make_name);
    bool strict = r->decision == VERDICT_DENY || r->decision == VERDICT_HUMAN_REVIEW;
    if (!strict || percent(60)) {
        if (percent(70)) make_patterns(&r->agents, pattern_count(), name_bot);
        if (percent(30)) make_patterns(&r->users, pattern_count(), name_person);
        if (percent(30)) add(&r->roles, percent(80) ? (percent(50) ? "ops" : "fin") : "ghosts");
        if (r->agents.count + r->users.count + r->roles.count == 0) add(&r->agents, "*");
    }
    if (percent(strict ? 50 : 20)) make_patterns(&r->resources, pattern_count(), make_resource);
    if (percent(25)) make_gate(&r->gate);
    r->approvals = 1, r->expires_s = 1800, r->good_s = 900;
    if (r->decision != VERDICT_DENY && percent(50)) {
        r->has_review = true;
        r->approvals = 1 + (unsigned)below(3);
        r->expires_s = 60 * (1 + (unsigned)below(90));
        r->good_s = 1 + (unsigned)below(3600);
        for (r->by_count = 0; r->by_count < 2 && percent(60); r->by_count++)
            put(r->by[r->by_count], percent(50) ? "ops" : "legal");
    }
    if (r->decision == VERDICT_COMPUTE) make_name(r->safe_tool);
}

static void make_document(struct ref_document *d, size_t number)
{
    static const char *const names[] = {"alpha", "Beta", "beta", "zz.9"};
    memset(d, 0, sizeof *d);
    put(d->name, names[(number * 3 + 1) % 4]); /* not in byte order */
    d->shadow = percent(25);
    d->as_json = percent(50);
    if (percent(40)) make_gate(&d->gate);
    d->role_count = below(3);
    for (size_t i = 0; i < d->role_count; i++) {
        put(d->roles[i].name, i == 0 ? "ops" : "fin");
        make_patterns(&d->roles[i].members, 1 + below(ROLE_GLOBS), name_person);
    }
    char crowded[TEXT];
    make_name(crowded);
    if (percent(50)) make_pattern(crowded);
    bool crowd = percent(25);
    d->rule_count = crowd ? 12 + below(RULES - 12) : 1 + below(8);
    for (size_t i = 0; i < d->rule_count; i++)
        make_rule(&d->rules[i], number, i, crowd && percent(80) ? crowded : NULL);
}

static void make_request(struct ref_request *q)
{
    memset(q, 0, sizeof *q);
    q->person = percent(30);
    make_subject(q->subject, q->person);
    if (percent(70)) {
        make_name(q->action);
    } else { /* one that some rule spells */
        const struct ref_document *d = &documents[below(document_count)];
        const struct globs *g = &d->rules[below(d->rule_count)].actions;
        put(q->action, g->list[below(g->count)]);
    }
    strange(q->action);
    if (percent(10)) strange(q->subject);
    q->has_resource = percent(60);
    if (q->has_resource) make_resource(q->resource);
    q->has_scope = percent(10);
    if (q->has_scope) make_patterns(&q->scope, below(3), make_name);
}

/* ---- the documents as text ---- */

static void put_globs(struct buf *b, const char *key, const struct globs *g)
{
    if (g->count == 0) return;
    buf_printf(b, ", \"%s\": [", key);
    for (size_t i = 0; i < g->count; i++) buf_printf(b, "%s\"%s\"", i == 0 ? "" : ", ", g->list[i]);
    buf_put_literal(b, "]");
}

static void put_gate(struct buf *b, const char *before, const struct ref_gate *g)
{
    if (!g->there) return;
    buf_printf(b, "%s{\"allow_at\": %u.%02u, \"review_at\": %u.%02u%s}", before, g->allow_at / 100,
               g->allow_at % 100, g->review_at / 100, g->review_at % 100,
               g->missing_denies ? ", \"missing\": \"deny\"" : "");
}

static void put_rule(struct buf *b, const struct ref_rule *r)
{
    buf_printf(b, "{\"id\": \"%s\", \"decision\": \"%s\"", r->id, verdict_name(r->decision));
    put_globs(b, "agents", &r->agents);
    put_globs(b, "users", &r->users);
    put_globs(b, "roles", &r->roles);
    put_globs(b, "actions", &r->actions);
    put_globs(b, "resources", &r->resources);
    put_gate(b, ", \"confidence\": ", &r->gate);
    if (r->has_review) {
        buf_printf(
            b, ", \"review\": {\"approvals\": %u, \"expires_in\": \"%us\", \"good_for\": \"%us\"",
            r->approvals, r->expires_s, r->good_s);
        if (r->by_count == 1) buf_printf(b, ", \"by\": [\"%s\"]", r->by[0]);
        if (r->by_count == 2) buf_printf(b, ", \"by\": [\"%s\", \"%s\"]", r->by[0], r->by[1]);
        buf_put_literal(b, "}");
    }
    if (r->decision == VERDICT_COMPUTE)
        buf_printf(b, ", \"compute\": {\"tool\": \"%s\"}", r->safe_tool);
    buf_put_literal(b, "}");
}

static void put_document(struct buf *b, const struct ref_document *d)
{
    buf_printf(b, d->as_json ? "{\"mode\": \"%s\"" : "mode: %s\n",
               d->shadow ? "shadow" : "enforce");
    put_gate(b, d->as_json ? ", \"confidence\": " : "confidence: ", &d->gate);
    if (d->role_count > 0) {
        buf_printf(b, d->as_json ? ", \"roles\": {" : "\nroles: {");
        for (size_t i = 0; i < d->role_count; i++) {
            struct buf list = buf_over((char[2048]){0}, 2048);
            put_globs(&list, d->roles[i].name, &d->roles[i].members);
            struct str text = str_skip(buf_view(&list), i == 0 ? 2 : 0);
            buf_put(b, text);
        }
        buf_put_literal(b, "}");
    }
    buf_printf(b, d->as_json ? ", \"rules\": [" : "\nrules:\n");
    for (size_t i = 0; i < d->rule_count; i++) {
        buf_printf(b, d->as_json ? (i == 0 ? "" : ",\n") : "  - ");
        put_rule(b, &d->rules[i]);
        if (!d->as_json) buf_put_literal(b, "\n");
    }
    if (d->as_json) buf_put_literal(b, "]}");
}

/* ---- the reference evaluator ---- */

static int small(int c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; }

/* Tries everything, as the definition says. */
static bool like(const char *pattern, const char *text, bool fold)
{
    if (*pattern == '\0') return *text == '\0';
    if (*pattern == '*')
        return like(pattern + 1, text, fold) || (*text != '\0' && like(pattern, text + 1, fold));
    if (*text == '\0') return false;
    bool same =
        fold ? small((unsigned char)*pattern) == small((unsigned char)*text) : *pattern == *text;
    return same && like(pattern + 1, text + 1, fold);
}

static bool matches(const struct globs *g, const char *name, bool strict)
{
    bool is_plain =
        strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/@+-") ==
        strlen(name);
    for (size_t i = 0; i < g->count; i++) {
        bool spelled = strchr(g->list[i], '*') == NULL;
        if (strict ? like(g->list[i], name, true)
                   : (is_plain || spelled) && like(g->list[i], name, false))
            return true;
    }
    return false;
}

static bool has_role(const char *role, const char *person, bool strict)
{
    for (size_t i = 0; i < document_count; i++)
        for (size_t k = 0; k < documents[i].role_count && !documents[i].shadow; k++)
            if (strcmp(documents[i].roles[k].name, role) == 0 &&
                matches(&documents[i].roles[k].members, person, strict))
                return true;
    return false;
}

static bool applies(const struct ref_rule *r, const struct ref_request *q, const char *action)
{
    bool strict = r->decision == VERDICT_DENY || r->decision == VERDICT_HUMAN_REVIEW;
    bool who = r->agents.count + r->users.count + r->roles.count == 0;
    if (!q->person) who |= matches(&r->agents, q->subject, strict);
    if (q->person) who |= matches(&r->users, q->subject, strict);
    for (size_t i = 0; q->person && i < r->roles.count; i++)
        who |= has_role(r->roles.list[i], q->subject, strict);
    bool what = matches(&r->actions, action, strict);
    bool where = r->resources.count == 0 ||
                 (q->has_resource ? matches(&r->resources, q->resource, strict) : strict);
    return who && what && where;
}

struct ref_vote {
    const struct ref_rule *rule;
    bool gate;
};

struct ref_outcome {
    enum verdict verdict;
    char rule[POLICY_RULE_TEXT], policy[TEXT], safe_tool[TEXT], by[4096];
    unsigned approvals, expires_s, good_s;
    bool used, gated; /* a gate saw a confidence; a gate voted at all */
    bool allow_vote;
    const struct ref_rule *compute; /* the first that voted so */
};

static bool stricter(enum verdict v, const struct ref_vote *had, enum verdict than)
{
    static const int rank[] = {
        [VERDICT_ALLOW] = 0, [VERDICT_COMPUTE] = 1, [VERDICT_HUMAN_REVIEW] = 2, [VERDICT_DENY] = 3};
    return had->rule == NULL || rank[v] > rank[than];
}

static enum verdict gate_of(const struct ref_gate *g, const struct ref_request *q)
{
    if (!q->has_confidence) return g->missing_denies ? VERDICT_DENY : VERDICT_HUMAN_REVIEW;
    if (q->confidence >= g->allow_at / 100.0) return VERDICT_ALLOW;
    return q->confidence >= g->review_at / 100.0 ? VERDICT_HUMAN_REVIEW : VERDICT_DENY;
}

static void join_review(struct ref_outcome *o, const struct ref_rule *r, char last[2 * TEXT + 2])
{
    if (r->approvals > o->approvals) o->approvals = r->approvals;
    if (o->expires_s == 0 || r->expires_s < o->expires_s) o->expires_s = r->expires_s;
    if (o->good_s == 0 || r->good_s < o->good_s) o->good_s = r->good_s;
    char by[2 * TEXT + 2] = "";
    if (r->by_count > 0)
        snprintf(by, sizeof by, "%s%s%s", r->by[0], r->by_count > 1 ? ", " : "",
                 r->by_count > 1 ? r->by[1] : "");
    if (by[0] == '\0' || strcmp(by, last) == 0) return;
    size_t used = strlen(o->by);
    snprintf(o->by + used, sizeof o->by - used, "%s%s", used > 0 ? "; " : "", by);
    snprintf(last, 2 * TEXT + 2, "%s", by);
}

/* One walk over all rules, in order. Says the strictest vote. */
static struct ref_vote walk(const struct ref_request *q, const char *action, bool with_shadow,
                            struct ref_outcome *o)
{
    struct ref_vote best = {0};
    char last[2 * TEXT + 2] = "";
    for (size_t i = 0; i < document_count; i++) {
        const struct ref_document *d = &documents[i];
        for (size_t k = 0; k < d->rule_count && (with_shadow || !d->shadow); k++) {
            const struct ref_rule *r = &d->rules[k];
            if (!applies(r, q, action)) continue;
            const struct ref_gate *g = r->gate.there ? &r->gate : &d->gate;
            bool reviews = r->decision == VERDICT_HUMAN_REVIEW;
            if (stricter(r->decision, &best, o->verdict))
                best = (struct ref_vote){r, false}, o->verdict = r->decision;
            o->allow_vote |= r->decision == VERDICT_ALLOW;
            if (o->compute == NULL && r->decision == VERDICT_COMPUTE) o->compute = r;
            if (g->there && !q->person && r->decision != VERDICT_DENY) {
                enum verdict v = gate_of(g, q);
                if (stricter(v, &best, o->verdict))
                    best = (struct ref_vote){r, true}, o->verdict = v;
                reviews |= v == VERDICT_HUMAN_REVIEW;
                o->gated = true;
                o->used |= q->has_confidence;
            }
            if (reviews) join_review(o, r, last);
        }
    }
    return best;
}

static bool in_scope(const struct ref_request *q)
{
    return !q->has_scope || matches(&q->scope, q->action, false);
}

static struct ref_outcome reference(const struct ref_request *q, bool with_shadow)
{
    static const char *const kinds[] = {"deny", "review", "compute", "allow"};
    struct ref_outcome o = {.verdict = VERDICT_DENY};
    if (!in_scope(q)) {
        put(o.rule, "token:scope");
        return o;
    }
    struct ref_vote best = walk(q, q->action, with_shadow, &o);
    if (best.rule == NULL) {
        put(o.rule, "default:deny");
        return o;
    }
    put(o.policy, documents[best.rule->document].name);
    snprintf(o.rule, sizeof o.rule, "%s:%s", best.gate ? "gate" : kinds[o.verdict], best.rule->id);
    if (o.verdict == VERDICT_DENY || o.compute == NULL) return o;
    struct ref_outcome safe = {.verdict = VERDICT_ALLOW};
    walk(q, o.compute->safe_tool, with_shadow, &safe);
    o.used |= safe.used;
    if (safe.verdict == VERDICT_DENY || safe.verdict == VERDICT_HUMAN_REVIEW) {
        o.verdict = VERDICT_DENY;
        snprintf(o.rule, sizeof o.rule, "compute:%s", o.compute->id);
        put(o.policy, documents[o.compute->document].name);
    } else if (o.verdict == VERDICT_COMPUTE) {
        put(o.safe_tool, o.compute->safe_tool);
    }
    return o;
}

/* ---- comparing ---- */

static uint64_t round_seed;
static struct policy_set *set;
static struct arena arena;
static uint64_t outcomes[4], strictened, gate_decided, shadow_told, scope_denied, unsafe_denied,
    reviews_joined;

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

static void evaluate(const struct ref_request *q, struct policy_outcome *o, struct explanation *e)
{
    struct str scope[GLOBS];
    for (size_t i = 0; i < q->scope.count; i++) scope[i] = str_from(q->scope.list[i]);
    struct policy_request p = {.kind = q->person ? SUBJECT_USER : SUBJECT_AGENT,
                               .tenant = STR("t"),
                               .action = str_from(q->action),
                               .has_confidence = q->has_confidence,
                               .confidence = q->confidence,
                               .has_scope = q->has_scope,
                               .scope = scope,
                               .scope_count = q->scope.count};
    *(q->person ? &p.user : &p.actor) = str_from(q->subject);
    if (q->has_resource) p.resource = str_from(q->resource);
    struct policy_explain explain = {.considered = on_considered, .context = e};
    arena_reset(&arena);
    policy_evaluate(set, &p, &arena, e == NULL ? NULL : &explain, o);
}

static void compare(const struct ref_request *q, const struct policy_outcome *o,
                    enum verdict *ret_joint)
{
    struct ref_outcome r = reference(q, false), both = reference(q, true);
    same_text(q, "decision", verdict_name(r.verdict), str_from(verdict_name(o->verdict)));
    same_text(q, "rule", r.rule, str_from(o->rule));
    same_text(q, "policy", r.policy, str_is_absent(o->policy_name) ? STR("") : o->policy_name);
    same_text(q, "safe tool", r.safe_tool, str_is_absent(o->safe_tool) ? STR("") : o->safe_tool);
    same_number(q, "confidence_used", r.used, o->confidence_used);
    if (str_is_empty(o->reason)) fail(q, "reason", "a sentence", "none");
    if (r.verdict == VERDICT_HUMAN_REVIEW) {
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
    *ret_joint = both.verdict;
    outcomes[o->verdict]++;
    shadow_told += differs;
    gate_decided += strncmp(o->rule, "gate:", 5) == 0;
    scope_denied += strcmp(o->rule, "token:scope") == 0;
    unsafe_denied += o->verdict == VERDICT_DENY && strncmp(o->rule, "compute:", 8) == 0;
    if (r.verdict == VERDICT_ALLOW && !r.allow_vote) fail(q, "allow", "an allow vote", "none");
    if (!q->has_confidence && r.gated && o->verdict > VERDICT_HUMAN_REVIEW)
        fail(q, "missing confidence", "human_review at best", verdict_name(o->verdict));
}

static double confidence(void)
{
    return percent(60) ? (double)below(101) / 100.0 : (double)(roll() >> 11) * 0x1p-53;
}

static void try_pair(void)
{
    struct ref_request q;
    struct policy_outcome low, high, none;
    enum verdict joint_low, joint_high, joint_none;
    make_request(&q);
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
    printf("%llu tenants; allow %llu, compute %llu, human_review %llu, deny %llu; stricter at "
           "lower confidence %llu; decided by "
           "a gate %llu, by scope %llu, by an unsafe call %llu; shadow would change %llu; reviews "
           "joined %llu\n",
           (unsigned long long)tenants, (unsigned long long)outcomes[VERDICT_ALLOW],
           (unsigned long long)outcomes[VERDICT_COMPUTE],
           (unsigned long long)outcomes[VERDICT_HUMAN_REVIEW],
           (unsigned long long)outcomes[VERDICT_DENY], (unsigned long long)strictened,
           (unsigned long long)gate_decided, (unsigned long long)scope_denied,
           (unsigned long long)unsafe_denied, (unsigned long long)shadow_told,
           (unsigned long long)reviews_joined);
    bool all = outcomes[0] && outcomes[1] && outcomes[2] && outcomes[3] && strictened &&
               gate_decided && scope_denied && unsafe_denied && shadow_told && reviews_joined;
    if (count >= 20000 && !all) {
        printf("FAIL: something was never tried\n");
        return 1;
    }
    printf("%llu passed, 0 failed\n", (unsigned long long)count);
    return 0;
}
