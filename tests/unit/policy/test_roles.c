/* Tests of the roles that a set of documents defines and names. */
#include "unit/policy/support.h"

enum { DOCUMENTS_MAX = 4, FOUND_MAX = 8 };

struct found {
    size_t count;
    struct policy_unknown_role list[FOUND_MAX];
    char roles[256]; /* "0:contracter 1:ops": member and role of each */
};

static void take(void *context, const struct policy_unknown_role *u)
{
    struct found *f = context;
    assert_true(f->count < FOUND_MAX);
    f->list[f->count++] = *u;
    size_t used = strlen(f->roles);
    snprintf(f->roles + used, sizeof f->roles - used, "%s%zu:%.*s", used == 0 ? "" : " ", u->member,
             STR_FORMAT(u->role));
}

static struct policy_roles *roles_of(const char *text)
{
    struct policy_document *d = load_named("doc", text);
    struct policy_roles *roles = policy_roles_create(d);
    assert_non_null(roles);
    policy_document_release(d);
    return roles;
}

/* Texts end with NULL; those of `after` that are not in `before` are new. */
static struct found check_change(const char *const *before, const char *const *after)
{
    struct policy_roles_member was[DOCUMENTS_MAX], is[DOCUMENTS_MAX];
    struct found found = {0};
    size_t was_count = 0, count = 0;
    for (; before[was_count] != NULL; was_count++)
        was[was_count].roles = roles_of(before[was_count]);
    for (; after[count] != NULL; count++) {
        is[count] = (struct policy_roles_member){.roles = roles_of(after[count]), .is_new = true};
        for (size_t i = 0; i < was_count; i++)
            if (strcmp(before[i], after[count]) == 0) is[count].is_new = false;
    }
    assert_true(policy_roles_check(was, was_count, is, count, take, &found));
    for (size_t i = 0; i < was_count; i++)
        policy_roles_destroy((struct policy_roles *)(uintptr_t)was[i].roles);
    for (size_t i = 0; i < count; i++)
        policy_roles_destroy((struct policy_roles *)(uintptr_t)is[i].roles);
    for (size_t i = 0; i < found.count; i++)
        found.list[i].role = found.list[i].rule_id = (struct str){0}; /* gone with their document */
    return found;
}

static struct found check_new(const char *text)
{
    return check_change((const char *const[]){NULL}, (const char *const[]){text, NULL});
}

#define DEFINES(role) "roles: {" role ": [erin]}\n"
#define ROLES                                                                                      \
    "rules:\n- {id: no-c, roles: [contractor, contracter], actions: [x], decision: deny}\n"
#define BY(role)                                                                                   \
    "rules:\n- {id: ask, actions: [x], decision: human_review, review: {by: [" role "]}}\n"
#define WHEN(text) "rules:\n- {id: w, actions: [x], decision: deny, when: \"" text "\"}\n"

static void each_place_where_a_rule_names_a_role_is_looked_at(void **state)
{
    static const struct {
        const char *text, *roles, *path, *message;
        unsigned line, column;
    } rows[] = {
        {DEFINES("contractor") ROLES, "0:contracter", "rules[0].roles[1]",
         "roles[1]: no document defines the role \"contracter\"; did you mean \"contractor\"?", 3,
         3},
        {BY("finance"), "0:finance", "rules[0].review.by[0]",
         "by[0]: no document defines the role \"finance\"", 2, 3},
        {WHEN("'ops' in roles"), "0:ops", "rules[0].when",
         "when: no document defines the role \"ops\"", 2, 48},
        {WHEN("!('ops' in roles) && args.n > 1"), "0:ops", "rules[0].when", "\"ops\"", 2, 48},
        {WHEN("['a', 'b'].exists(r, r in roles)"), "0:a 0:b", "rules[0].when", "\"a\"", 2, 48},
        {WHEN("['a', 'b'].all(r, !(r in roles))"), "0:a 0:b", "rules[0].when", "\"a\"", 2, 48},
        {WHEN("roles.exists(r, r == 'a' || r in ['b', 'c'] || 'd' != r)"), "0:a 0:b 0:c 0:d",
         "rules[0].when", "\"a\"", 2, 48},
        {WHEN("roles == ['a', 'b']"), "0:a 0:b", "rules[0].when", "\"a\"", 2, 48},
        {WHEN("cel.bind(mine, roles, 'a' in mine)"), "0:a", "rules[0].when", "\"a\"", 2, 48},
        {WHEN("cel.bind(role, 'a', role in roles)"), "0:a", "rules[0].when", "\"a\"", 2, 48},
        {"rules:\n- {id: c, users: [u], actions: [x], decision: compute, compute: {tool: y, args: "
         "{a: \"${'a' in roles}\"}}}\n",
         "0:a", "rules[0].compute", "\"a\"", 2, 88},
        {"rules:\n- {id: l, users: [u], actions: [x], decision: allow, limit: {window: 1h, max: 5, "
         "sum: \"'a' in roles ? 1.0 : 2.0\"}}\n",
         "0:a", "rules[0].limit", "\"a\"", 2, 88},
        /* The same name twice is told once. */
        {BY("a") "- {id: more, roles: [a], actions: [y], decision: deny}\n", "0:a",
         "rules[0].roles[0]", "", 2, 3},
        /* None of these is a role that has to be there. */
        {WHEN("args.name in roles"), "", NULL, NULL, 0, 0},
        {WHEN("'a' in args.roles"), "", NULL, NULL, 0, 0},
        {WHEN("'a' in context.roles && action == 'b'"), "", NULL, NULL, 0, 0},
        {WHEN("['a'].exists(roles, roles == 'a')"), "", NULL, NULL, 0, 0},
        {WHEN("size(roles) > 0"), "", NULL, NULL, 0, 0},
        {DEFINES("a") WHEN("'a' in roles"), "", NULL, NULL, 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct found f = check_new(rows[i].text);
        if (strcmp(f.roles, rows[i].roles) != 0) print_error("%s", rows[i].text);
        assert_string_equal(f.roles, rows[i].roles);
        if (rows[i].path == NULL || i == 12) continue;
        const struct policy_problem *p = &f.list[0].problem;
        assert_string_equal(p->path, rows[i].path);
        assert_non_null(strstr(p->message, rows[i].message));
        assert_int_equal(p->line, rows[i].line);
        if (p->column != rows[i].column) print_error("%s", rows[i].text);
        assert_int_equal(p->column, rows[i].column);
    }
}

static void how_a_change_of_a_set_is_judged(void **state)
{
#define A DEFINES("a")
#define NAMES_A WHEN("'a' in roles")
#define NAMES_B WHEN("'b' in roles")
#define SHADOW_A "mode: shadow\n" A
    static const struct {
        const char *before[DOCUMENTS_MAX], *after[DOCUMENTS_MAX], *roles;
        bool taken;
    } rows[] = {
        {{NULL}, {A, NAMES_A}, "", false},      /* two that need each other come together */
        {{NULL}, {NAMES_A, A}, "", false},      /* in whatever order */
        {{A}, {A, NAMES_A}, "", false},         /* another document's role */
        {{A, NAMES_A}, {NAMES_A}, "0:a", true}, /* what takes it away */
        {{A, NAMES_A}, {DEFINES("b"), NAMES_A}, "1:a", true},
        {{A, NAMES_A}, {A}, "", false}, /* nobody names it any more */
        {{NAMES_A},
         {NAMES_A, DEFINES("b")},
         "",
         false}, /* what was so before is not this change's */
        {{NAMES_A}, {NAMES_A, NAMES_B}, "1:b", false},
        {{A, NAMES_A}, {NAMES_A, NAMES_B}, "0:a 1:b", true},
        /* Roles of a shadow document do not count in decisions, but for its own rules. */
        {{NULL}, {SHADOW_A, NAMES_A}, "1:a", false},
        {{NULL}, {"mode: shadow\n" A NAMES_A}, "", false},
        {{NULL}, {A, "mode: shadow\n" NAMES_A}, "", false},
        {{A, NAMES_A}, {SHADOW_A, NAMES_A}, "1:a", true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct found f = check_change(rows[i].before, rows[i].after);
        if (strcmp(f.roles, rows[i].roles) != 0) print_error("row %zu\n", i);
        assert_string_equal(f.roles, rows[i].roles);
        if (f.count > 0) assert_int_equal(f.list[0].is_taken_away, rows[i].taken);
    }
    struct found f = check_change(rows[9].before, rows[9].after);
    assert_non_null(strstr(f.list[0].problem.message, "a shadow document does, which does not"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_place_where_a_rule_names_a_role_is_looked_at),
        cmocka_unit_test(how_a_change_of_a_set_is_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
