/* test_json_corpus.c - the reader against JSONTestSuite, the writer against the JCS pairs and
 * numbers. The corpora lie beside the project; where they are absent the tests say so and skip. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "json/json.h"

#define CORPORA "../shared/corpora/"

enum { ARENA_BYTES = 64 << 20, FILE_BYTES = 4 << 20 };

static struct arena arena;
static char file_bytes[FILE_BYTES];

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, 1 << 16, ARENA_BYTES);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

static bool corpus_is_here(const char *path)
{
    FILE *f = fopen(path, "r");
    if (f != NULL)
        fclose(f);
    else
        printf("SKIP: %s is not here\n", path);
    return f != NULL;
}

static struct str file_read(const char *folder, const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t size = fread(file_bytes, 1, sizeof file_bytes, f);
    assert_true(size < sizeof file_bytes);
    fclose(f);
    return str_of(file_bytes, size);
}

/* Reads a copy of exactly the text's size, so that a sanitizer sees one byte too far. */
static enum err read_exactly(struct str text, struct json **ret_root, struct fault *f)
{
    static char *own; /* the tree points into it until the next call */
    static const struct json_options options = {.nul_anywhere = true};
    free(own);
    own = malloc(text.size > 0 ? text.size : 1);
    assert_non_null(own);
    memcpy(own, text.bytes, text.size);
    arena_reset(&arena);
    return json_read(str_of(own, text.size), &options, &arena, ret_root, f);
}

static enum err suite_read(const char *name, struct fault *f)
{
    struct json *root;
    return read_exactly(file_read(CORPORA "jsontestsuite/test_parsing", name), &root, f);
}

static size_t each_suite_file(char letter, void (*visit)(const char *name))
{
    DIR *folder = opendir(CORPORA "jsontestsuite/test_parsing");
    assert_non_null(folder);
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] != letter || entry->d_name[1] != '_') continue;
        visit(entry->d_name);
        count++;
    }
    closedir(folder);
    return count;
}

static void must_be_accepted(const char *name)
{
    struct fault f = {0};
    enum err err = suite_read(name, &f);
    if (strncmp(name, "y_object_duplicated_key", 23) == 0) {
        assert_int_equal(err, ERR_DUPLICATE_KEY);
        return;
    }
    if (err != ERR_OK) fail_msg("%s: %s", name, f.text);
}

static void must_be_refused(const char *name)
{
    struct fault f = {0};
    enum err err = suite_read(name, &f);
    if (err == ERR_OK) fail_msg("%s was accepted", name);
    size_t at;
    if (!str_is_utf8(str_from(f.text), &at)) fail_msg("%s: the sentence is not UTF-8", name);
    if (getenv("SHOW_FAULTS") != NULL)
        printf("%-60s %s [%s] %s\n", name, err_code(err), f.field, f.text);
}

/* Ours to choose: numbers that a double can stand for are taken, bad encodings never are. */
static void must_be_chosen_well(const char *name)
{
    static const char *const taken[] = {
        "i_number_double_huge_neg_exp.json", "i_number_real_underflow.json",
        "i_number_too_big_pos_int.json", /* 10^20, which a double holds exactly */
    };
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        if (strcmp(name, taken[i]) != 0) continue;
        struct fault f = {0};
        if (suite_read(name, &f) != ERR_OK) fail_msg("%s: %s", name, f.text);
        return;
    }
    must_be_refused(name);
}

static void every_y_file_is_accepted_but_duplicate_keys(void **state)
{
    (void)state;
    if (!corpus_is_here(CORPORA "jsontestsuite/LICENSE")) skip();
    assert_int_equal(each_suite_file('y', must_be_accepted), 95);
}

static void every_n_file_is_refused(void **state)
{
    (void)state;
    if (!corpus_is_here(CORPORA "jsontestsuite/LICENSE")) skip();
    assert_int_equal(each_suite_file('n', must_be_refused), 188);
}

static void every_bad_encoding_among_the_i_files_is_refused(void **state)
{
    (void)state;
    if (!corpus_is_here(CORPORA "jsontestsuite/LICENSE")) skip();
    assert_int_equal(each_suite_file('i', must_be_chosen_well), 35);
}

static void every_jcs_pair_is_written_byte_for_byte(void **state)
{
    (void)state;
    if (!corpus_is_here(CORPORA "jcs/LICENSE")) skip();
    static const char *const names[] = {"arrays.json",  "french.json", "structures.json",
                                        "unicode.json", "values.json", "weird.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct json *root;
        struct fault f = {0};
        if (read_exactly(file_read(CORPORA "jcs/input", names[i]), &root, &f) != ERR_OK)
            fail_msg("%s: %s", names[i], f.text);
        struct buf out;
        buf_init(&out, 0, FILE_BYTES);
        json_put_canonical(&out, root);
        struct str wanted = file_read(CORPORA "jcs/output", names[i]);
        if (!str_equal(buf_view(&out), wanted))
            fail_msg("%s: got %.*s", names[i], STR_FORMAT(buf_view(&out)));
        buf_fini(&out);
    }
}

static void every_jcs_number_is_written_and_read_back(void **state)
{
    (void)state;
    if (!corpus_is_here(CORPORA "jcs/numbers-1k.txt")) skip();
    struct str rest = file_read(CORPORA "jcs", "numbers-1k.txt"), line;
    size_t count = 0;
    while (str_split(&rest, '\n', &line)) {
        size_t comma = str_find(line, ',');
        if (comma == line.size) continue;
        char hex[32] = {0};
        assert_true(comma < sizeof hex);
        memcpy(hex, line.bytes, comma);
        uint64_t bits = strtoull(hex, NULL, 16);
        double number, back;
        memcpy(&number, &bits, sizeof number);
        struct str wanted = str_skip(line, comma + 1);
        char bytes[64];
        struct buf out = buf_over(bytes, sizeof bytes);
        json_put_number(&out, number);
        if (!str_equal(buf_view(&out), wanted))
            fail_msg("%s: %.*s where %.*s is right", hex, STR_FORMAT(buf_view(&out)),
                     STR_FORMAT(wanted));
        assert_true(json_number_read(wanted, &back));
        assert_true(back == number);
        count++;
    }
    assert_int_equal(count, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_y_file_is_accepted_but_duplicate_keys),
        cmocka_unit_test(every_n_file_is_refused),
        cmocka_unit_test(every_bad_encoding_among_the_i_files_is_refused),
        cmocka_unit_test(every_jcs_pair_is_written_byte_for_byte),
        cmocka_unit_test(every_jcs_number_is_written_and_read_back),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
