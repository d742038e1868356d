/* roles.c - checks that every role that a rule names is defined by a document of the set.
 *
 * A misspelled role selects no person. Then an allow permits no one, a deny stops no one, and no
 * one may resolve a review with that `review.by`. A single document cannot be checked, because all
 * documents of a tenant define its roles together. So each document has a small summary (the roles
 * that it defines, those that its rules name, and where), and the summaries are compared. */
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/map.h"
#include "base/nearest.h"
#include "cel/roles.h"
#include "policy/condition.h"
#include "policy/problem.h"

enum { SUMMARY_FIRST = 512, SUMMARY_MOST = 256 << 20, GUESSES_MAX = 1000 };

/* The first position in the document where a rule names a role. */
struct named_role {
    struct str role, rule_id;
    const char *member, *list; /* "review", "by"; list NULL: only the member */
    size_t rule, index;
    size_t places;
    unsigned line, column;
    struct named_role *next;
};

struct policy_roles {
    struct arena arena;
    bool is_shadow;
    struct str *defined; /* each with a NUL behind it */
    size_t defined_count;
    struct named_role *first, **end;
    /* while it is made */
    struct map by_name;
    bool full;
};

/* ---- of one document ---- */

static void name_role(struct policy_roles *p, const struct rule *rule, struct named_role at,
                      struct str role)
{
    struct named_role *known = map_get(&p->by_name, role), *n;
    if (known != NULL) {
        known->places++;
        return;
    }
    n = arena_new(&p->arena, struct named_role);
    struct str copy = arena_printf(&p->arena, "%.*s", STR_FORMAT(role)),
               id = arena_copy(&p->arena, rule->id);
    if (n == NULL || str_is_absent(copy) || str_is_absent(id) || !map_put(&p->by_name, copy, n)) {
        p->full = true;
        return;
    }
    check(*p->end == NULL);
    *n = at;
    n->role = copy;
    n->rule_id = id;
    n->rule = (size_t)(rule - rule->document->rules);
    n->places = 1;
    *p->end = n;
    p->end = &n->next;
}

struct condition_roles {
    struct policy_roles *into;
    const struct rule *rule;
    struct named_role at;
};

static void condition_role(void *context, struct str role)
{
    struct condition_roles *c = context;
    name_role(c->into, c->rule, c->at, role);
}

static void name_in_condition(struct policy_roles *p, const struct rule *rule, const char *member,
                              const struct condition *c)
{
    if (c == NULL || memmem(c->text.bytes, c->text.size, "roles", 5) == NULL) return;
    struct condition_roles context = {
        .into = p, .rule = rule, .at = {.member = member, .line = c->line, .column = c->column}};
    cel_each_role(c->text, condition_role, &context);
}

static void name_roles(struct policy_roles *p, const struct rule *rule)
{
    check(rule->document != NULL);
    struct named_role at = {.line = rule->line, .column = rule->column};
    for (size_t i = 0; i < rule->role_count; i++) {
        at.member = NULL;
        at.list = "roles";
        at.index = i;
        name_role(p, rule, at, rule->roles[i]);
    }
    for (size_t i = 0; i < rule->review.by_count; i++) {
        at.member = "review";
        at.list = "by";
        at.index = i;
        name_role(p, rule, at, rule->review.by[i]);
    }
    name_in_condition(p, rule, "when", rule->when);
    if (rule->limit != NULL) name_in_condition(p, rule, "limit", rule->limit->sum_value);
    for (const struct template *t = rule->templates; t != NULL; t = t->next)
        for (size_t i = 0; i < t->count; i++)
            name_in_condition(p, rule, "compute", t->parts[i].value);
}

struct policy_roles *policy_roles_create(const struct policy_document *d)
{
    struct policy_roles *p = calloc(1, sizeof *p);
    if (p == NULL) return NULL;
    arena_init(&p->arena, SUMMARY_FIRST, SUMMARY_MOST);
    p->is_shadow = d->is_shadow;
    p->end = &p->first;
    p->defined = arena_array(&p->arena, struct str, d->role_count + 1);
    for (size_t i = 0; p->defined != NULL && i < d->role_count; i++) {
        struct str name = arena_printf(&p->arena, "%.*s", STR_FORMAT(d->roles[i].name));
        if (!str_is_absent(name)) p->defined[p->defined_count++] = name;
    }
    for (size_t i = 0; i < d->rule_count; i++) name_roles(p, &d->rules[i]);
    check(p->defined_count <= d->role_count);
    map_fini(&p->by_name);
    if (!p->full && !p->arena.overflow) return p;
    policy_roles_destroy(p);
    return NULL;
}

void policy_roles_destroy(struct policy_roles *p)
{
    if (p == NULL) return;
    arena_fini(&p->arena);
    free(p);
}

/* ---- of a set ---- */

/* The roles that the members define; roles of a shadow document count for shadow documents only. */
struct defined_roles {
    struct map enforced, all;
};

static bool define(struct defined_roles *d, const struct policy_roles_member *set, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; set[i].roles != NULL && k < set[i].roles->defined_count; k++) {
            struct str *role = &set[i].roles->defined[k];
            if (!map_put(&d->all, *role, role)) return false;
            if (!set[i].roles->is_shadow && !map_put(&d->enforced, *role, role)) return false;
        }
    return true;
}

static void defined_fini(struct defined_roles *d)
{
    map_fini(&d->enforced);
    map_fini(&d->all);
}

static const struct map *defined_for(const struct defined_roles *d, const struct policy_roles *p)
{
    return p->is_shadow ? &d->all : &d->enforced;
}

static const char *guess(const struct map *defined, struct str role)
{
    const char *names[GUESSES_MAX];
    size_t count = 0, cursor = 0;
    struct str key;
    void *value;
    while (count < GUESSES_MAX && map_next(defined, &cursor, &key, &value))
        names[count++] = key.bytes;
    return nearest_word(role, names, count);
}

static void report(const struct named_role *n, const struct map *defined,
                   const struct map *elsewhere, struct policy_problem *ret)
{
    struct policy_problems one = {0};
    struct place rules = {.key = STR("rules")}, item = {.parent = &rules, .index = n->rule},
                 member = {.parent = &item, .key = str_from(n->member)},
                 list = {.parent = n->member == NULL ? &item : &member, .key = str_from(n->list)},
                 at = {.parent = &list, .index = n->index};
    bool is_shadows = map_get(elsewhere, n->role) != NULL;
    const char *near = is_shadows ? NULL : guess(defined, n->role);
    char places[48] = "";
    if (n->places > 1) snprintf(places, sizeof places, " (named in %zu places)", n->places);
    problem_add(&one, n->list == NULL ? &member : &at, n->line, n->column,
                "no document defines the role \"%.*s\"%s%s%s%s%s", STR_FORMAT(n->role), places,
                is_shadows ? "; a shadow document does, which does not count" : "",
                near == NULL ? "" : "; did you mean \"", near == NULL ? "" : near,
                near == NULL ? "" : "\"?");
    check(one.count == 1);
    *ret = one.list[0];
}

bool policy_roles_check(const struct policy_roles_member *before, size_t before_count,
                        const struct policy_roles_member *after, size_t after_count,
                        void (*each)(void *context, const struct policy_unknown_role *u),
                        void *context)
{
    struct defined_roles had = {0}, has = {0};
    bool good = define(&had, before, before_count) && define(&has, after, after_count);
    for (size_t i = 0; good && i < after_count; i++) {
        const struct policy_roles *p = after[i].roles;
        for (const struct named_role *n = p == NULL ? NULL : p->first; n != NULL; n = n->next) {
            const struct map *defined = defined_for(&has, p);
            if (map_get(defined, n->role) != NULL) continue;
            bool was_defined = map_get(defined_for(&had, p), n->role) != NULL;
            if (!after[i].is_new && !was_defined) continue;
            struct policy_unknown_role u = {.member = i,
                                            .rule_id = n->rule_id,
                                            .role = n->role,
                                            .is_taken_away = !after[i].is_new};
            report(n, defined, &has.all, &u.problem);
            each(context, &u);
        }
    }
    defined_fini(&had);
    defined_fini(&has);
    return good;
}
