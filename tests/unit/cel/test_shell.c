/* test_shell.c - command lines in conditions: what shell() reads, and what it refuses.
 * tests/conformance/shell compares what is read with what shells run. */
#include "cel_scene.h"
#include "cel/shell.h"

/* ---- what is read ---- */

/* The parts as text: a word in brackets, an operator and a redirection as they are written. */
static struct str parts_of(struct str line, struct cel_shell *ret)
{
    static char room[4096], text[4096];
    struct buf out = buf_over(text, sizeof text);
    struct cel_shell_item item;
    *ret = cel_shell_start(line, room);
    while ((item = cel_shell_next(ret)).part < SHELL_END) {
        if (item.part == SHELL_COMMAND && item.sign.size > 0)
            buf_printf(&out, " %.*s ", STR_FORMAT(item.sign));
        else if (item.part == SHELL_ASSIGNMENT)
            buf_printf(&out, "%.*s=[%.*s]", STR_FORMAT(item.sign), STR_FORMAT(item.text));
        else if (item.part == SHELL_REDIRECTION)
            buf_printf(&out, "%u%.*s[%.*s]", item.descriptor, STR_FORMAT(item.sign),
                       STR_FORMAT(item.text));
        else if (item.part != SHELL_COMMAND)
            buf_printf(&out, item.part == SHELL_NAME ? "%.*s" : "[%.*s]", STR_FORMAT(item.text));
    }
    if (item.part == SHELL_REFUSED)
        buf_printf(&out, "refused at %zu: %.*s", ret->at, STR_FORMAT(item.text));
    return buf_view(&out);
}

struct line_case {
    const char *line, *parts;
};

static const struct line_case read_cases[] = {
    {"ls", "ls"},
    {"  ls   -l  ", "ls[-l]"},
    {"git commit -m 'it is done; rm -rf /'", "git[commit][-m][it is done; rm -rf /]"},
    {"git log --format=%H,%s -n1 origin/main", "git[log][--format=%H,%s][-n1][origin/main]"},
    {"echo \"a b\" 'c'\"d\"e\\ f", "echo[a b][cde f]"},
    {"echo '' \"\"", "echo[][]"},
    {"echo \"\\\"\\\\\\$\\`\\n\\'\"", "echo[\"\\$`\\n\\']"},
    {"echo \\$HOME \\* \\'x \\\\ \\~ \\! \\#", "echo[$HOME][*]['x][\\][~][!][#]"},
    {"echo '$HOME `id` !x ~ * \\'", "echo[$HOME `id` !x ~ * \\]"},
    {"echo \"~ * ? [a] {b} # ; & | < > ( ) ^ '\"", "echo[~ * ? [a] {b} # ; & | < > ( ) ^ ']"},
    {"echo 'a\nb' \"c\nd\"", "echo[a\nb][c\nd]"},
    {"a && b || c | d ; e", "a && b || c | d ; e"},
    {"a&&b||c|d;e", "a && b || c | d ; e"},
    {"a;", "a"},
    {"a\n", "a"},
    {"\n\na\n\n  b;\n c\n", "a ; b ; c"},
    {"a &&\n\n b |\n c ||\nd", "a && b | c || d"},
    {"A=1 B='x y' C= cmd D=2", "A=[1]B=[x y]C=[]cmd[D=2]"},
    {"_a1=\"b\"c d", "_a1=[bc]d"},
    {"a >f 2>&1 <g 3>>h 4>i", "a1>[f]2>&[1]0<[g]3>>[h]4>[i]"},
    {"a>f", "a1>[f]"},
    {"2>f a >&2", "2>[f]a1>&[2]"},
    {"A=1 <f a", "A=[1]0<[f]a"},
    {"a > 'b c' b", "a1>[b c][b]"},
    {"a x2>f", "a[x2]1>[f]"},
    {"a 'x'2>f", "a[x2]1>[f]"},
    {"a \"2\">f", "a[2]1>[f]"},
    {"a \\2>f", "a[2]1>[f]"},
    {"a \"\\a\" >f | b >f", "a[\\a]1>[f] | b1>[f]"},
    {"a >2", "a1>[2]"},
    {"a 2 >f", "a[2]1>[f]"},
    {"a 2>&1|b", "a2>&[1] | b"},
    {"a 2>&1;b 2>&1&&c", "a2>&[1] ; b2>&[1] && c"},
    {"a b=c d==e", "a[b=c]refused at 8: a = at this place; write it in '…'"},
    {"r'm' \"-r\"f \\x", "rm[-rf][x]"},
    {"/bin/rm ./x ../y", "/bin/rm[./x][../y]"},
    {"test -n x -a y '=' z", "test[-n][x][-a][y][=][z]"},
    {"echo if then fi", "echo[if][then][fi]"},
    {"'echo' +x @y %z :w a,b", "echo[+x][@y][%z][:w][a,b]"},
};

static void a_line_is_read_as_shells_read_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof read_cases / sizeof read_cases[0]; i++) {
        struct cel_shell s;
        struct str parts = parts_of(str_from(read_cases[i].line), &s);
        if (!str_equal(parts, str_from(read_cases[i].parts)))
            print_error("%s\n  gives %.*s\n", read_cases[i].line, STR_FORMAT(parts));
        assert_true(str_equal(parts, str_from(read_cases[i].parts)));
        assert_int_equal(cel_shell_next(&s).part, SHELL_END);
    }
}

/* ---- what is refused ---- */

struct refused_case {
    const char *line, *why;
    size_t at;
};

static const struct refused_case refused_cases[] = {
    {"", "without a name", 0},
    {"  \n ", "without a name", 4},
    {";", "without a name", 0},
    {"a;;b", "without a name", 2},
    {"a\n;b", "without a name", 2},
    {"a &&", "without a name", 4},
    {"a && ; b", "without a name", 5},
    {"a | | b", "without a name", 4},
    {"| a", "without a name", 0},
    {"A=1", "without a name", 3},
    {"> f", "without a name", 3},
    {"a; A=1; b", "without a name", 6},
    {"a &", "outside of &&", 2},
    {"a & b", "outside of &&", 2},
    {"a &> f", "outside of &&", 2},
    {"a |& b", "without a name", 3},
    {"a &&& b", "without a name", 4},
    {"echo $HOME", "outside of quotes", 5},
    {"echo $(id)", "outside of quotes", 5},
    {"echo `id`", "outside of quotes", 5},
    {"echo $'a'", "outside of quotes", 5},
    {"echo *", "outside of quotes", 5},
    {"echo a?", "outside of quotes", 6},
    {"echo [a]", "outside of quotes", 5},
    {"[ a ]", "outside of quotes", 0},
    {"[[ a ]]", "outside of quotes", 0},
    {"echo {a,b}", "outside of quotes", 5},
    {"{ a; }", "outside of quotes", 0},
    {"(a)", "outside of quotes", 0},
    {"f() { a; }", "outside of quotes", 1},
    {"cat <(a)", "outside of quotes", 5},
    {"echo ~", "outside of quotes", 5},
    {"A=~ b", "outside of quotes", 2},
    {"git diff HEAD~1", "outside of quotes", 13},
    {"a # b", "outside of quotes", 2},
    {"a b#c", "outside of quotes", 3},
    {"! a", "outside of quotes", 0},
    {"a !b", "outside of quotes", 2},
    {"^a^b", "outside of quotes", 0},
    {"echo a^", "outside of quotes", 6},
    {"a\tb", "control", 1},
    {"a\rb", "control", 1},
    {"a 'b\x1b'", "control", 4},
    {"a \"b\x7f\"", "control", 4},
    {"a \\\t", "control", 3},
    {"a \xc3\xa9", "ASCII", 2},
    {"a '\xc3\xa9'", "ASCII", 3},
    {"a \"\xe2\x80\x94\"", "ASCII", 3},
    {"a 'b", "not closed", 4},
    {"a \"b", "not closed", 4},
    {"a \"b\\\"", "not closed", 6},
    {"a \\", "at the end", 3},
    {"a \\\nb", "before a line break", 3},
    {"a \"b\\\nc\"", "before a line break", 4},
    {"a \"$x\"", "in double quotes", 3},
    {"a \"`x`\"", "in double quotes", 3},
    {"a \"x!\"", "in double quotes", 4},
    {"a =ls", "at this place", 2},
    {"A==ls b", "at this place", 2},
    {"A=x:=ls b", "at this place", 4},
    {"A=1 >f B=2 a", "behind a redirection", 7},
    {"A+=1 b", "not plain", 0},
    {"a-b=1 c", "not plain", 0},
    {"1a=1 c", "not plain", 0},
    {"'A'=1 c", "not plain", 0},
    {"\\A=1 c", "not plain", 0},
    {"'a b' c", "not plain", 0},
    {"'[' a ']'", "not plain", 0},
    {"'' a", "an empty name", 0},
    {"%1", "an empty name", 0},
    {"- a", "an empty name", 0},
    {"if a", "reserved word", 0},
    {"time a", "reserved word", 0},
    {"'while' a", "reserved word", 0},
    {"a; coproc b", "reserved word", 3},
    {"A=1 then b", "reserved word", 4},
    {"repeat 3 a", "reserved word", 0},
    {"alias a=b", "reserved word", 0},
    {"set -k", "reserved word", 0},
    {"A='$(id)' b", "in an assigned value", 0},
    {"A=\\`id b", "in an assigned value", 0},
    {"a << b", "other than", 2},
    {"a <<< b", "other than", 2},
    {"a <> b", "other than", 2},
    {"a >| b", "other than", 2},
    {"a <& 3", "other than", 2},
    {"a <&-", "other than", 2},
    {"a >&-", "other than", 2},
    {"a >&b", "other than", 2},
    {"a >& 2", "other than", 2},
    {"a 2>&12", "other than", 2},
    {"a 2>&1b", "other than", 2},
    {"a 2>&1'", "not closed", 7},
    {"a 2>&1''", "other than", 2},
    {"a >>> b", "other than", 2},
    {"a >>& b", "other than", 2},
    {"a >", "without a file", 3},
    {"a > ''", "without a file", 4},
    {"a > ; b", "without a file", 4},
    {"a > \nb", "without a file", 4},
    {"a 12>b", "above 9", 2},
    {"a >b >c", "redirected twice", 5},
    {"a 3>b c 3<d", "redirected twice", 8},
    {"a 1<b", "< for output", 2},
    {"a 0>b", "> for input", 2},
    {"a | b <c", "redirected twice", 6},
    {"a {x}>b", "outside of quotes", 2},
    {"a <1-9>", "directly behind", 6},
    {"a >b>c", "directly behind", 4},
    {"a 2>&1>c", "directly behind", 6},
    {"a > /dev/tcp/10.0.0.1/80", "connection", 4},
    {"a < '/dev/udp/'x/1", "connection", 4},
};

static void a_line_that_is_not_certain_is_refused_with_its_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused_cases / sizeof refused_cases[0]; i++) {
        const struct refused_case *c = &refused_cases[i];
        struct cel_shell s;
        struct str parts = parts_of(str_from(c->line), &s);
        char text[512];
        snprintf(text, sizeof text, "%.*s", STR_FORMAT(parts));
        bool good = strstr(text, "refused at ") != NULL && strstr(text, c->why) != NULL;
        if (!good || s.at != c->at) print_error("%s\n  gives %s\n", c->line, text);
        assert_true(good);
        assert_int_equal(s.at, c->at);
        assert_int_equal(cel_shell_next(&s).part, SHELL_END);
    }
}

static void a_nul_is_refused_wherever_it_stands(void **state)
{
    static const char line[] = "a 'b' \"c\" d";
    (void)state;
    for (size_t at = 0; at < sizeof line - 1; at++) {
        char copy[sizeof line];
        struct cel_shell s;
        memcpy(copy, line, sizeof line);
        copy[at] = '\0';
        struct str parts = parts_of(str_of(copy, sizeof line - 1), &s);
        assert_non_null(memmem(parts.bytes, parts.size, "refused at", 10));
    }
}

static void a_long_line_is_refused(void **state)
{
    static char line[SHELL_BYTES_MAX + 2], room[SHELL_BYTES_MAX + 2];
    (void)state;
    memset(line, 'a', sizeof line);
    struct cel_shell s = cel_shell_start(str_of(line, SHELL_BYTES_MAX), room);
    assert_int_equal(cel_shell_next(&s).part, SHELL_COMMAND);
    assert_int_equal(cel_shell_next(&s).text.size, SHELL_BYTES_MAX);
    assert_int_equal(cel_shell_next(&s).part, SHELL_END);
    s = cel_shell_start(str_of(line, SHELL_BYTES_MAX + 1), room);
    assert_int_equal(cel_shell_next(&s).part, SHELL_REFUSED);
}

/* ---- in conditions ---- */

static void a_command_has_name_args_env_redirects_and_operator(void **state)
{
    (void)state;
    gives("shell('ls')", "[{\"operator\": \"\", \"name\": \"ls\", \"args\": [], \"env\": {}, "
                         "\"redirects\": []}]");
    gives("shell('A=1 B=2 git push origin >f 2>&1 | tee x')[0].args", "[\"push\", \"origin\"]");
    gives("shell('A=1 B=2 git push origin >f 2>&1 | tee x')[0].env",
          "{\"A\": \"1\", \"B\": \"2\"}");
    gives("shell('A=1 B=2 git push origin >f 2>&1 | tee x')[0].redirects",
          "[{\"descriptor\": 1, \"operator\": \">\", \"target\": \"f\"}, {\"descriptor\": 2, "
          "\"operator\": \">&\", \"target\": \"1\"}]");
    gives("shell('a | b && c; d || e').map(c, c.operator)", "[\"\", \"|\", \"&&\", \";\", \"||\"]");
    gives("shell('a | b').all(c, c.name in ['a', 'b'] && c.redirects == [] && c.env == {})",
          "true");
    gives("shell('a | rm').all(c, c.name in ['a', 'b'])", "false");
    gives("shell('a b')[0].args.size()", "1");
}

static void a_line_that_is_not_certain_is_an_error_of_the_condition(void **state)
{
    (void)state;
    gives("shell('ls ' + args.list[2] + '$').all(c, c.name == 'ls')",
          "error: no command line that all shells read alike: at byte 5, a sign of the shell "
          "outside of quotes; write it in '…' (at column 1)");
    gives("shell('ls ' + '*').exists(c, c.name == 'rm') || args.yes", "true");
    gives("shell('A=1 A=2 ' + args.list[2])", "error: a key is there twice (at column 1)");
    gives("shell(dyn(5))", "error: no such overload for (int) (at column 1)");
    gives("isShell('ls ' + args.list[2] + '$')", "false");
    gives("isShell('A=1 A=2 ' + args.list[2])", "false");
    gives("isShell('ls')", "true");
    gives("isShell(dyn(5))", "error: no such overload for (int) (at column 1)");
}

static void a_line_is_paid_for_before_it_is_read(void **state)
{
    (void)state;
    const struct cel_limits cost = {.cost = 200}, memory = {.memory_bytes = 2000};
    char line[300], text[400];
    memset(line, 'a', sizeof line - 1);
    line[sizeof line - 1] = '\0';
    snprintf(text, sizeof text, "shell('%s' + args.list[2]).size()", line);
    cel_gives(text, cel_outcome_with(text, false, &cost),
              "error: the cost limit is reached (at column 1)");
    for (size_t i = 1; i < sizeof line - 1; i += 2) line[i] = ';';
    line[sizeof line - 2] = 'a';
    snprintf(text, sizeof text, "shell('%s' + args.list[2]).size()", line);
    cel_gives(text, cel_outcome_with(text, false, &memory),
              "error: the memory limit is reached (at column 1)");
    snprintf(text, sizeof text, "isShell('%s' + args.list[2])", line);
    cel_gives(text, cel_outcome_with(text, false, &memory),
              "error: the memory limit is reached (at column 1)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_read_as_shells_read_it),
        cmocka_unit_test(a_line_that_is_not_certain_is_refused_with_its_place),
        cmocka_unit_test(a_nul_is_refused_wherever_it_stands),
        cmocka_unit_test(a_long_line_is_refused),
        cmocka_unit_test_setup_teardown(a_command_has_name_args_env_redirects_and_operator,
                                        cel_set_up, cel_tear_down),
        cmocka_unit_test_setup_teardown(a_line_that_is_not_certain_is_an_error_of_the_condition,
                                        cel_set_up, cel_tear_down),
        cmocka_unit_test_setup_teardown(a_line_is_paid_for_before_it_is_read, cel_set_up,
                                        cel_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
