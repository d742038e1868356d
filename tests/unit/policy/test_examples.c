/* The examples of ops/examples: each loads with its own tests, and together they give all four
 * outcomes, none under 5 %, over the tool calls of the corpus. */
#include "support.h"

#include <dirent.h>
#include <stdlib.h>

static char *file_read(const char *path, size_t *ret_size)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL) return NULL;
    size_t room = 8 << 20;
    char *bytes = malloc(room);
    *ret_size = fread(bytes, 1, room, f);
    fclose(f);
    return bytes;
}

static struct policy_document *example_load(const char *file)
{
    char path[300];
    snprintf(path, sizeof path, "ops/examples/%s", file);
    size_t size;
    char *bytes = file_read(path, &size);
    assert_non_null(bytes);
    static const char modeline[] =
        "# yaml-language-server: $schema=../../schemas/policy.schema.json\n";
    assert_memory_equal(bytes, modeline, sizeof modeline - 1);
    struct policy_problems problems;
    struct policy_document *d = NULL;
    enum err err = policy_load(str_of(file, strlen(file) - strlen(".yaml")), str_of(bytes, size),
                               &d, &problems);
    for (size_t i = 0; i < problems.count; i++)
        print_error("%s:%u:%u: %s: %s\n", path, problems.list[i].line, problems.list[i].column,
                    problems.list[i].path, problems.list[i].message);
    assert_int_equal(err, ERR_OK);
    free(bytes);
    return d;
}

static struct policy_set *examples_join(void)
{
    struct policy_set_entry entries[32] = {{0}};
    size_t count = 0;
    DIR *folder = opendir("ops/examples");
    if (folder == NULL) return NULL;
    for (struct dirent *e; (e = readdir(folder)) != NULL && count < 32;) {
        size_t size = strlen(e->d_name);
        if (size < 6 || strcmp(e->d_name + size - 5, ".yaml") != 0) continue;
        entries[count++] =
            (struct policy_set_entry){.document = example_load(e->d_name), .version = 1};
    }
    closedir(folder);
    struct policy_set *set = NULL;
    assert_true(count >= 5);
    assert_int_equal(policy_set_create(entries, count, &set, NULL), ERR_OK);
    for (size_t i = 0; i < count; i++) policy_document_release(entries[i].document);
    return set;
}

static void every_example_loads_and_passes_its_tests(void **state)
{
    (void)state;
    struct policy_set *set = examples_join();
    if (set == NULL) {
        print_message("SKIP: not run from the project's root\n");
        skip();
    }
    policy_set_destroy(set);
}

static void tally(const struct policy_set *set, struct str calls, int confidence_percent,
                  size_t counts[4])
{
    struct arena arena;
    arena_init(&arena, 64 << 10, 16 << 20);
    struct str line;
    while (str_split(&calls, '\n', &line)) {
        if (line.size == 0) continue;
        struct json *call = NULL;
        struct policy_outcome outcome;
        struct fault fault;
        struct json_options options = {.nul_anywhere = true};
        arena_reset(&arena);
        assert_int_equal(json_read(line, &options, &arena, &call, &fault), ERR_OK);
        struct str agent = json_text(call, STR("agent"));
        struct policy_request q = {.kind = SUBJECT_AGENT,
                                   .tenant = STR("default"),
                                   .args = json_get(call, STR("args")),
                                   .actor = str_is_absent(agent) ? STR("agent") : agent,
                                   .action = json_text(call, STR("tool")),
                                   .has_confidence = confidence_percent >= 0,
                                   .confidence = confidence_percent / 100.0};
        policy_evaluate(set, &q, &arena, NULL, &outcome);
        counts[outcome.verdict]++;
    }
    arena_fini(&arena);
}

static void together_they_give_every_outcome_over_the_corpus(void **state)
{
    (void)state;
    size_t size;
    char *bytes = file_read("../shared/corpora/toolcalls/calls.jsonl", &size);
    struct policy_set *set = bytes == NULL ? NULL : examples_join();
    if (set == NULL) {
        print_message("SKIP: the corpus of tool calls is not here\n");
        skip();
    }
    static const int confidences[] = {-1, 30, 75, 99};
    for (size_t c = 0; c < 4; c++) {
        size_t counts[4] = {0}, all = 0;
        tally(set, str_of(bytes, size), confidences[c], counts);
        for (size_t v = 0; v < 4; v++) all += counts[v];
        print_message("confidence %d: allow %zu, compute %zu, human_review %zu, deny %zu\n",
                      confidences[c], counts[VERDICT_ALLOW], counts[VERDICT_COMPUTE],
                      counts[VERDICT_HUMAN_REVIEW], counts[VERDICT_DENY]);
        for (size_t v = 0; v < 4; v++) assert_true(counts[v] * 20 >= all);
    }
    policy_set_destroy(set);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_example_loads_and_passes_its_tests),
        cmocka_unit_test(together_they_give_every_outcome_over_the_corpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
