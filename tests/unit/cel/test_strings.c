/* test_strings.c - the functions of strings; positions are code points. */
#include "cel_scene.h"

static void sizes_and_positions_count_code_points(void **state)
{
    (void)state;
    gives("size('\xCF\x80\xCE\xAD\xCE\xBD\xCF\x84\xCE\xB5') + 'ab'.size() + size(b'\xC3\xBF')",
          "9");
    gives("'ta\xC2\xA9o\xC2\xA9T'.charAt(4)", "\"\xC2\xA9\"");
    gives("'tacocat'.charAt(7)", "\"\"");
    gives("'tacocat'.charAt(8)", "error: index out of range: 8 (at column 11)");
    gives("'ta\xC2\xA9o\xC2\xA9T'.indexOf('\xC2\xA9', 3)", "4");
    gives("'ta\xC2\xA9o\xC2\xA9T'.lastIndexOf('\xC2\xA9', 3)", "2");
    gives("['tacocat'.indexOf('', 3), 'tacocat'.indexOf('none'), ''.lastIndexOf('@@')]",
          "[3, -1, -1]");
    gives("'bananananana'.lastIndexOf('nana', 7)", "6");
    gives("['abc'.lastIndexOf('abc', 2), 'abc'.lastIndexOf('abc', 3), 'abc'.lastIndexOf('', 3)]",
          "[0, -1, 3]");
    gives("'abc'.lastIndexOf('a', -1)", "error: index out of range: -1 (at column 7)");
    gives("'ta\xC2\xA9o\xC2\xA9T'.substring(2, 5)", "\"\xC2\xA9o\xC2\xA9\"");
    gives("'tacocat'.substring(7)", "\"\"");
    gives("'tacocat'.substring(4, 3)", "error: index out of range: 3 (at column 11)");
}

static void texts_are_tested(void **state)
{
    (void)state;
    gives("'foobar'.startsWith('foo') && !''.startsWith('a') && 'a'.startsWith('')", "true");
    gives("'fort\xC3\xA9'.endsWith('t\xC3\xA9') && !'a'.endsWith('ba')", "true");
    gives("'Stra\xC3\x9F"
          "e'.contains('a\xC3\x9F') && 'a'.contains('')",
          "true");
    gives("'hubba'.matches('ubb') && matches('abc', '^a.c$') && !'abc'.matches('^b')", "true");
    gives("args.name.matches('^M.ller$')", "true");
    gives("'a'.matches('(' + ')') && 'aaa'.matches('a' + '{3}')", "true");
    gives("'a'.matches(args.name + '(')",
          "error: an argument that is not taken: missing ): M\xC3\xBCller( (at column 5)");
}

static void patterns_are_checked_when_the_program_is_made(void **state)
{
    (void)state;
    gives("args.name.matches('a(')", "1:19: this is no regular expression: missing ): a(");
    gives("args.name.matches('(?=a)')",
          "1:19: this is no regular expression: invalid perl operator: (?=");
    gives("args.name.matches('a{1001}')",
          "1:19: this is no regular expression: invalid repetition size: {1001}");
    gives("args.name.matches('((a{100}){100}){100}')",
          "1:19: this is no regular expression: invalid repetition size: {100}");
}

static void a_catastrophic_pattern_takes_linear_time(void **state)
{
    char text[12000];
    struct buf out = buf_over(text, sizeof text - 1);
    (void)state;
    buf_put_literal(&out, "'");
    for (int i = 0; i < 10000; i++) buf_put_byte(&out, 'a');
    buf_put_literal(
        &out, "!'.matches('^(a+)+$') || 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!'.matches('(a|aa)+$')");
    text[out.size] = '\0';
    gives(text, "false");
}

static void texts_are_made_from_texts(void **state)
{
    (void)state;
    gives("'Taco\xC3\x86t'.lowerAscii() + 'taco\xCE\xB1t'.upperAscii()",
          "\"taco\xC3\x86tTACO\xCE\xB1T\"");
    gives("'a\xCE\xB2\xE2\x82\xAC'.reverse()", "\"\xE2\x82\xAC\xCE\xB2"
                                               "a\"");
    gives("'{0} days {0} hours'.replace('{0}', '2', 1).replace('{0}', '23')",
          "\"2 days 23 hours\"");
    gives("['abc'.replace('', '-'), 'abc'.replace('', '-', 2), 'a'.replace('a', ''), "
          "'aa'.replace('a', 'b', 0)]",
          "[\"-a-b-c-\", \"-a-bc\", \"\", \"aa\"]");
    gives("'a,b,c'.split(',') + 'a,b,c'.split(',', 2) + 'abc'.split('', 2) + 'a'.split(',', 0) + "
          "''.split('') + ''.split(',')",
          "[\"a\", \"b\", \"c\", \"a\", \"b,c\", \"a\", \"bc\", \"\"]");
    gives("['x', 'y'].join('-') + [].join() + roles.join('+')", "\"x-ysupport+finance\"");
    gives("args.list.join()", "error: no such overload for (list) (at column 11)");
    gives("'\\u0085\\u00a0 \\ttext\\u2029\\u3000'.trim()", "\"text\"");
    gives("'\\u200btext\\ufeff'.trim() == '\\u200btext\\ufeff'", "true");
    gives("strings.quote('a\"\\n\\\\\xF0\x9F\x98\x80')",
          "\"\\\"a\\\\\\\"\\\\n\\\\\\\\\xF0\x9F\x98\x80\\\"\"");
}

static void format_writes_every_clause(void **state)
{
    (void)state;
    gives("'%%%s%%'.format(['x'])", "\"%x%\"");
    gives("'%d %d %d'.format([1, 2u, -3])", "\"1 2 -3\"");
    gives("'%.3f %f %.0f'.format([1.2345, 2, 2.5])", "\"1.234 2.000000 2\"");
    gives("'%e %.1e'.format([1052.032911275, -3.14])", "\"1.052033e+03 -3.1e+00\"");
    gives("'%x %X %x %o %b %b'.format([30, 'Ko', b'\\xab', 11, 5, true])",
          "\"1e 4B6F ab 13 101 1\"");
    gives("'%x %b'.format([-255, -5])", "\"-ff -101\"");
    gives("'%s'.format([[1, 2.5, null, 'a', b'z', true, int, timestamp(0), duration('90s')]])",
          "\"[1, 2.5, null, a, z, true, int, 1970-01-01T00:00:00Z, 90s]\"");
    gives("'%s'.format([{'b': 1, 1: 'a', true: 2.0}])", "\"{1: a, b: 1, true: 2}\"");
    gives("'%s'.format([b'a\\xff\\xfe\xC3\xBC'])", "\"a\xEF\xBF\xBD\xC3\xBC\"");
    gives("'%s %f %e'.format([0.0 / 0.0, 1.0 / 0.0, -1.0 / 0.0])", "\"NaN Infinity -Infinity\"");
    gives("'%d'.format([1e20])", "\"100000000000000000000\"");
}

static void format_refuses_what_a_clause_does_not_take(void **state)
{
    (void)state;
    gives("'%a'.format([1])", "error: an argument that is not taken: %a (at column 6)");
    gives("'%'.format([1])", "error: an argument that is not taken: % (at column 5)");
    gives("'%.101f'.format([1])", "error: an argument that is not taken: %.101f (at column 10)");
    gives("'%d %d'.format([1])", "error: index out of range (at column 9)");
    gives("'%d'.format(['a'])", "error: no such overload for (string, list) (at column 6)");
    gives("'%b'.format(['a'])", "error: no such overload for (string, list) (at column 6)");
    gives("'%x'.format([0.5])", "error: no such overload for (string, list) (at column 6)");
    gives("'%e'.format([null])", "error: no such overload for (string, list) (at column 6)");
    gives("'%s'.format([cidr('10.0.0.0/8')])",
          "error: no such overload for (string, list) (at column 6)");
}

static void globs_are_anchored(void **state)
{
    (void)state;
    gives("'prod-db'.glob('prod-*') && !'xprod-db'.glob('prod-*') && !'PROD-db'.glob('prod-*')",
          "true");
    gives("'a'.glob('*') && ''.glob('*') && !'ab'.glob('a') && 'a.b'.glob('a.b') && "
          "!'axb'.glob('a.b')",
          "true");
    gives("action.glob('issue_*')", "true");
    gives("args.amount.glob('*')", "error: no such overload for (double, string) (at column 13)");
}

static void a_star_keeps_to_its_part_where_a_separator_is_given(void **state)
{
    (void)state;
    gives("'/companies/7/subscription'.glob('/companies/*/subscription', '/')", "true");
    gives("'/companies/7/roles/8/subscription'.glob('/companies/*/subscription', '/')", "false");
    gives("'/companies/7/roles/8/subscription'.glob('/companies/*/subscription')", "true");
    gives("'/companies/7/roles/8/subscription'.glob('/companies/**/subscription', '/')", "true");
    gives("'a.b.c'.glob('a.*.c', '.') && !'a.b.b.c'.glob('a.*.c', '.')", "true");
    gives("'abc'.glob('*b*', '/') && ''.glob('*', '/') && !'/'.glob('*', '/')", "true");
    gives("args.name.glob('*', '')", "error: an argument that is not taken:  (at column 11)");
    gives("args.name.glob('*', '//')", "error: an argument that is not taken: // (at column 11)");
}

/* Slowly and plainly: what `pattern` takes of `text`, by trying. */
static bool reference_glob(const char *pattern, const char *text)
{
    if (*pattern == '\0') return *text == '\0';
    if (*pattern != '*') return *pattern == *text && reference_glob(pattern + 1, text + 1);
    bool is_double = pattern[1] == '*';
    while (pattern[1] == '*') pattern++;
    for (;; text++) {
        if (reference_glob(pattern + 1, text)) return true;
        if (*text == '\0' || (!is_double && *text == '/')) return false;
    }
}

static void a_glob_with_a_separator_is_what_trying_says(void **state)
{
    enum { TRIES = 4000 };
    uint64_t random = 20261126;
    (void)state;
    for (unsigned i = 0; i < TRIES; i++) {
        char pattern[9], text[9], expression[96];
        size_t sizes[2];
        for (unsigned k = 0; k < 2; k++) {
            char *to = k == 0 ? pattern : text;
            random = random * 6364136223846793005u + 1442695040888963407u;
            sizes[k] = random >> 33 & 7;
            for (size_t n = 0; n < sizes[k]; n++) {
                random = random * 6364136223846793005u + 1442695040888963407u;
                to[n] = (k == 0 ? "ab/*" : "abb/")[random >> 33 & 3];
            }
            to[sizes[k]] = '\0';
        }
        snprintf(expression, sizeof expression, "'%s'.glob('%s', '/')", text, pattern);
        gives(expression, reference_glob(pattern, text) ? "true" : "false");
    }
}

static void addresses_are_looked_for_in_ranges(void **state)
{
    (void)state;
    gives("'10.1.2.3'.cidr('10.0.0.0/8') && !'11.0.0.1'.cidr('10.0.0.0/8')", "true");
    gives("'10.0.0.127'.cidr('10.0.0.0/25') && !'10.0.0.128'.cidr('10.0.0.0/25')", "true");
    gives("'2001:db8::1'.cidr('2001:db8::/48') && !'2001:db9::1'.cidr('2001:db8::/48')", "true");
    gives("'::ffff:10.0.0.1'.cidr('10.0.0.0/8') && '10.0.0.1'.cidr('::ffff:10.0.0.0/104')", "true");
    gives("!'10.0.0.1'.cidr('2001:db8::/0') && '1.2.3.4'.cidr('0.0.0.0/0') && "
          "'1.2.3.4'.cidr('1.2.3.4')",
          "true");
    gives("cidr('10.0.0.0/8').containsIP('10.9.9.9') && "
          "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')",
          "true");
    gives("cidr('10.0.0.0/16').containsCIDR(cidr('10.0.0.0/8')) || "
          "cidr('10.0.0.0/8').containsCIDR('::/64')",
          "false");
    gives("cidr('10.1.2.3/8') == cidr('10.0.0.0/8')", "true");
    gives("args.name.cidr('10.0.0.0/8')",
          "error: the text cannot be read as that: M\xC3\xBCller (at column 11)");
    gives("'10.0.0.1:80'.cidr('10.0.0.0/8')",
          "error: the text cannot be read as that: 10.0.0.1:80 (at column 15)");
    gives("'010.0.0.1'.cidr('10.0.0.0/8')",
          "error: the text cannot be read as that: 010.0.0.1 (at column 13)");
    gives("args.name.cidr('10.0.0.0/33')",
          "1:16: this is no range of addresses (10.0.0.0/8, 2001:db8::/48)");
    gives("args.name.cidr('10.0.0.0/')",
          "1:16: this is no range of addresses (10.0.0.0/8, 2001:db8::/48)");
    gives("cidr(args.name)", "error: the text cannot be read as that: M\xC3\xBCller (at column 1)");
}

static void paths_are_normalised_below_their_root(void **state)
{
    (void)state;
    gives("path_under('/sandbox', 'a//./b/../c/')", "\"/sandbox/a/c\"");
    gives("path_under('/sandbox/', '')", "\"/sandbox\"");
    gives("path_under('/sandbox', '/sandbox/x')", "\"/sandbox/x\"");
    gives("path_under('/', 'a/b')", "\"/a/b\"");
    gives("path_under('/', '')", "\"/\"");
    gives("path_under('/a/../b', 'c')", "\"/b/c\"");
}

static void paths_that_leave_their_root_are_errors(void **state)
{
    static const char *const paths[] = {"..",
                                        "../x",
                                        "a/../../x",
                                        "/etc/passwd",
                                        "/sandboxx",
                                        "/",
                                        "/sandbox/..",
                                        "/sandbox/../sandbox/x",
                                        "../sandbox/x",
                                        "a/../../sandbox/b",
                                        "/sand/../sandbox",
                                        "//etc"};
    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        char expression[128], expected[160];
        snprintf(expression, sizeof expression, "path_under('/sandbox', '%s')", paths[i]);
        snprintf(expected, sizeof expected, "error: the path leaves its root: %s (at column 1)",
                 paths[i]);
        gives(expression, expected);
    }
    gives("path_under('/sandbox', 'a\\u0000b')", "error: the path leaves its root (at column 1)");
    gives("path_under('sandbox', 'a')",
          "error: an argument that is not taken: sandbox (at column 1)");
}

/* By what a shell, a file dialog (Windows too) or a library of URLs makes of it. */
static void paths_that_programs_read_otherwise_are_errors(void **state)
{
    static const char *const paths[] = {
        "~/x",
        "~root/x",
        "a b",
        "a\\tb",
        "a\\nb",
        " a",
        "a ",
        "x ../../etc",
        "a;b",
        "a|b",
        "a&b",
        "a<b",
        "a>b",
        "$HOME",
        "a/$x",
        "`id`",
        "a*",
        "a?b",
        "[ab]",
        "{a,b}",
        "a(b)",
        "'a'",
        "!a",
        "#a",
        "a#b",
        "a%2f..%2fb",
        "%2e%2e/b",
        "%TEMP%",
        "C:/x",
        "file:/etc",
        "host:x",
        "a^b",
        "a.",
        "...",
        "a/.../b",
        "a\\u007fb",
        "..\xE2\x88\x95x",
        "\xEF\xBC\x8E\xEF\xBC\x8E/x",
        "a\xEF\xBC\x8F"
        "b",
        "\xE2\x80\xA5/x",
        "a\xC2\xA0"
        "b",
        "a\xE2\x80\xAE"
        "b",
        "a\xE2\x80\x8B"
        "b",
        "a\xC2\xAD",
        "\xEF\xBB\xBF"
        "a",
        "/sandbox/~x/a b",
        "a\\\\..\\\\b",
    };
    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        char expression[160];
        snprintf(expression, sizeof expression, "path_under('/sandbox', \"%s\")", paths[i]);
        struct str outcome = cel_outcome_with(expression, false, NULL);
        if (!str_starts(outcome, STR("error: an argument that is not taken: ")))
            print_error("%s gives %.*s\n", expression, STR_FORMAT(outcome));
        assert_true(str_starts(outcome, STR("error: an argument that is not taken: ")));
    }
    gives("path_under('/', '//host/x')", "error: the path leaves its root: //host/x (at column 1)");
    gives("path_under('/sandbox', 'a~b/-c_d+e@f,g=h.i/12:30/..x/.y')",
          "\"/sandbox/a~b/-c_d+e@f,g=h.i/12:30/..x/.y\"");
    gives("path_under('/sandbox', 'M\xC3\xBCller/\xE6\x97\xA5\xE6\x9C\xAC/\xF0\x9F\x98\x80')",
          "\"/sandbox/M\xC3\xBCller/\xE6\x97\xA5\xE6\x9C\xAC/\xF0\x9F\x98\x80\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_that_programs_read_otherwise_are_errors),
        cmocka_unit_test(sizes_and_positions_count_code_points),
        cmocka_unit_test(texts_are_tested),
        cmocka_unit_test(patterns_are_checked_when_the_program_is_made),
        cmocka_unit_test(a_catastrophic_pattern_takes_linear_time),
        cmocka_unit_test(texts_are_made_from_texts),
        cmocka_unit_test(format_writes_every_clause),
        cmocka_unit_test(format_refuses_what_a_clause_does_not_take),
        cmocka_unit_test(globs_are_anchored),
        cmocka_unit_test(a_star_keeps_to_its_part_where_a_separator_is_given),
        cmocka_unit_test(a_glob_with_a_separator_is_what_trying_says),
        cmocka_unit_test(addresses_are_looked_for_in_ranges),
        cmocka_unit_test(paths_are_normalised_below_their_root),
        cmocka_unit_test(paths_that_leave_their_root_are_errors),
    };
    return cmocka_run_group_tests(tests, cel_set_up, cel_tear_down);
}
