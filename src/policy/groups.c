/* groups.c - the index over a set's rules, by action pattern. If many rules share a pattern,
 * subjects.c divides them by subject. */
#include "policy/filing.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"

/* Zeroed memory that begins at the start of a cache line. */
void *arena_lines(struct arena *arena, size_t size)
{
    char *bytes = arena_take(arena, size + 64);
    return bytes == NULL ? NULL : bytes + (-(uintptr_t)bytes & 63);
}

static const struct selector *actions_of(const struct rule *rule) { return &rule->actions; }

static void group_pattern(struct group *g, struct str pattern)
{
    g->kind = (uint32_t)glob_kind_of(pattern);
    g->pattern = pattern;
    if (pattern.size > sizeof g->text) return;
    if (pattern.size > 0) memcpy(g->text, pattern.bytes, pattern.size);
    g->pattern.bytes = g->text;
}

/* Most patterns belong to one rule. The group of such a pattern has the rule's number, so a value
 * of the index gives the positions of both, and their loads do not wait for each other. */
static struct group *group_new(struct policy_set *s, struct rule_index *x, uint32_t first_rule,
                               bool alone, uint32_t *ret_value)
{
    check(first_rule < s->rule_count);
    struct group *own = &s->own[first_rule];
    if (alone && own->count == 0) {
        *ret_value = first_rule | VALUE_IS_OWN;
        return own;
    }
    *ret_value = (uint32_t)x->group_count;
    return &x->groups[x->group_count++];
}

/* Runs of equal patterns become groups. */
static bool make_groups(struct policy_set *s, struct rule_index *x, const struct filings *f,
                        struct index_entry *entries, size_t runs)
{
    uint32_t *rules = arena_array(&s->arena, uint32_t, f->count + 1);
    x->groups = arena_lines(&s->arena, (runs + 1) * sizeof(struct group));
    if (rules == NULL || x->groups == NULL) return false;
    for (size_t i = 0, n = 0, run; i < f->count; i += run, n++) {
        run = filings_run(f, i);
        check(n < runs);
        uint32_t count = (uint32_t)filings_rules(f, i, run, rules + i);
        struct group *g = group_new(s, x, rules[i], count == 1, &entries[n].value);
        g->rules = rules + i;
        g->count = count;
        g->first_rule = rules[i];
        group_pattern(g, f->list[i].pattern);
        entries[n].pattern = g->pattern;
        if (g->count > GROUP_INDEX_AT) {
            g->subjects = subjects_build(s, g->rules, g->count);
            if (g->subjects == NULL) return false;
        }
        group_check(s, g);
    }
    return true;
}

static bool index_groups(struct policy_set *s, struct rule_index *x, const struct filings *f)
{
    size_t runs = 0;
    for (size_t i = 0; i < f->count; i += filings_run(f, i)) runs++;
    struct index_entry *entries = calloc(runs + 1, sizeof *entries);
    if (entries != NULL && make_groups(s, x, f, entries, runs))
        x->actions = index_build(&s->arena, entries, runs);
    check(x->actions == NULL || x->group_count <= runs);
    free(entries);
    return x->actions != NULL;
}

/* `rules` as filings_collect() takes them. */
static bool build_index(struct policy_set *s, struct rule_index *x, const uint32_t *rules,
                        size_t count)
{
    static _Atomic uint64_t indexes;
    struct filings filings;
    x->serial = atomic_fetch_add_explicit(&indexes, 1, memory_order_relaxed) + 1;
    bool built =
        filings_collect(s, rules, count, actions_of, &filings) && index_groups(s, x, &filings);
    filings_fini(&filings);
    return built;
}

/* Enforced rules from the front, rules of shadow documents from the end. */
static bool build_both(struct policy_set *s)
{
    uint32_t *rules = calloc(s->rule_count + 1, sizeof *rules);
    size_t enforced = 0, shadow = s->rule_count;
    for (size_t i = 0; rules != NULL && i < s->rule_count; i++)
        rules[s->rules[i].shadow ? --shadow : enforced++] = (uint32_t)i;
    check(rules == NULL || enforced == shadow); /* they met: each rule is in one of them */
    bool built = rules != NULL && build_index(s, &s->enforced, rules, enforced) &&
                 build_index(s, &s->shadow, rules + shadow, s->rule_count - shadow);
    free(rules);
    return built;
}

bool set_build_groups(struct policy_set *s)
{
    s->own = arena_lines(&s->arena, (s->rule_count + 1) * sizeof(struct group));
    if (s->own == NULL) return false;
    return s->has_shadow ? build_both(s) : build_index(s, &s->enforced, NULL, s->rule_count);
}
