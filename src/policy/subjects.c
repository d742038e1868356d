/* subjects.c - divides the many rules of one action by subject, then by resource.
 *
 *   rules ─┬─ for anyone ───────────────────────────▶ cell
 *          ├─ agents, users: index over patterns ───▶ cell (all rules with that pattern)
 *          └─ roles: sorted by number ──────────────▶ cell
 *
 *   cell ──┬─ few rules: look at each
 *          └─ many: without resources | resources: index over patterns | unnamed
 *
 * A rule of several patterns is in several cells. `unnamed` are the deny and human_review rules
 * with resources, which also apply to a request without a (whole) resource. */
#include <stdlib.h>

#include "base/check.h"
#include "policy/filing.h"

static const struct selector *agents_of(const struct rule *rule) { return &rule->agents; }
static const struct selector *users_of(const struct rule *rule) { return &rule->users; }
static const struct selector *resources_of(const struct rule *rule) { return &rule->resources; }

/* ---- cells ---- */

static bool index_resources(struct policy_set *s, const uint32_t *rules, size_t count,
                            const struct index **ret)
{
    struct filings filings;
    struct index_entry *entries = NULL;
    bool good = filings_collect(s, rules, count, resources_of, &filings) &&
                (entries = calloc(filings.count + 1, sizeof *entries)) != NULL;
    for (size_t i = 0; good && i < filings.count; i++)
        entries[i] = (struct index_entry){filings.list[i].pattern, filings.list[i].rule};
    if (good) *ret = index_build(&s->arena, entries, filings.count);
    free(entries);
    filings_fini(&filings);
    return *ret != NULL;
}

static bool split_by_resource(struct policy_set *s, struct cell *cell)
{
    struct resource_split *split = arena_new(&s->arena, struct resource_split);
    uint32_t *anywhere = arena_array(&s->arena, uint32_t, cell->count);
    uint32_t *unnamed = arena_array(&s->arena, uint32_t, cell->count);
    if (split == NULL || anywhere == NULL || unnamed == NULL) return false;
    split->anywhere = anywhere;
    split->unnamed = unnamed;
    for (size_t i = 0; i < cell->count; i++) {
        const struct set_rule *r = &s->rules[cell->rules[i]];
        if (!r->has_resources)
            anywhere[split->anywhere_count++] = cell->rules[i];
        else if (r->folds)
            unnamed[split->unnamed_count++] = cell->rules[i];
    }
    check(split->anywhere_count < cell->count); /* some rules have resources */
    cell->resources = split;
    check(split->unnamed_count <= cell->count - split->anywhere_count);
    return index_resources(s, cell->rules, cell->count, &split->named);
}

static bool cell_make(struct policy_set *s, const uint32_t *rules, size_t count, struct cell *ret)
{
    size_t with_resources = 0;
    for (size_t i = 0; i < count; i++) with_resources += s->rules[rules[i]].has_resources;
    *ret = (struct cell){.rules = rules, .count = count};
    return with_resources <= CELL_SPLIT_AT || split_by_resource(s, ret);
}

/* ---- subjects ---- */

/* Each run of equal patterns becomes a cell, or, if it belongs to one rule, that rule. */
static bool fill_axis(struct policy_set *s, const struct filings *f, struct index_entry *entries,
                      struct axis *ret)
{
    uint32_t *rules = arena_array(&s->arena, uint32_t, f->count);
    size_t runs = 0, cells = 0;
    for (size_t i = 0; i < f->count; i += filings_run(f, i)) runs += filings_run(f, i) > 1;
    struct cell *list = arena_array(&s->arena, struct cell, runs + 1);
    if (rules == NULL || list == NULL) return false;
    ret->cells = list;
    runs = 0;
    for (size_t i = 0, run; i < f->count; i += run, runs++) {
        run = filings_run(f, i);
        size_t count = filings_rules(f, i, run, rules + i);
        entries[runs] = (struct index_entry){f->list[i].pattern, rules[i]};
        if (count == 1) continue;
        check(cells < VALUE_IS_CELL);
        entries[runs].value = (uint32_t)cells | VALUE_IS_CELL;
        if (!cell_make(s, rules + i, count, &list[cells++])) return false;
    }
    ret->index = index_build(&s->arena, entries, runs);
    return ret->index != NULL;
}

static bool index_axis(struct policy_set *s, const uint32_t *rules, size_t count, selector_of *of,
                       struct axis *ret)
{
    struct filings filings;
    bool good = filings_collect(s, rules, count, of, &filings);
    if (good && filings.count > 0) {
        struct index_entry *entries = calloc(filings.count, sizeof *entries);
        good = entries != NULL && fill_axis(s, &filings, entries, ret);
        free(entries);
    }
    filings_fini(&filings);
    return good;
}

struct role_rule {
    uint32_t role, rule;
};

static int role_rule_compare(const void *a, const void *b)
{
    const struct role_rule *x = a, *y = b;
    if (x->role != y->role) return x->role < y->role ? -1 : 1;
    return x->rule < y->rule ? -1 : x->rule > y->rule;
}

static bool fill_roles(struct policy_set *s, const struct role_rule *list, size_t count,
                       struct subject_index *x)
{
    uint32_t *rules = arena_array(&s->arena, uint32_t, count + 1);
    struct role_cell *cells = arena_array(&s->arena, struct role_cell, count + 1);
    if (rules == NULL || cells == NULL) return false;
    x->by_role = cells;
    for (size_t i = 0; i < count;) {
        size_t from = i, kept = from;
        for (; i < count && list[i].role == list[from].role; i++)
            if (kept == from || rules[kept - 1] != list[i].rule) rules[kept++] = list[i].rule;
        struct role_cell *c = &cells[x->by_role_count++];
        c->role = list[from].role;
        check(c->role < s->role_count);
        check(kept > from && kept <= i);
        if (!cell_make(s, rules + from, kept - from, &c->cell)) return false;
    }
    return true;
}

static bool index_roles(struct policy_set *s, const uint32_t *rules, size_t count,
                        struct subject_index *x)
{
    size_t pairs = 0, filled = 0;
    for (size_t i = 0; i < count; i++) pairs += s->rules[rules[i]].role_count;
    if (pairs == 0) return true;
    struct role_rule *list = calloc(pairs, sizeof *list);
    if (list == NULL) return false;
    for (size_t i = 0; i < count; i++) {
        const struct set_rule *r = &s->rules[rules[i]];
        for (size_t k = 0; k < r->role_count; k++)
            list[filled++] = (struct role_rule){.role = r->roles[k], .rule = rules[i]};
    }
    check(filled == pairs);
    qsort(list, pairs, sizeof *list, role_rule_compare);
    bool good = fill_roles(s, list, pairs, x);
    free(list);
    return good;
}

static bool collect_anyone(struct policy_set *s, const uint32_t *rules, size_t count,
                           struct subject_index *x)
{
    uint32_t *anyone = arena_array(&s->arena, uint32_t, count);
    size_t filled = 0;
    if (anyone == NULL) return false;
    for (size_t i = 0; i < count; i++)
        if (!s->rules[rules[i]].names_subject) anyone[filled++] = rules[i];
    check(filled <= count);
    return cell_make(s, anyone, filled, &x->anyone);
}

const struct subject_index *subjects_build(struct policy_set *s, const uint32_t *rules,
                                           size_t count)
{
    struct subject_index *x = arena_new(&s->arena, struct subject_index);
    bool good = x != NULL && collect_anyone(s, rules, count, x) &&
                index_axis(s, rules, count, agents_of, &x->agents) &&
                index_axis(s, rules, count, users_of, &x->users) && index_roles(s, rules, count, x);
    return good ? x : NULL;
}
