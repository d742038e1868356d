/* Patterns that are read otherwise than they look. */
#include "unit/policy/support.h"

static struct policy_problems lint_pattern(const char *decision, const char *key,
                                           const char *pattern)
{
    char text[1024];
    struct policy_problems p;
    snprintf(text, sizeof text,
             "{\"rules\": [{\"id\": \"a\", %s\"%s\": [\"some_name\", %s], \"decision\": \"%s\"}]}",
             strcmp(key, "actions") == 0  ? "\"agents\": [\"bot\"], "
             : strcmp(key, "agents") == 0 ? "\"actions\": [\"pay\"], "
                                          : "\"agents\": [\"bot\"], \"actions\": [\"pay\"], ",
             key, pattern, decision);
    struct policy_document *d = load_named("doc", text);
    policy_lint(d, &p);
    policy_document_release(d);
    return p;
}

struct row {
    const char *key, *pattern; /* as JSON */
    const char *told[3];       /* parts of the message; NULL: nothing is told */
};

static void assert_row(const char *decision, const struct row *row)
{
    struct policy_problems p = lint_pattern(decision, row->key, row->pattern);
    size_t wanted = row->told[0] == NULL ? 0 : 1;
    bool good = p.count == wanted;
    for (size_t i = 0; i < 3 && good && row->told[i] != NULL; i++)
        good = strstr(p.list[0].message, row->told[i]) != NULL;
    if (good && wanted == 1) {
        char path[64];
        snprintf(path, sizeof path, "rules[0].%s[1]", row->key);
        good = strcmp(p.list[0].path, path) == 0 && p.list[0].line == 1 && p.list[0].column > 1;
    }
    if (good) return;
    print_error("%s %s %s\n", decision, row->key, row->pattern);
    for (size_t i = 0; i < p.count; i++)
        print_error("got %s: %s\n", p.list[i].path, p.list[i].message);
    fail();
}

static void a_pattern_that_looks_like_another_language_is_told_how_it_is_read(void **state)
{
    static const struct row rows[] = {
        {"actions",
         "\"Bash(rm:*)\"",
         {"only * is special", "write \"Bash\"",
          "shell(args.command).exists(c, c.name == \"rm\")"}},
        {"actions", "\"Bash(git push)\"", {"write \"Bash\"", "c.name == \"git\""}},
        {"actions", "\"Read(*)\"", {"name each tool"}},
        {"actions", "\"drop_[abc]*\"", {"only * is special", "or \"drop_*\""}},
        {"actions", "\"drop_?\"", {"matches that very name and no other", "write \"drop_*\""}},
        {"actions", "\"?rop_*\"", {"write \"*rop_*\""}},
        {"actions", "\"drop_%\"", {"write \"drop_*\""}},
        {"actions", "\"{drop,truncate}_x\"", {"write each: \"drop_x\", \"truncate_x\""}},
        {"actions", "\"db_{drop, truncate}\"", {"write each: \"db_drop\", \"db_truncate\""}},
        {"actions", "\"{a,b,c,d,e}_x\"", {"write \"*_x\""}},
        {"actions", "\"{drop}_x\"", {"write \"*_x\""}},
        {"actions", "\"!get_*\"", {"takes nothing out", "!action.lowerAscii().glob(\"get_*\")"}},
        {"actions", "\"re:drop_.*\"", {"no regular expression", "write \"drop_*\""}},
        {"actions", "\"^drop_\"", {"no regular expression", "write \"drop_\""}},
        {"actions", "\"drop_.*$\"", {"no regular expression", "write \"drop_*\""}},
        {"actions", "\".*delete.*\"", {"no regular expression", "write \"*delete*\""}},
        {"actions", "\"drop_.+\"", {"no regular expression", "write \"drop_*\""}},
        {"actions", "\"/drop_.*/\"", {"no regular expression", "write \"drop_*\""}},
        {"actions", "\"drop_\\\\w*\"", {"no regular expression"}},
        {"actions", "\"drop|truncate\"", {"write each: \"drop\", \"truncate\""}},
        {"actions", "\"(drop|truncate)_x\"", {"name each tool"}},
        {"actions",
         "\"drop_table, truncate_table\"",
         {"is one pattern", "write each: \"drop_table\", \"truncate_table\""}},
        {"actions", "\"drop_table,\"", {"is one pattern"}},
        {"actions", "\"drop_table \"", {"begins or ends with a blank", "write \"drop_table\""}},
        {"actions", "\" drop_*\"", {"write \"drop_*\""}},
        {"actions", "\"drop_table\\n\"", {"\"drop_table\\n\"", "write \"drop_table\""}},
        {"actions", "\"'drop_table'\"", {"with its quotes", "write \"drop_table\""}},
        {"agents", "\"bot_?\"", {"write \"bot_*\""}},
        {"agents", "\"!admin\"", {"!actor.lowerAscii().glob(\"admin\")"}},
        {"agents", "\"bot_a,bot_b\"", {"write each: \"bot_a\", \"bot_b\""}},
        {"agents", "\"bot_[0-9]\"", {"or \"bot_*\""}},
        {"agents", "\"coder \"", {"write \"coder\""}},
        {"resources", "\"db:prod-?\"", {"write \"db:prod-*\""}},
        {"resources", "\"db:{prod,live}\"", {"write each: \"db:prod\", \"db:live\""}},
        {"resources", "\"db:prod-[0-9]\"", {"or \"db:prod-*\""}},
        {"resources", "\"db:a, db:b\"", {"write each: \"db:a\", \"db:b\""}},
        {"resources", "\"re:db:.*\"", {"no regular expression"}},
        {"resources", "\"!db:test\"", {"takes nothing out"}},
        {"resources", "\"path:/companies/{id}/x\"", {"write \"path:/companies/*/x\""}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_row("deny", &rows[i]);
        assert_row("human_review", &rows[i]);
        assert_row("allow", &rows[i]);
    }
}

static void a_pattern_that_is_what_it_looks_like_is_not_told(void **state)
{
    static const struct row rows[] = {
        {"actions", "\"drop_*\"", {0}},
        {"actions", "\"math.*\"", {0}},
        {"actions", "\"*.get*\"", {0}},
        {"actions", "\"mcp__git__*\"", {0}},
        {"actions", "\"say hi\"", {0}},
        {"actions", "\"a/b\"", {0}},
        {"actions", "\"ns:tool\"", {0}},
        {"actions", "\"Stra\\u00dfe\"", {0}},
        {"agents", "\"team/bot@corp\"", {0}},
        {"resources", "\"url:/a?q=1\"", {0}},
        {"resources", "\"url:/a?q=*\"", {0}},
        {"resources", "\"dn:cn=a,dc=b\"", {0}},
        {"resources", "\"file:/app/[id]/x\"", {0}},
        {"resources", "\"db:prod-1\"", {0}},
        {"resources", "\"file:a (1).txt\"", {0}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) assert_row("deny", &rows[i]);
}

static void members_of_a_role_are_looked_at_too(void **state)
{
    (void)state;
    struct policy_problems p;
    struct policy_document *d = load_named(
        "doc", "roles: {contractor: ['{a,b}@x.example', '*@y.example']}\n"
               "rules: [{id: a, roles: [contractor], actions: [pay], decision: deny}]\n");
    policy_lint(d, &p);
    policy_document_release(d);
    assert_int_equal(p.count, 1);
    assert_string_equal(p.list[0].path, "roles.contractor[0]");
    assert_non_null(strstr(p.list[0].message, "\"a@x.example\", \"b@x.example\""));
}

static void warnings_beyond_the_list_are_counted(void **state)
{
    static char text[8192];
    struct buf out = buf_over(text, sizeof text - 1);
    struct policy_problems p;
    (void)state;
    buf_put_literal(&out, "rules:\n");
    for (int i = 0; i < 30; i++)
        buf_printf(&out, "  - {id: r%d, agents: ['*'], actions: ['x%d?'], decision: allow}\n", i,
                   i);
    text[out.size] = '\0';
    struct policy_document *d = load_named("doc", text);
    policy_lint(d, &p);
    policy_document_release(d);
    assert_int_equal(p.count, POLICY_PROBLEMS_MAX);
    assert_int_equal(p.count + p.more, 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pattern_that_looks_like_another_language_is_told_how_it_is_read),
        cmocka_unit_test(a_pattern_that_is_what_it_looks_like_is_not_told),
        cmocka_unit_test(members_of_a_role_are_looked_at_too),
        cmocka_unit_test(warnings_beyond_the_list_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
