/* Tests of globs, ends and the index: what must be proposed is proposed, and little else. */
#include "support.h"

#include <stdlib.h>

#include "policy/ends.h"
#include "policy/index.h"

static bool glob_says(const char *pattern, const char *text, bool folds)
{
    struct arena arena;
    arena_init(&arena, 4096, 65536);
    struct glob g;
    struct name n;
    assert_true(glob_compile(&arena, str_from(pattern), folds, &g));
    assert_true(name_prepare(&n, str_from(text), &arena));
    bool matches = glob_match(&g, &n, folds);
    arena_fini(&arena);
    return matches;
}

static void globs_are_anchored_and_only_the_star_is_special(void **state)
{
    (void)state;
    assert_true(glob_says("get_*", "get_", false));
    assert_true(glob_says("get_*", "get_x", false));
    assert_false(glob_says("get_*", "forget_x", false));
    assert_true(glob_says("*_prod", "x_prod", false));
    assert_false(glob_says("*_prod", "x_prod2", false));
    assert_true(glob_says("a*b*c", "aXbXbYc", false));
    assert_false(glob_says("a*b*c", "acb", false));
    assert_false(glob_says("a*a", "a", false)); /* the ends may not overlap */
    assert_true(glob_says("**", "x", false));
    assert_false(glob_says("a.c", "abc", false));
    assert_false(glob_says("a?c", "abc", false));
    assert_false(glob_says("[ab]", "a", false));
    assert_true(glob_says("DROP_*", "drop_x", true));
    assert_false(glob_says("DROP_*", "drop_x", false));
    assert_false(glob_says("\xC3\x84*", "\xC3\xA4x", true)); /* only ASCII is folded */
    struct str end = str_skip(STR("x_prod"), 1); /* what lies before a view is not part of it */
    assert_false(glob_match_text(GLOB_SUFFIX, STR("*x_prod"), end));
    assert_true(glob_match_text(GLOB_SUFFIX, STR("*_prod"), end));
}

static void long_names_are_prepared_in_the_arena(void **state)
{
    (void)state;
    char text[NAME_INLINE * 3 + 1];
    memset(text, 'A', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_true(glob_says("a*", text, true));
    assert_false(glob_says("a*", text, false));
    assert_true(glob_says(text, text, false));
}

/* A byte at a time, as glob.h says it. */
static void names_are_prepared_as_their_bytes_say(void **state)
{
    (void)state;
    struct arena arena;
    uint64_t dice = 20261124;
    arena_init(&arena, 4096, 65536);
    for (int round = 0; round < 20000; round++) {
        char text[NAME_INLINE + 20];
        bool odd = false, capitals = false;
        dice = dice * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX */
        size_t size = (size_t)(dice >> 33) % sizeof text;
        for (size_t i = 0; i < size; i++) {
            dice = dice * 6364136223846793005u + 1442695040888963407u;
            static const char usual[] = "abcxyzAMZ0189._:/@+-";
            bool any = dice >> 60 == 0 && round % 2 == 0;
            text[i] = any ? (char)(dice >> 40) : usual[(dice >> 40) % (sizeof usual - 1)];
            odd |= glob_is_odd(str_of(&text[i], 1));
            capitals |= text[i] >= 'A' && text[i] <= 'Z';
        }
        struct name n;
        arena_reset(&arena);
        assert_true(name_prepare(&n, str_of(text, size), &arena));
        assert_int_equal(n.folded.size, size);
        assert_int_equal(n.reversed.size, size);
        for (size_t i = 0; i < size; i++) {
            assert_int_equal(n.folded.bytes[i], glob_fold(text[i]));
            assert_int_equal(n.reversed.bytes[size - 1 - i], glob_fold(text[i]));
        }
        for (size_t i = 0; i < NAME_PADDING; i++) assert_int_equal(n.folded.bytes[size + i], 0);
        assert_int_equal(n.odd, odd);
        assert_int_equal(n.has_capitals, capitals);
        assert_true(n.hash == name_hash(n.folded.bytes, size));
    }
    arena_fini(&arena);
}

/* Each byte by itself, and in each place of a word beside plain ones. */
static void every_byte_is_odd_or_not_wherever_it_stands(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, 4096, 65536);
    for (int byte = 0; byte < 256; byte++) {
        for (size_t at = 0; at < 17; at++) {
            char text[17];
            struct name n;
            memset(text, 'a', sizeof text);
            text[at] = (char)byte;
            assert_true(name_prepare(&n, str_of(text, sizeof text), &arena));
            bool plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                         (byte >= '0' && byte <= '9') ||
                         (byte != 0 && strchr("._:/@+-", byte) != NULL);
            assert_int_equal(n.odd, !plain);
            assert_int_equal(n.has_capitals, byte >= 'A' && byte <= 'Z');
        }
    }
    arena_fini(&arena);
}

struct found {
    uint8_t seen[20000];
    size_t visits;
};

static void on_found(void *context, const uint32_t *values, size_t count)
{
    struct found *f = context;
    for (size_t i = 0; i < count; i++, f->visits++) f->seen[values[i]] = 1;
}

/* Every pattern that matches is proposed; says how many were in all. */
static size_t ask_index(const char *const *patterns, size_t count, const char *text)
{
    static struct found found;
    memset(&found, 0, sizeof found);
    struct arena arena;
    arena_init(&arena, 4096, 64 << 20);
    struct index_entry *entries = calloc(count + 1, sizeof *entries);
    for (size_t i = 0; i < count; i++)
        entries[i] = (struct index_entry){.pattern = str_from(patterns[i]), .value = (uint32_t)i};
    struct index *x = index_build(&arena, entries, count);
    assert_non_null(x);
    free(entries);
    struct name n;
    assert_true(name_prepare(&n, str_from(text), &arena));
    index_lookup(x, &n, on_found, &found);
    for (size_t i = 0; i < count; i++) {
        bool matches = str_glob(str_from(patterns[i]), n.folded, false);
        if (matches && !found.seen[i])
            print_error("%s was not proposed for %s\n", patterns[i], text);
        assert_true(!matches || found.seen[i]);
    }
    arena_fini(&arena);
    return found.visits;
}

static void every_kind_of_pattern_is_found(void **state)
{
    (void)state;
    static const char *const patterns[] = {
        "get_user",  "get_*",     "*_user",     "*t_u*",  "g*r",      "*",
        "get_*er",   "g*_*r",     "*e*s*",      "",       "get_user", "*g*",
        "get_user*", "*get_user", "a*get_user", "*_use*", "xget_user"};
    static const char *const texts[] = {"get_user", "GET_USER",     "get_",      "user",      "g",
                                        "",         "forget_users", "xget_user", "a_get_user"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        ask_index(patterns, sizeof patterns / sizeof *patterns, texts[i]);
    assert_int_equal(ask_index(patterns, 0, "x"), 0);
}

static void ten_thousand_patterns_that_cannot_match_are_not_proposed(void **state)
{
    (void)state;
    enum { MANY = 10000 };
    static char texts[MANY][32];
    static const char *patterns[MANY];
    static const char *const shapes[] = {"tool_%05d",    "svc%05d_*",   "*_of_%05d",  "*_x%05dy_*",
                                         "write_*_%05d", "w%05d_*_end", "a*_q%05d_*z"};
    static const char *const asked[] = {"tool_00017",      "svc00017_get",  "get_of_00017",
                                        "get_x00017y_all", "write_a_00017", "w00017_x_end",
                                        "ab_q00017_cz"};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (int i = 0; i < MANY; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            snprintf(texts[i], sizeof texts[i], shapes[s], i);
#pragma GCC diagnostic pop
            patterns[i] = texts[i];
        }
        assert_in_range(ask_index(patterns, MANY, asked[s]), 1, 40);
        assert_in_range(ask_index(patterns, MANY, "something_else"), 0, 40);
    }
}

/* The values of the walk over `text`, in order, as a text. */
static const char *ends_said(const struct ends *e, const char *text)
{
    static char said[64];
    struct buf out = buf_over(said, sizeof said - 1);
    struct end_walk w = end_walk_begin(e, str_from(text));
    for (uint32_t value; (value = end_walk_next(&w)) != END_NONE;) buf_printf(&out, "%u ", value);
    said[out.size] = '\0';
    return said;
}

static void all_pieces_that_a_text_begins_with_are_found(void **state)
{
    (void)state;
    static const char *const longest =
        "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl"; /* END_BYTES_MAX */
    struct arena arena;
    arena_init(&arena, 4096, 65536);
    const struct end_key keys[] = {{STR(""), 0},     {STR("a"), 1},
                                   {STR("ab"), 2},   {str_of(longest, END_BYTES_MAX), 3},
                                   {STR("abd"), 4},  {STR("b\xC3\xA9"), 5},
                                   {STR("b\xFF"), 6}};
    struct ends e;
    assert_true(ends_build(&e, &arena, keys, 7));
    assert_int_equal(e.always, 0);
    char text[END_BYTES_MAX + 2];
    snprintf(text, sizeof text, "%s!", longest);
    assert_string_equal(ends_said(&e, text), "1 2 3 ");
    text[END_BYTES_MAX - 1] = '!';
    assert_string_equal(ends_said(&e, text), "1 2 ");
    assert_string_equal(ends_said(&e, "abd"), "1 2 4 ");
    assert_string_equal(ends_said(&e, "b\xFFz"), "6 ");
    assert_string_equal(ends_said(&e, "b\xC3"), "");
    assert_string_equal(ends_said(&e, ""), "");
    assert_true(ends_build(&e, &arena, keys, 0));
    assert_string_equal(ends_said(&e, "a"), "");
    arena_fini(&arena);
}

static void ends_longer_than_what_is_filed_are_found(void **state)
{
    (void)state;
    char first[200], second[200], text[200];
    memset(first, 'p', sizeof first);
    snprintf(first + 100, sizeof first - 100, "x*");
    memset(second, 'p', sizeof second);
    snprintf(second + 100, sizeof second - 100, "y*");
    memset(text, 'p', sizeof text);
    snprintf(text + 100, sizeof text - 100, "y and more");
    const char *const prefixes[] = {first, second};
    assert_int_equal(ask_index(prefixes, 2, text), 2); /* the requester matches for certain */
    first[0] = second[0] = '*';
    first[101] = second[101] = 'z';
    snprintf(text + 100, sizeof text - 100, "yz");
    assert_int_equal(ask_index(prefixes, 2, text), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(globs_are_anchored_and_only_the_star_is_special),
        cmocka_unit_test(long_names_are_prepared_in_the_arena),
        cmocka_unit_test(names_are_prepared_as_their_bytes_say),
        cmocka_unit_test(every_byte_is_odd_or_not_wherever_it_stands),
        cmocka_unit_test(every_kind_of_pattern_is_found),
        cmocka_unit_test(ten_thousand_patterns_that_cannot_match_are_not_proposed),
        cmocka_unit_test(all_pieces_that_a_text_begins_with_are_found),
        cmocka_unit_test(ends_longer_than_what_is_filed_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
