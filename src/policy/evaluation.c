/* evaluation.c - the votes: each rule that the index proposes, with its condition and its gate.
 *
 * For each verdict the smallest rule number is kept. Numbers follow (document name, position), so
 * the outcome does not depend on the order of evaluation. A rule that several of its patterns
 * propose is evaluated once. */
#include "policy/evaluation.h"

#include <stdlib.h>

#include "policy/condition.h"

void numbers_add(struct evaluation *b, struct numbers *n, uint32_t number)
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
    check(n->count < n->room);
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

static void reviewer_note(struct evaluation *b, uint32_t number)
{
    if (b->reviewers_state == REVIEWERS_COLLECTING) {
        numbers_add(b, &b->reviewers, number);
        return;
    }
    if (b->reviewer != NO_RULE && b->reviewer != number) b->reviewers_state = REVIEWERS_SEVERAL;
    b->reviewer = number;
}

bool gate_votes(const struct evaluation *b, const struct set_rule *r, enum verdict *ret)
{
    check(r->gate == NULL || r->decision != VERDICT_DENY);
    const struct policy_request *q = b->request;
    if (r->gate == NULL || q->kind != SUBJECT_AGENT) return false;
    if (!q->has_confidence)
        *ret = r->gate->missing;
    else if (q->confidence >= r->gate->allow_at)
        *ret = VERDICT_ALLOW;
    else if (q->confidence >= r->gate->review_at)
        *ret = VERDICT_HUMAN_REVIEW;
    else
        *ret = VERDICT_DENY; /* also for NaN */
    return true;
}

/* A vote for human_review that a person has approved counts as an allow with the same number. */
static enum verdict vote_for_review(struct evaluation *b, uint32_t number, bool gate)
{
    check(number < NO_VOTE / 2); /* its key is twice that */
    bool approved =
        is_approved(b->request, gate ? VOTE_GATE : VOTE_RULE, b->set->rules[number].rule);
    if (approved)
        numbers_add(b, &b->approved, number);
    else
        reviewer_note(b, number);
    return approved ? VERDICT_ALLOW : VERDICT_HUMAN_REVIEW;
}

static void vote(struct evaluation *b, uint32_t number, bool gate, enum verdict v)
{
    check(number < b->set->rule_count);
    uint32_t key = number * 2 + gate;
    if (v == VERDICT_HUMAN_REVIEW) v = vote_for_review(b, number, gate);
    if (key < b->votes.first[v]) b->votes.first[v] = key;
}

/* The group's pattern has matched ignoring case, which is enough for a folding rule. For an exact
 * rule it is enough if neither side has capitals and the name is plain. */
static bool action_is_sure(const struct evaluation *b, const struct set_rule *r)
{
    return r->folds || (r->small_letters && b->action_is_small);
}

/* A condition that cannot be evaluated fails closed: a restricting rule applies, a compute is a
 * deny, an allow is skipped. */
static bool holds(struct evaluation *b, uint32_t number, const struct set_rule *r)
{
    enum condition_result result = b->request->unknowns != NULL
                                       ? unknown_holds(b, r->rule)
                                       : condition_holds(b, r->rule->when, NULL);
    if (result != CONDITION_FAILED) return result == CONDITION_TRUE;
    if (r->decision != VERDICT_ALLOW && b->reviewers_state != REVIEWERS_COLLECTING)
        numbers_add(b, &b->broken, number);
    if (r->decision == VERDICT_ALLOW && number < b->skipped) b->skipped = number;
    if (r->decision == VERDICT_COMPUTE) vote(b, number, false, VERDICT_DENY);
    return r->decision == VERDICT_DENY || r->decision == VERDICT_HUMAN_REVIEW;
}

static void seen_clear(struct evaluation *b)
{
    b->seen = b->seen_space;
    b->seen_mask = SEEN_INLINE - 1;
    b->seen_count = 0;
    memset(b->seen_space, 0, sizeof b->seen_space);
}

static uint32_t *seen_place(const struct evaluation *b, uint32_t number)
{
    uint32_t at = (number * 0x9E3779B1u >> 7) & b->seen_mask;
    while (b->seen[at] != 0 && b->seen[at] != number + 1) at = (at + 1) & b->seen_mask;
    return &b->seen[at];
}

static bool seen_grow(struct evaluation *b)
{
    check(b->seen_mask <= UINT32_MAX / 8);
    uint32_t *old = b->seen, size = b->seen_mask + 1;
    uint32_t *larger = arena_array(b->arena, uint32_t, (size_t)size * 4);
    if (larger == NULL) return false;
    b->seen = larger;
    b->seen_mask = size * 4 - 1;
    for (uint32_t i = 0; i < size; i++)
        if (old[i] != 0) *seen_place(b, old[i] - 1) = old[i];
    return true;
}

/* Each matching pattern of a rule proposes it, but the rule is evaluated and paid for once.
 * Otherwise the cost of a decision would depend on the structure of the index. */
static bool is_met_again(struct evaluation *b, uint32_t number)
{
    uint32_t *place = seen_place(b, number);
    if (*place != 0) return true;
    if (b->seen_count > b->seen_mask / 2) {
        if (!seen_grow(b)) {
            b->failed = true;
            return true;
        }
        place = seen_place(b, number);
    }
    check(*place == 0);
    *place = number + 1;
    b->seen_count++;
    check(b->seen_count <= b->seen_mask);
    return false;
}

static void consider(struct evaluation *b, uint32_t number)
{
    check(number < b->set->rule_count);
    const struct set_rule *r = &b->set->rules[number];
    __builtin_prefetch(r->told); /* it may be the winner */
    if (is_met_again(b, number)) return;
    b->met++;
    if (!action_is_sure(b, r) && !rule_matches_action(b, r->rule)) return;
    if (!rule_matches_subject(b, r) || (r->has_resources && !rule_matches_resource(b, r->rule)))
        return;
    enum verdict gate;
    if (r->has_when && !holds(b, number, r)) return;
    if (r->has_limit) numbers_add(b, &b->limited, number);
    if (r->decision == VERDICT_COMPUTE && r->rule->templates != NULL)
        numbers_add(b, &b->computes, number);
    vote(b, number, false, (enum verdict)r->decision);
    if (!gate_votes(b, r, &gate)) return;
    vote(b, number, true, gate);
    b->confidence_used |= b->request->has_confidence;
}

static void consider_visit(void *context, const uint32_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++) consider(context, values[i]);
}

static void consider_cell(struct evaluation *b, const struct cell *c)
{
    const struct resource_split *split = c->resources;
    if (split == NULL) {
        consider_visit(b, c->rules, c->count);
        return;
    }
    if (unknown_is_resource_cut(b->request)) b->request->unknowns->is_open = true;
    consider_visit(b, split->anywhere, split->anywhere_count);
    if (names_no_resource(b)) consider_visit(b, split->unnamed, split->unnamed_count);
    if (!resource_find(b)) return;
    index_lookup(split->named, b->resource, consider_visit, b);
    if (b->respelled != NULL) index_lookup(split->named, b->respelled, consider_visit, b);
}

struct axis_search {
    struct evaluation *evaluation;
    const struct cell *cells;
};

static void axis_visit(void *context, const uint32_t *values, size_t count)
{
    const struct axis_search *s = context;
    for (size_t i = 0; i < count; i++) {
        if (values[i] & VALUE_IS_CELL)
            consider_cell(s->evaluation, &s->cells[values[i] & ~(uint32_t)VALUE_IS_CELL]);
        else
            consider(s->evaluation, values[i]);
    }
}

static void consider_axis(struct evaluation *b, const struct axis *axis)
{
    struct axis_search search = {.evaluation = b, .cells = axis->cells};
    if (axis->index != NULL) index_lookup(axis->index, b->subject, axis_visit, &search);
}

static void consider_role(struct evaluation *b, const struct subject_index *x, uint32_t role)
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

static void consider_subjects(struct evaluation *b, const struct subject_index *x)
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

static void consider_group(struct evaluation *b, const struct group *g)
{
    if (g->subjects != NULL)
        consider_subjects(b, g->subjects);
    else if (g->count == 1)
        consider(b, g->first_rule);
    else
        consider_visit(b, g->rules, g->count);
}

static const struct group *group_of(const struct evaluation *b, uint32_t value)
{
    uint32_t own = value & ~(uint32_t)VALUE_IS_OWN;
    if ((value & VALUE_IS_OWN) == 0) {
        check(value < b->index->group_count);
        return &b->index->groups[value];
    }
    check(own < b->set->rule_count);
    __builtin_prefetch(&b->set->rules[own]);
    return &b->set->own[own];
}

/* The candidates of the index for an action, and those that match. */
struct group_search {
    struct evaluation *evaluation;
    uint32_t matched[REMEMBERED_GROUPS];
    size_t count; /* may exceed the room */
};

static void group_visit(void *context, const uint32_t *values, size_t count)
{
    struct group_search *search = context;
    struct evaluation *b = search->evaluation;
    for (size_t i = 0; i < count; i++) {
        const struct group *g = group_of(b, values[i]);
        if (!glob_match_text((enum glob_kind)g->kind, g->pattern, b->action->folded)) continue;
        if (search->count < REMEMBERED_GROUPS) search->matched[search->count] = values[i];
        search->count++;
        consider_group(b, g);
    }
}

/* Of a group with one rule only the pattern matters, and it has matched. The loads do not depend on
 * each other. */
static void consider_found(struct evaluation *b, const struct remembered *found)
{
    check(found->index == b->index->serial); /* another set's would decide */
    const struct policy_set *s = b->set;
    for (uint32_t i = 0; i < found->count; i++) {
        uint32_t value = found->groups[i], own = value & ~(uint32_t)VALUE_IS_OWN;
        __builtin_prefetch((value & VALUE_IS_OWN) != 0 ? (const void *)&s->rules[own]
                                                       : &b->index->groups[value]);
    }
    for (uint32_t i = 0; i < found->count; i++) {
        uint32_t value = found->groups[i];
        if ((value & VALUE_IS_OWN) != 0)
            consider(b, value & ~(uint32_t)VALUE_IS_OWN);
        else
            consider_group(b, &b->index->groups[value]);
    }
}

static void consider_index(struct evaluation *b, const struct rule_index *x)
{
    check(x->actions != NULL);
    const struct remembered *found = remembered_find(b->memory, x, b->request->action);
    b->index = x;
    if (found != NULL) {
        b->action_is_small = true;
        consider_found(b, found);
        return;
    }
    const struct name *action = action_name(b);
    if (b->failed) return;
    struct group_search search = {.evaluation = b};
    b->action_is_small = !action->has_capitals && !action->odd;
    index_lookup(x->actions, action, group_visit, &search);
    if (b->action_is_small)
        remembered_keep(b->memory, x, b->request->action, search.matched, search.count);
}

static void consider_all(struct evaluation *b)
{
    seen_clear(b);
    consider_index(b, b->indexes[0]);
    if (b->indexes[1] != NULL) consider_index(b, b->indexes[1]);
}

void evaluation_take_votes(struct evaluation *b)
{
    for (size_t v = 0; v < 4; v++) b->votes.first[v] = NO_VOTE;
    b->reviewer = b->skipped = NO_RULE;
    b->reviewers_state = REVIEWERS_ONE_AT_MOST;
    consider_all(b);
    evaluation_check(b);
}

void evaluation_collect_reviewers(struct evaluation *b)
{
    check(b->reviewers_state == REVIEWERS_SEVERAL);
    b->reviewers_state = REVIEWERS_COLLECTING;
    consider_all(b);
    b->reviewers_state = REVIEWERS_SEVERAL;
    numbers_sort(&b->reviewers);
    evaluation_check(b);
}

bool tally_strictest(const struct tally *t, enum verdict *ret)
{
    for (int v = VERDICT_DENY; v <= VERDICT_ALLOW; v++) {
        if (t->first[v] == NO_VOTE) continue;
        *ret = (enum verdict)v;
        return true;
    }
    return false;
}

struct tally tally_joined(const struct tally *a, const struct tally *b)
{
    struct tally t = *a;
    for (size_t v = 0; v < 4; v++)
        if (b->first[v] < t.first[v]) t.first[v] = b->first[v];
    return t;
}
