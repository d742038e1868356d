/* test_lint_values.c - constants that no function gives, or that mean something else than they look
 * like. */
#include "cel_scene.h"
#include "cel/lint.h"

struct told {
    size_t count;
    char message[240];
};

static void note(void *context, const struct cel_remark *r)
{
    struct told *t = context;
    if (r->kind != CEL_REMARK_VALUE) return;
    t->count++;
    memcpy(t->message, r->message, sizeof t->message);
}

static struct told lint(const char *text)
{
    struct told t = {0};
    uint64_t left = 100000;
    cel_lint(str_from(text), &left, note, &t);
    return t;
}

struct row {
    const char *text, *told; /* NULL: nothing is told */
};

static void assert_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct told t = lint(rows[i].text);
        bool good = rows[i].told == NULL ? t.count == 0
                                         : t.count == 1 && strstr(t.message, rows[i].told) != NULL;
        if (!good) print_error("%s\n  gives %zu: %s\n", rows[i].text, t.count, t.message);
        assert_true(good);
    }
}

#define ASSERT_ROWS(rows) assert_rows(rows, sizeof(rows) / sizeof(rows)[0])

static void a_member_that_no_command_has_is_told(void **state)
{
    static const struct row rows[] = {
        {"shell(args.cmd).exists(c, c.nane == 'rm')",
         "c.nane: no command has it; the members are name, args"},
        {"shell(args.cmd).all(c, c['arguments'].size() == 0)", "c['arguments']: no command has it"},
        {"shell(args.cmd).exists(i, c, i > 0 && has(c.redirect))",
         "c.redirect): no command has it"},
        {"shell(args.cmd).all(c, c.name == 'a' && c.args == [] && c.env == {} && c.redirects == [] && "
         "c.operator == '')",
         NULL},
        {"shell(args.cmd).all(c, c.redirects.all(r, r.target == '/dev/null' && r.descriptor == 2))",
         NULL},
        {"args.list.all(c, c.nane == 'rm')", NULL},
    };
    (void)state;
    ASSERT_ROWS(rows);
}

static void a_number_that_a_function_never_gives_is_told(void **state)
{
    static const struct row rows[] = {
        {"now.getMonth() == 12", "can never be true: now.getMonth() is 0 to 11, January is 0"},
        {"12 == now.getMonth()", "can never be true"},
        {"now.getMonth() != 12", "can never be false"},
        {"now.getMonth('UTC') > 11", "can never be true"},
        {"now.getMonth() >= 12", "can never be true"},
        {"11 < now.getMonth()", "can never be true"},
        {"now.getMonth() <= 11", "can never be false"},
        {"now.getMonth() < 12", "can never be false"},
        {"now.getMonth() < 0", "can never be true"},
        {"now.getMonth() >= 0", "can never be false"},
        {"args.x || !(now.getMonth() == 12)", "can never be true"},
        {"now.getMonth() in [10, 11, 12]", "now.getMonth() is never 12: it is 0 to 11"},
        {"now.getDayOfWeek() == 7", "0 to 6, Sunday is 0"},
        {"now.getDate() == 0", "1 to 31"},
        {"now.getDayOfMonth() == 31", "0 to 30, the first day is 0"},
        {"now.getDayOfYear() == 366", "0 to 365"},
        {"now.getHours() == 24", "0 to 23"},
        {"now.getMinutes() == 60", "0 to 59"},
        {"now.getSeconds() == 60", "0 to 59"},
        {"now.getMilliseconds() == 1000", "0 to 999"},
        {"now.getFullYear() == 0", "1 to 9999"},
        {"size(args.list) < 0", "0 or more"},
        {"args.list.size() >= 0", "can never be false"},
        {"args.name.indexOf('x') < -1", "-1 is nowhere"},
        {"math.sign(args.n) == 2", "-1 to 1"},
        {"math.abs(args.n) < 0", "0 or more"},
        {"math.sqrt(args.n) == -1.0", "0 or more"},
        {"ip(args.a).family() == 5", "4 to 6"},
        {"cidr(args.a).prefixLength() > 128", "0 to 128"},
        {"now.getMonth() == 11 || now.getMonth() == 0", NULL},
        {"now.getMonth() in [0, 11]", NULL},
        {"now.getHours() >= 9 && now.getHours() < 18", NULL},
        {"duration('90m').getMinutes() == 90", NULL},
        {"(now - timestamp('2020-01-01T00:00:00Z')).getHours() > 24", NULL},
        {"math.sqrt(args.n) == 1.5", NULL},
        {"args.n.getHours() == 24", NULL},
    };
    (void)state;
    ASSERT_ROWS(rows);
}

static void a_text_that_a_function_never_gives_is_told(void **state)
{
    static const struct row rows[] = {
        {"args.x.lowerAscii() == 'Prod'", "can never be true: lowerAscii() gives no capitals"},
        {"args.x.lowerAscii() != 'Prod'", "can never be false"},
        {"args.x.lowerAscii() in ['prod', 'Live']", "lowerAscii() gives no capitals"},
        {"args.x.lowerAscii().startsWith('Prod')", "lowerAscii() gives no capitals"},
        {"args.x.upperAscii() == 'PROd'", "upperAscii() gives capitals only"},
        {"url(args.x).getScheme() == 'HTTPS'", "a scheme is given in lower case"},
        {"url(args.x).getScheme() == 'https://'", "a scheme is given without ://"},
        {"url(args.x).getHostname() == 'API.example'", "a host is given in lower case"},
        {"url(args.x).getHostname() == 'https://api.example'", "a host has no /"},
        {"url(args.x).getHostname() == 'api.example.'", "without a point at its end"},
        {"url(args.x).getPort() == '0443'", "without leading zeros"},
        {"url(args.x).getPort() == ':443'", "a port has digits only"},
        {"args.x.trim() == 'a '", "trim() leaves no blanks"},
        {"args.x.charAt(0) == 'ab'", "charAt() gives one character"},
        {"args.x.lowerAscii() == 'prod'", NULL},
        {"args.x == 'Prod'", NULL},
        {"url(args.x).getHostname().endsWith('.example')", NULL},
        {"url(args.x).getPort() in ['', '443']", NULL},
        {"args.x.charAt(0) == '\xC3\xBC'", NULL},
    };
    (void)state;
    ASSERT_ROWS(rows);
}

static void a_constant_that_means_something_else_than_it_looks_like_is_told(void **state)
{
    static const struct row rows[] = {
        {"args.a.cidr('10.1.2.3/8')", "is the whole range 10.0.0.0/8; write that"},
        {"cidr('10.1.2.3/8').containsIP(args.a)", "is the whole range 10.0.0.0/8"},
        {"cidr('2001:db8::1/32').containsIP(args.a)", "is the whole range 2001:db8::/32"},
        {"cidr('10.0.0.0/8').containsCIDR('10.1.2.3/16')", "is the whole range 10.1.0.0/16"},
        {"args.a.cidr('10.0.0.0')",
         "is this one address; a range has its length behind it, as in 10.0.0.0/24"},
        {"args.a.cidr('0.0.0.0/0')", "is every IPv4 address"},
        {"args.a.cidr('::/0')", "is every IPv6 address"},
        {"now.getHours('EST') > 9", "has no daylight saving time; write America/New_York"},
        {"now.getHours('Etc/GMT+5') > 9", "is behind UTC: the sign is reversed"},
        {"now.getHours('Etc/GMT-5') > 9", "is ahead of UTC: the sign is reversed"},
        {"now.getHours('02:00') > 9", "is an offset from UTC"},
        {"now - duration('30m1h') > now", "is the sum of its parts"},
        {"now - duration('1h1h') > now", "is the sum of its parts"},
        {"args.a.cidr('10.0.0.0/8')", NULL},
        {"args.a.cidr('10.0.0.1')", NULL},
        {"args.a.cidr('10.1.2.3/32')", NULL},
        {"now.getHours('Europe/Paris') > 9 && now.getHours('UTC') > 9", NULL},
        {"now.getHours('+02:00') > 9", NULL},
        {"now - duration('1h30m') > now && now - duration('1.5h') > now", NULL},
    };
    (void)state;
    ASSERT_ROWS(rows);
}

/* What is told never to be is never given, and all else is, over a few thousand times. */
static void bounds_are_those_of_what_is_given(void **state)
{
    static const struct {
        const char *name;
        int from, to; /* that are asked for */
    } getters[] = {{"getMonth", -2, 14},    {"getDate", -2, 34},  {"getDayOfMonth", -2, 34},
                   {"getDayOfWeek", -2, 9}, {"getHours", -2, 26}, {"getMinutes", -2, 62},
                   {"getSeconds", -2, 62}};
    enum { TIMES = 4000 };
    (void)state;
    for (size_t g = 0; g < sizeof getters / sizeof getters[0]; g++) {
        bool given[128] = {0};
        char text[64];
        struct cel_environment environment = cel_policy_environment();
        struct cel_value variables[CEL_POLICY_VARIABLES], value;
        struct cel_problems problems;
        struct cel_program *program;
        arena_reset(&cel_arena);
        cel_request(variables);
        snprintf(text, sizeof text, "now.%s()", getters[g].name);
        assert_int_equal(cel_compile(str_from(text), &environment, &cel_arena, &program, &problems),
                         ERR_OK);
        for (uint64_t i = 0, at = 88172645463325252u; i < TIMES; i++) {
            at ^= at << 13, at ^= at >> 7, at ^= at << 17;
            variables[CEL_NOW] = cel_of_ms(at % 4102444800000u);
            assert_true(cel_run(program, variables, &cel_arena, NULL, &value));
            assert_in_range(value.integer, 0, 127);
            given[value.integer] = true;
        }
        cel_program_fini(program);
        for (int n = getters[g].from; n <= getters[g].to; n++) {
            snprintf(text, sizeof text, "now.%s() == %d", getters[g].name, n);
            bool is_given = n >= 0 && given[n];
            if ((lint(text).count == 0) != is_given) print_error("%s\n", text);
            assert_int_equal(lint(text).count == 0, is_given);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_that_no_command_has_is_told),
        cmocka_unit_test(a_number_that_a_function_never_gives_is_told),
        cmocka_unit_test(a_text_that_a_function_never_gives_is_told),
        cmocka_unit_test(a_constant_that_means_something_else_than_it_looks_like_is_told),
        cmocka_unit_test(bounds_are_those_of_what_is_given),
    };
    return cmocka_run_group_tests(tests, cel_set_up, cel_tear_down);
}
