/* role.c - whether a person has a role, outside of a decision: whether the person may approve a
 * review.
 *
 * An approval permits, so members are matched exactly, like the patterns of an allow. */
#include "base/check.h"
#include "policy/set.h"

struct role_search {
    const struct policy_set *set;
    const struct name *person;
    const struct str *roles;
    size_t count;
    bool found;
};

static void member_visit(void *context, const uint32_t *values, size_t count)
{
    struct role_search *s = context;
    for (size_t i = 0; i < count && !s->found; i++) {
        check(values[i] < s->set->member_count);
        const struct set_member *m = &s->set->members[values[i]];
        if (!glob_match(&m->patterns->exact, s->person, false)) continue;
        for (size_t k = 0; k < s->count && !s->found; k++)
            s->found = str_equal(s->roles[k], s->set->role_names[m->role]);
    }
}

bool policy_has_role(const struct policy_set *s, struct str person, const struct str *roles,
                     size_t count, struct arena *arena)
{
    struct name name;
    if (str_is_empty(person) || !name_prepare(&name, person, arena)) return false;
    struct role_search search = {.set = s, .person = &name, .roles = roles, .count = count};
    index_lookup(s->member_index, &name, member_visit, &search);
    return search.found;
}
