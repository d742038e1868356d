/* test_write.c - canonical output (RFC 8785) and numbers in both directions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "json/members.h"

static struct arena arena;

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, 1 << 16, 64 << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

static struct str canonical_of(struct str text)
{
    struct json *root;
    struct fault f;
    if (json_read(text, NULL, &arena, &root, &f) != ERR_OK)
        fail_msg("%.*s: %s", STR_FORMAT(text), f.text);
    size_t room = text.size * 8 + 64;
    struct buf out = buf_over(arena_bytes(&arena, room), room);
    json_put_canonical(&out, root);
    assert_false(out.overflow);
    return buf_view(&out);
}

static void is_written_as(const char *text, const char *wanted)
{
    struct str got = canonical_of(str_from(text));
    if (!str_equal(got, str_from(wanted)))
        fail_msg("%s: %.*s where %s is right", text, STR_FORMAT(got), wanted);
    assert_true(str_equal(canonical_of(got), got));
}

static void members_are_sorted_by_utf16_code_units(void **state)
{
    (void)state;
    is_written_as("{\"b\":1,\"a\":2,\"\":3,\"aa\":4,\"B\":5}",
                  "{\"\":3,\"B\":5,\"a\":2,\"aa\":4,\"b\":1}");
    /* U+FB33 (EF AC B3) comes after U+1F600 (F0 9F 98 80 = D83D DE00). */
    is_written_as("{\"\xEF\xAC\xB3\":1,\"\xF0\x9F\x98\x80\":2,\"\xE2\x82\xAC\":3,\"\xED\x9F\xBF\":"
                  "4,\"\xEE\x80\x80\":5}",
                  "{\"\xE2\x82\xAC\":3,\"\xED\x9F\xBF\":4,\"\xF0\x9F\x98\x80\":2,\"\xEE\x80\x80\":"
                  "5,\"\xEF\xAC\xB3\":1}");
    is_written_as("{\"12345678\xEF\xAC\xB3\":1,\"12345678\xF0\x9F\x98\x80\":2,\"12345678\":3}",
                  "{\"12345678\":3,\"12345678\xF0\x9F\x98\x80\":2,\"12345678\xEF\xAC\xB3\":1}");
}

static void a_nul_in_a_key_sorts_after_the_key_without_it(void **state)
{
    (void)state;
    is_written_as("{\"args\":{\"a\\u0000\":1,\"a\":2,\"a\\u0000b\":3,\"\\u0000\":4,\"\":5}}",
                  "{\"args\":{\"\":5,\"\\u0000\":4,\"a\":2,\"a\\u0000\":1,\"a\\u0000b\":3}}");
}

static void strings_carry_the_fewest_escapes(void **state)
{
    (void)state;
    is_written_as(
        "\"\\u0008\\u0009\\u000A\\u000C\\u000D\\u0022\\u005C\\u002F\\u001F\\u000B\\u007F\"",
        "\"\\b\\t\\n\\f\\r\\\"\\\\/\\u001f\\u000b\x7F\"");
    is_written_as(
        "\"\\u00E9\\uD83D\\uDE00 long enough for the fast path, then \\\" and more of it\"",
        "\"\xC3\xA9\xF0\x9F\x98\x80 long enough for the fast path, then \\\" and more of it\"");
    is_written_as(" [ true , false , null , { } , [ ] , \"\" ] ", "[true,false,null,{},[],\"\"]");
}

static void many_members_are_sorted_too(void **state)
{
    (void)state;
    enum { COUNT = 500 };
    struct buf text, wanted;
    buf_init(&text, 0, 1 << 20);
    buf_init(&wanted, 0, 1 << 20);
    for (size_t i = 0; i < COUNT; i++) {
        buf_printf(&text, "%c\"key-%04zu\":%zu", i == 0 ? '{' : ',', i * 7 % COUNT, i * 7 % COUNT);
        buf_printf(&wanted, "%c\"key-%04zu\":%zu", i == 0 ? '{' : ',', i, i);
    }
    buf_put_byte(&text, '}');
    buf_put_byte(&wanted, '}');
    assert_true(str_equal(canonical_of(buf_view(&text)), buf_view(&wanted)));
    buf_fini(&text);
    buf_fini(&wanted);
}

static void a_tree_built_by_hand_is_written(void **state)
{
    (void)state;
    struct json b = {.type = JSON_STRING, .key = STR("b"), .string = STR("q\"")};
    struct json a = {.type = JSON_NUMBER, .key = STR("a\n"), .number = 1.5, .next = &b};
    struct json root = {.type = JSON_OBJECT, .child = &a, .count = 2};
    char bytes[64];
    struct buf out = buf_over(bytes, sizeof bytes);
    b.next = NULL;
    json_put_canonical(&out, &root);
    assert_true(str_equal(buf_view(&out), STR("{\"a\\n\":1.5,\"b\":\"q\\\"\"}")));
}

static void a_masked_value_is_written_in_place_of_what_it_was(void **state)
{
    (void)state;
    struct json *root;
    assert_int_equal(json_read(STR("{\"card\":{\"n\":[1,2]},\"x\":\"plain\",\"z\":9}"), NULL,
                               &arena, &root, NULL),
                     ERR_OK);
    json_become_string(json_get(root, STR("card")), STR("[masked]"));
    json_become_string(json_get(root, STR("x")), STR("a\"b"));
    json_become_string(json_get(root, STR("z")), STR(""));
    char bytes[128];
    struct buf out = buf_over(bytes, sizeof bytes);
    json_put_canonical(&out, root);
    assert_true(
        str_equal(buf_view(&out), STR("{\"card\":\"[masked]\",\"x\":\"a\\\"b\",\"z\":\"\"}")));
}

static void no_room_shows_in_the_buf_and_writes_nothing_beyond(void **state)
{
    (void)state;
    struct json *root;
    struct str text = STR("{\"a\":[1.5,\"x\\n\",12345678901234567],\"b\":0.041,\"c\":1e300}");
    assert_int_equal(json_read(text, NULL, &arena, &root, NULL), ERR_OK);
    struct str whole = canonical_of(text);
    for (size_t room = 0; room <= whole.size; room++) {
        char *bytes = malloc(room > 0 ? room : 1);
        assert_non_null(bytes);
        struct buf out = buf_over(bytes, room);
        json_put_canonical(&out, root);
        assert_int_equal(out.overflow, room < whole.size);
        free(bytes);
    }
}

/* What JCS says, one byte at a time. */
static struct str escaped(struct str text, char *to)
{
    struct buf out = buf_over(to, 4096);
    buf_put_byte(&out, '"');
    for (size_t i = 0; i < text.size; i++) {
        char c = text.bytes[i];
        if (c == '"' || c == '\\') buf_put_byte(&out, '\\');
        if (c == '\n')
            buf_put_literal(&out, "\\n");
        else if ((unsigned char)c < 0x20)
            buf_printf(&out, "\\u%04x", c);
        else
            buf_put_byte(&out, c);
    }
    buf_put_byte(&out, '"');
    return buf_view(&out);
}

static void put_by(int way, struct buf *out, struct str text)
{
    struct members m;
    switch (way) {
    case 0: json_put_string_member(out, STR(",\"n\":"), text); return;
    case 1:
        buf_put_literal(out, ",\"n\":");
        json_put_string(out, text);
        return;
    default:
        m = members_begin(out);
        members_put_text(&m, MEMBER_QUOTED("n"), text);
        members_end(&m);
    }
}

static void is_put_into_exact_room(int way, struct str text)
{
    char wanted_bytes[4096], name[] = ",\"n\":";
    struct str wanted = escaped(text, wanted_bytes);
    size_t room = sizeof name - 1 + wanted.size;
    char *bytes = malloc(room);
    assert_non_null(bytes);
    struct buf out = buf_over(bytes, room);
    put_by(way, &out, text);
    assert_false(out.overflow);
    assert_int_equal(out.size, room);
    assert_memory_equal(bytes, name, sizeof name - 1);
    assert_memory_equal(bytes + sizeof name - 1, wanted.bytes, wanted.size);
    out = buf_over(bytes, room - 1);
    put_by(way, &out, text);
    assert_true(out.overflow);
    free(bytes);

    struct buf growing;
    buf_init(&growing, 0, 4096);
    put_by(way, &growing, text);
    assert_int_equal(growing.size, room);
    assert_false(growing.overflow);
    assert_memory_equal(growing.bytes + sizeof name - 1, wanted.bytes, wanted.size);
    buf_fini(&growing);
}

static void a_byte_is_escaped_wherever_it_stands(void **state)
{
    (void)state;
    static const char special[] = {'"', '\\', '\n', 0x00, 0x1F, ' ', 0x7F, (char)0x80, (char)0xFF};
    for (int way = 0; way < 3; way++) {
        for (size_t size = 0; size <= 67; size++) {
            char *text = malloc(size > 0 ? size : 1); /* exactly, for the sanitizer's sake */
            assert_non_null(text);
            memset(text, 'x', size > 0 ? size : 1);
            is_put_into_exact_room(way, str_of(text, size));
            for (size_t s = 0; s < sizeof special; s++) {
                for (size_t at = 0; at<size; at += size> 20 ? 3 : 1) {
                    text[at] = special[s];
                    is_put_into_exact_room(way, str_of(text, size));
                    text[at] = 'x';
                }
            }
            free(text);
        }
    }
}

static void put_many(struct buf *out)
{
    struct members m = members_begin(out);
    members_put_plain(&m, MEMBER_QUOTED("plain"), STR("0123456789012345678901234567890123456789"));
    members_put_text(&m, MEMBER_QUOTED("text"), STR("a\"b"));
    members_put_json(&m, MEMBER_NAME("json"), STR("[1,2]"));
    members_put_number(&m, MEMBER_NAME("number"), 0.125);
    members_put_u64(&m, MEMBER_NAME("count"), 1234567890123);
    members_put_time(&m, MEMBER_QUOTED("time"), 1795167000123);
    members_put_plain(&m, MEMBER_QUOTED("empty"), STR(""));
    members_end(&m);
}

static void members_without_room_are_left_out(void **state)
{
    (void)state;
    struct str wanted =
        STR(",\"plain\":\"0123456789012345678901234567890123456789\",\"text\":\"a\\\"b\",\"json\":"
            "[1,2],\"number\":0.125,\"count\":1234567890123,\"time\":\"2026-11-20T09:30:00.123Z\","
            "\"empty\":\"\"");
    for (size_t room = 0; room <= wanted.size; room++) {
        char *bytes = malloc(room > 0 ? room : 1);
        assert_non_null(bytes);
        struct buf out = buf_over(bytes, room);
        put_many(&out);
        assert_int_equal(out.overflow, room < wanted.size);
        assert_memory_equal(bytes, wanted.bytes, out.size);
        /* Nothing follows what was left out. */
        size_t size = out.size;
        put_many(&out);
        assert_int_equal(out.overflow, true);
        assert_int_equal(out.size, room < wanted.size ? size : wanted.size);
        free(bytes);
    }
    char bytes[256];
    struct buf full = buf_over(bytes, sizeof bytes);
    full.overflow = true; /* of something larger before */
    put_many(&full);
    assert_true(full.overflow && full.size == 0);
    struct buf growing;
    buf_init(&growing, 0, 4096);
    put_many(&growing);
    assert_true(str_equal(buf_view(&growing), wanted));
    put_many(&growing);
    assert_int_equal(growing.size, 2 * wanted.size);
    buf_fini(&growing);
    growing = (struct buf){0}; /* no bytes and none to be had */
    put_many(&growing);
    assert_true(growing.overflow && growing.size == 0);
}

/* ---- numbers ---- */

static void number_is_written_as(double number, const char *wanted)
{
    char bytes[64];
    struct buf out = buf_over(bytes, sizeof bytes);
    json_put_number(&out, number);
    if (!str_equal(buf_view(&out), str_from(wanted)))
        fail_msg("%.*s where %s is right", STR_FORMAT(buf_view(&out)), wanted);
}

static void numbers_are_laid_out_as_ecmascript_does(void **state)
{
    (void)state;
    number_is_written_as(0, "0");
    number_is_written_as(-0.0, "0");
    number_is_written_as(5e-324, "5e-324");
    number_is_written_as(-DBL_MAX, "-1.7976931348623157e+308");
    number_is_written_as(9007199254740992, "9007199254740992");
    number_is_written_as(295147905179352830000.0, "295147905179352830000");
    number_is_written_as(1e21, "1e+21");
    number_is_written_as(1.5e21, "1.5e+21");
    number_is_written_as(123456789012345680000.0, "123456789012345680000");
    number_is_written_as(1e15, "1000000000000000");
    number_is_written_as(999999999999999, "999999999999999");
    number_is_written_as(1e-6, "0.000001");
    number_is_written_as(1e-7, "1e-7");
    number_is_written_as(1.25e-7, "1.25e-7");
    number_is_written_as(0.000012345, "0.000012345");
    number_is_written_as(0.041, "0.041");
    number_is_written_as(0.1, "0.1");
    number_is_written_as(0.1 + 0.2, "0.30000000000000004");
    number_is_written_as(-1.5, "-1.5");
    number_is_written_as(100.5, "100.5");
    number_is_written_as(333333333.3333333, "333333333.3333333");
    number_is_written_as(999999999.999999, "999999999.999999");
    number_is_written_as(123456.789012, "123456.789012");
}

/* The fast paths against the library, over decimals of every length near their edges. */
static void a_number_is_written_the_same_again_and_after_others(void **state)
{
    (void)state;
    number_is_written_as(-0.0, "0");
    number_is_written_as(0.0, "0");
    for (int round = 0; round < 3; round++) {
        for (int i = 1; i < 200; i++) {
            char wanted[32];
            snprintf(wanted, sizeof wanted, "%d.5", i);
            number_is_written_as(i + 0.5, wanted);
            number_is_written_as(i + 0.5, wanted);
            wanted[0] = '-';
            snprintf(wanted + 1, sizeof wanted - 1, "%d.5", i);
            number_is_written_as(-i - 0.5, wanted);
        }
    }
}

static void every_short_decimal_is_written_as_it_was_read(void **state)
{
    (void)state;
    char text[64], bytes[64];
    uint64_t chance = 88172645463325252u;
    for (int i = 0; i < 200000; i++) {
        chance ^= chance << 13, chance ^= chance >> 7, chance ^= chance << 17;
        int digits = 1 + (int)(chance >> 8 & 15) % 15;
        uint64_t mantissa = chance >> 12;
        uint64_t bound = 1;
        for (int k = 0; k < digits; k++) bound *= 10;
        mantissa %= bound;
        double number = (double)mantissa;
        for (int k = (int)(chance & 7); k > 0; k--) number /= 10; /* not exact on purpose */
        snprintf(text, sizeof text, "%.17g", number);
        double back;
        assert_true(json_number_read(str_from(text), &back));
        assert_true(back == number);
        struct buf out = buf_over(bytes, sizeof bytes);
        json_put_number(&out, number);
        assert_true(json_number_read(buf_view(&out), &back));
        assert_true(back == number);
        bytes[out.size] = '\0';
        /* No printf precision that reads back is shorter in digits. */
        for (int precision = 1; precision < 17; precision++) {
            snprintf(text, sizeof text, "%.*e", precision - 1, number);
            if (strtod(text, NULL) != number) continue;
            size_t got = 0, leading = 0, trailing = 0;
            for (size_t k = 0; k < out.size && bytes[k] != 'e'; k++) {
                if (bytes[k] < '0' || bytes[k] > '9') continue;
                if (bytes[k] == '0' && got == 0) {
                    leading++;
                    continue;
                }
                got++;
                trailing = bytes[k] == '0' ? trailing + 1 : 0;
            }
            if (number != 0 && got - trailing > (size_t)precision)
                fail_msg("%s is not shortest (%d)", bytes, precision);
            break;
        }
    }
}

static void large_integers_keep_their_digits(void **state)
{
    (void)state;
    is_written_as("9007199254740993", "9007199254740993");
    is_written_as("-9007199254740993", "-9007199254740993");
    is_written_as("9223372036854775807", "9223372036854775807");
    is_written_as("-9223372036854775807", "-9223372036854775807");
    is_written_as("18446744073709551615", "18446744073709551615");
    is_written_as("9223372036854775809", "9223372036854775809");
    /* So do those that a double holds: its shortest digits may be another integer's. */
    is_written_as("9007199254740992", "9007199254740992");
    is_written_as("1152921504606846976", "1152921504606846976");
    is_written_as("1152921504606847000", "1152921504606847000");
    is_written_as("9223372036854775808", "9223372036854775808");
    is_written_as("-9223372036854775808", "-9223372036854775808");
    /* Beyond 64 bits, and with a fraction or an exponent, a double is written as ECMAScript has it. */
    is_written_as("9223372036854775808.0", "9223372036854776000");
    is_written_as("1152921504606846976e0", "1152921504606847000");
    is_written_as("18446744073709551616", "18446744073709552000");
    is_written_as("100000000000000000000", "100000000000000000000");
    is_written_as("1000000000000000000000", "1e+21");
    is_written_as("1.8446744073709551615e19", "18446744073709552000");
}

static void what_is_written_of_a_large_double_is_read_back(void **state)
{
    (void)state;
    is_written_as("1.2345678901234568e20", "123456789012345680000");
    is_written_as("-123456789012345680000", "-123456789012345680000");
    is_written_as("18446744073709552000", "18446744073709552000");
    is_written_as("-9223372036854776000", "-9223372036854776000");
}

static enum err number_fault_of(const char *text)
{
    struct json *root;
    return json_read(str_from(text), NULL, &arena, &root, NULL);
}

static void numbers_that_nothing_holds_are_refused(void **state)
{
    (void)state;
    assert_int_equal(number_fault_of("18446744073709551617"), ERR_NUMBER_PRECISION);
    assert_int_equal(number_fault_of("-9223372036854775809"), ERR_NUMBER_PRECISION);
    assert_int_equal(number_fault_of("123456789012345680001"), ERR_NUMBER_PRECISION);
    assert_int_equal(number_fault_of("100000000000000000001"), ERR_NUMBER_PRECISION);
    assert_int_equal(number_fault_of("1e309"), ERR_NUMBER_PRECISION);
    assert_int_equal(number_fault_of("-1e999999999999999999999"), ERR_NUMBER_PRECISION);
    assert_int_equal(number_fault_of("1.7976931348623159e308"), ERR_NUMBER_PRECISION);
    assert_int_equal(number_fault_of("1.7976931348623157e308"), ERR_OK);
}

static void numbers_too_small_for_a_double_are_zero(void **state)
{
    (void)state;
    is_written_as("1e-400", "0");
    is_written_as("-1e-999999999999999999999", "0");
    is_written_as("0e999999999999", "0");
    is_written_as("0.0000000000000000000000000000000000000000000000000000000000000001e-300", "0");
    is_written_as("5e-324", "5e-324");
}

static void only_json_literals_are_numbers(void **state)
{
    (void)state;
    static const char *const bad[] = {"",    "-",   "+1",  "01", "1.",  ".5",  "1e",   "1e+",
                                      "0x1", "inf", "nan", "1 ", "1_0", "--1", "1.e5", "1e999"};
    double number = 7;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (json_number_read(str_from(bad[i]), &number)) fail_msg("%s was taken", bad[i]);
    assert_true(number == 7);
    assert_true(json_number_read(STR("123456789012345678901234567890"), &number));
    assert_true(number == 123456789012345678901234567890.0);
}

static void halfway_decimals_round_to_even(void **state)
{
    (void)state;
    double number;
    assert_true(json_number_read(STR("9007199254740993.0"), &number));
    assert_true(number == 9007199254740992.0);
    assert_true(
        json_number_read(STR("9007199254740993.00000000000000000000000000000000001"), &number));
    assert_true(number == 9007199254740994.0);
    assert_true(json_number_read(STR("2.2250738585072011e-308"), &number));
    assert_true(number == 2.2250738585072011e-308);
}

/* The reader may call a literal canonical, and then it is copied; that must change nothing. */
static void a_literal_that_is_copied_is_what_would_be_written(void **state)
{
    (void)state;
    static const char *const literals[] = {"0",
                                           "-0",
                                           "0.0",
                                           "-0.0",
                                           "7",
                                           "-7",
                                           "100",
                                           "0.5",
                                           "0.50",
                                           "-0.5",
                                           "1e2",
                                           "1E-2",
                                           "5e-324",
                                           "0.000001",
                                           "0.0000001",
                                           "0.0000012",
                                           "0.00000099",
                                           "123456789012345",
                                           "1234567890123456",
                                           "12345678901234.5",
                                           "123456789012.3456",
                                           "0.30000000000000004",
                                           "9007199254740993",
                                           "0.100000000000001",
                                           "18446744073709551615",
                                           "1.10",
                                           "99.99",
                                           "0.000123456789012345",
                                           "0.0000000000000000000001"};
    for (size_t i = 0; i < sizeof literals / sizeof *literals; i++) {
        struct json *v;
        struct fault f;
        char copied[64], written[64];
        struct buf a = buf_over(copied, sizeof copied), b = buf_over(written, sizeof written);
        assert_int_equal(json_read(str_from(literals[i]), NULL, &arena, &v, &f), ERR_OK);
        json_put_canonical(&a, v);
        v->plain_number = false;
        json_put_canonical(&b, v);
        if (!str_equal(buf_view(&a), buf_view(&b)))
            fail_msg("%s is copied as %.*s", literals[i], STR_FORMAT(buf_view(&a)));
    }
}

static void the_parts_of_an_object_are_told(void **state)
{
    (void)state;
    struct json *root;
    struct fault f;
    assert_int_equal(
        json_read(STR("{\"b\":{\"y\":1,\"x\":[2]},\"a\":\"s\"}"), NULL, &arena, &root, &f), ERR_OK);
    struct json *b_value = json_get(root, STR("b"));
    struct json_part parts[] = {{.value = b_value},
                                {.value = NULL},
                                {.value = b_value->child},
                                {.value = json_get(root, STR("a"))}};
    char text[64];
    struct buf out = buf_over(text, sizeof text);
    json_put_canonical_parts(&out, root, parts, 4);
    assert_true(str_equal(buf_view(&out), STR("{\"a\":\"s\",\"b\":{\"x\":[2],\"y\":1}}")));
    assert_true(str_equal(parts[0].text, STR("{\"x\":[2],\"y\":1}")));
    assert_true(str_is_absent(parts[1].text) && str_is_absent(parts[2].text));
    assert_true(str_equal(parts[3].text, STR("\"s\"")));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_literal_that_is_copied_is_what_would_be_written),
        TEST(the_parts_of_an_object_are_told),
        TEST(members_are_sorted_by_utf16_code_units),
        TEST(a_nul_in_a_key_sorts_after_the_key_without_it),
        TEST(strings_carry_the_fewest_escapes),
        TEST(many_members_are_sorted_too),
        TEST(a_tree_built_by_hand_is_written),
        TEST(a_masked_value_is_written_in_place_of_what_it_was),
        TEST(no_room_shows_in_the_buf_and_writes_nothing_beyond),
        TEST(a_byte_is_escaped_wherever_it_stands),
        TEST(members_without_room_are_left_out),
        TEST(a_number_is_written_the_same_again_and_after_others),
        TEST(numbers_are_laid_out_as_ecmascript_does),
        TEST(every_short_decimal_is_written_as_it_was_read),
        TEST(large_integers_keep_their_digits),
        TEST(what_is_written_of_a_large_double_is_read_back),
        TEST(numbers_that_nothing_holds_are_refused),
        TEST(numbers_too_small_for_a_double_are_zero),
        TEST(only_json_literals_are_numbers),
        TEST(halfway_decimals_round_to_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
