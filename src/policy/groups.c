/* groups.c - the index over a set's rules: by action pattern, then, where many rules share one,
 * by subject. */
#include "policy/set.h"

#include <stdlib.h>

/* Zeroed memory that begins at the start of a cache line. */
void *arena_lines(struct arena *arena, size_t size)
{
    char *bytes = arena_take(arena, size + 64);
    return bytes == NULL ? NULL : bytes + (-(uintptr_t)bytes & 63);
}

struct filing { /* one action pattern of one rule */
    struct str pattern;
    uint32_t rule;
};

static int filing_compare(const void *a, const void *b)
{
    const struct filing *x = a, *y = b;
    int order = str_compare(x->pattern, y->pattern);
    if (order != 0) return order;
    return x->rule < y->rule ? -1 : x->rule > y->rule;
}

static bool folded_text(struct policy_set *s, const struct rule *rule, const struct glob *g,
                        struct str *ret)
{
    struct glob folded;
    if (!rule->folds && !glob_compile(&s->arena, g->text, true, &folded)) return false;
    *ret = rule->folds ? g->text : folded.text;
    return true;
}

/* ---- one group's subjects ---- */

static int role_rule_compare(const void *a, const void *b)
{
    const struct role_rule *x = a, *y = b;
    if (x->role != y->role) return x->role < y->role ? -1 : 1;
    return x->rule < y->rule ? -1 : x->rule > y->rule;
}

typedef const struct selector *selector_of(const struct rule *rule);
static const struct selector *agents_of(const struct rule *rule) { return &rule->agents; }
static const struct selector *users_of(const struct rule *rule) { return &rule->users; }

/* An index from the patterns of one selector to the group's rules that have them. */
static bool index_subjects(struct policy_set *s, const struct group *g, selector_of *of,
                           const struct index **ret)
{
    size_t count = 0, filled = 0;
    for (size_t i = 0; i < g->count; i++) count += of(s->rules[g->rules[i]].rule)->count;
    *ret = NULL;
    if (count == 0) return true;
    struct index_entry *entries = calloc(count, sizeof *entries);
    bool good = entries != NULL;
    for (size_t i = 0; i < g->count && good; i++) {
        const struct rule *rule = s->rules[g->rules[i]].rule;
        for (size_t k = 0; k < of(rule)->count && good; k++, filled++) {
            entries[filled].value = g->rules[i];
            good = folded_text(s, rule, &of(rule)->globs[k], &entries[filled].pattern);
        }
    }
    if (good) *ret = index_build(&s->arena, entries, count);
    free(entries);
    return *ret != NULL;
}

static bool collect_roles(struct policy_set *s, const struct group *g, struct subject_index *x)
{
    for (size_t i = 0; i < g->count; i++) x->by_role_count += s->rules[g->rules[i]].role_count;
    struct role_rule *by_role = arena_array(&s->arena, struct role_rule, x->by_role_count + 1);
    if (by_role == NULL) return false;
    size_t filled = 0;
    for (size_t i = 0; i < g->count; i++) {
        const struct set_rule *r = &s->rules[g->rules[i]];
        for (size_t k = 0; k < r->role_count; k++)
            by_role[filled++] = (struct role_rule){.role = r->roles[k], .rule = g->rules[i]};
    }
    qsort(by_role, filled, sizeof *by_role, role_rule_compare);
    x->by_role = by_role;
    return true;
}

static bool index_group(struct policy_set *s, struct group *g)
{
    if (g->count <= GROUP_INDEX_AT) return true;
    struct subject_index *x = arena_new(&s->arena, struct subject_index);
    uint32_t *anyone = arena_array(&s->arena, uint32_t, g->count);
    if (x == NULL || anyone == NULL) return false;
    for (size_t i = 0; i < g->count; i++)
        if (!s->rules[g->rules[i]].rule->names_subject) anyone[x->anyone_count++] = g->rules[i];
    x->anyone = anyone;
    g->subjects = x;
    return index_subjects(s, g, agents_of, &x->agents) &&
           index_subjects(s, g, users_of, &x->users) && collect_roles(s, g, x);
}

/* ---- groups ---- */

static bool collect_filings(struct policy_set *s, struct filing **ret, size_t *ret_count)
{
    size_t count = 0, filled = 0;
    for (size_t i = 0; i < s->rule_count; i++) count += s->rules[i].rule->actions.count;
    struct filing *filings = calloc(count + 1, sizeof *filings);
    if (filings == NULL) return false;
    *ret = filings;
    *ret_count = count;
    for (size_t i = 0; i < s->rule_count; i++) {
        const struct rule *rule = s->rules[i].rule;
        for (size_t k = 0; k < rule->actions.count; k++, filled++) {
            filings[filled].rule = (uint32_t)i;
            if (!folded_text(s, rule, &rule->actions.globs[k], &filings[filled].pattern))
                return false;
        }
    }
    qsort(filings, count, sizeof *filings, filing_compare);
    return true;
}

static bool group_pattern(struct policy_set *s, struct group *g, struct str pattern)
{
    struct glob compiled;
    if (!glob_compile(&s->arena, pattern, true, &compiled)) return false;
    g->kind = (uint32_t)compiled.kind;
    g->pattern = compiled.text;
    if (compiled.text.size > sizeof g->text) return true;
    memcpy(g->text, compiled.text.bytes, compiled.text.size);
    g->pattern.bytes = g->text;
    return true;
}

/* Runs of equal patterns become groups; a rule that says the same twice is in one once. */
static bool make_groups(struct policy_set *s, const struct filing *filings, size_t count)
{
    uint32_t *rules = arena_array(&s->arena, uint32_t, count + 1);
    s->groups = arena_lines(&s->arena, (count + 1) * sizeof(struct group));
    if (rules == NULL || s->groups == NULL) return false;
    for (size_t i = 0; i < count; i++) {
        bool same = i > 0 && str_equal(filings[i - 1].pattern, filings[i].pattern);
        if (!same) {
            struct group *fresh = &s->groups[s->group_count++];
            fresh->rules = rules + i;
            fresh->first_rule = filings[i].rule;
            if (!group_pattern(s, fresh, filings[i].pattern)) return false;
        }
        struct group *g = &s->groups[s->group_count - 1];
        if (same && filings[i - 1].rule == filings[i].rule) continue;
        rules[(size_t)(g->rules - rules) + g->count++] = filings[i].rule;
    }
    return true;
}

static bool index_groups(struct policy_set *s)
{
    struct index_entry *entries = calloc(s->group_count + 1, sizeof *entries);
    bool good = entries != NULL;
    for (size_t i = 0; i < s->group_count && good; i++) {
        entries[i] = (struct index_entry){.pattern = s->groups[i].pattern, .value = (uint32_t)i};
        good = index_group(s, &s->groups[i]);
    }
    if (good) s->actions = index_build(&s->arena, entries, s->group_count);
    free(entries);
    return s->actions != NULL;
}

bool set_build_groups(struct policy_set *s)
{
    struct filing *filings = NULL;
    size_t count = 0;
    bool built =
        collect_filings(s, &filings, &count) && make_groups(s, filings, count) && index_groups(s);
    free(filings);
    return built;
}
