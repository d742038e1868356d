/* gate_tenant.h - a random tenant for sim_gate: its documents and requests, as the simulator
 * pictures them, and the documents as texts that the public door can load.
 *
 * For one program only, so everything is static and chance is one stream. */
#ifndef TESTS_SIM_GATE_TENANT_H
#define TESTS_SIM_GATE_TENANT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "policy/policy.h"

/* ---- chance ---- */

static uint64_t state;

static inline uint64_t roll(void) /* splitmix64 (Steele, Lea, Flood 2014) */
{
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static inline size_t below(size_t n) { return (size_t)(roll() % n); }
static inline bool percent(unsigned p) { return below(100) < p; }

/* ---- the reference's own picture of a tenant ---- */

enum { TEXT = 200, GLOBS = 24, ROLE_GLOBS = 3, RULES = 40, DOCUMENTS = 4 };

struct globs {
    char list[GLOBS][TEXT];
    size_t count;
};

struct ref_gate {
    bool there;
    unsigned allow_at, review_at; /* hundredths */
    bool missing_denies;
};

struct ref_limit {
    bool there, has_count, has_max, asks;
    unsigned per, window_s, count, max_hundredths, root; /* root: of the path to `amount` */
};

/* A rule's condition: of a few shapes, so that it is plain what they come to. */
enum ref_shape {
    WHEN_ALWAYS,       /* no condition */
    WHEN_MORE,         /* args.amount > bound */
    WHEN_AT_MOST,      /* args.amount <= bound */
    WHEN_HAS_MORE,     /* has(args.amount) && args.amount > bound */
    WHEN_ROLE,         /* 'role' in roles */
    WHEN_NO_ROLE,      /* !('role' in roles) */
    WHEN_ROLE_OR_MORE, /* 'role' in roles || args.amount > bound */
    WHEN_SHAPES,
};

struct ref_when {
    enum ref_shape shape;
    int bound;
    const char *role;
};

struct ref_rule {
    char id[24];
    struct ref_when when;
    bool copies_amount; /* a compute whose safe call has the amount of what was asked for */
    struct ref_limit limit;
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

enum { VOTES = 3 * RULES * DOCUMENTS, AMOUNTS = 8 };

struct ref_request {
    bool person, has_resource, has_confidence, has_scope, has_token_scope;
    char subject[TEXT], action[TEXT], resource[TEXT], acting_for[TEXT];
    double confidence;
    struct globs scope, token_scope;
    size_t amount[3]; /* under args, context, resource.properties: which of the amounts below */
    struct policy_vote approved[VOTES];
    size_t approved_count;
};

/* What may stand at a path, and what that is in millionths. */
static const struct {
    const char *text;
    int64_t millionths;
    bool is_there, is_number;
    double value;
} amounts[AMOUNTS] = {
    {"{}", -1, false, false, 0},
    {"{\"amount\": 12}", 12000000, true, true, 12},
    {"{\"amount\": 0.1}", 100000, true, true, 0.1},
    {"{\"amount\": -1}", -1, true, true, -1},
    {"{\"amount\": \"12\"}", -1, true, false, 0},
    {"{\"amount\": 3.0000001}", 3000001, true, true, 3.0000001},
    {"{\"amount\": 0}", 0, true, true, 0},
    {"{\"amount\": 1e14}", -1, true, true, 1e14},
};
static const char *const roots[] = {"args", "context", "resource.properties"};

static inline void put(char *to, const char *from) { snprintf(to, TEXT, "%s", from); }
static inline void add(struct globs *g, const char *glob) { put(g->list[g->count++], glob); }

/* ---- making names and patterns ---- */

static const char *const words[] = {"get",  "put", "drop",  "user", "db",
                                    "prod", "x",   "table", "All",  "a"};
/* Longer than 64 bytes, and only the last few tell them apart; two of them make a name of over 120.
 */
static const char *const long_words[] = {
    "the_quarterly_statement_of_all_accounts_of_the_northern_branch_office_one",
    "the_quarterly_statement_of_all_accounts_of_the_northern_branch_office_two",
    "the_quarterly_statement_of_all_accounts_of_the_northern_branch_Office_one"};
static const char *const people[] = {"ann", "bob@x", "Eve", "carl", "dora@y", "fay"};
static const char *const bots[] = {"bot", "coder", "Walker", "bot2", "b", "robot-7"};

static inline void make_name(char to[TEXT])
{
    char text[TEXT] = "";
    size_t parts = 1 + below(3);
    bool is_long = percent(5);
    for (size_t i = 0; i < parts; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s", i == 0 ? "" : "_",
                 is_long && percent(70) ? long_words[below(3)]
                                        : words[below(sizeof words / sizeof *words)]);
    }
    put(to, text);
}

static inline void
strange(char text[TEXT]) /* case and characters that folding and plainness are about */
{
    if (percent(12)) {
        size_t at = below(strlen(text));
        if (text[at] >= 'a' && text[at] <= 'z') text[at] = (char)(text[at] - 32);
    }
    if (percent(4)) text[below(strlen(text))] = ' ';
    if (percent(2)) text[below(strlen(text))] = '*';
    if (percent(2) && strlen(text) < 20) memcpy(text + strlen(text), "\xC3\xA9", 3);
}

static inline void blank_beside_colon(char text[TEXT])
{
    char *colon = strchr(text, ':');
    if (colon == NULL || strlen(text) + 1 >= TEXT) return;
    colon += percent(50);
    memmove(colon + 1, colon, strlen(colon) + 1);
    *colon = ' ';
}

/* A pattern from a name: whole, or with stars for some of its parts. */
static inline void make_pattern(char text[TEXT])
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

static inline void make_subject(char to[TEXT], bool person)
{
    if (person)
        put(to, people[below(6)]);
    else
        put(to, bots[below(6)]);
    if (percent(10)) snprintf(to + strlen(to), TEXT - strlen(to), "%zu", below(30));
    if (percent(3)) snprintf(to + strlen(to), TEXT - strlen(to), "_%s", long_words[below(3)]);
    if (percent(1)) snprintf(to + strlen(to), TEXT - strlen(to), "_%s", long_words[below(3)]);
}

static inline void make_resource(char to[TEXT])
{
    char name[TEXT];
    make_name(name);
    snprintf(to, TEXT, "%s:%.190s", percent(70) ? "db" : "file", name);
}

static inline void make_gate(struct ref_gate *g)
{
    g->there = true;
    g->allow_at = (unsigned)below(101);
    g->review_at = (unsigned)below(g->allow_at + 1);
    g->missing_denies = percent(30);
}

static inline void make_patterns(struct globs *g, size_t count, void (*name)(char to[TEXT]))
{
    for (size_t i = 0; i < count; i++) {
        char text[TEXT];
        name(text);
        make_pattern(text);
        add(g, text);
    }
}

static inline void name_bot(char to[TEXT]) { make_subject(to, false); }
static inline void name_person(char to[TEXT]) { make_subject(to, true); }

static inline size_t pattern_count(void)
{
    return percent(5) ? 17 + below(GLOBS - 17) : 1 + below(3);
}

static inline void make_limit(struct ref_limit *l)
{
    l->there = true;
    l->per = (unsigned)below(5);
    l->window_s = 1 + (unsigned)below(3600);
    l->has_count = percent(60);
    l->count = 1 + (unsigned)below(1000);
    l->has_max = !l->has_count || percent(50);
    l->max_hundredths = 1 + (unsigned)below(100000);
    l->root = (unsigned)below(3);
    l->asks = percent(50);
}

static inline void make_when(struct ref_when *w)
{
    static const int bounds[] = {-2, 0, 3, 12, 100};
    w->shape = (enum ref_shape)(1 + below(WHEN_SHAPES - 1));
    w->bound = bounds[below(5)];
    w->role = percent(80) ? (percent(50) ? "ops" : "fin") : "ghosts";
}

/* What many rules of a document have in common, so that only the rest tells them apart; "":
 * nothing. */
struct crowd {
    char action[TEXT], agent[TEXT], user[TEXT];
    unsigned resources; /* percent of its rules that have some */
};

static inline void make_crowd(struct crowd *c)
{
    make_name(c->action);
    if (percent(50)) make_pattern(c->action);
    c->agent[0] = c->user[0] = '\0';
    if (percent(60)) name_bot(c->agent);
    if (percent(30)) name_person(c->user);
    if (percent(30)) put(c->agent, "*");
    c->resources = percent(50) ? 90 : 30;
}

/* One subject for many, and many resources that differ. */
static inline void crowd_in(struct ref_rule *r, const struct crowd *c)
{
    if (c->agent[0] != '\0') {
        memset(&r->agents, 0, sizeof r->agents);
        add(&r->agents, c->agent);
    }
    if (c->user[0] != '\0') {
        memset(&r->users, 0, sizeof r->users);
        add(&r->users, c->user);
    }
    memset(&r->resources, 0, sizeof r->resources);
    if (percent(c->resources)) make_patterns(&r->resources, pattern_count(), make_resource);
}

static inline void make_rule(struct ref_rule *r, size_t document, size_t number,
                             const struct crowd *crowd)
{
    static const enum verdict decisions[] = {VERDICT_ALLOW,   VERDICT_ALLOW,        VERDICT_ALLOW,
                                             VERDICT_COMPUTE, VERDICT_HUMAN_REVIEW, VERDICT_DENY};
    memset(r, 0, sizeof *r);
    snprintf(r->id, sizeof r->id, "r%zu", number);
    r->document = document;
    r->decision = decisions[below(6)];
    if (crowd != NULL)
        add(&r->actions, crowd->action);
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
    if (crowd != NULL && percent(80)) crowd_in(r, crowd);
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
    r->safe_tool[LIMIT_TOOL_CHARACTERS] = '\0';
    r->copies_amount = r->decision == VERDICT_COMPUTE && percent(50);
    if (percent(25)) make_when(&r->when);
    if (r->decision != VERDICT_DENY && percent(25)) make_limit(&r->limit);
}

static inline void make_document(struct ref_document *d, size_t number)
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
    struct crowd crowd;
    make_crowd(&crowd);
    bool crowded = percent(25);
    d->rule_count = crowded ? 12 + below(RULES - 12) : 1 + below(8);
    for (size_t i = 0; i < d->rule_count; i++)
        make_rule(&d->rules[i], number, i, crowded && percent(80) ? &crowd : NULL);
}

static inline void make_request(struct ref_request *q)
{
    memset(q, 0, sizeof *q);
    q->person = percent(30);
    make_subject(q->subject, q->person);
    const struct ref_document *d = &documents[below(document_count)];
    const struct ref_rule *r = &d->rules[below(d->rule_count)];
    if (percent(60))
        make_name(q->action);
    else /* one that some rule spells */
        put(q->action, r->actions.list[below(r->actions.count)]);
    strange(q->action);
    if (percent(10)) strange(q->subject);
    if (q->person && percent(30) && q->subject[0] >= 'a')
        q->subject[0] = (char)(q->subject[0] - 32);
    q->has_resource = percent(70);
    if (q->has_resource) make_resource(q->resource);
    if (q->has_resource && r->resources.count > 0 && percent(30))
        put(q->resource, r->resources.list[below(r->resources.count)]);
    if (q->has_resource && percent(10)) strange(q->resource);
    if (q->has_resource && percent(5)) blank_beside_colon(q->resource);
    if (q->has_resource && percent(15)) make_name(q->resource); /* a bare id */
    q->has_scope = percent(10);
    if (q->has_scope) make_patterns(&q->scope, below(3), make_name);
    q->has_token_scope = percent(10);
    if (q->has_token_scope) make_patterns(&q->token_scope, 1 + below(3), make_name);
    if (percent(50)) make_subject(q->acting_for, true);
    for (size_t i = 0; i < 3; i++) q->amount[i] = below(AMOUNTS);
}

/* ---- the documents as text ---- */

static inline void put_globs(struct buf *b, const char *key, const struct globs *g)
{
    if (g->count == 0) return;
    buf_printf(b, ", \"%s\": [", key);
    for (size_t i = 0; i < g->count; i++) buf_printf(b, "%s\"%s\"", i == 0 ? "" : ", ", g->list[i]);
    buf_put_literal(b, "]");
}

static inline void put_gate(struct buf *b, const char *before, const struct ref_gate *g)
{
    if (!g->there) return;
    buf_printf(b, "%s{\"allow_at\": %u.%02u, \"review_at\": %u.%02u%s}", before, g->allow_at / 100,
               g->allow_at % 100, g->review_at / 100, g->review_at % 100,
               g->missing_denies ? ", \"missing\": \"deny\"" : "");
}

static inline void put_limit(struct buf *b, const struct ref_limit *l)
{
    static const char *const pers[] = {"actor", "user", "acting_for", "tenant", "resource"};
    if (!l->there) return;
    buf_printf(b, ", \"limit\": {\"window\": \"%us\"", l->window_s);
    if (l->per != 0 || l->asks) buf_printf(b, ", \"per\": \"%s\"", pers[l->per]);
    if (l->has_count) buf_printf(b, ", \"count\": %u", l->count);
    if (l->has_max)
        buf_printf(b, ", \"sum\": \"%s.amount\", \"max\": %u.%02u", roots[l->root],
                   l->max_hundredths / 100, l->max_hundredths % 100);
    buf_printf(b, "%s}", l->asks ? ", \"over\": \"human_review\"" : "");
}

static inline void put_when(struct buf *b, const struct ref_when *w)
{
    if (w->shape == WHEN_ALWAYS) return;
    buf_put_literal(b, ", \"when\": \"");
    switch (w->shape) {
    case WHEN_MORE: buf_printf(b, "args.amount > %d", w->bound); break;
    case WHEN_AT_MOST: buf_printf(b, "args.amount <= %d", w->bound); break;
    case WHEN_HAS_MORE: buf_printf(b, "has(args.amount) && args.amount > %d", w->bound); break;
    case WHEN_ROLE: buf_printf(b, "'%s' in roles", w->role); break;
    case WHEN_NO_ROLE: buf_printf(b, "!('%s' in roles)", w->role); break;
    default: buf_printf(b, "'%s' in roles || args.amount > %d", w->role, w->bound);
    }
    buf_put_literal(b, "\"");
}

static inline void put_rule(struct buf *b, const struct ref_rule *r)
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
    put_limit(b, &r->limit);
    put_when(b, &r->when);
    if (r->decision == VERDICT_COMPUTE)
        buf_printf(b, ", \"compute\": {\"tool\": \"%s\"%s}", r->safe_tool,
                   r->copies_amount ? ", \"args\": {\"amount\": \"${args.amount}\"}" : "");
    buf_put_literal(b, "}");
}

static inline void put_document(struct buf *b, const struct ref_document *d)
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

#endif
