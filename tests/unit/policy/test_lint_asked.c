/* Lints of what the requester writes: each row has a condition, what is told of it, the safe form
 * that is offered, and what gets past the first and not past the second. */
#include "unit/policy/support.h"

struct row {
    const char *decision, *when;
    const char *told;    /* a part of the message */
    const char *safe;    /* a condition of which nothing is told */
    const char *hostile; /* members of the request, as JSON: what passes `when`, and not `safe` */
};

static char *document_of(const struct row *row, const char *when, bool passes, bool tested)
{
    static char text[4096];
    bool allows = strcmp(row->decision, "allow") == 0;
    struct buf out = buf_over(text, sizeof text - 1);
    buf_printf(&out,
               "{\"rules\":[{\"id\":\"a\",\"actions\":[\"pay\"],\"agents\":[\"bot\"],"
               "\"decision\":\"%s\",\"when\":",
               row->decision);
    json_put_string(&out, str_from(when));
    buf_put_literal(&out, "}]");
    if (tested) {
        const char *rule = passes == allows ? (allows ? "allow:a" : "deny:a") : "default:deny";
        if (strcmp(row->decision, "human_review") == 0 && strcmp(rule, "deny:a") == 0)
            rule = "review:a";
        buf_printf(&out,
                   ",\"tests\":[{\"request\":{\"actor\":\"bot\"%s,%s},\"expect\":\"%s\","
                   "\"rule\":\"%s\"}]",
                   strstr(row->hostile, "\"action\"") == NULL ? ",\"action\":\"pay\"" : "",
                   row->hostile,
                   strcmp(rule, "allow:a") == 0    ? "allow"
                   : strcmp(rule, "review:a") == 0 ? "human_review"
                                                   : "deny",
                   rule);
    }
    buf_put_byte(&out, '}');
    text[out.size] = '\0';
    assert_false(out.overflow);
    return text;
}

static struct policy_problems lint(const char *text)
{
    struct policy_problems p;
    struct policy_document *d = load_named("doc", text);
    policy_lint(d, &p);
    policy_document_release(d);
    return p;
}

static void show(const struct row *row, const struct policy_problems *p)
{
    print_error("%s %s\n", row->decision, row->when);
    for (size_t i = 0; i < p->count; i++) print_error("got %s\n", p->list[i].message);
}

/* The document's test holds: what is hostile passes the condition, or not. */
static void assert_passes(const struct row *row, const char *when, bool passes)
{
    struct policy_document *d = NULL;
    struct policy_problems p;
    enum err err = policy_load(STR("doc"), str_from(document_of(row, when, passes, true)), &d, &p);
    if (err == ERR_OK) {
        policy_document_release(d);
        return;
    }
    print_error("%s (wanted: %s)\n", when, passes ? "passes" : "does not pass");
    show(row, &p);
    fail();
}

static void assert_row(const struct row *row)
{
    struct policy_problems p = lint(document_of(row, row->when, false, false));
    if (p.count != 1 || strstr(p.list[0].message, row->told) == NULL) {
        print_error("wanted %s\n", row->told);
        show(row, &p);
        fail();
    }
    assert_string_equal(p.list[0].path, "rules[0].when");
    assert_true(strlen(p.list[0].message) < sizeof p.list[0].message - 1); /* it is whole */
    if (row->safe != NULL) {
        p = lint(document_of(row, row->safe, false, false));
        if (p.count != 0) {
            print_error("safe form %s\n", row->safe);
            show(row, &p);
            fail();
        }
    }
    if (row->hostile == NULL) return;
    assert_passes(row, row->when, true);
    if (row->safe != NULL) assert_passes(row, row->safe, false);
}

#define ROWS(rows)                                                                                 \
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows)[0]; i++) assert_row(&(rows)[i])

static void a_deny_by_exact_type_or_case_is_told_with_the_safe_form(void **state)
{
    static const struct row rows[] = {
        {"deny", "context.blocked == true", "write context.blocked != false",
         "context.blocked != false", "\"context\":{\"blocked\":\"true\"}"},
        {"deny", "context.blocked == true", "is passed by \"true\", by 1 and by null",
         "context.blocked", "\"context\":{\"blocked\":1}"},
        {"deny", "true == context.blocked", "write context.blocked != false",
         "context.blocked != false", "\"context\":{\"blocked\":null}"},
        {"human_review", "context.safe == false", "write context.safe != true",
         "context.safe != true", "\"context\":{\"safe\":\"false\"}"},
        {"deny", "resource.properties.locked == true", "write resource.properties.locked != false",
         "resource.properties.locked != false",
         "\"resource\":{\"type\":\"a\",\"id\":\"b\",\"properties\":{\"locked\":\"true\"}}"},
        {"deny", "args.level == 5", "write double(args.level) == 5.0", "double(args.level) == 5.0",
         "\"args\":{\"level\":\"5\"}"},
        {"deny", "args.level == 5.5", "write double(args.level) == 5.5,",
         "double(args.level) == 5.5", "\"args\":{\"level\":\"5.5\"}"},
        {"deny", "args.level in [4, 5]", "write double(args.level) in […]",
         "double(args.level) in [4.0, 5.0]", "\"args\":{\"level\":\"5\"}"},
        {"deny", "args.id == \"12\"", "write string(args.id) == \"12\"",
         "string(args.id) == \"12\"", "\"args\":{\"id\":12}"},
        {"deny", "args.env == \"Prod\"", "write args.env.lowerAscii() == \"prod\"",
         "args.env.lowerAscii() == \"prod\"", "\"args\":{\"env\":\"PROD\"}"},
        {"human_review", "request.args.env == \"prod\"",
         "write request.args.env.lowerAscii() == \"prod\"",
         "request.args.env.lowerAscii() == \"prod\"", "\"args\":{\"env\":\"PROD\"}"},
        {"deny", "args.env.trim() == \"prod\"", "write args.env.trim().lowerAscii() == \"prod\"",
         "args.env.trim().lowerAscii() == \"prod\"", "\"args\":{\"env\":\"Prod \"}"},
        {"deny", "args.env in [\"prod\", \"live\"]", "write args.env.lowerAscii() in […]",
         "args.env.lowerAscii() in [\"prod\", \"live\"]", "\"args\":{\"env\":\"LIVE\"}"},
        {"deny", "\"admin\" in args.roles",
         "write args.roles.exists(x, x.lowerAscii() == \"admin\")",
         "args.roles.exists(x, x.lowerAscii() == \"admin\")", "\"args\":{\"roles\":[\"Admin\"]}"},
        {"deny", "args.tags.exists(t, t == \"prod\")", "write t.lowerAscii() == \"prod\"",
         "args.tags.exists(t, t.lowerAscii() == \"prod\")", "\"args\":{\"tags\":[\"PROD\"]}"},
        {"deny", "cel.bind(e, args.env, e == \"prod\")", "write e.lowerAscii() == \"prod\"",
         "cel.bind(e, args.env, e.lowerAscii() == \"prod\")", "\"args\":{\"env\":\"PROD\"}"},
        {"deny", "args.name.glob(\"Drop_*\")", "write args.name.lowerAscii().glob(\"drop_*\")",
         "args.name.lowerAscii().glob(\"drop_*\")", "\"args\":{\"name\":\"DROP_x\"}"},
        {"deny", "args.name.startsWith(\"drop_\")",
         "write args.name.lowerAscii().startsWith(\"drop_\")",
         "args.name.lowerAscii().startsWith(\"drop_\")", "\"args\":{\"name\":\"DROP_x\"}"},
        {"deny", "args.name.endsWith(\"_prod\")",
         "write args.name.lowerAscii().endsWith(\"_prod\")",
         "args.name.lowerAscii().endsWith(\"_prod\")", "\"args\":{\"name\":\"x_PROD\"}"},
        {"deny", "args.sql.contains(\"drop\")", "write args.sql.lowerAscii().contains(\"drop\")",
         "args.sql.lowerAscii().contains(\"drop\")", "\"args\":{\"sql\":\"DROP x\"}"},
        {"deny", "args.sql.matches(\"drop\")", "begin the pattern with (?i)",
         "args.sql.matches(\"(?i)drop\")", "\"args\":{\"sql\":\"DROP x\"}"},
        {"deny", "args.path.glob(\"/a/*/Roles\", \"/\")", "test args.path.lowerAscii()",
         "args.path.lowerAscii().glob(\"/a/*/roles\", \"/\")",
         "\"args\":{\"path\":\"/a/7/ROLES\"}"},
        {"deny", "args.approver == acting_for",
         "write args.approver.lowerAscii() == acting_for.lowerAscii()",
         "args.approver.lowerAscii() == acting_for.lowerAscii()",
         "\"acting_for\":\"dave\",\"args\":{\"approver\":\"Dave\"}"},
        {"deny", "action == \"pay\"", "write action.lowerAscii() == \"pay\"",
         "action.lowerAscii() == \"pay\"", "\"action\":\"PAY\""},
        {"deny", "has(args.a) ? args.env == \"prod\" : false",
         "write args.env.lowerAscii() == \"prod\"",
         "has(args.a) ? args.env.lowerAscii() == \"prod\" : false",
         "\"args\":{\"a\":1,\"env\":\"PROD\"}"},
        {"deny", "args.path.startsWith(\"/etc/\")", "write path_under(root, args.path) == \"\"",
         "path_under(\"/srv\", args.path) == \"\"", "\"args\":{\"path\":\"/tmp/../etc/passwd\"}"},
        {"deny", "args.path == \"/etc/passwd\"", "write path_under(root, args.path) == \"\"",
         "path_under(\"/srv\", args.path) == \"\"", "\"args\":{\"path\":\"//etc/passwd\"}"},
        {"deny", "args.url.startsWith(\"http://10.\")", "ask url(args.url).getHostname()",
         "ip(url(args.url).getHostname()).isPrivate()",
         "\"args\":{\"url\":\"http://u@10.0.0.1/\"}"},
        {"deny", "args.url.startsWith(\"http://10.\")", "and ip() of it",
         "ip(url(args.url).getHostname()).isPrivate()",
         "\"args\":{\"url\":\"http://[::ffff:10.0.0.1]/\"}"},
        {"deny", "args.host.startsWith(\"10.\")",
         "write cidr(\"10.0.0.0/8\").containsIP(args.host)",
         "cidr(\"10.0.0.0/8\").containsIP(args.host)", "\"args\":{\"host\":\"::ffff:10.0.0.1\"}"},
    };
    (void)state;
    ROWS(rows);
}

static void an_allow_that_takes_more_than_it_looks_is_told_with_the_safe_form(void **state)
{
    static const struct row rows[] = {
        {"allow", "args.host.matches(\"api.corp.example\")", "looks for it anywhere in the text",
         "args.host.matches(\"^api\\\\.corp\\\\.example$\")",
         "\"args\":{\"host\":\"api.corp.example.evil.example\"}"},
        {"allow", "args.host.matches(\"^api|example$\")", "looks for it anywhere",
         "args.host.matches(\"^(api|example)$\")", "\"args\":{\"host\":\"evil.example\"}"},
        {"allow", "args.host.matches(\"(?m)^api$\")", "looks for it anywhere",
         "args.host.matches(\"(?i)^api$\")", "\"args\":{\"host\":\"evil\\napi\"}"},
        {"allow", "args.host.matches(\"^api\")", "looks for it anywhere",
         "args.host.matches(r\"\\Aapi\\z\")", "\"args\":{\"host\":\"api.evil\"}"},
        {"allow", "args.command.glob(\"grep *\")",
         "write shell(args.command).all(c, c.name == \"grep\" && c.redirects == [] && c.env == {})",
         "shell(args.command).all(c, c.name == \"grep\" && c.redirects == [] && c.env == {})",
         "\"args\":{\"command\":\"grep x; rm -rf /\"}"},
        {"allow", "args.cmd.startsWith(\"grep \")",
         "write shell(args.cmd).all(c, c.name == \"grep\" && c.redirects == [] && c.env == {})",
         "shell(args.cmd).all(c, c.name == \"grep\" && c.redirects == [] && c.env == {})",
         "\"args\":{\"cmd\":\"grep x; rm -rf /\"}"},
        {"allow", "shell(args.cmd).all(c, c.name == \"ls\")",
         "a redirection (ls > file) also passes; add c.redirects == [] && c.env == {}",
         "shell(args.cmd).all(c, c.name == \"ls\" && c.redirects == [] && c.env == {})",
         "\"args\":{\"cmd\":\"ls > .git/hooks/pre-commit\"}"},
        {"allow", "shell(args.cmd).all(c, c.name == \"ls\" && c.redirects == [])",
         "an assignment in front (LD_PRELOAD=x ls) also passes; add c.env == {}",
         "shell(args.cmd).all(c, c.name == \"ls\" && c.redirects == [] && c.env == {})",
         "\"args\":{\"cmd\":\"LD_PRELOAD=x ls\"}"},
        {"deny", "!shell(args.cmd).all(c, c.name == \"ls\" && c.env == {})",
         "a redirection (ls > file) also passes; add c.redirects == []",
         "!shell(args.cmd).all(c, c.name == \"ls\" && c.redirects == [] && c.env == {})",
         "\"args\":{\"cmd\":\"ls > .git/hooks/pre-commit\"}"},
        {"allow", "shell(args.cmd).all(c, c.name != \"rm\" && c.redirects == [] && c.env == {})",
         "c.name != \"rm\" is a negated test",
         "shell(args.cmd).all(c, c.name == \"ls\" && c.redirects == [] && c.env == {})",
         "\"args\":{\"cmd\":\"bash x\"}"},
        {"allow", "args.sql.startsWith(\"SELECT\")", "takes any characters there",
         "args.sql.matches(r\"^SELECT[A-Za-z0-9._-]*$\")",
         "\"args\":{\"sql\":\"SELECT 1; DROP x\"}"},
        {"allow", "args.mail.glob(\"*@corp.example\")",
         "matches(r\"^[A-Za-z0-9._-]*@corp\\.example$\")",
         "args.mail.matches(r\"^[A-Za-z0-9._-]*@corp\\.example$\")",
         "\"args\":{\"mail\":\"x@evil.example,y@corp.example\"}"},
        {"allow", "args.path.startsWith(\"/srv/app/\")",
         "write path_under(\"/srv/app\", args.path) != \"\"",
         "path_under(\"/srv/app\", args.path) != \"\"",
         "\"args\":{\"path\":\"/srv/app/../../etc/passwd\"}"},
        {"allow", "args.path.glob(\"/srv/app/*.txt\")",
         "write path_under(\"/srv/app\", args.path) != \"\"",
         "path_under(\"/srv/app\", args.path) != \"\"",
         "\"args\":{\"path\":\"/srv/app/../../etc/x.txt\"}"},
        {"deny", "!args.path.startsWith(\"/srv/app/\")",
         "write path_under(\"/srv/app\", args.path) == \"\"",
         "path_under(\"/srv/app\", args.path) == \"\"",
         "\"args\":{\"path\":\"/srv/app/../../etc/passwd\"}"},
        {"deny", "!args.host.matches(\"api.corp.example\")", "looks for it anywhere in the text",
         "!args.host.matches(\"^api\\\\.corp\\\\.example$\")",
         "\"args\":{\"host\":\"api.corp.example.evil.example\"}"},
        {"allow", "args.url.startsWith(\"https://api.corp.example\")",
         "ask url(args.url).getHostname()", "url(args.url).getHostname() == \"api.corp.example\"",
         "\"args\":{\"url\":\"https://api.corp.example@evil.example/\"}"},
        {"allow", "args.host.endsWith(\"corp.example\")", "takes evilcorp.example too",
         "args.host.endsWith(\".corp.example\")", "\"args\":{\"host\":\"evilcorp.example\"}"},
        {"allow", "args.host.contains(\"corp\")", "write args.host == \"corp\"",
         "args.host == \"corp\"", "\"args\":{\"host\":\"corp.evil.example\"}"},
        {"allow", "args.user == context.user",
         "the requester chooses both sides of args.user == context.user", "args.user == acting_for",
         "\"acting_for\":\"dave\",\"args\":{\"user\":null},\"context\":{\"user\":null}"},
        {"allow", "resource.id == args.id", "and null equals null", "args.id == \"5\"", NULL},
    };
    (void)state;
    ROWS(rows);
}

static void what_is_safe_or_meant_so_is_not_told(void **state)
{
    static const struct row rows[] = {
        {"deny", "args.env != \"dev\"", NULL, NULL, NULL},
        {"deny", "shell(args.cmd).exists(c, c.name == \"rm\")", NULL, NULL, NULL},
        {"deny", "shell(args.cmd).exists(c, c.redirects.size() > 0)", NULL, NULL, NULL},
        {"deny", "!(args.env in [\"dev\", \"test\"])", NULL, NULL, NULL},
        {"deny", "!has(args.ticket)", NULL, NULL, NULL},
        {"deny", "context.blocked", NULL, NULL, NULL},
        {"deny", "args.amount > 500", NULL, NULL, NULL},
        {"deny", "args.path.contains(\"..\")", NULL, NULL, NULL},
        {"deny", "args.list.size() == 0", NULL, NULL, NULL},
        {"deny", "int(args.n) == 5", NULL, NULL, NULL},
        {"deny", "actor == \"bot\" && tenant == \"x\"", NULL, NULL, NULL},
        {"deny", "now.getHours() == 3", NULL, NULL, NULL},
        {"deny", "args.name.matches(\"^[A-Za-z]+\\\\d$\")", NULL, NULL, NULL},
        {"deny", "args.name.matches(\"(?i)drop|truncate\")", NULL, NULL, NULL},
        {"deny", "url(args.url).getHostname() == \"evil.example\"", NULL, NULL, NULL},
        {"deny", "path_under(\"/srv\", args.path).startsWith(\"/srv/secret\")", NULL, NULL, NULL},
        {"allow", "args.env == \"prod\" && args.n == 5 && args.ok == true", NULL, NULL, NULL},
        {"allow", "args.env in [\"dev\", \"test\"]", NULL, NULL, NULL},
        {"allow", "args.name.startsWith(\"T-\")", NULL, NULL, NULL},
        {"allow", "args.name.glob(\"T-1\")", NULL, NULL, NULL},
        {"allow", "args.list.all(i, i.currency == args.currency)", NULL, NULL, NULL},
        {"allow", "args.user == acting_for", NULL, NULL, NULL},
        {"allow", "action.glob(\"pay*\")", NULL, NULL, NULL},
        {"allow", "resource.id.glob(\"/companies/*/subscription\", \"/\")", NULL, NULL, NULL},
        {"allow", "args.host.endsWith(\".corp.example\") && args.mail.endsWith(\"@corp.example\")",
         NULL, NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct policy_problems p = lint(document_of(&rows[i], rows[i].when, false, false));
        if (p.count > 0) show(&rows[i], &p);
        assert_int_equal(p.count, 0);
    }
}

static void a_path_is_told_of_once(void **state)
{
    (void)state;
    struct row row = {"deny",
                      "args.env == \"prod\" || args.env == \"live\" || args.env in [\"eu\"] || "
                      "args.tier == \"one\"",
                      NULL, NULL, NULL};
    struct policy_problems p = lint(document_of(&row, row.when, false, false));
    assert_int_equal(p.count, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deny_by_exact_type_or_case_is_told_with_the_safe_form),
        cmocka_unit_test(an_allow_that_takes_more_than_it_looks_is_told_with_the_safe_form),
        cmocka_unit_test(what_is_safe_or_meant_so_is_not_told),
        cmocka_unit_test(a_path_is_told_of_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
