/* match.c - whether a rule's selectors name this subject, this action, this resource. */
#include "policy/evaluation.h"

struct selector_search {
    const struct selector *selector;
    const struct name *name;
    bool folds, found;
};

static void search_visit(void *context, const uint32_t *values, size_t count)
{
    struct selector_search *s = context;
    check(count == 0 || values[count - 1] < s->selector->count);
    for (size_t i = 0; i < count && !s->found; i++)
        s->found = glob_match(&s->selector->globs[values[i]], s->name, s->folds);
}

bool selector_match(const struct selector *s, const struct name *n, bool folds)
{
    if (s->index != NULL) {
        check(s->count > SELECTOR_INDEX_AT);
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
    struct evaluation *b = context;
    for (size_t i = 0; i < count; i++) {
        check(values[i] < b->set->member_count);
        const struct set_member *m = &b->set->members[values[i]];
        check(m->role < b->set->role_count);
        bool folding = glob_match(&m->patterns->folding, b->subject, true);
        if (folding && !b->roles_folding[m->role]) b->roles[b->role_count++] = m->role;
        b->roles_folding[m->role] |= folding;
        b->roles_exact[m->role] |= glob_match(&m->patterns->exact, b->subject, false);
    }
}

/* A person who matches exactly also matches ignoring case, so the folding roles include the exact. */
bool roles_find(struct evaluation *b)
{
    if (b->user_roles != USER_ROLES_UNKNOWN) return true;
    size_t count = b->set->role_count + 1;
    b->roles_exact = arena_array(b->arena, bool, count);
    b->roles_folding = arena_array(b->arena, bool, count);
    b->roles = arena_array(b->arena, uint32_t, count);
    if (b->roles_exact == NULL || b->roles_folding == NULL || b->roles == NULL) {
        b->failed = true;
        return false;
    }
    index_lookup(b->set->member_index, b->subject, member_visit, b);
    bool differ = false;
    for (size_t i = 0; i < b->role_count; i++) differ |= !b->roles_exact[b->roles[i]];
    check(b->role_count <= b->set->role_count);
    b->user_roles = differ ? USER_ROLES_FOLDED : USER_ROLES_EXACT;
    return true;
}

bool rule_matches_subject(struct evaluation *b, const struct set_rule *r)
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

const struct name *action_name(struct evaluation *b)
{
    static const struct name none = {.text = STR(""), .folded = STR(""), .reversed = STR("")};
    if (b->action_ready) return b->action;
    if (!name_prepare(b->action, b->request->action, b->arena)) {
        b->failed = true;
        return &none;
    }
    b->action_ready = true;
    name_check(b->action);
    return b->action;
}

bool rule_matches_action(struct evaluation *b, const struct rule *rule)
{
    return selector_match(&rule->actions, action_name(b), rule->folds);
}

bool names_no_resource(const struct evaluation *b)
{
    return str_is_absent(b->request->resource) || b->request->resource_partial;
}

/* False: memory ran out. */
static bool respell(struct evaluation *b)
{
    if (str_is_absent(b->request->resource_plain)) return true;
    b->respelled = arena_new(b->arena, struct name);
    return b->respelled != NULL && name_prepare(b->respelled, b->request->resource_plain, b->arena);
}

bool resource_find(struct evaluation *b)
{
    if (b->resource_ready) return true;
    if (str_is_absent(b->request->resource)) return false;
    b->resource_ready = name_prepare(b->resource, b->request->resource, b->arena) && respell(b);
    b->failed |= !b->resource_ready;
    return b->resource_ready;
}

/* A request cannot escape a restricting rule by leaving out the resource. */
bool rule_matches_resource(struct evaluation *b, const struct rule *rule)
{
    if (rule->resources.count == 0) return true;
    if (unknown_is_resource_cut(b->request)) return unknown_matches_resource(b, rule);
    if (rule->folds && names_no_resource(b)) return true;
    if (!resource_find(b)) return false;
    return selector_match(&rule->resources, b->resource, rule->folds) ||
           (rule->folds && b->respelled != NULL &&
            selector_match(&rule->resources, b->respelled, true));
}
