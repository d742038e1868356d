/* Tables and the text in them: aligned, cut to the terminal, and safe to print. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cli/table.h"

static char *printed(struct arena *arena, const char *const *heads, const char *const *cells,
                     unsigned width)
{
    struct table t;
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    table_init(&t, arena, heads);
    for (; *cells != NULL; cells++) table_add(&t, str_from(*cells));
    table_print(&t, out, width);
    fclose(out);
    return text;
}

static void columns_are_as_wide_as_their_widest_cell(void **state)
{
    struct arena *a = *state;
    static const char *const heads[] = {"A", "LONG", NULL}, *const cells[] = {"xyz", "1", "x",
                                                                              "23456", NULL};
    char *text = printed(a, heads, cells, 0);
    assert_string_equal(text, "A    LONG\nxyz  1\nx    23456\n");
    free(text);
}

static void an_absent_cell_is_a_dash(void **state)
{
    struct arena *a = *state;
    static const char *const heads[] = {"A", "B", NULL}, *const cells[] = {"", "1", NULL};
    char *text = printed(a, heads, cells, 0);
    assert_string_equal(text, "A  B\n-  1\n");
    free(text);
}

static void letters_are_counted_not_bytes(void **state)
{
    struct arena *a = *state;
    static const char *const heads[] = {"A", "B", NULL}, *const cells[] = {"\xc3\xa9\xc3\xa9", "1",
                                                                           "abc", "2", NULL};
    char *text = printed(a, heads, cells, 0);
    assert_string_equal(text, "A    B\n\xc3\xa9\xc3\xa9   1\nabc  2\n");
    free(text);
}

static void wide_letters_take_two_columns_and_accents_of_their_own_none(void **state)
{
    struct arena *a = *state;
    static const char *const heads[] = {"*A", "B", NULL};
    static const char *const cells[] = {"日本語日本語", "1", "e\xcc\x81", "2", NULL};
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    assert_true(utf8 != (locale_t)0);
    uselocale(utf8);
    char *text = printed(a, heads, cells, 11), *whole = printed(a, heads, cells, 0);
    uselocale(LC_GLOBAL_LOCALE);
    freelocale(utf8);
    assert_string_equal(text, "A         B\n日本語…   1\ne\xcc\x81         2\n");
    assert_string_equal(whole, "A             B\n日本語日本語  1\ne\xcc\x81             2\n");
    free(text);
    free(whole);
}

static void only_columns_that_may_be_cut_are_cut(void **state)
{
    struct arena *a = *state;
    static const char *const heads[] = {"ID", "*WHAT", "*WHY", NULL};
    static const char *const cells[] = {
        "0123456789",
        "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9",
        "short", NULL};
    char *text = printed(a, heads, cells, 27);
    assert_string_equal(
        text,
        "ID          WHAT      WHY\n0123456789  \xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9…  short\n");
    free(text);
}

static void a_table_without_rows_is_its_head(void **state)
{
    struct arena *a = *state;
    static const char *const heads[] = {"A", NULL}, *const cells[] = {NULL};
    char *text = printed(a, heads, cells, 80);
    assert_string_equal(text, "A\n");
    free(text);
}

static void many_rows_keep_their_cells(void **state)
{
    struct arena *a = *state;
    static const char *const heads[] = {"A", "B", NULL};
    struct table t;
    table_init(&t, a, heads);
    for (int i = 0; i < 5000; i++) {
        char cell[16];
        snprintf(cell, sizeof cell, "%d", i);
        table_add(&t, str_from(cell));
        table_add(&t, STR("x"));
    }
    assert_int_equal(t.rows, 5000);
    assert_true(str_equal(t.cells[2 * 4999], STR("4999")));
    assert_true(str_equal(t.cells[0], STR("0")));
}

static void what_would_move_a_terminal_is_shown_instead(void **state)
{
    struct arena *a = *state;
    static const struct {
        const char *text, *shown;
    } cases[] = {
        {"plain", "plain"},
        {"\033[2J", "\\u001b[2J"},
        {"a\nb\tc\r", "a\\u000ab\\u0009c\\u000d"},
        {"\x7f", "\\u007f"},
        {"\xc2\x9b", "\\u009b"},
        {"\xe2\x80\xae", "\\u202e"},
        {"\xef\xbb\xbf", "\\ufeff"},
        {"pay\xe2\x80\x8b", "pay\\u200b"},
        {"\xe2\x80\xa8", "\\u2028"},
        {"\xc2\xad", "\\u00ad"},
        {"\xe2\x81\xa0", "\\u2060"},
        {"\xe2\x81\xa6", "\\u2066"},
        {"\xef\xbf\xbe", "\\ufffe"},
        {"\xf3\xa0\x81\x81", "\\ue0041"},
        {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82"},
        {"\xff\xc3", "\\ufffd\\ufffd"},
        {"\xe2\x82", "\\ufffd\\ufffd"},
        {"", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct str shown = text_shown(a, str_from(cases[i].text));
        if (!str_equal(shown, str_from(cases[i].shown)))
            fail_msg("%s came out as %.*s", cases[i].shown, STR_FORMAT(shown));
    }
}

static int arena_begin(void **state)
{
    static struct arena a;
    arena_init(&a, 4096, 8 << 20);
    *state = &a;
    return 0;
}

static int arena_end(void **state)
{
    arena_fini(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_as_wide_as_their_widest_cell),
        cmocka_unit_test(an_absent_cell_is_a_dash),
        cmocka_unit_test(letters_are_counted_not_bytes),
        cmocka_unit_test(wide_letters_take_two_columns_and_accents_of_their_own_none),
        cmocka_unit_test(only_columns_that_may_be_cut_are_cut),
        cmocka_unit_test(a_table_without_rows_is_its_head),
        cmocka_unit_test(many_rows_keep_their_cells),
        cmocka_unit_test(what_would_move_a_terminal_is_shown_instead),
    };
    return cmocka_run_group_tests(tests, arena_begin, arena_end);
}
