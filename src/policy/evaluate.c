/* evaluate.c - one request, one set, one outcome.
 *
 *   scopes → votes of the rules the index proposes, each with its gate → the strictest vote
 *          → compute: votes on the safe call → outcome, with what it counts (limit.c), what people
 *            are asked (review.c), and what shadow documents would change
 *
 * Votes are kept as the smallest rule number for each verdict: numbers follow (document name,
 * position), so the order in which rules are looked at cannot be seen in the outcome. A rule may
 * be proposed twice (two of its patterns match); voting twice changes nothing. */
#include "policy/evaluate.h"

#include <stdlib.h>

#include "base/check.h"
#include "policy/condition.h"

/* ---- does a rule apply? ---- */

struct selector_search {
    const struct selector *selector;
    const struct name *name;
    bool folds, found;
};

static void search_visit(void *context, const uint32_t *values, size_t count)
{
    struct selector_search *s = context;
    for (size_t i = 0; i < count && !s->found; i++)
        s->found = glob_match(&s->selector->globs[values[i]], s->name, s->folds);
}

bool selector_match(const struct selector *s, const struct name *n, bool folds)
{
    if (s->index != NULL) {
        struct selector_search search = {.selector = s, .name = n, .folds = folds};
        index_lookup(s->index, n, search_visit, &search);
        return search.found;
    }
    for (size_t i = 0; i < s->count; i++)
        if (glob_match(&s->globs[i], n, folds)) return true;
    return false;
}

static void member_visit(void *context, const uint32_t *values, size_t count)
{
    struct ballot *b = context;
    for (size_t i = 0; i < count; i++) {
        const struct set_member *m = &b->set->members[values[i]];
        bool folding = glob_match(&m->patterns->folding, b->subject, true);
        if (folding && !b->roles_folding[m->role]) b->roles[b->role_count++] = m->role;
        b->roles_folding[m->role] |= folding;
        b->roles_exact[m->role] |= glob_match(&m->patterns->exact, b->subject, false);
    }
}

/* Whoever matches exactly matches ignoring case too, so the folding roles are all there are. */
bool roles_find(struct ballot *b)
{
    if (b->roles_ready) return true;
    size_t count = b->set->role_count + 1;
    b->roles_exact = arena_array(b->arena, bool, count);
    b->roles_folding = arena_array(b->arena, bool, count);
    b->roles = arena_array(b->arena, uint32_t, count);
    if (b->roles_exact == NULL || b->roles_folding == NULL || b->roles == NULL) {
        b->failed = true;
        return false;
    }
    index_lookup(b->set->member_index, b->subject, member_visit, b);
    for (size_t i = 0; i < b->role_count; i++) b->roles_differ |= !b->roles_exact[b->roles[i]];
    b->roles_ready = true;
    return true;
}

bool rule_matches_subject(struct ballot *b, const struct set_rule *r)
{
    if (!r->names_subject) return true;
    if (b->request->kind == SUBJECT_AGENT) return selector_match(r->agents, b->subject, r->folds);
    if (selector_match(r->users, b->subject, r->folds)) return true;
    if (r->role_count == 0 || !roles_find(b)) return false;
    const bool *has = r->folds ? b->roles_folding : b->roles_exact;
    for (size_t i = 0; i < r->role_count; i++)
        if (has[r->roles[i]]) return true;
    return false;
}

bool rule_matches_action(const struct ballot *b, const struct rule *rule)
{
    return selector_match(&rule->actions, b->action, rule->folds);
}

/* Without a type or an id it is not named either: nobody slips past `db:prod-*` by a bare id. */
static bool names_no_resource(const struct ballot *b)
{
    return str_is_absent(b->request->resource) || b->request->resource_partial;
}

/* b->resource, prepared when it is asked for first; false: none is named, or memory ran out. */
static bool resource_find(struct ballot *b)
{
    if (b->resource_ready) return true;
    if (str_is_absent(b->request->resource)) return false;
    b->resource_ready = name_prepare(b->resource, b->request->resource, b->arena);
    b->failed |= !b->resource_ready;
    return b->resource_ready;
}

/* A rule that restricts cannot be escaped by leaving the resource out. */
bool rule_matches_resource(struct ballot *b, const struct rule *rule)
{
    if (rule->resources.count == 0 || (rule->folds && names_no_resource(b))) return true;
    return resource_find(b) && selector_match(&rule->resources, b->resource, rule->folds);
}

/* ---- votes ---- */

/* Or b->failed. */
static void numbers_add(struct ballot *b, struct numbers *n, uint32_t number)
{
    if (n->count == n->room) {
        size_t room = (size_t)n->room * 2 + 16;
        uint32_t *larger = arena_array(b->arena, uint32_t, room);
        if (larger == NULL) {
            b->failed = true;
            return;
        }
        if (n->count > 0) memcpy(larger, n->list, n->count * sizeof *larger);
        n->list = larger;
        n->room = (uint32_t)room;
    }
    n->list[n->count++] = number;
}

static int number_compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

void numbers_sort(struct numbers *n)
{
    uint32_t kept = 0;
    if (n->count > 1) qsort(n->list, n->count, sizeof *n->list, number_compare);
    for (uint32_t i = 0; i < n->count; i++)
        if (kept == 0 || n->list[i] != n->list[kept - 1]) n->list[kept++] = n->list[i];
    n->count = kept;
}

static bool has_word(const struct str *list, size_t count, struct str word)
{
    for (size_t i = 0; i < count; i++)
        if (str_equal(list[i], word)) return true;
    return false;
}

/* Whether whoever meets `r` meets the terms too. */
static bool requirement_covers(const struct policy_requirement *r, const struct review_terms *t)
{
    if (r->approvals < t->approvals) return false;
    if (t->by_count == 0) return true;
    for (size_t i = 0; i < r->by_count; i++)
        if (!has_word(t->by, t->by_count, r->by[i])) return false;
    return r->by_count > 0;
}

/* Whoever approved has met every requirement of the review. Where one of them is as strict as what the rule
 * asks now, that is met as well; where the rule has become stricter since, it has to be asked anew. */
static bool terms_are_met(const struct policy_request *q, const struct review_terms *t)
{
    if (q->met == NULL) return true;
    for (size_t i = 0; i < q->met_count; i++)
        if (requirement_covers(&q->met[i], t)) return true;
    return false;
}

bool is_approved(const struct policy_request *q, enum policy_vote_kind kind,
                 const struct rule *rule)
{
    for (size_t i = 0; i < q->approved_count; i++) {
        const struct policy_vote *v = &q->approved[i];
        if (v->kind == kind && str_equal(v->rule_id, rule->id) &&
            str_equal(v->policy_name, rule->document->name))
            return terms_are_met(q, &rule->review);
    }
    return false;
}

static void reviewer_note(struct ballot *b, uint32_t number)
{
    if (b->collecting) {
        numbers_add(b, &b->reviewers, number);
        return;
    }
    b->several_reviewers |= b->reviewer != NO_RULE && b->reviewer != number;
    b->reviewer = number;
}

bool gate_votes(const struct ballot *b, const struct set_rule *r, enum verdict *ret)
{
    const struct policy_request *q = b->request;
    if (r->gate == NULL || q->kind != SUBJECT_AGENT) return false;
    if (!q->has_confidence)
        *ret = r->gate->missing;
    else if (q->confidence >= r->gate->allow_at)
        *ret = VERDICT_ALLOW;
    else if (q->confidence >= r->gate->review_at)
        *ret = VERDICT_HUMAN_REVIEW;
    else
        *ret = VERDICT_DENY; /* also for what is no number */
    return true;
}

/* A vote for human_review that a person has approved counts as allow, at its own place. */
static enum verdict review_vote(struct ballot *b, const struct tally *t, uint32_t number, bool gate)
{
    bool approved =
        is_approved(b->request, gate ? VOTE_GATE : VOTE_RULE, b->set->rules[number].rule);
    if (t == &b->enforced && approved) numbers_add(b, &b->approved, number);
    if (t == &b->enforced && !approved) reviewer_note(b, number);
    return approved ? VERDICT_ALLOW : VERDICT_HUMAN_REVIEW;
}

static void vote(struct ballot *b, struct tally *t, uint32_t number, bool gate, enum verdict v)
{
    uint32_t key = number * 2 + gate;
    if (v == VERDICT_HUMAN_REVIEW) v = review_vote(b, t, number, gate);
    if (key < t->first[v]) t->first[v] = key;
}

/* The group's pattern has matched ignoring case. That is all a folding rule asks; for an exact
 * one it is the same where neither side has capitals and the name is plain. */
static bool action_is_sure(const struct ballot *b, const struct set_rule *r)
{
    return r->folds || (r->small_letters && !b->action->has_capitals && !b->action->odd);
}

/* A condition that cannot be evaluated fails closed: what restricts applies, a replacement is a deny,
 * what permits is left out. */
static bool holds(struct ballot *b, struct tally *t, uint32_t number, const struct set_rule *r)
{
    enum purse purse = b->purse;
    if (r->shadow) b->purse = PURSE_SHADOW;
    enum condition_result result = condition_holds(b, r->rule->when, NULL);
    b->purse = purse;
    if (result != CONDITION_FAILED) return result == CONDITION_TRUE;
    if (r->decision != VERDICT_ALLOW && !b->collecting) numbers_add(b, &b->broken, number);
    if (r->decision == VERDICT_COMPUTE) vote(b, t, number, false, VERDICT_DENY);
    return r->decision == VERDICT_DENY || r->decision == VERDICT_HUMAN_REVIEW;
}

static void consider(struct ballot *b, uint32_t number)
{
    const struct set_rule *r = &b->set->rules[number];
    __builtin_prefetch(r->told); /* it may be the winner */
    b->met++;
    if (!action_is_sure(b, r) && !rule_matches_action(b, r->rule)) return;
    if (!rule_matches_subject(b, r) || (r->has_resources && !rule_matches_resource(b, r->rule)))
        return;
    struct tally *t = r->shadow ? &b->shadow : &b->enforced;
    enum verdict gate;
    if (r->has_when && !holds(b, t, number, r)) return;
    if (r->has_limit) numbers_add(b, &b->limited, number);
    vote(b, t, number, false, (enum verdict)r->decision);
    if (!gate_votes(b, r, &gate)) return;
    vote(b, t, number, true, gate);
    b->confidence_used |= b->request->has_confidence && !r->shadow;
}

static void consider_visit(void *context, const uint32_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++) consider(context, values[i]);
}

static void consider_cell(struct ballot *b, const struct cell *c)
{
    const struct resource_split *split = c->resources;
    if (split == NULL) {
        consider_visit(b, c->rules, c->count);
        return;
    }
    consider_visit(b, split->anywhere, split->anywhere_count);
    if (names_no_resource(b)) consider_visit(b, split->unnamed, split->unnamed_count);
    if (resource_find(b)) index_lookup(split->named, b->resource, consider_visit, b);
}

struct axis_search {
    struct ballot *ballot;
    const struct cell *cells;
};

static void axis_visit(void *context, const uint32_t *values, size_t count)
{
    const struct axis_search *s = context;
    for (size_t i = 0; i < count; i++) {
        if (values[i] & VALUE_IS_CELL)
            consider_cell(s->ballot, &s->cells[values[i] & ~(uint32_t)VALUE_IS_CELL]);
        else
            consider(s->ballot, values[i]);
    }
}

static void consider_axis(struct ballot *b, const struct axis *axis)
{
    struct axis_search search = {.ballot = b, .cells = axis->cells};
    if (axis->index != NULL) index_lookup(axis->index, b->subject, axis_visit, &search);
}

static void consider_role(struct ballot *b, const struct subject_index *x, uint32_t role)
{
    size_t low = 0, high = x->by_role_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (x->by_role[middle].role < role)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < x->by_role_count && x->by_role[low].role == role)
        consider_cell(b, &x->by_role[low].cell);
}

static void consider_subjects(struct ballot *b, const struct subject_index *x)
{
    consider_cell(b, &x->anyone);
    if (b->request->kind == SUBJECT_AGENT) {
        consider_axis(b, &x->agents);
        return;
    }
    consider_axis(b, &x->users);
    if (x->by_role_count == 0 || !roles_find(b)) return;
    for (size_t i = 0; i < b->role_count; i++) consider_role(b, x, b->roles[i]);
}

static void consider_group(struct ballot *b, const struct group *g)
{
    if (!glob_match_text((enum glob_kind)g->kind, g->pattern, b->action->folded)) return;
    if (g->subjects != NULL)
        consider_subjects(b, g->subjects);
    else if (g->count == 1)
        consider(b, g->first_rule);
    else
        consider_visit(b, g->rules, g->count);
}

static void group_visit(void *context, const uint32_t *values, size_t count)
{
    struct ballot *b = context;
    const struct policy_set *s = b->set;
    for (size_t i = 0; i < count; i++) {
        uint32_t own = values[i] & ~(uint32_t)VALUE_IS_OWN;
        if ((values[i] & VALUE_IS_OWN) != 0) __builtin_prefetch(&s->rules[own]);
        consider_group(b, (values[i] & VALUE_IS_OWN) != 0 ? &s->own[own] : &s->groups[values[i]]);
    }
}

static void take_votes(struct ballot *b)
{
    for (size_t v = 0; v < 4; v++) b->enforced.first[v] = b->shadow.first[v] = NO_VOTE;
    b->reviewer = NO_RULE;
    b->several_reviewers = false;
    index_lookup(b->set->actions, b->action, group_visit, b);
}

/* The strictest verdict that has a vote; false: none has. */
static bool strictest(const struct tally *t, enum verdict *ret)
{
    for (int v = VERDICT_DENY; v <= VERDICT_ALLOW; v++) {
        if (t->first[v] == NO_VOTE) continue;
        *ret = (enum verdict)v;
        return true;
    }
    return false;
}

static struct tally joined(const struct tally *a, const struct tally *b)
{
    struct tally t = *a;
    for (size_t v = 0; v < 4; v++)
        if (b->first[v] < t.first[v]) t.first[v] = b->first[v];
    return t;
}

/* ---- sentences ---- */

/* Puts the parts one behind the other in the arena, without printf: this is on the hot path. */
static struct str sentence(struct ballot *b, const struct str *parts, size_t count)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++) size += parts[i].size;
    char *bytes = arena_bytes(b->arena, size + 1);
    if (bytes == NULL) {
        b->failed = true;
        return STR("");
    }
    struct buf out = buf_over(bytes, size + 1);
    for (size_t i = 0; i < count; i++) buf_put(&out, parts[i]);
    return buf_view(&out);
}

struct str gate_reason(struct ballot *b, const struct rule *rule, enum verdict vote)
{
    const struct gate *g = rule->gate;
    if (!b->request->has_confidence) {
        struct str parts[] = {STR("No confidence was given, and rule "), rule->id,
                              STR(" asks for one.")};
        return sentence(b, parts, 3);
    }
    bool is_review = vote == VERDICT_HUMAN_REVIEW, is_allow = vote == VERDICT_ALLOW;
    struct str parts[] = {is_allow ? STR("The confidence reaches allow_at ")
                                : STR("The confidence is below "),
                          is_allow    ? STR("(")
                          : is_review ? STR("allow_at (")
                                   : STR("review_at ("),
                          is_review || is_allow ? g->allow_at_text : g->review_at_text,
                          STR(") of rule "),
                          rule->id,
                          STR(".")};
    return sentence(b, parts, 6);
}

static struct str kind_of(enum verdict v, bool gate)
{
    if (gate) return STR("gate:");
    switch (v) {
    case VERDICT_DENY: return STR("deny:");
    case VERDICT_HUMAN_REVIEW: return STR("review:");
    case VERDICT_COMPUTE: return STR("compute:");
    case VERDICT_ALLOW: return STR("allow:");
    }
    return STR("deny:");
}

/* ---- from votes to an outcome ---- */

/* What a tally comes to, before it is told to anyone. */
struct result {
    enum verdict verdict;
    uint32_t key;        /* the vote that decides, or NO_VOTE: default:deny */
    bool unsafe;         /* a compute whose safe call is not permitted: deny */
    struct str broken;   /* or whose safe arguments cannot be made, and why; absent: they can */
    const struct json *safe_args; /* of a compute */
    uint32_t unsafe_key; /* by this vote */
};

/* The safe call of the first compute vote is asked about once, as the same subject, on the same
 * resource; silence is consent here, because the compute rule has spoken for it.
 *
 * A compute whose safe call is not permitted counts as a deny beside a human_review, too: else a
 * gate that asks a person at a low confidence would be looser than the deny at a high one. (And
 * a person's approval could not make the call safe.) */
static void check_safe_call(struct ballot *b, uint32_t key, bool with_shadow, struct result *r)
{
    const struct rule *rule = b->set->rules[key / 2].rule;
    struct name tool;
    if (!name_prepare(&tool, rule->safe_tool, b->arena)) {
        b->failed = true;
        return;
    }
    struct str why;
    b->purse = with_shadow ? PURSE_SHADOW : PURSE_VOTES;
    const struct json *args = template_args(b, rule, &why);
    if (args == NULL) {
        b->purse = PURSE_VOTES;
        *r = (struct result){.verdict = VERDICT_DENY, .key = key, .unsafe = true, .broken = why};
        return;
    }
    r->safe_args = args;
    struct policy_request request = *b->request;
    request.action = rule->safe_tool;
    request.args = args;
    request.approved_count = 0; /* people have approved what was asked for, not what replaces it */
    struct ballot safe = *b;
    safe.request = &request;
    safe.action = &tool;
    safe.variables = NULL; /* other arguments, other conditions */
    safe.approved = safe.limited = safe.broken =
        (struct numbers){0}; /* not the safe call's, and not to b's lists */
    take_votes(&safe);
    memcpy(b->spent, safe.spent, sizeof b->spent);
    b->met = safe.met;
    memcpy(b->exhausted, safe.exhausted, sizeof b->exhausted);
    b->purse = PURSE_VOTES;
    struct tally t = with_shadow ? joined(&safe.enforced, &safe.shadow) : safe.enforced;
    enum verdict v;
    if (strictest(&t, &v) && v <= VERDICT_HUMAN_REVIEW)
        *r = (struct result){
            .verdict = VERDICT_DENY, .key = key, .unsafe = true, .unsafe_key = t.first[v]};
    b->failed |= safe.failed;
    if (!with_shadow) b->confidence_used |= safe.confidence_used;
}

static struct result result_of(struct ballot *b, const struct tally *t, bool with_shadow)
{
    struct result r = {.verdict = VERDICT_DENY, .key = NO_VOTE};
    if (!strictest(t, &r.verdict)) return r;
    r.key = t->first[r.verdict];
    uint32_t compute = t->first[VERDICT_COMPUTE];
    if (compute != NO_VOTE && r.verdict != VERDICT_DENY)
        check_safe_call(b, compute, with_shadow, &r);
    return r;
}

static void result_rule(const struct policy_set *s, const struct result *r,
                        char to[POLICY_RULE_TEXT], struct str *ret_policy)
{
    if (r->key == NO_VOTE) {
        rule_text(to, STR("default:"), STR("deny"));
        *ret_policy = (struct str){0};
        return;
    }
    const struct set_rule *rule = &s->rules[r->key / 2]; /* of rule->rule nothing is needed */
    /* A compute that denies could not be evaluated, or its safe call is not permitted. */
    bool replaced = rule->decision == VERDICT_COMPUTE && r->verdict == VERDICT_DENY && (r->key & 1) == 0;
    rule_text(to, replaced ? STR("compute:") : kind_of(r->verdict, r->key & 1),
              told_id(rule->told));
    *ret_policy = s->documents[rule->document].document->name;
}

static bool is_broken(const struct ballot *b, uint32_t number)
{
    for (uint32_t i = 0; i < b->broken.count; i++)
        if (b->broken.list[i] == number) return true;
    return false;
}

static struct str result_reason(struct ballot *b, const struct result *r)
{
    if (r->key == NO_VOTE) return STR("No rule of any policy applies, so it is denied.");
    const struct set_rule *decides = &b->set->rules[r->key / 2];
    const struct rule *rule = decides->rule;
    struct str why;
    b->purse = PURSE_REST; /* that of a lower confidence may have another */
    if (!str_is_absent(r->broken)) {
        struct str parts[] = {STR("The safe arguments of rule "), rule->id, STR(" cannot be made, so it is denied: "), r->broken, STR(".")};
        return sentence(b, parts, 5);
    }
    if ((r->key & 1) == 0 && !r->unsafe && is_broken(b, r->key / 2) &&
        condition_holds(b, rule->when, &why) == CONDITION_FAILED) {
        struct str parts[] = {STR("The condition of rule "), rule->id, STR(" cannot be evaluated, so it "),
                              rule->decision == VERDICT_COMPUTE ? STR("is denied: ") : STR("applies: "), why, STR(".")};
        return sentence(b, parts, 6);
    }
    if (r->unsafe) {
        const struct rule *by = b->set->rules[r->unsafe_key / 2].rule;
        struct str parts[] = {STR("The safe call "),
                              rule->safe_tool,
                              STR(" is not permitted either: "),
                              r->unsafe_key & 1 ? STR("gate of rule ") : STR("rule "),
                              by->id,
                              STR(" of policy "),
                              by->document->name,
                              STR(".")};
        return sentence(b, parts, sizeof parts / sizeof parts[0]);
    }
    return r->key & 1 ? gate_reason(b, rule, r->verdict) : told_reason(decides->told);
}

/* Asks the index again, now to have every reviewer in b->reviewers. */
static void collect_reviewers(struct ballot *b)
{
    b->collecting = true;
    index_lookup(b->set->actions, b->action, group_visit, b);
    b->collecting = false;
    numbers_sort(&b->reviewers);
}

/* What was approved is asked about again beside what is new: an approval of the new question alone would leave
 * the others open when it is used, and so on for ever. */
static void outcome_reviewers(struct ballot *b, struct policy_outcome *o)
{
    struct numbers only = {.list = &b->reviewer, .count = 1};
    if (b->several_reviewers) collect_reviewers(b);
    const struct numbers *rules = b->several_reviewers ? &b->reviewers : &only;
    if (b->approved.count > 0) {
        for (uint32_t i = 0; i < rules->count; i++) numbers_add(b, &b->approved, rules->list[i]);
        numbers_sort(&b->approved);
        rules = &b->approved;
    }
    outcome_review(b, rules, false, &o->review);
}

/* Of an allow or a compute by `rule`: what it counts, and who has been asked for it already. */
static void outcome_conditions(struct ballot *b, const struct rule *rule, struct policy_outcome *o)
{
    if (b->limited.count > 0) outcome_limits(b, o);
    if (b->approved.count == 0) return;
    numbers_sort(&b->approved);
    outcome_review(b, &b->approved, true, &o->review);
    if (rule->decision != VERDICT_HUMAN_REVIEW) return;
    struct str parts[] = {STR("A person has approved what rule "), rule->id, STR(" of policy "),
                          rule->document->name, STR(" asks about.")};
    o->reason = sentence(b, parts, sizeof parts / sizeof parts[0]);
}

static void outcome_clear(struct policy_outcome *o)
{
    *o = (struct policy_outcome){.verdict = VERDICT_DENY};
}

void outcome_failed(struct policy_outcome *o)
{
    outcome_clear(o);
    rule_text(o->rule, STR("default:"), STR("deny"));
    o->reason = STR("There was not enough memory to decide, so it is denied.");
}

static void outcome_exhausted(struct policy_outcome *o)
{
    outcome_clear(o);
    rule_text(o->rule, STR("default:"), STR("deny"));
    o->reason = STR("The conditions of all rules for this request together cost more than one decision may, so it "
                    "is denied.");
}

static void outcome_shadow(struct ballot *b, const struct result *enforced,
                           struct policy_outcome *o)
{
    struct tally both = joined(&b->enforced, &b->shadow);
    struct result r = result_of(b, &both, true);
    if (b->exhausted[PURSE_SHADOW]) r = (struct result){.verdict = VERDICT_DENY, .key = NO_VOTE};
    bool same_call = r.verdict != VERDICT_COMPUTE || r.key == enforced->key;
    if (r.verdict == enforced->verdict && same_call) return;
    o->has_would_have = true;
    o->would_have = r.verdict;
    result_rule(b->set, &r, o->would_have_rule, &o->would_have_policy);
}

static void lifted_limits(struct ballot *b)
{
    for (uint32_t i = 0; i < b->limited.count; i++) {
        uint32_t number = b->limited.list[i];
        if (limit_is_lifted(b, &b->set->rules[number])) numbers_add(b, &b->approved, number);
    }
}

static void decide(struct ballot *b, struct policy_outcome *o)
{
    take_votes(b);
    struct result r = result_of(b, &b->enforced, false);
    o->verdict = r.verdict;
    result_rule(b->set, &r, o->rule, &o->policy_name);
    o->reason = result_reason(b, &r);
    b->purse = PURSE_VOTES;
    if (r.key != NO_VOTE) {
        const struct set_rule *rule = &b->set->rules[r.key / 2];
        o->policy_version = b->set->documents[rule->document].version;
        lifted_limits(b);
        if (r.verdict == VERDICT_HUMAN_REVIEW) {
            outcome_reviewers(b, o);
        } else if (r.verdict != VERDICT_DENY && (b->limited.count | b->approved.count) > 0) {
            outcome_conditions(b, rule->rule, o);
        }
        if (r.verdict == VERDICT_COMPUTE) {
            o->safe_tool = rule->rule->safe_tool;
            o->safe_args = r.safe_args;
            bool hides = b->set->hides_args != NULL && b->set->hides_args[r.key / 2];
            o->told_args = hides ? template_told(b, rule->rule, r.safe_args) : r.safe_args;
            if (o->told_args == NULL) b->failed = true;
        }
    }
    o->confidence_used = b->confidence_used;
    if (b->set->has_shadow) outcome_shadow(b, &r, o);
}

/* A scope permits, so its patterns are exact. */
static bool scope_covers(struct ballot *b, const struct str *scope, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct glob g;
        if (!glob_compile(b->arena, scope[i], false, &g)) {
            b->failed = true;
            return false;
        }
        if (glob_match(&g, b->action, false)) return true;
    }
    return false;
}

/* The request's scope narrows the token's: both have to cover the action. */
static bool scopes_cover(struct ballot *b)
{
    const struct policy_request *q = b->request;
    return (!q->has_scope || scope_covers(b, q->scope, q->scope_count)) &&
           (!q->has_token_scope || scope_covers(b, q->token_scope, q->token_scope_count));
}

void policy_evaluate(const struct policy_set *s, const struct policy_request *request,
                     struct arena *arena, const struct policy_explain *explain,
                     struct policy_outcome *ret)
{
    struct name action, subject, resource;
    struct ballot b = {.set = s,
                       .request = request,
                       .arena = arena,
                       .action = &action,
                       .subject = &subject,
                       .resource = &resource};
    outcome_clear(ret);
    if (s->closed_rule[0] != '\0') {
        memcpy(ret->rule, s->closed_rule, sizeof ret->rule);
        ret->reason = s->closed_reason;
        return;
    }
    struct str who = request->kind == SUBJECT_AGENT ? request->actor : request->user;
    if (!name_prepare(&action, request->action, arena) || !name_prepare(&subject, who, arena)) {
        outcome_failed(ret);
        return;
    }
    if (!scopes_cover(&b)) {
        rule_text(ret->rule, STR("token:"), STR("scope"));
        ret->reason = STR("The action is outside the scope that was granted.");
    } else {
        decide(&b, ret);
    }
    if (b.exhausted[PURSE_VOTES]) outcome_exhausted(ret);
    if (b.failed) outcome_failed(ret);
    if (request->dry_run) outcome_over_by_itself(ret, arena);
    ret->cost = RULE_COST * b.met;
    for (size_t i = 0; i < PURSES; i++) ret->cost += b.spent[i];
    if (explain != NULL) explain_rules(&b, ret, explain);
}
