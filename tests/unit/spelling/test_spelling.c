/* test_spelling.c - whose name it is, in whatever spelling. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include <utf8proc.h>

#include "spelling/spelling.h"

static bool same(const char *a, const char *b)
{
    bool one_way = spelling_same(str_from(a), str_from(b));
    assert_int_equal(one_way, spelling_same(str_from(b), str_from(a)));
    uint64_t of_a = spelling_hash(str_from(a)), of_b = spelling_hash(str_from(b));
    if (of_a != 0 && of_b != 0) assert_int_equal(one_way, of_a == of_b);
    return one_way;
}

static void a_name_is_one_persons_in_whatever_spelling(void **state)
{
    (void)state;
    static const char *const spellings[][2] = {
        {"rita", "RITA"},
        {"zo\u00eb", "ZO\u00cb"},
        {"zo\u00eb", "zoe\u0308"},  /* composed, decomposed */
        {"stra\u00dfe", "STRASSE"}, /* full case folding */
        {"\u03c3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2",
         "\u03a3\u038a\u03a3\u03a5\u03a6\u039f\u03a3"},
        {"rita", "\uff32\uff29\uff34\uff21"}, /* full width */
        {"rita", "ri\u200bta"},               /* zero width space */
        {"rita", "ri\u00adta"},               /* soft hyphen */
        {"rita", "rita "},
        {"rita", " rita"},
        {"rita", "\u00a0rita\u3000"},
        {"rita maria", "rita  maria"},
        {"rita maria", "rita\tmaria"},
        {"rita-maria", "rita\u2010maria"},
        {"\u0438\u0432\u0430\u043d", "\u0418\u0412\u0410\u041d"},
    };
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++)
        if (!same(spellings[i][0], spellings[i][1]))
            fail_msg("%s is not %s", spellings[i][0], spellings[i][1]);
}

/* Characters by what Unicode says of them, and not by a list of those that somebody thought of. */
static void no_blank_and_nothing_unseen_makes_another_name(void **state)
{
    (void)state;
    static const utf8proc_int32_t signs[] = {0x600, 0x601, 0x602, 0x603, 0x604,   0x605,  0x6DD,
                                             0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD};
    unsigned blanks = 0, unseen = 0;
    for (utf8proc_int32_t c = 0x80; c <= 0x10FFFF; c++) {
        utf8proc_uint8_t utf8[4];
        utf8proc_category_t category = utf8proc_category(c);
        bool is_blank = category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
                        category == UTF8PROC_CATEGORY_ZP || c == 0x2800;
        bool is_unseen = category == UTF8PROC_CATEGORY_CF || c == 0x2065 || c == 0x3164 ||
                         (c >= 0xFFF0 && c <= 0xFFF8) || (c >= 0xFE00 && c <= 0xFE0F) ||
                         (c >= 0xE0000 && c <= 0xE0FFF);
        for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
            is_unseen = is_unseen && c != signs[i];
        if (!is_blank && !is_unseen) continue;
        int size = (int)utf8proc_encode_char(c, utf8);
        char name[32];
        snprintf(name, sizeof name, "rita%.*s", size, (const char *)utf8);
        if (!same("rita", name)) fail_msg("U+%04X behind a name makes another one", c);
        snprintf(name, sizeof name, "ri%.*sta", size, (const char *)utf8);
        if (!same(is_blank ? "ri ta" : "rita", name)) fail_msg("so does U+%04X inside", c);
        blanks += is_blank;
        unseen += is_unseen;
    }
    assert_true(blanks >= 18);
    assert_true(unseen > 4000);
}

static void two_people_are_two(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"rita", "rite"},
        {"rita", "ritas"},
        {"rita maria", "ritamaria"},
        {"zo\u00eb", "zoe"},
        {"\u7530\u4e2d", "\u5c71\u672c"},
        {"", "rita"},
        {"", "\u200b\u7530"},
        {"5", "\u06005"}, /* a sign that is seen */
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (same(names[i][0], names[i][1])) fail_msg("%s is %s", names[i][0], names[i][1]);
}

static bool same_person(const char *a, const char *b)
{
    bool one_way, other_way;
    assert_int_equal(spelling_same_person(str_from(a), str_from(b), &one_way), ERR_OK);
    assert_int_equal(spelling_same_person(str_from(b), str_from(a), &other_way), ERR_OK);
    assert_int_equal(one_way, other_way);
    return one_way;
}

static void a_name_that_looks_like_another_may_be_that_persons(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"rita", "RITA"},
        {"rita", "\uff32\uff29\uff34\uff21"},
        {"erin", "\u0435rin"},       /* Cyrillic e */
        {"erin", "\u0415RIN"},       /* and a large one */
        {"hans", "\u0397ans"},       /* Greek Eta, whose small form does not look like h */
        {"\u043d\u0430", "\u041da"}, /* small Cyrillic, and large Cyrillic with a Latin a */
        {"\u043d\u0438\u043d\u0430", "\u041d\u0418\u041d\u0410"},
        {"Ian", "lan"}, /* a small l */
        {"bill", "bi11"},
        {"bob", "B0b"},
        {"bem", "bern"},
        {"omar", "\u1d0fmar"},
        {"zo\u00eb", "z\u043ee\u0308"}, /* decomposed, with a Cyrillic o */
        {"erin", "erin@corp.example"},
        {"erin", "\u0435rin@corp.example"},
        {"erin", "Erin\uff20corp.example"},
        {"erin", "erin @corp"},
        {"erin", "erin@other@corp.example"},
        {"erin@corp.example", "ERIN@other.example"},
        {"erin", "erin+writ@corp.example"},
        {"erin@corp.example", "erin\u16edx@corp.example"}, /* a rune that looks like + */
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!same_person(names[i][0], names[i][1]))
            fail_msg("%s is not %s", names[i][0], names[i][1]);
}

static void two_people_who_do_not_look_alike_are_two(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"rita", "rite"},
        {"Ian", "Lan"},
        {"ian", "lan"},
        {"zoe", "zo\u00eb"},
        {"\u7530\u4e2d", "\u5c71\u672c"},
        {"", "rita"},
        {"erin@corp.example", "carol@corp.example"},
        {"corp.example", "erin@corp.example"},
        {"@corp.example", "erin@corp.example"},
        {"@one.example", "@two.example"},
        {"+1@corp.example", "+2@corp.example"},
        {"erin", "erin.w@corp.example"},
        {"erin", "\u0435\u0301rin"}, /* the accent is seen */
        {"erin+writ", "erin+writ@corp.example"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (same_person(names[i][0], names[i][1])) fail_msg("%s is %s", names[i][0], names[i][1]);
    assert_true(same_person("\xff", "rita")); /* may be anybody */
}

/* Except for dashes and brackets, which folding makes one character each. */
static void each_character_of_the_table_looks_like_its_prototype(void **state)
{
    (void)state;
    static const struct {
        utf8proc_int32_t character;
        const char *prototype;
    } rows[] = {
#define LOOKS_LIKE(character, prototype) {character, prototype},
#include "spelling/confusables.def"
#undef LOOKS_LIKE
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        utf8proc_uint8_t utf8[4];
        char name[32], other[32];
        int size = (int)utf8proc_encode_char(rows[i].character, utf8);
        snprintf(name, sizeof name, "x%.*sx", size, (const char *)utf8);
        snprintf(other, sizeof other, "x%sx", rows[i].prototype);
        bool folds = utf8proc_category(rows[i].character) == UTF8PROC_CATEGORY_PD ||
                     rows[i].character == 0x3008 || rows[i].character == 0x3009;
        if (!folds && !same_person(name, other)) fail_msg("U+%04X", (unsigned)rows[i].character);
    }
}

static void the_longest_name_has_a_skeleton(void **state)
{
    (void)state;
    char one[1025], other[1025];
    for (size_t i = 0; i < 1022; i += 3)
        memcpy(one + i, "\u33a5", 4), memcpy(other + i, "\ufdfa", 4); /* long in other forms */
    one[1023] = other[1023] = '\0';
    assert_false(same_person(one, other));
    assert_true(same_person(one, one));
}

static void what_cannot_be_folded_may_be_anybody(void **state)
{
    (void)state;
    assert_true(same("\xff", "rita"));
    assert_true(same("ri\xc3", "rita"));
    assert_int_equal(spelling_hash(STR("\xff")), 0);
}

static void a_folded_name_is_what_its_spellings_have_in_common(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 4096, 4096);
    assert_true(str_equal(spelling_fold(STR(" \uff24b:\u200bProd-1 "), &a), STR("db:prod-1")));
    assert_true(
        str_equal(spelling_fold(STR("file:/my \u00a0 doc\u2010x"), &a), STR("file:/my doc-x")));
    assert_true(str_is_empty(spelling_fold(STR("\u200b"), &a)));
    assert_true(str_is_absent(spelling_fold(STR("\xff"), &a)));
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_one_persons_in_whatever_spelling),
        cmocka_unit_test(no_blank_and_nothing_unseen_makes_another_name),
        cmocka_unit_test(two_people_are_two),
        cmocka_unit_test(a_folded_name_is_what_its_spellings_have_in_common),
        cmocka_unit_test(what_cannot_be_folded_may_be_anybody),
        cmocka_unit_test(a_name_that_looks_like_another_may_be_that_persons),
        cmocka_unit_test(two_people_who_do_not_look_alike_are_two),
        cmocka_unit_test(each_character_of_the_table_looks_like_its_prototype),
        cmocka_unit_test(the_longest_name_has_a_skeleton),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
