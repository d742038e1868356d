/* role.c - whether a person has a role, outside of a decision: whether the person may approve a
 * review.
 *
 * An approval permits, so people are matched exactly, like the patterns of an allow, and claims as
 * they are. Every question about reviewers and roles is asked here. */
#include "base/check.h"
#include "policy/set.h"

_Static_assert(LIMIT_CLAIMS <= 64, "a bit for each claim");

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

/* Those of the person's claims that have this name and one of its values. */
static uint64_t claims_like(const struct role_claim *asked, const struct policy_person *p)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < p->claim_count; i++) {
        if (!str_equal(p->claims[i].name, asked->name)) continue;
        for (size_t k = 0; k < asked->value_count; k++)
            if (str_equal(p->claims[i].value, asked->values[k])) bits |= UINT64_C(1) << i;
    }
    return bits;
}

/* Those that give the person the role: 0 unless each name of the role's claims is among them. */
static uint64_t claims_giving(const struct role *role, const struct policy_person *p)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < role->claim_count; i++) {
        uint64_t like = claims_like(&role->claims[i], p);
        if (like == 0) return 0;
        bits |= like;
    }
    return bits;
}

uint64_t policy_claims_for(const struct policy_set *s, const struct policy_person *p,
                           const struct str *roles, size_t count)
{
    uint64_t bits = 0;
    check(p->claim_count <= LIMIT_CLAIMS);
    for (size_t i = 0; i < count && p->claim_count > 0; i++)
        for (const struct set_claims *c = map_get(&s->role_claims, roles[i]); c != NULL;
             c = c->next)
            bits |= claims_giving(c->role, p);
    return bits;
}

bool policy_has_role(const struct policy_set *s, const struct policy_person *p,
                     const struct str *roles, size_t count, struct arena *arena)
{
    struct name name;
    if (str_is_empty(p->name) || !name_prepare(&name, p->name, arena)) return false;
    struct role_search search = {.set = s, .person = &name, .roles = roles, .count = count};
    index_lookup(s->member_index, &name, member_visit, &search);
    return search.found || policy_claims_for(s, p, roles, count) != 0;
}
