/* set_check.c - what is true of every finished set, and of every group in it. */
#include "base/check.h"
#include "policy/set.h"

void group_check(const struct policy_set *s, const struct group *g)
{
    check(g->count > 0 && g->rules[0] == g->first_rule);
    check(g->first_rule < s->rule_count);
    check(g->kind <= GLOB_GENERAL);
    check((g->subjects != NULL) == (g->count > GROUP_INDEX_AT));
}

void set_check(const struct policy_set *s)
{
    check(s->rule_count < VALUE_IS_CELL);
    check(s->enforced.actions != NULL && s->enforced.serial > 0); /* 0 marks what is not cached */
    check(s->has_shadow == (s->shadow.actions != NULL));
    check(s->enforced.serial != s->shadow.serial);
    check(s->enforced.group_count + s->shadow.group_count < VALUE_IS_OWN);
    check(s->member_index != NULL);
    check((s->masks != NULL) == (s->mask_count > 0));
    check(s->hides_args == NULL || s->mask_count > 0);
    check(s->closed_rule[0] == '\0' || s->rule_count == 0);
}
