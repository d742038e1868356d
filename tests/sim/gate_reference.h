/* gate_reference.h - the evaluator of sim_gate: what a tenant has to answer, found by a plain walk
 * over all its rules. Shares no code with what it is held against. */
#ifndef TESTS_SIM_GATE_REFERENCE_H
#define TESTS_SIM_GATE_REFERENCE_H

#include "sim/gate_tenant.h"

static inline int small(int c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; }

/* Tries everything, as the definition says. */
static inline bool like(const char *pattern, const char *text, bool fold)
{
    if (*pattern == '\0') return *text == '\0';
    if (*pattern == '*')
        return like(pattern + 1, text, fold) || (*text != '\0' && like(pattern, text + 1, fold));
    if (*text == '\0') return false;
    bool same =
        fold ? small((unsigned char)*pattern) == small((unsigned char)*text) : *pattern == *text;
    return same && like(pattern + 1, text + 1, fold);
}

static inline bool matches(const struct globs *g, const char *name, bool strict)
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

static inline bool has_role(const char *role, const char *person, bool strict)
{
    for (size_t i = 0; i < document_count; i++)
        for (size_t k = 0; k < documents[i].role_count && !documents[i].shadow; k++)
            if (strcmp(documents[i].roles[k].name, role) == 0 &&
                matches(&documents[i].roles[k].members, person, strict))
                return true;
    return false;
}

static inline void trim(char *text)
{
    size_t from = strspn(text, " "), end = strlen(text);
    while (end > from && text[end - 1] == ' ') end--;
    memmove(text, text + from, end - from);
    text[end - from] = '\0';
}

/* Its type, "" if it has none, and its id, without blanks at their ends. */
static inline void split_resource(const char *name, char type[TEXT], char id[TEXT])
{
    const char *colon = strchr(name, ':');
    snprintf(type, TEXT, "%.*s", colon == NULL ? 0 : (int)(colon - name), name);
    snprintf(id, TEXT, "%s", colon == NULL ? name : colon + 1);
    trim(type);
    trim(id);
}

static inline bool is_partial(const struct ref_request *q)
{
    char type[TEXT], id[TEXT];
    split_resource(q->resource, type, id);
    return q->has_resource && (type[0] == '\0' || id[0] == '\0');
}

static inline void respell_resource(const char *name, char to[2 * TEXT + 1])
{
    char type[TEXT], id[TEXT];
    split_resource(name, type, id);
    snprintf(to, 2 * TEXT + 1, "%s%s%s", type, strchr(name, ':') == NULL ? "" : ":", id);
}

/* What restricts sees a resource as it would be spelled plainly, too: of what strange() does to one
 * that is another matter than case where it puts a blank at an end of type or id. */
static inline bool matches_respelled(const struct globs *g, const char *name)
{
    char plain[2 * TEXT + 1];
    respell_resource(name, plain);
    return matches(g, plain, true);
}

/* What a limit counts for: the name without its case, and with no more blanks than are seen. */
static inline const char *counted_as(const char *name, bool is_resource, char to[2 * TEXT + 1])
{
    char plain[2 * TEXT + 1], *at = to;
    if (is_resource)
        respell_resource(name, plain);
    else
        snprintf(plain, sizeof plain, "%s", name);
    for (const char *c = plain; *c != '\0'; c++)
        if (*c != ' ' || (at > to && at[-1] != ' ')) *at++ = (char)small((unsigned char)*c);
    if (at > to && at[-1] == ' ') at--;
    *at = '\0';
    return to;
}

static inline bool selects(const struct ref_rule *r, const struct ref_request *q,
                           const char *action)
{
    bool strict = r->decision == VERDICT_DENY || r->decision == VERDICT_HUMAN_REVIEW;
    bool who = r->agents.count + r->users.count + r->roles.count == 0;
    if (!q->person) who |= matches(&r->agents, q->subject, strict);
    if (q->person) who |= matches(&r->users, q->subject, strict);
    for (size_t i = 0; q->person && i < r->roles.count; i++)
        who |= has_role(r->roles.list[i], q->subject, strict);
    bool what = matches(&r->actions, action, strict);
    bool where = r->resources.count == 0 || (strict && (!q->has_resource || is_partial(q))) ||
                 (q->has_resource && (matches(&r->resources, q->resource, strict) ||
                                      (strict && matches_respelled(&r->resources, q->resource))));
    return who && what && where;
}

enum ref_truth { IS_FALSE, IS_TRUE, FAILS };

static inline enum ref_truth is_more(const struct ref_when *w, const struct ref_request *q)
{
    if (!amounts[q->amount[0]].is_number) return FAILS;
    return amounts[q->amount[0]].value > w->bound ? IS_TRUE : IS_FALSE;
}

static inline enum ref_truth truth_with(const struct ref_when *w, const struct ref_request *q,
                                        bool fold)
{
    bool in_role = w->shape >= WHEN_ROLE && q->person && has_role(w->role, q->subject, fold);
    switch (w->shape) {
    case WHEN_MORE: return is_more(w, q);
    case WHEN_AT_MOST: return is_more(w, q) == FAILS ? FAILS : is_more(w, q) == IS_FALSE;
    case WHEN_HAS_MORE: return amounts[q->amount[0]].is_there ? is_more(w, q) : IS_FALSE;
    case WHEN_ROLE: return in_role ? IS_TRUE : IS_FALSE;
    case WHEN_NO_ROLE: return in_role ? IS_FALSE : IS_TRUE;
    case WHEN_ROLE_OR_MORE: return in_role ? IS_TRUE : is_more(w, q);
    default: return IS_TRUE;
    }
}

static uint64_t truths[3]; /* how often each has come */

/* What restricts does so if either spelling of the person makes it true. */
static inline enum ref_truth truth(const struct ref_rule *r, const struct ref_request *q)
{
    bool strict = r->decision == VERDICT_DENY || r->decision == VERDICT_HUMAN_REVIEW;
    enum ref_truth t = truth_with(&r->when, q, strict);
    if (strict && t == IS_FALSE) t = truth_with(&r->when, q, false);
    if (r->when.shape != WHEN_ALWAYS) truths[t]++;
    return t;
}

/* As an explanation tells it: a compute that cannot be evaluated applies, as a deny. */
static inline bool applies(const struct ref_rule *r, const struct ref_request *q,
                           const char *action)
{
    if (!selects(r, q, action)) return false;
    enum ref_truth t = truth(r, q);
    return t == IS_TRUE || (t == FAILS && r->decision != VERDICT_ALLOW);
}

struct ref_vote {
    const struct ref_rule *rule;
    enum policy_vote_kind kind;
};

struct ref_outcome {
    /* that apply and have a limit: those that deny, then those that ask, each in order */
    const struct ref_rule *limited[RULES * DOCUMENTS];
    size_t limited_count;
    const struct ref_rule *asking[RULES * DOCUMENTS]; /* with a vote for human_review, in order */
    size_t asking_count;
    struct ref_vote votes[VOTES]; /* those votes */
    size_t vote_count;
    enum verdict verdict;
    char rule[POLICY_RULE_TEXT], policy[TEXT], safe_tool[TEXT], by[4096];
    unsigned approvals, expires_s, good_s;
    bool used, gated; /* a gate saw a confidence; a gate voted at all */
    bool allow_vote;
    const struct ref_rule *compute; /* the first that voted so */
    const struct ref_rule *other;   /* and the first of the others whose call has the amount */
};

static inline bool stricter(enum verdict v, const struct ref_vote *had, enum verdict than)
{
    static const int rank[] = {
        [VERDICT_ALLOW] = 0, [VERDICT_COMPUTE] = 1, [VERDICT_HUMAN_REVIEW] = 2, [VERDICT_DENY] = 3};
    return had->rule == NULL || rank[v] > rank[than];
}

static inline enum verdict gate_of(const struct ref_gate *g, const struct ref_request *q)
{
    if (!q->has_confidence) return g->missing_denies ? VERDICT_DENY : VERDICT_HUMAN_REVIEW;
    if (q->confidence >= g->allow_at / 100.0) return VERDICT_ALLOW;
    return q->confidence >= g->review_at / 100.0 ? VERDICT_HUMAN_REVIEW : VERDICT_DENY;
}

static inline void join_review(struct ref_outcome *o, const struct ref_rule *r,
                               char last[2 * TEXT + 2])
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

static inline bool approved(const struct ref_request *q, enum policy_vote_kind kind,
                            const struct ref_rule *r)
{
    for (size_t i = 0; i < q->approved_count; i++)
        if (q->approved[i].kind == kind && str_equal(q->approved[i].rule_id, str_from(r->id)) &&
            str_equal(q->approved[i].policy_name, str_from(documents[r->document].name)))
            return true;
    return false;
}

static inline void note_review(struct ref_outcome *o, const struct ref_rule *r,
                               enum policy_vote_kind kind)
{
    if (o->asking_count == 0 || o->asking[o->asking_count - 1] != r)
        o->asking[o->asking_count++] = r;
    o->votes[o->vote_count++] = (struct ref_vote){r, kind};
}

static inline void note_limit(struct ref_outcome *o, const struct ref_rule *r)
{
    size_t at = o->limited_count++;
    if (!r->limit.asks)
        for (; at > 0 && o->limited[at - 1]->limit.asks; at--) o->limited[at] = o->limited[at - 1];
    o->limited[at] = r;
}

/* One walk over all rules, in order. Says the strictest vote. */
static inline struct ref_vote walk(const struct ref_request *q, const char *action,
                                   bool with_shadow, struct ref_outcome *o)
{
    struct ref_vote best = {0};
    char last[2 * TEXT + 2] = "";
    for (size_t i = 0; i < document_count; i++) {
        const struct ref_document *d = &documents[i];
        for (size_t k = 0; k < d->rule_count && (with_shadow || !d->shadow); k++) {
            const struct ref_rule *r = &d->rules[k];
            if (!applies(r, q, action)) continue;
            const struct ref_gate *g = r->gate.there ? &r->gate : &d->gate;
            enum verdict own = r->decision;
            if (own == VERDICT_COMPUTE && truth(r, q) == FAILS) { /* a deny, and nothing else */
                if (stricter(VERDICT_DENY, &best, o->verdict))
                    best = (struct ref_vote){r, VOTE_RULE}, o->verdict = VERDICT_DENY;
                continue;
            }
            /* approved or not: it is asked about beside what is new */
            bool reviews = own == VERDICT_HUMAN_REVIEW;
            if (reviews) note_review(o, r, VOTE_RULE);
            if (reviews && approved(q, VOTE_RULE, r)) own = VERDICT_ALLOW;
            if (r->limit.there) note_limit(o, r);
            if (stricter(own, &best, o->verdict))
                best = (struct ref_vote){r, VOTE_RULE}, o->verdict = own;
            o->allow_vote |= own == VERDICT_ALLOW;
            bool is_other = r->decision == VERDICT_COMPUTE && o->compute != NULL;
            if (is_other && r->copies_amount && o->other == NULL) o->other = r;
            if (o->compute == NULL && r->decision == VERDICT_COMPUTE) o->compute = r;
            if (g->there && !q->person && r->decision != VERDICT_DENY) {
                enum verdict v = gate_of(g, q);
                bool asks = v == VERDICT_HUMAN_REVIEW;
                if (asks) note_review(o, r, VOTE_GATE);
                if (asks && approved(q, VOTE_GATE, r)) v = VERDICT_ALLOW;
                if (stricter(v, &best, o->verdict))
                    best = (struct ref_vote){r, VOTE_GATE}, o->verdict = v;
                reviews |= asks;
                o->gated = true;
                o->used |= q->has_confidence;
            }
            bool lifted = r->limit.there && r->limit.asks && approved(q, VOTE_LIMIT, r);
            if (lifted) note_review(o, r, VOTE_LIMIT);
            if (reviews || lifted) join_review(o, r, last);
        }
    }
    return best;
}

static inline bool in_scope(const struct ref_request *q)
{
    return (!q->has_scope || matches(&q->scope, q->action, false)) &&
           (!q->has_token_scope || matches(&q->token_scope, q->action, false));
}

static inline struct ref_outcome reference(const struct ref_request *q, bool with_shadow)
{
    static const char *const kinds[] = {"deny", "review", "compute", "allow"};
    struct ref_outcome o = {.verdict = VERDICT_DENY};
    if (!in_scope(q)) {
        snprintf(o.rule, sizeof o.rule, "%s", "token:scope");
        return o;
    }
    struct ref_vote best = walk(q, q->action, with_shadow, &o);
    if (best.rule == NULL) {
        snprintf(o.rule, sizeof o.rule, "%s", "default:deny");
        return o;
    }
    put(o.policy, documents[best.rule->document].name);
    bool broken = o.verdict == VERDICT_DENY && best.kind == VOTE_RULE &&
                  best.rule->decision == VERDICT_COMPUTE;
    snprintf(o.rule, sizeof o.rule, "%s:%s",
             best.kind == VOTE_GATE ? "gate"
             : broken               ? "compute"
                                    : kinds[o.verdict],
             best.rule->id);
    if (o.verdict == VERDICT_DENY || o.compute == NULL) return o;
    static struct ref_request unapproved; /* nobody was asked about the safe call */
    static struct ref_outcome safe;
    unapproved = *q;
    unapproved.approved_count = 0;
    bool copies = o.compute->copies_amount;
    unapproved.amount[0] = copies ? q->amount[0] : 0;
    safe = (struct ref_outcome){.verdict = VERDICT_ALLOW};
    bool made = !copies || amounts[q->amount[0]].is_there; /* else there is no safe call */
    if (made) walk(&unapproved, o.compute->safe_tool, with_shadow, &safe);
    o.used |= safe.used;
    const struct ref_rule *refuses = NULL;
    if (!made || safe.verdict == VERDICT_DENY || safe.verdict == VERDICT_HUMAN_REVIEW)
        refuses = o.compute;
    else if (o.other != NULL && !amounts[q->amount[0]].is_there)
        refuses = o.other;
    if (refuses != NULL) {
        o.verdict = VERDICT_DENY;
        snprintf(o.rule, sizeof o.rule, "compute:%s", refuses->id);
        put(o.policy, documents[refuses->document].name);
    } else if (o.verdict == VERDICT_COMPUTE) {
        put(o.safe_tool, o.compute->safe_tool);
    }
    return o;
}

#endif
