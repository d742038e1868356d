/* test_read.c - the strict reader: what it gives, what it refuses and how it tells. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "json/json.h"

static struct arena arena;
static struct fault fault;
static char *own_text; /* exactly as long as the text, so that a sanitizer sees one byte too far */

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, 1 << 16, 16 << 20);
    fault = (struct fault){0};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&arena);
    free(own_text);
    own_text = NULL;
    return 0;
}

static enum err read_with(struct str text, const struct json_options *options, struct json **root)
{
    free(own_text);
    own_text = malloc(text.size > 0 ? text.size : 1);
    assert_non_null(own_text);
    if (text.size > 0) memcpy(own_text, text.bytes, text.size);
    return json_read(str_of(own_text, text.size), options, &arena, root, &fault);
}

static struct json *read_ok(const char *text)
{
    struct json *root = NULL;
    if (read_with(str_from(text), NULL, &root) != ERR_OK) fail_msg("%s: %s", text, fault.text);
    return root;
}

static void refused_with(const char *text, enum err err, const char *field, const char *sentence)
{
    struct json *root = NULL;
    enum err got = read_with(str_from(text), NULL, &root);
    assert_null(root);
    if (got != err)
        fail_msg("%s: %s where %s is right (%s)", text, err_code(got), err_code(err), fault.text);
    assert_int_equal(fault.err, err);
    assert_string_equal(fault.field, field);
    assert_string_equal(fault.text, sentence);
}

#define assert_str_equal(s, text)                                                                  \
    do {                                                                                           \
        assert_int_equal((s).size, strlen(text));                                                  \
        assert_memory_equal((s).bytes, (text), (s).size);                                          \
    } while (0)

/* ---- what it gives ---- */

static void a_tree_keeps_source_order_types_and_raw_bytes(void **state)
{
    (void)state;
    struct json *root = read_ok(
        " {\"b\": [1, -2.5, \"x\"],\n\t\"a\": {\"t\":true,\"f\":false,\"n\":null}, \"\": {}} ");
    assert_int_equal(root->type, JSON_OBJECT);
    assert_int_equal(root->count, 3);
    struct json *b = root->child;
    assert_str_equal(b->key, "b");
    assert_int_equal(b->type, JSON_ARRAY);
    assert_int_equal(b->count, 3);
    assert_str_equal(b->raw, "[1, -2.5, \"x\"]");
    assert_true(b->child->number == 1);
    assert_true(b->child->next->number == -2.5);
    assert_str_equal(b->child->next->next->string, "x");
    assert_str_equal(b->child->next->next->raw, "\"x\"");
    assert_null(b->child->next->next->next);
    struct json *a = b->next;
    assert_int_equal(json_get(a, STR("t"))->type, JSON_TRUE);
    assert_int_equal(json_get(a, STR("f"))->type, JSON_FALSE);
    assert_int_equal(json_get(a, STR("n"))->type, JSON_NULL);
    assert_str_equal(a->next->key, "");
    assert_int_equal(a->next->count, 0);
    assert_null(a->next->child);
    assert_null(a->next->next);
}

static void a_lone_scalar_is_a_text(void **state)
{
    (void)state;
    assert_true(read_ok("42")->number == 42);
    assert_true(read_ok(" -0.5e1 ")->number == -5);
    assert_int_equal(read_ok("null")->type, JSON_NULL);
    assert_str_equal(read_ok("\"a\\nb\"")->string, "a\nb");
}

static void escapes_in_keys_and_strings_are_unescaped(void **state)
{
    (void)state;
    struct json *root =
        read_ok("{\"\\u0061\\\"\\/\":\"\\b\\f\\n\\r\\t\\\\ \\u00e9 \\u20AC \\uD83D\\uDE00\"}");
    assert_str_equal(root->child->key, "a\"/");
    assert_str_equal(root->child->string, "\b\f\n\r\t\\ \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
    assert_false(root->child->plain_string);
    assert_str_equal(json_text(root, STR("a\"/")),
                     "\b\f\n\r\t\\ \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
}

static void plain_texts_are_known_as_such(void **state)
{
    (void)state;
    struct json *member = read_ok("{\"a\":\"plain\"}")->child;
    assert_true(member->plain_key && member->plain_string);
    member = read_ok("{\"a\":\"\xC3\xA9\"}")->child;
    assert_false(member->plain_key || member->plain_string);
}

static void the_members_of_a_wrong_type_are_absent(void **state)
{
    (void)state;
    struct json *root = read_ok("{\"n\":1,\"s\":\"x\",\"e\":\"\"}");
    assert_true(str_is_absent(json_text(root, STR("n"))));
    assert_true(str_is_absent(json_text(root, STR("nowhere"))));
    assert_false(str_is_absent(json_text(root, STR("e"))));
    assert_null(json_get(root->child, STR("n")));
    assert_null(json_get(NULL, STR("n")));
}

static void an_unsigned_member_is_given_only_where_it_is_one(void **state)
{
    (void)state;
    struct json *root =
        read_ok("{\"a\":7,\"b\":-1,\"c\":1.5,\"d\":18446744073709551615,\"e\":9007199254740993,"
                "\"f\":-9007199254740993,\"g\":1e300,\"h\":\"7\"}");
    assert_int_equal(json_u64(root, STR("a"), 99), 7);
    assert_int_equal(json_u64(root, STR("b"), 99), 99);
    assert_int_equal(json_u64(root, STR("c"), 99), 99);
    assert_true(json_u64(root, STR("d"), 99) == UINT64_MAX);
    assert_true(json_u64(root, STR("e"), 99) == 9007199254740993u);
    assert_int_equal(json_u64(root, STR("f"), 99), 99);
    assert_int_equal(json_u64(root, STR("g"), 99), 99);
    assert_int_equal(json_u64(root, STR("h"), 99), 99);
    assert_int_equal(json_u64(root, STR("i"), 99), 99);
}

/* ---- what it refuses, and how it tells ---- */

static const struct {
    const char *text;
    enum err err;
    const char *field, *sentence;
} refused[] = {
    /* an empty body has a text of its own */
    {"", ERR_MALFORMED_JSON, "", "the body is empty where a JSON text is expected"},
    {" \n", ERR_MALFORMED_JSON, "", "the body is empty where a JSON text is expected"},
    /* broken syntax names the byte */
    {"{\"a\":1,}", ERR_MALFORMED_JSON, "",
     "byte 8 is '}' where a member's name in quotes is expected"},
    {"{\"a\":01}", ERR_MALFORMED_JSON, "", "byte 7 is '1' where the end of the number is expected"},
    {"{\"a\" 1}", ERR_MALFORMED_JSON, "",
     "byte 6 is '1' where ':' after a member's name is expected"},
    {"[1}", ERR_MALFORMED_JSON, "", "byte 3 is '}' where ',' or ']' is expected"},
    {"{\"a\":1]", ERR_MALFORMED_JSON, "", "byte 7 is ']' where ',' or '}' is expected"},
    {"[1] 2", ERR_MALFORMED_JSON, "", "byte 5 is '2' where the end of the text is expected"},
    {"{}{}", ERR_MALFORMED_JSON, "", "byte 3 is '{' where the end of the text is expected"},
    {"[1, tru]", ERR_MALFORMED_JSON, "", "byte 5 is 't' where a value is expected"},
    {"{\"a\":", ERR_MALFORMED_JSON, "",
     "the JSON text ends before byte 6 where a value is expected"},
    {"{\"a\":\"x", ERR_MALFORMED_JSON, "",
     "the JSON text ends before byte 8 where the end of a string is expected"},
    {"[\"a\":\"b\"]", ERR_MALFORMED_JSON, "", "byte 5 is ':' where ',' or ']' is expected"},
    {"[1 2]", ERR_MALFORMED_JSON, "", "byte 4 is '2' where ',' or ']' is expected"},
    {"[-]", ERR_MALFORMED_JSON, "", "byte 3 is ']' where a digit of the number is expected"},
    {"\xEF\xBB\xBF{}", ERR_MALFORMED_JSON, "", "byte 1 is 0xef where a value is expected"},
    /* a bad string names its value and byte */
    {"{\"a\":{\"b\":[0,\"\\uD800\"]}}", ERR_MALFORMED_JSON, "/a/b/1",
     "/a/b/1 has a high surrogate without a low one after it (byte 15)"},
    {"[\"\\uD800\\uE000\"]", ERR_MALFORMED_JSON, "/0",
     "/0 has a high surrogate without a low one after it (byte 3)"},
    {"{\"a\":\"\\uDC00\"}", ERR_MALFORMED_JSON, "/a",
     "/a has a low surrogate without a high one before it (byte 7)"},
    {"{\"a\":\"x\\q\"}", ERR_MALFORMED_JSON, "/a", "/a has an unknown escape (byte 8)"},
    {"{\"a\":\"\\u12g4\"}", ERR_MALFORMED_JSON, "/a",
     "/a has a \\u escape without four hex digits (byte 7)"},
    {"{\"a\":\"x\xFFy\"}", ERR_MALFORMED_JSON, "/a", "/a has bytes that are not UTF-8 (byte 8)"},
    {"{\"a\":\"\xED\xA0\x80\"}", ERR_MALFORMED_JSON, "/a",
     "/a has bytes that are not UTF-8 (byte 7)"},
    {"{\"a\":\"\xC0\xAF\"}", ERR_MALFORMED_JSON, "/a", "/a has bytes that are not UTF-8 (byte 7)"},
    {"{\"a\":\"line\nline\"}", ERR_MALFORMED_JSON, "/a",
     "/a has a control character that is not escaped (byte 11)"},
    {"{\"a\":{\"\xFF\":1}}", ERR_MALFORMED_JSON, "/a",
     "a member's name in /a has bytes that are not UTF-8 (byte 8)"},
    /* a pointer escapes tilde and slash */
    {"{\"a/b~c\":1e999}", ERR_NUMBER_PRECISION, "/a~1b~0c",
     "/a~1b~0c is a number beyond what a double or 64 bits can hold (byte 10)"},
    /* a duplicate key is refused */
    {"{\"a\":1,\"b\":2,\"a\":3}", ERR_DUPLICATE_KEY, "/a",
     "/a is given twice in one object (byte 18)"},
    {"{\"x\":{\"a\":1,\"a\":1}}", ERR_DUPLICATE_KEY, "/x/a",
     "/x/a is given twice in one object (byte 17)"},
    {"{\"\":1,\"\":1}", ERR_DUPLICATE_KEY, "/", "/ is given twice in one object (byte 10)"},
    /* duplicate keys are compared unescaped */
    {"{\"tool\":1,\"\\u0074ool\":3}", ERR_DUPLICATE_KEY, "/tool",
     "/tool is given twice in one object (byte 23)"},
    /* a nul escape is taken only beneath what callers hand on */
    {"{\"actor\":\"a\\u0000\"}", ERR_MALFORMED_JSON, "/actor",
     "/actor has a U+0000, which is allowed only inside args, context and properties (byte 11)"},
    {"{\"args\":{},\"actor\":\"\\u0000\"}", ERR_MALFORMED_JSON, "/actor",
     "/actor has a U+0000, which is allowed only inside args, context and properties (byte 21)"},
    {"{\"args\\u0000\":1}", ERR_MALFORMED_JSON, "",
     "a member's name in the object has a U+0000, which is allowed only inside args, context and "
     "properties (byte 3)"},
    {"{\"argsx\":\"\\u0000\"}", ERR_MALFORMED_JSON, "/argsx",
     "/argsx has a U+0000, which is allowed only inside args, context and properties (byte 11)"},
    /* the text names the first of several duplicates */
    {"{\"a\":1,\"b\":2,\"b\":3,\"a\":4}", ERR_DUPLICATE_KEY, "/b",
     "/b is given twice in one object (byte 18)"},
    {"{\"a\":1,\"a\":2,,}", ERR_MALFORMED_JSON, "",
     "byte 14 is ',' where a member's name in quotes is expected"},
};

static void each_text_of_the_table_is_refused_with_its_sentence(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        refused_with(refused[i].text, refused[i].err, refused[i].field, refused[i].sentence);
}

static void an_empty_body_is_told_as_such(void **state)
{
    (void)state;
    struct json *root;
    assert_int_equal(json_read((struct str){0}, NULL, &arena, &root, &fault), ERR_MALFORMED_JSON);
    assert_int_equal(json_read((struct str){0}, NULL, &arena, &root, NULL), ERR_MALFORMED_JSON);
}

static void a_nul_byte_in_the_text_is_refused(void **state)
{
    (void)state;
    struct json *root;
    assert_int_equal(read_with(STR("{\"a\":1}\0"), NULL, &root), ERR_MALFORMED_JSON);
    assert_string_equal(fault.text, "byte 8 is 0x00 where the end of the text is expected");
    assert_int_equal(read_with(STR("{\"a\":\"x\0y\"}"), NULL, &root), ERR_MALFORMED_JSON);
    assert_string_equal(fault.field, "/a");
    assert_string_equal(fault.text, "/a has a control character that is not escaped (byte 8)");
}

static void an_overlong_pointer_is_cut_between_characters(void **state)
{
    (void)state;
    char text[1024] = "x{\"";
    for (size_t shift = 0; shift < 4; shift++) {
        struct str wide = STR("\xF0\x9F\x98\x80");
        struct buf b = buf_over(text, sizeof text);
        buf_put_literal(&b, "{\"");
        for (size_t i = 0; i < shift; i++) buf_put_byte(&b, 'x');
        for (size_t i = 0; i < 100; i++) buf_put(&b, wide);
        buf_put_literal(&b, "\":1e999}");
        struct json *root;
        size_t at;
        assert_int_equal(read_with(buf_view(&b), NULL, &root), ERR_NUMBER_PRECISION);
        assert_true(str_is_utf8(str_from(fault.field), &at));
        assert_true(str_is_utf8(str_from(fault.text), &at));
        assert_non_null(strstr(fault.text, "beyond"));
    }
}

static void duplicate_keys_are_compared_unescaped(void **state)
{
    (void)state;
    read_ok("{\"a\":1,\"A\":2,\"\\u00e9\":3,\"e\\u0301\":4}");
}

static void a_duplicate_among_many_keys_is_refused(void **state)
{
    (void)state;
    static const size_t counts[] = {2, 23, 24, 25, 26, 64, 65, 3000};
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        for (int twice = 0; twice < 2; twice++) {
            struct buf b;
            buf_init(&b, 0, 1 << 20);
            buf_put_byte(&b, '{');
            for (size_t i = 0; i < counts[k]; i++) {
                size_t name = twice && i == counts[k] - 1 ? counts[k] / 2 : i;
                if (twice && counts[k] == 2) name = 0;
                buf_printf(&b, "%s\"k%zu\":%zu", i > 0 ? "," : "", name, i);
            }
            buf_put_byte(&b, '}');
            struct json *root;
            arena_reset(&arena);
            enum err err = read_with(buf_view(&b), NULL, &root);
            assert_int_equal(err, twice ? ERR_DUPLICATE_KEY : ERR_OK);
            buf_fini(&b);
        }
    }
}

static void depth_32_is_taken_and_33_is_refused(void **state)
{
    (void)state;
    for (int objects = 0; objects < 2; objects++) {
        for (size_t depth = 31; depth <= 34; depth++) {
            char text[512];
            struct buf b = buf_over(text, sizeof text);
            for (size_t i = 0; i < depth; i++) {
                if (objects)
                    buf_put_literal(&b, "{\"a\":");
                else
                    buf_put_byte(&b, '[');
            }
            buf_put_byte(&b, '1');
            for (size_t i = 0; i < depth; i++) buf_put_byte(&b, objects ? '}' : ']');
            struct json *root;
            assert_int_equal(read_with(buf_view(&b), NULL, &root),
                             depth <= 32 ? ERR_OK : ERR_TOO_DEEP);
        }
    }
    assert_non_null(strstr(fault.text, "is nested deeper than 32 levels (byte 161)"));
    assert_memory_equal(fault.field, "/a/a/a", 6);
}

static void the_depth_limit_is_the_callers(void **state)
{
    (void)state;
    struct json *root;
    const struct json_options two = {.depth_max = 2}, most = {.depth_max = JSON_DEPTH_CAP};
    assert_int_equal(read_with(STR("[[1]]"), &two, &root), ERR_OK);
    assert_int_equal(read_with(STR("[[[1]]]"), &two, &root), ERR_TOO_DEEP);
    assert_string_equal(fault.text, "/0/0 is nested deeper than 2 levels (byte 3)");
    char text[2 * JSON_DEPTH_CAP + 2];
    memset(text, '[', JSON_DEPTH_CAP + 1);
    memset(text + JSON_DEPTH_CAP + 1, ']', JSON_DEPTH_CAP + 1);
    assert_int_equal(read_with(str_of(text + 1, sizeof text - 2), &most, &root), ERR_OK);
    assert_int_equal(read_with(str_of(text, sizeof text), &most, &root), ERR_TOO_DEEP);
}

/* ---- U+0000 ---- */

static void a_nul_escape_is_taken_only_beneath_what_callers_hand_on(void **state)
{
    (void)state;
    struct json *root =
        read_ok("{\"args\":{\"x\":{\"\\u0000k\":[\"a\\u0000b\"]}},\"context\":\"\\u0000\","
                "\"resource\":{\"properties\":{\"p\":\"\\u0000\"}},\"plain\":\"x\"}");
    struct json *member = json_get(json_get(root, STR("args")), STR("x"))->child;
    assert_true(member->has_nul);
    assert_true(member->child->has_nul);
    assert_int_equal(member->child->string.size, 3);
    assert_true(json_get(root, STR("context"))->has_nul);
    assert_false(json_get(root, STR("plain"))->has_nul);
}

static void a_nul_escape_is_taken_anywhere_on_request(void **state)
{
    (void)state;
    struct json *root;
    const struct json_options options = {.nul_anywhere = true};
    assert_int_equal(read_with(STR("{\"actor\":\"a\\u0000\"}"), &options, &root), ERR_OK);
    assert_true(root->child->has_nul);
    /* A raw one never is. */
    assert_int_equal(read_with(STR("{\"actor\":\"a\0\"}"), &options, &root), ERR_MALFORMED_JSON);
}

/* ---- room and time ---- */

/* Blanks after it may not change what a text is read as, short or long. */
static void blanks_behind_a_text_make_no_difference(void **state)
{
    (void)state;
    static const char *const texts[] = {"{\"a\":[1,\"b\",{\"c\":\"\\n\"}],\"d\":null}",
                                        "\"lone\"",
                                        "-1.5",
                                        "[1,]",
                                        "{\"a\":1]",
                                        "{\"a\":\"\\x\"}",
                                        "{\"a\":tru}",
                                        "{\"a\" 1}",
                                        "[\"a\":1]",
                                        "{\"a\":1,\"a\":2}",
                                        "{1:2}",
                                        "[1}"};
    static const size_t sizes[] = {64, 255, 256, 1022, 1023, 1024, 1025, 1026, 4096};
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        struct json *root;
        struct fault alone = {0};
        char bytes[4096], canonical[256];
        enum err err = read_with(str_from(texts[t]), NULL, &root);
        struct buf first = buf_over(canonical, sizeof canonical);
        if (err == ERR_OK)
            json_put_canonical(&first, root);
        else
            alone = fault;
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            memset(bytes, ' ', sizeof bytes);
            memcpy(bytes, texts[t], strlen(texts[t]));
            arena_reset(&arena);
            assert_int_equal(read_with(str_of(bytes, sizes[s]), NULL, &root), err);
            if (err != ERR_OK) {
                assert_string_equal(fault.text, alone.text);
                assert_string_equal(fault.field, alone.field);
                continue;
            }
            char again_bytes[256];
            struct buf again = buf_over(again_bytes, sizeof again_bytes);
            json_put_canonical(&again, root);
            assert_true(str_equal(buf_view(&again), buf_view(&first)));
        }
    }
}

/* A text that ends within a string, an escape or a number is refused, however long it is. */
static void a_text_cut_anywhere_is_refused(void **state)
{
    (void)state;
    char bytes[1100];
    static const char tail[] = "\\u00e9\\\\\":[\"\\\"\",-12.5e3,true]}";
    for (size_t size = 900; size < 1050; size += 7) {
        size_t whole = size + sizeof tail - 1;
        memset(bytes, 'k', sizeof bytes);
        memcpy(bytes, "{\"", 2);
        memcpy(bytes + size, tail, sizeof tail - 1);
        struct json *root;
        arena_reset(&arena);
        assert_int_equal(read_with(str_of(bytes, whole), NULL, &root), ERR_OK);
        for (size_t cut = size - 3; cut < whole; cut++) {
            arena_reset(&arena);
            assert_int_equal(read_with(str_of(bytes, cut), NULL, &root), ERR_MALFORMED_JSON);
        }
    }
}

static void one_strange_byte_is_seen_wherever_it_stands(void **state)
{
    (void)state;
    static const struct {
        const char *escaped, *meant;
    } strange[] = {{"\\n", "\n"}, {"\xC3\xA9", "\xC3\xA9"}};
    char rows[2][71] = {{0}};
    memset(rows[0], 'a', 70);
    memset(rows[1], 'b', 70);
    for (size_t size = 0; size < 70; size++) {
        for (size_t at = 0; at <= size; at++) {
            for (size_t s = 0; s < sizeof strange / sizeof *strange; s++) {
                char bytes[2][128];
                struct buf text = buf_over(bytes[0], 128), wanted = buf_over(bytes[1], 128);
                buf_printf(&text, "\"%.*s%s%.*s\"", (int)at, rows[0], strange[s].escaped,
                           (int)(size - at), rows[1]);
                buf_printf(&wanted, "%.*s%s%.*s", (int)at, rows[0], strange[s].meant,
                           (int)(size - at), rows[1]);
                arena_reset(&arena);
                struct json *root;
                assert_int_equal(read_with(buf_view(&text), NULL, &root), ERR_OK);
                assert_false(root->plain_string);
                assert_true(str_equal(root->string, buf_view(&wanted)));
            }
        }
    }
}

static void a_tree_takes_no_more_of_the_arena_than_its_nodes(void **state)
{
    (void)state;
    const char *before = arena.next;
    struct json *root = read_ok("{\"a\":\"b\",\"c\":[1,2],\"d\":{\"e\":null,\"f\":true}}");
    assert_int_equal(root->count, 3);
    assert_true((size_t)(arena.next - before) < 9 * sizeof(struct json));
}

static void a_full_arena_is_body_too_large(void **state)
{
    (void)state;
    struct arena small;
    arena_init(&small, 1024, 4096);
    struct buf b;
    buf_init(&b, 0, 1 << 20);
    buf_put_literal(&b, "[");
    for (int i = 0; i < 1000; i++) buf_put_literal(&b, "1,");
    buf_put_literal(&b, "1]");
    struct json *root;
    assert_int_equal(json_read(buf_view(&b), NULL, &small, &root, &fault), ERR_BODY_TOO_LARGE);
    assert_true(small.overflow);
    buf_fini(&b);
    arena_fini(&small);
}

static double read_ms(struct str text)
{
    struct json *root;
    struct timespec from, to;
    arena_reset(&arena);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    assert_true(read_with(text, NULL, &root) != ERR_BODY_TOO_LARGE);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    return (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6;
}

/* Quadratic readers take from a tenth of a second to several on these, linear ones a millisecond
 * (ten with sanitizers). */
enum { HOSTILE_MS_MAX = 60 };

static void hostile_bodies_cost_no_more_than_honest_ones(void **state)
{
    (void)state;
    static const char *const bodies[][3] = {
        /* head, what is repeated up to 64 KiB, tail */
        {"[", "1,", "1]"},
        {"", "[", ""},
        {"[", "[],", "1]"},
        {"[", "{},", "1]"},
        {"", "\"a\":", "1"},
        {"[", "\"a\":", "1]"},
        {"", "{\"a\":", "1"},
        {"[[[[", "\"\":\"\",", "]]]]"},
        {"[", "\"\\u0000\",", ""},
        {"\"", "\\uD83D\\uDE00", "\""},
        {"[", "[[[[[[[[[[[[]]]]]]]]]]]],", "1]"},
        {"[", "0.1e-5,", "1]"},
        {"", "-", ""},
        {"[", "123456789012345678901234567890.5e-7,", "1]"},
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        struct buf b;
        buf_init(&b, 0, 1 << 20);
        buf_put(&b, str_from(bodies[i][0]));
        while (b.size < 65500) buf_put(&b, str_from(bodies[i][1]));
        buf_put(&b, str_from(bodies[i][2]));
        double ms = read_ms(buf_view(&b));
        if (ms > HOSTILE_MS_MAX) fail_msg("%s: %.1f ms", bodies[i][1], ms);
        buf_fini(&b);
    }
}

static void thousands_of_like_keys_cost_no_more_than_few(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 0, 1 << 20);
    for (int i = 0; b.size < 500000; i++) buf_printf(&b, "%c\"k%05dk\":0", i == 0 ? '{' : ',', i);
    buf_put_byte(&b, '}');
    double ms = read_ms(buf_view(&b));
    if (ms > 5 * HOSTILE_MS_MAX) fail_msg("%.1f ms", ms); /* in pairs: seconds */
    buf_fini(&b);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_tree_keeps_source_order_types_and_raw_bytes),
        TEST(a_lone_scalar_is_a_text),
        TEST(escapes_in_keys_and_strings_are_unescaped),
        TEST(plain_texts_are_known_as_such),
        TEST(the_members_of_a_wrong_type_are_absent),
        TEST(an_unsigned_member_is_given_only_where_it_is_one),
        TEST(each_text_of_the_table_is_refused_with_its_sentence),
        TEST(an_empty_body_is_told_as_such),
        TEST(a_nul_byte_in_the_text_is_refused),
        TEST(an_overlong_pointer_is_cut_between_characters),
        TEST(duplicate_keys_are_compared_unescaped),
        TEST(a_duplicate_among_many_keys_is_refused),
        TEST(blanks_behind_a_text_make_no_difference),
        TEST(a_text_cut_anywhere_is_refused),
        TEST(one_strange_byte_is_seen_wherever_it_stands),
        TEST(a_tree_takes_no_more_of_the_arena_than_its_nodes),
        TEST(depth_32_is_taken_and_33_is_refused),
        TEST(the_depth_limit_is_the_callers),
        TEST(a_nul_escape_is_taken_only_beneath_what_callers_hand_on),
        TEST(a_nul_escape_is_taken_anywhere_on_request),
        TEST(a_full_arena_is_body_too_large),
        TEST(hostile_bodies_cost_no_more_than_honest_ones),
        TEST(thousands_of_like_keys_cost_no_more_than_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
