/* test_parse.c - what is an expression, and what is said of one that is none. */
#include "cel_scene.h"

static void literals_of_every_type_are_read(void **state)
{
    (void)state;
    gives("42", "42");
    gives("0x1F + 1", "32");
    gives("42u", "42u");
    gives("0xFFu", "255u");
    gives("1.5", "1.5");
    gives(".5", "0.5");
    gives("2e3", "2000.0");
    gives("-2.3e+1", "-23.0");
    gives("007", "7");
    gives("true && !false", "true");
    gives("null", "null");
    gives("[1, 'a', b'\\xff',]", "[1, \"a\", b\"\\xff\"]");
    gives("{'a': 1, 2u: [],}", "{\"a\": 1, 2u: []}");
}

static void the_least_int_can_be_written(void **state)
{
    (void)state;
    gives("-9223372036854775808", "-9223372036854775808");
    gives("-(-9223372036854775807)", "9223372036854775807");
    gives("9223372036854775808", "1:1: this number does not fit into an int");
    gives("18446744073709551615u", "18446744073709551615u");
    gives("18446744073709551616u", "1:1: this number does not fit into 64 bits");
}

static void strings_have_escapes_and_raw_ones_do_not(void **state)
{
    (void)state;
    gives("'a\\n\\t\\'\\x41\\101\\u00fc\\U0001F431'", "\"a\\n\\t'AA\xC3\xBC\xF0\x9F\x90\xB1\"");
    gives("r'a\\n'", "\"a\\\\n\"");
    gives("br'a\\n' == b'a\\\\n'", "true");
    gives("rb'a'", "1:3: an operator or the end is expected here, not \"'a'\"");
    gives("'''a'b\nc'''", "\"a'b\\nc\"");
    gives("b'\xC3\xBF\\377' == b'\\xc3\\xbf\\xff'", "true");
    gives("'\\377' == '\xC3\xBF'", "true");
    gives("size('\\u0000')", "1");
}

static void a_string_that_is_wrong_is_told_with_its_place(void **state)
{
    (void)state;
    gives("1 + 'abc", "1:5: this string has no end");
    gives("'a\nc'", "1:1: this string has no end\n2:2: this string has no end");
    gives("'a\\q'", "1:3: this is no escape of CEL");
    gives("'\\ud800'", "1:2: this escape is no Unicode character");
    gives("b'\\u00ff'", "1:3: \\u is no escape of bytes; write them as \\x or \\ooo");
    gives("'\\", "1:1: this string has no end\n1:2: this is no escape of CEL");
}

static void operators_bind_as_in_c(void **state)
{
    (void)state;
    gives("1 + 2 * 3", "7");
    gives("(1 + 2) * 3", "9");
    gives("10 - 4 - 3", "3");
    gives("-2 + 3", "1");
    gives("1 + 1 == 2 && 2 > 1 || false", "true");
    gives("true ? 1 : false ? 2 : 3", "1");
    gives("1 in [1, 2] == true", "true");
    gives("!true == false", "true");
}

static void comments_and_blanks_are_nothing(void **state)
{
    (void)state;
    gives("// first\n1 +\t// second\r\n\f2", "3");
    gives("// only", "1:1: the expression is empty");
    gives("", "1:1: the expression is empty");
}

static void what_is_missing_is_named(void **state)
{
    (void)state;
    gives("1 +", "1:4: the expression ends where an expression is expected");
    gives("(1 + 2", "1:7: the expression ends where \")\" is expected");
    gives("[1, 2", "1:6: the expression ends where \"]\" is expected");
    gives("true ? 1", "1:9: the expression ends where \":\" is expected");
    gives("args.?name", "1:6: optionals (a.?b, a[?b], optional.of(a)) are not offered; write "
                        "has(a.b) ? a.b : \"\"");
    gives("args[?'name']", "1:6: optionals (a.?b, a[?b], optional.of(a)) are not offered; write "
                           "has(a.b) ? a.b : \"\"");
    gives("args.", "1:6: the expression ends where the name of a field is expected");
    gives("1 2", "1:3: an operator or the end is expected here, not \"2\"");
    gives("1)", "1:2: an operator or the end is expected here, not \")\"");
    gives("size('a',)", "1:10: an expression is expected here, not \")\"");
}

static void habits_of_other_languages_get_advice(void **state)
{
    (void)state;
    gives("actor = 'a'", "1:7: \"=\" does not belong here; equality is ==");
    gives("true & false", "1:6: \"&\" does not belong here; \"and\" is &&");
    gives("true | false", "1:6: \"|\" does not belong here; \"or\" is ||");
    gives("if", "1:1: \"if\" is a reserved word");
    gives("Money{units: 1}", "1:6: messages (Name{field: value}) are not supported");
    gives("1kg", "1:2: a number may not run into a name");
}

static void several_mistakes_are_told_at_once(void **state)
{
    (void)state;
    gives("size( + 1) && (2 * ) && [3, / 4]", "1:7: an expression is expected here, not \"+\"\n"
                                              "1:20: an expression is expected here, not \")\"\n"
                                              "1:29: an expression is expected here, not \"/\"");
}

static void places_count_lines_and_code_points(void **state)
{
    (void)state;
    gives("'\xC3\xBC\xC3\xBC' +\n  'a' $", "2:7: \"$\" does not belong here");
    gives("'\xC3\xBC' + arg", "1:7: there is no variable \"arg\"; did you mean args?");
}

static void text_that_is_no_utf8_is_refused(void **state)
{
    (void)state;
    gives("'a' + '\xff'", "1:8: the expression is not UTF-8");
}

/* `open` count times, `middle`, `close` count times. */
static struct str nested(const char *open, const char *middle, const char *close, size_t count,
                         const char **ret)
{
    static char text[CEL_TEXT_MAX + 1024];
    struct buf out = buf_over(text, sizeof text - 1);
    for (size_t i = 0; i < count; i++) buf_put(&out, str_from(open));
    buf_put(&out, str_from(middle));
    for (size_t i = 0; i < count; i++) buf_put(&out, str_from(close));
    text[out.size] = '\0';
    *ret = text;
    return cel_outcome_with(text, false, NULL);
}

static bool ends_with(struct str text, const char *end)
{
    struct str tail = str_from(end);
    return text.size >= tail.size && str_equal(str_skip(text, text.size - tail.size), tail);
}

static void nesting_that_the_specification_asks_for_is_taken(void **state)
{
    const char *text;
    (void)state;
    cel_gives("parentheses", nested("(", "7", ")", 100, &text), "7");
    cel_gives("lists", nested("size([", "1", "])", 40, &text), "1");
    cel_gives("nots", nested("!", "true", "", 32, &text), "true");
    cel_gives("sums", nested("1 + ", "1", "", 100, &text), "101");
    cel_gives("choices", nested("true ? true : ", "false", "", 100, &text), "true");
}

static void nesting_without_end_is_refused(void **state)
{
    static const char *const opens[] = {"(",     "[",           "{1:",   "size(",      "-(",
                                        "1 + (", "true ? 1 : ", "args[", "[1].map(x, "};
    const char *text;
    (void)state;
    for (size_t i = 0; i < sizeof opens / sizeof opens[0]; i++) {
        struct str got = nested(opens[i], "1", "", 5000, &text);
        if (!ends_with(got, "nested deeper than 120 levels"))
            cel_gives(opens[i], got, "nested deeper than 120 levels");
    }
    assert_true(ends_with(nested("1 + ", "1", "", 5000, &text), "nested deeper than 120 levels"));
}

static void long_chains_of_and_and_or_are_no_nesting(void **state)
{
    const char *text;
    (void)state;
    cel_gives("and", nested("true && ", "false", "", 5000, &text), "false");
    cel_gives("or", nested("args.no == 1 || ", "true", "", 3000, &text), "true");
}

static void an_expression_over_the_limit_is_refused(void **state)
{
    const char *text;
    (void)state;
    cel_gives("long", nested("     ", "1", "", 20000, &text),
              "1:1: the expression is longer than 65536 bytes");
    struct str got = nested("[[],", "1", "", 15000, &text);
    assert_true(got.size > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(literals_of_every_type_are_read),
        cmocka_unit_test(the_least_int_can_be_written),
        cmocka_unit_test(strings_have_escapes_and_raw_ones_do_not),
        cmocka_unit_test(a_string_that_is_wrong_is_told_with_its_place),
        cmocka_unit_test(operators_bind_as_in_c),
        cmocka_unit_test(comments_and_blanks_are_nothing),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(habits_of_other_languages_get_advice),
        cmocka_unit_test(several_mistakes_are_told_at_once),
        cmocka_unit_test(places_count_lines_and_code_points),
        cmocka_unit_test(text_that_is_no_utf8_is_refused),
        cmocka_unit_test(nesting_that_the_specification_asks_for_is_taken),
        cmocka_unit_test(nesting_without_end_is_refused),
        cmocka_unit_test(long_chains_of_and_and_or_are_no_nesting),
        cmocka_unit_test(an_expression_over_the_limit_is_refused),
    };
    return cmocka_run_group_tests(tests, cel_set_up, cel_tear_down);
}
