/* test_text.c - str, time, id, fault and err: the small texts of everything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#include "base/fault.h"
#include "base/id.h"
#include "base/str.h"
#include "base/time.h"

/* ---- str ---- */

static void absent_and_empty_differ_but_compare_equal(void **state)
{
    (void)state;
    assert_true(str_is_absent((struct str){0}));
    assert_false(str_is_absent(STR("")));
    assert_true(str_is_empty((struct str){0}));
    assert_true(str_equal((struct str){0}, STR("")));
    assert_true(str_is_absent(str_from(NULL)));
    assert_true(str_starts(STR("abc"), (struct str){0}));
    assert_false(str_starts(STR("ab"), STR("abc")));
}

static void strings_compare_by_bytes_then_length(void **state)
{
    (void)state;
    assert_true(str_compare(STR("a"), STR("b")) < 0);
    assert_true(str_compare(STR("a"), STR("ab")) < 0);
    assert_true(str_compare(STR("\xff"), STR("a")) > 0);
    assert_true(str_compare(STR(""), (struct str){0}) == 0);
    assert_true(str_equal_ignoring_case(STR("Content-Type"), STR("content-tYPE")));
    assert_false(str_equal_ignoring_case(STR("@"), STR("`")));
    assert_false(str_equal_ignoring_case(STR("[abc"), STR("{abc")));
}

static void a_split_gives_every_part_even_empty_ones(void **state)
{
    (void)state;
    struct str rest = STR("a,,b,"), part;
    const char *const wanted[] = {"a", "", "b", ""};
    for (size_t i = 0; i < 4; i++) {
        assert_true(str_split(&rest, ',', &part));
        assert_true(str_equal(part, str_from(wanted[i])));
    }
    assert_false(str_split(&rest, ',', &part));
    rest = STR("");
    assert_true(str_split(&rest, ',', &part));
    assert_false(str_split(&rest, ',', &part));
}

static void decimal_numbers_are_read_without_overflow(void **state)
{
    (void)state;
    uint64_t value;
    assert_true(str_to_u64(STR("0"), &value) && value == 0);
    assert_true(str_to_u64(STR("18446744073709551615"), &value) && value == UINT64_MAX);
    assert_false(str_to_u64(STR("18446744073709551616"), &value));
    assert_false(str_to_u64(STR("99999999999999999999"), &value));
    assert_false(str_to_u64(STR("000000000000000000001"), &value));
    assert_false(str_to_u64(STR(""), &value));
    assert_false(str_to_u64(STR("-1"), &value));
    assert_false(str_to_u64(STR("1 "), &value));
}

static void hex_is_read_as_it_is_written_and_in_no_other_spelling(void **state)
{
    (void)state;
    const uint8_t bytes[] = {0x00, 0x1f, 0xab, 0xff};
    char digits[2 * sizeof bytes];
    uint8_t back[sizeof bytes];
    hex_write(digits, bytes, sizeof bytes);
    assert_true(hex_read(digits, back, sizeof back));
    assert_memory_equal(back, bytes, sizeof bytes);
    assert_false(hex_read("001FABFF", back, sizeof back));
    assert_false(hex_read("0x1fabff", back, sizeof back));

    uint64_t number;
    assert_true(str_to_u64_hex(STR("0123456789abcdef"), &number));
    assert_true(number == 0x0123456789abcdef);
    assert_true(str_to_u64_hex(STR("ffffffffffffffff"), &number) && number == UINT64_MAX);
    assert_false(str_to_u64_hex(STR("0123456789abcde"), &number));
    assert_false(str_to_u64_hex(STR("0123456789abcdef0"), &number));
    assert_false(str_to_u64_hex(STR("0123456789abcdeg"), &number));
    assert_false(str_to_u64_hex((struct str){0}, &number));
}

static void letters_of_either_case_are_one_and_nothing_else(void **state)
{
    (void)state;
    char a[40], b[40];
    for (size_t size = 1; size <= sizeof a; size++) {
        for (size_t at = 0; at < size; at++) {
            memset(a, 'q', size);
            memset(b, 'Q', size);
            for (int x = 0; x < 256; x++) {
                int other = x >= 'A' && x <= 'Z' ? x + 32 : x >= 'a' && x <= 'z' ? x - 32 : x;
                int wrong = x ^ 0x20;
                a[at] = (char)x;
                b[at] = (char)other;
                assert_true(str_equal_ignoring_case(str_of(a, size), str_of(b, size)));
                b[at] = (char)wrong;
                assert_int_equal(str_equal_ignoring_case(str_of(a, size), str_of(b, size)),
                                 wrong == other);
            }
        }
    }
    assert_true(str_equal_ignoring_case(STR(""), (struct str){0}));
    assert_false(str_equal_ignoring_case(STR("a"), STR("ab")));
}

static void hex_is_written_alike_at_every_length(void **state)
{
    (void)state;
    for (unsigned first = 0; first < 256; first++) {
        for (size_t size = 0; size <= 50; size++) {
            uint8_t bytes[50];
            char wanted[101], got[100];
            for (size_t i = 0; i < size; i++) {
                bytes[i] = (uint8_t)(first + i * 7);
                snprintf(wanted + 2 * i, 3, "%02x", bytes[i]);
            }
            memset(got, '?', sizeof got);
            hex_write(got, bytes, size);
            assert_memory_equal(got, wanted, 2 * size);
            assert_true(size == 50 || got[2 * size] == '?');
        }
    }
}

static void globs_are_anchored_and_only_the_star_is_special(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text;
        bool exact, folded;
    } cases[] = {
        {"", "", true, true},
        {"", "a", false, false},
        {"*", "", true, true},
        {"*", "anything", true, true},
        {"a*", "a", true, true},
        {"a*", "ba", false, false},
        {"*_prod", "x_prod", true, true},
        {"*_prod", "x_prod_", false, false},
        {"a*b*c", "aXbXbc", true, true},
        {"a*b*c", "aXbXb", false, false},
        {"Get_*", "get_x", false, true},
        {"g?t", "get", false, false},
        {"[a]", "[a]", true, true},
        {"**", "x", true, true},
        {"*a*a*a*", "aa", false, false},
        {"*ab", "aab", true, true},
        {"a*a", "a", false, false},
        {"db:prod-*", "DB:PROD-1", false, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str pattern = str_from(cases[i].pattern), text = str_from(cases[i].text);
        if (str_glob(pattern, text, false) != cases[i].exact)
            fail_msg("%s %s exactly", cases[i].pattern, cases[i].text);
        if (str_glob(pattern, text, true) != cases[i].folded)
            fail_msg("%s %s folded", cases[i].pattern, cases[i].text);
    }
}

/* The glob against the plain recursive definition, over all short texts of two letters. */
static bool glob_slowly(const char *pattern, const char *text)
{
    if (*pattern == '*')
        return glob_slowly(pattern + 1, text) || (*text != '\0' && glob_slowly(pattern, text + 1));
    if (*pattern == '\0' || *text == '\0') return *pattern == *text;
    return *pattern == *text && glob_slowly(pattern + 1, text + 1);
}

static void globs_agree_with_their_definition(void **state)
{
    (void)state;
    char pattern[6], text[7];
    for (int p = 0; p < 3 * 3 * 3 * 3 * 3; p++) {
        for (int i = 0, rest = p; i < 5; i++, rest /= 3) pattern[i] = "ab*"[rest % 3];
        pattern[5] = '\0';
        for (int size = 0; size <= 6; size++)
            for (int t = 0; t < 1 << size; t++) {
                for (int i = 0; i < size; i++) text[i] = t >> i & 1 ? 'a' : 'b';
                text[size] = '\0';
                if (str_glob(str_from(pattern), str_from(text), false) !=
                    glob_slowly(pattern, text))
                    fail_msg("%s %s", pattern, text);
            }
    }
}

static void ill_formed_utf8_is_found_at_its_first_byte(void **state)
{
    (void)state;
    static const struct {
        struct str text;
        size_t at;
    } bad[] = {
        {{"\x80", 1}, 0},
        {{"abcdefgh\xC0\x80", 10}, 8},
        {{"a\xC1\xBF", 3}, 1},
        {{"\xE0\x9F\xBF", 3}, 0},
        {{"\xED\xA0\x80", 3}, 0},
        {{"\xF0\x8F\xBF\xBF", 4}, 0},
        {{"\xF4\x90\x80\x80", 4}, 0},
        {{"\xF5\x80\x80\x80", 4}, 0},
        {{"\xC3", 1}, 0},
        {{"\xE2\x82", 2}, 0},
        {{"12345678\xF0\x9F\x98", 11}, 8},
        {{"\xC3(", 2}, 0},
        {{"\xE2\x28\xA1", 3}, 0},
        {{"\xF0\x9F\x98(", 4}, 0},
        {{"1234567\xFF", 8}, 7},
    };
    size_t at;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(str_is_utf8(bad[i].text, &at));
        assert_int_equal(at, bad[i].at);
    }
    assert_true(str_is_utf8(STR("\xF4\x8F\xBF\xBF \xEF\xBF\xBF \xED\x9F\xBF \xEE\x80\x80 \xC2\x80 "
                                "\xDF\xBF \xE0\xA0\x80"),
                            &at));
    assert_true(str_is_utf8((struct str){0}, &at));
}

static void every_code_point_is_well_formed_but_surrogates(void **state)
{
    (void)state;
    size_t at;
    for (uint32_t c = 0x80; c <= 0x10FFFF; c++) {
        char bytes[4];
        size_t size = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        for (size_t i = size - 1, rest = c; i > 0; i--, rest >>= 6)
            bytes[i] = (char)(0x80 | (rest & 63));
        bytes[0] = (char)((0xF00u >> size & 0xF0) | c >> (6 * (size - 1)));
        if (size == 2) bytes[0] = (char)(0xC0 | c >> 6);
        bool surrogate = c >= 0xD800 && c <= 0xDFFF;
        if (str_is_utf8(str_of(bytes, size), &at) == surrogate) fail_msg("U+%04X", c);
        assert_int_equal(str_code_points(str_of(bytes, size)), 1);
    }
}

static void a_text_is_cut_before_half_a_character(void **state)
{
    (void)state;
    static const size_t kept[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10};
    struct str text = STR("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
    for (size_t most = 0; most < sizeof kept / sizeof *kept; most++)
        assert_int_equal(str_cut(text, most).size, kept[most]);
    assert_true(str_is_absent(str_cut((struct str){0}, 5)));
}

static void slips_of_the_finger_are_counted(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        unsigned edits;
    } known[] = {{"", "", 0},
                 {"", "abc", 3},
                 {"deny", "deny", 0},
                 {"deny", "dney", 1},
                 {"deny", "dny", 1},
                 {"deny", "denny", 1},
                 {"deny", "dent", 1},
                 {"ca", "abc", 3},
                 {"kitten", "sitting", 3},
                 {"confidence", "confdience", 1}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct str a = str_from(known[i].a), b = str_from(known[i].b);
        assert_int_equal(str_edits(a, b), known[i].edits);
        assert_int_equal(str_edits(b, a), known[i].edits);
    }
    char most[STR_EDITS_MAX + 1] = {0};
    assert_int_equal(str_edits(str_of(most, STR_EDITS_MAX), STR("")), STR_EDITS_MAX);
    assert_int_equal(str_edits(str_of(most, STR_EDITS_MAX), str_of(most, STR_EDITS_MAX)), 0);
    assert_int_equal(str_edits(str_of(most, sizeof most), str_of(most, sizeof most)),
                     STR_EDITS_MAX);
}

static void names_are_made_of_few_characters(void **state)
{
    (void)state;
    assert_true(str_is_name(STR("a.B_9-")));
    assert_false(str_is_name(STR("")));
    assert_false(str_is_name(STR("a b")));
    assert_false(str_is_name(STR("a:b")));
    assert_false(str_is_name(STR("\xC3\xA9")));
}

/* ---- time ---- */

static void known_times_are_written_and_read(void **state)
{
    (void)state;
    static const struct {
        uint64_t ms;
        const char *text;
    } known[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {1795167000123, "2026-11-20T09:30:00.123Z"},
        {951782399999, "2000-02-28T23:59:59.999Z"},
        {951782400000, "2000-02-29T00:00:00.000Z"},
        {4107542400000, "2100-03-01T00:00:00.000Z"},
        {253402300799999, "9999-12-31T23:59:59.999Z"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char text[TIME_TEXT];
        uint64_t ms = 1;
        time_write(known[i].ms, text);
        assert_memory_equal(text, known[i].text, TIME_TEXT);
        assert_true(time_read(str_from(known[i].text), &ms));
        assert_true(ms == known[i].ms);
    }
}

/* No year has five digits. */
static void a_time_after_the_last_is_written_as_the_last(void **state)
{
    (void)state;
    static const uint64_t after[] = {253402300800000, 253433836800000, UINT64_MAX};
    for (size_t i = 0; i < sizeof after / sizeof *after; i++) {
        char text[TIME_TEXT];
        time_write(after[i], text);
        assert_memory_equal(text, "9999-12-31T23:59:59.999Z", TIME_TEXT);
    }
}

static void every_day_round_trips(void **state)
{
    (void)state;
    for (uint64_t day = 0; day < 47483; day++) { /* to 2100 */
        char text[TIME_TEXT];
        uint64_t ms = day * 86400000 + day % 86400000, back;
        time_write(ms, text);
        assert_true(time_read(str_of(text, sizeof text), &back));
        assert_true(back == ms);
    }
}

static void offsets_fractions_and_small_letters_are_taken(void **state)
{
    (void)state;
    static const char *const same[] = {
        "2026-11-20T10:30:00.123+01:00", "2026-11-20T09:30:00.123999999Z",
        "2026-11-20t09:30:00.123z",      "2026-11-19T20:00:00.123-13:30",
        "2026-11-20T09:30:00.123+00:00", "2026-11-20T09:30:00.1230-00:00",
    };
    uint64_t ms;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        if (!time_read(str_from(same[i]), &ms)) fail_msg("%s", same[i]);
        assert_true(ms == 1795167000123);
    }
    assert_true(time_read(STR("2026-11-20T09:30:00Z"), &ms) && ms == 1795167000000);
    assert_true(time_read(STR("2026-11-20T09:30:00.1Z"), &ms) && ms == 1795167000100);
    assert_true(time_read(STR("2016-12-31T23:59:60Z"), &ms) && ms == 1483228799999);
}

static void malformed_times_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "2026-11-20",
        "2026-11-20T09:30:00",
        "2026-11-20 09:30:00Z",
        "2026-13-20T09:30:00Z",
        "2026-00-20T09:30:00Z",
        "2026-02-29T00:00:00Z",
        "2100-02-29T00:00:00Z",
        "2026-11-31T00:00:00Z",
        "2026-11-20T24:00:00Z",
        "2026-11-20T09:60:00Z",
        "2026-11-20T09:30:61Z",
        "2026-11-20T09:30:00.Z",
        "2026-11-20T09:30:00.1234567890Z",
        "2026-11-20T09:30:00+1:00",
        "2026-11-20T09:30:00+24:00",
        "2026-11-20T09:30:00+01:60",
        "2026-11-20T09:30:00+0100",
        "2026-11-20T09:30:00ZZ",
        "1969-12-31T23:59:59Z",
        "1970-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01", /* in UTC, both are in the year 10000, which has no spelling */
        "9999-12-31T00:01:00-23:59",
        " 2026-11-20T09:30:00Z",
        "2026-11-20T09:30:0aZ",
        "2026-11-20T09:30:00.12aZ",
        "+026-11-20T09:30:00Z",
    };
    uint64_t ms;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (time_read(str_from(bad[i]), &ms)) fail_msg("%s", bad[i]);
}

/* ---- id ---- */

static void an_id_is_written_and_read_back(void **state)
{
    (void)state;
    struct chance chance = {0};
    for (int i = 0; i < 1000; i++) {
        struct id id = id_make(1795167000123 + (uint64_t)i, &chance), back;
        char text[ID_TEXT];
        id_write("req_", id, text);
        assert_true(id_read("req_", str_of(text, sizeof text), &back));
        assert_memory_equal(id.bytes, back.bytes, ID_BYTES);
        assert_false(id_read("rev_", str_of(text, sizeof text), &back));
        assert_true(id_time_ms(back) == 1795167000123 + (uint64_t)i);
        assert_true(id_has_prefix(str_of(text, sizeof text)));
    }
}

static void an_id_has_five_bits_in_each_digit(void **state)
{
    (void)state;
    static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    for (unsigned bit = 0; bit < 128; bit++) { /* from the right */
        for (unsigned above = 1; above < 32; above++) {
            struct id id = {0};
            char text[ID_DIGITS], wanted[ID_DIGITS + 1];
            memset(wanted, '0', ID_DIGITS);
            for (unsigned i = 0; i < 5; i++) {
                unsigned b = bit + i;
                if ((above >> i & 1) == 0 || b >= 128) continue;
                id.bytes[15 - b / 8] |= (uint8_t)(1 << b % 8);
                char *digit = &wanted[25 - b / 5];
                *digit = digits[(size_t)(strchr(digits, *digit) - digits) | (size_t)1 << b % 5];
            }
            id_write_digits(id, text);
            assert_memory_equal(text, wanted, ID_DIGITS);
        }
    }
}

static void ids_sort_by_time(void **state)
{
    (void)state;
    struct chance chance = {0};
    char earlier[ID_DIGITS], later[ID_DIGITS];
    id_write_digits(id_make(1795167000123, &chance), earlier);
    id_write_digits(id_make(1795167000124, &chance), later);
    assert_true(memcmp(earlier, later, ID_DIGITS) < 0);
}

static void only_canonical_digits_are_an_id(void **state)
{
    (void)state;
    struct id id;
    assert_true(id_read("key_", STR("key_7ZZZZZZZZZZZZZZZZZZZZZZZZZ"), &id));
    assert_false(id_read("key_", STR("key_8ZZZZZZZZZZZZZZZZZZZZZZZZZ"), &id));
    assert_false(id_read("key_", STR("key_01JD000000000000000000000I"), &id));
    assert_false(id_read("key_", STR("key_01jd0000000000000000000000"), &id));
    assert_false(id_read("key_", STR("key_01JD000000000000000000000"), &id));
    assert_false(id_read("key_", STR("key_01JD000000000000000000000\0"), &id));
    assert_false(id_read("key_", (struct str){0}, &id));
    assert_false(id_has_prefix(STR("4bf92f")));
}

/* ---- fault and err ---- */

static void an_overlong_fault_is_cut_between_characters(void **state)
{
    (void)state;
    char text[1000], field[400];
    for (size_t shift = 0; shift < 4; shift++) {
        memset(text, 'x', sizeof text);
        memset(field, 'x', sizeof field);
        for (size_t i = shift; i + 4 < sizeof text; i += 4) memcpy(text + i, "\xF0\x9F\x98\x80", 4);
        for (size_t i = shift; i + 3 < sizeof field; i += 3) memcpy(field + i, "\xE2\x82\xAC", 3);
        text[sizeof text - 1] = field[sizeof field - 1] = '\0';
        struct fault f;
        size_t at;
        assert_int_equal(fault_set(&f, ERR_BAD_VALUE, field, "%s", text), ERR_BAD_VALUE);
        assert_true(str_is_utf8(str_from(f.text), &at) && str_is_utf8(str_from(f.field), &at));
        assert_true(strlen(f.text) > sizeof f.text - 6 && strlen(f.field) > sizeof f.field - 6);
    }
    assert_int_equal(fault_set(NULL, ERR_IO, "", "x"), ERR_IO);
}

static void a_fault_of_a_long_path_says_why(void **state)
{
    (void)state;
    char path[4096];
    memset(path, 'x', sizeof path);
    path[sizeof path - 1] = '\0';
    struct fault f;
    (void)fault_set(&f, ERR_IO, "", "data: cannot make /%s: %s", path, "No space left on device");
    assert_true(str_starts(str_from(f.text), STR("data: cannot make /xxx")));
    assert_non_null(strstr(f.text, "xxx…xxx"));
    assert_non_null(strstr(f.text, "xxx: No space left on device"));
}

static void a_fault_that_says_what_to_do_before_a_long_reason_still_says_it(void **state)
{
    (void)state;
    char reason[1000], hint[200];
    memset(reason, 'x', sizeof reason);
    memset(hint, 'y', sizeof hint);
    reason[sizeof reason - 1] = hint[sizeof hint - 1] = '\0';
    struct fault f;
    (void)fault_set(&f, ERR_IO, "", "Kafka: %s (%s)", hint, reason);
    assert_non_null(strstr(f.text, hint));
}

static void every_error_has_a_status_a_code_and_a_sentence(void **state)
{
    (void)state;
    assert_int_equal(ERR_OK, 0);
    for (unsigned i = 0; i < ERR_COUNT; i++) {
        enum err err = (enum err)i;
        assert_true(err_status(err) >= 200 && err_status(err) < 600);
        assert_true(strlen(err_sentence(err)) > 0);
        for (const char *c = err_code(err); *c != '\0'; c++) assert_true(islower(*c) || *c == '_');
        for (unsigned k = 0; k < i; k++)
            assert_string_not_equal(err_code(err), err_code((enum err)k));
    }
    assert_int_equal(err_from_errno(ENOSPC), ERR_NO_SPACE);
    assert_int_equal(err_from_errno(EDQUOT), ERR_NO_SPACE);
    assert_int_equal(err_from_errno(ENOENT), ERR_NOT_FOUND);
    assert_int_equal(err_from_errno(EEXIST), ERR_EXISTS);
    assert_int_equal(err_from_errno(EMFILE), ERR_NO_DESCRIPTORS);
    assert_int_equal(err_from_errno(ENFILE), ERR_NO_DESCRIPTORS);
    assert_int_equal(err_from_errno(EFBIG), ERR_FILE_TOO_LARGE);
    assert_int_equal(err_from_errno(EIO), ERR_IO);
    struct fault f;
    assert_int_equal(fault_plain(&f, ERR_NOT_FOUND), ERR_NOT_FOUND);
    assert_string_equal(f.text, err_sentence(ERR_NOT_FOUND));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absent_and_empty_differ_but_compare_equal),
        cmocka_unit_test(strings_compare_by_bytes_then_length),
        cmocka_unit_test(a_split_gives_every_part_even_empty_ones),
        cmocka_unit_test(decimal_numbers_are_read_without_overflow),
        cmocka_unit_test(hex_is_read_as_it_is_written_and_in_no_other_spelling),
        cmocka_unit_test(hex_is_written_alike_at_every_length),
        cmocka_unit_test(globs_are_anchored_and_only_the_star_is_special),
        cmocka_unit_test(letters_of_either_case_are_one_and_nothing_else),
        cmocka_unit_test(an_id_has_five_bits_in_each_digit),
        cmocka_unit_test(globs_agree_with_their_definition),
        cmocka_unit_test(ill_formed_utf8_is_found_at_its_first_byte),
        cmocka_unit_test(a_text_is_cut_before_half_a_character),
        cmocka_unit_test(slips_of_the_finger_are_counted),
        cmocka_unit_test(every_code_point_is_well_formed_but_surrogates),
        cmocka_unit_test(names_are_made_of_few_characters),
        cmocka_unit_test(known_times_are_written_and_read),
        cmocka_unit_test(a_time_after_the_last_is_written_as_the_last),
        cmocka_unit_test(every_day_round_trips),
        cmocka_unit_test(offsets_fractions_and_small_letters_are_taken),
        cmocka_unit_test(malformed_times_are_refused),
        cmocka_unit_test(an_id_is_written_and_read_back),
        cmocka_unit_test(ids_sort_by_time),
        cmocka_unit_test(only_canonical_digits_are_an_id),
        cmocka_unit_test(an_overlong_fault_is_cut_between_characters),
        cmocka_unit_test(a_fault_of_a_long_path_says_why),
        cmocka_unit_test(a_fault_that_says_what_to_do_before_a_long_reason_still_says_it),
        cmocka_unit_test(every_error_has_a_status_a_code_and_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
